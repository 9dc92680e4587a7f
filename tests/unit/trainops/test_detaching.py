"""What is said of an interrupt while runs are started or followed."""

from __future__ import annotations

from typing import Any

import pytest

from trainops.detaching import of_a_follower, of_a_launch, of_a_release, of_a_stop
from trainops.results import Ending, Interrupted, Reason, read_result, under_way

OPTIONS: dict[str, Any] = {"inventory": (), "limit": None, "name": None}
ACTION = "trainops.proxmox.training_run"


def event(kind: str, host: str, run: str | None = None, action: str = ACTION) -> dict[str, Any]:
    return {"event": kind, "event_data": {"host": host, "resolved_action": action, "res": {"run": run} if run else {}}}


def interrupted(*events: dict[str, Any]) -> Interrupted:
    so_far = read_result(events, Ending(None, Reason.CANCELED, 1.0), "launch_training", False)
    return Interrupted(so_far, under_way(events))


BEGUN = event("runner_on_start", "ct200")
STARTED = event("runner_on_ok", "ct200", "r1")
OTHERS = event("runner_on_start", "ct210")
ONE = "detached, nothing was stopped: r1 on ct200 goes on; to come back: trainops logs -f r1"
SETTINGS = event("runner_on_start", "ct200", action="ansible.builtin.assert")


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ((), "canceled, nothing was started"),
        ((SETTINGS,), "canceled, nothing was started"),
        ((SETTINGS, event("runner_on_skipped", "ct200")), "canceled, nothing was started"),
        ((BEGUN,), "whether a run was started on ct200 is not known: trainops status tells"),
        ((BEGUN, STARTED), ONE),
        ((BEGUN, STARTED, BEGUN), ONE),  # it is watched
        (
            (BEGUN, OTHERS, STARTED),
            f"{ONE}; whether a run was started on ct210 is not known: trainops status tells",
        ),
        (
            (BEGUN, OTHERS, STARTED, event("runner_on_ok", "ct210", "r7")),
            "detached, nothing was stopped: r1 on ct200, r7 on ct210 go on; to come back: trainops logs -f",
        ),
        ((BEGUN, event("runner_on_failed", "ct200")), "canceled, nothing was started"),
    ],
)
def test_an_interrupted_launch_says_what_was_started(events: tuple[dict[str, Any], ...], said: str) -> None:
    assert of_a_launch([], OPTIONS, interrupted(*events)) == said


def heard(kind: str, host: str, **values: Any) -> dict[str, Any]:
    """What a step said of a run: its state, or why it was refused."""
    return {"event": kind, "event_data": {"host": host, "resolved_action": ACTION, "res": values}}


LIVES = heard("runner_on_ok", "long", run="r1", state="running")
FAILED = "runner_on_failed"


@pytest.mark.parametrize(
    "over",
    [
        (heard("runner_on_ok", "end", run="r1", state="ended", exit={"exit_code": 0}),),
        (
            heard("runner_on_ok", "die", run="r1", state="running"),
            heard(FAILED, "die", run="r1", state="ended", failed=True, exit={"exit_code": 1}),
        ),
        (
            heard("runner_on_ok", "lost", run="r1", state="running"),
            heard(FAILED, "lost", run="r1", state="lost", failed=True),
        ),
        (heard(FAILED, "held", run="r7", failed=True, code="gpus-held"),),  # a run of somebody else's is in the way
        (heard(FAILED, "not", run="r2", failed=True, code="not-started", log="/x"),),
    ],
)
def test_an_interrupt_names_only_runs_that_live(over: tuple[dict[str, Any], ...]) -> None:
    said = "detached, nothing was stopped: r1 on long goes on; to come back: trainops logs -f r1"
    assert of_a_launch([], OPTIONS, interrupted(*over, LIVES)) == said
    assert of_a_launch([], OPTIONS, interrupted(LIVES, *over)) == said
    assert of_a_launch([], OPTIONS, interrupted(*over)) in ("canceled, no run goes on", "canceled, nothing was started")
    assert of_a_release([], OPTIONS, interrupted(*over)) == "canceled, nothing of it goes on; nothing was changed"


def test_a_run_that_shows_no_sign_yet_goes_on() -> None:
    late = heard(FAILED, "long", run="r1", state="running", failed=True, code="until-timeout")
    assert "r1 on long goes on" in of_a_launch([], OPTIONS, interrupted(LIVES, late))


def test_an_interrupt_before_anything_ran_started_nothing() -> None:
    assert of_a_launch([], OPTIONS, KeyboardInterrupt()) == "canceled, nothing was started"


def test_the_way_back_is_the_way_there() -> None:
    options = {"inventory": ("my inv",), "limit": "ct200", "name": "demo"}
    back = "root@n/200:/root '--inventory=my inv' --limit=ct200 --name=demo"
    words = ["root@n/200:/root"]
    assert of_a_launch(words, options, interrupted(BEGUN, STARTED)).endswith(f"trainops logs -f r1 {back}")
    assert of_a_launch(words, options, interrupted(BEGUN)).endswith(f"not known: trainops status {back} tells")
    said = of_a_follower(["r2", *words], options, interrupted(BEGUN))
    assert said == f"detached, nothing was stopped: r2 on ct200 goes on; to come back: trainops logs -f r2 {back}"


def test_whoever_followed_the_latest_run_reads_which_it_was() -> None:
    told = {
        "event": "verbose",
        "stdout": "ct200  run      the log of r12\nct200 | run the log of r13\nct9 run the log of",
    }
    for events, said in (
        ((BEGUN, told), "r12 on ct200 goes on"),
        ((OTHERS, told), "what has begun goes on"),
        ((BEGUN, OTHERS, told, {**told, "stdout": "ct210 run  the log of r3"}), "r12 on ct200, r3 on ct210 go on"),
    ):
        whole = f"detached, nothing was stopped: {said}; to come back: trainops logs -f"
        assert of_a_follower([], OPTIONS, interrupted(*events)) == whole
    assert "what has begun goes on" in of_a_follower([], OPTIONS, KeyboardInterrupt())


RELEASE = "trainops.proxmox.training_release"
LIVE = {"changed": True, "summary": "7c1e09a live at /root, 1 changed"}


def release(kind: str, host: str, **values: Any) -> dict[str, Any]:
    return {"event": kind, "event_data": {"host": host, "resolved_action": RELEASE, "res": values}}


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ((), "nothing was changed"),
        ((SETTINGS,), "nothing was changed"),
        ((release("runner_on_start", "ct200"), release("runner_on_ok", "ct200", changed=False)), "nothing was changed"),
        (
            (release("runner_on_start", "ct200"), release("runner_on_ok", "ct200", **LIVE)),
            "ct200: 7c1e09a live at /root, 1 changed",
        ),
        (
            (release("runner_on_start", "ct200"),),
            "on ct200 what was live or what was to be is live, and all of it: trainops status tells",
        ),
    ],
)
def test_an_interrupted_release_says_where_it_was_done(events: tuple[dict[str, Any], ...], said: str) -> None:
    assert of_a_release([], OPTIONS, interrupted(*events)) == f"canceled, nothing of it goes on; {said}"


def test_an_interrupt_after_the_release_says_how_to_go_back() -> None:
    new, old = "7c1e09a" + "0" * 57, "b" * 64
    went = release("runner_on_ok", "ct200", **LIVE, release_id=new, previous_release_id=old)
    said = "canceled after the release went live on ct200 (7c1e09a)"
    assert of_a_release([], OPTIONS, interrupted(went)) == f"{said}; to go back: trainops rollback"
    options = {**OPTIONS, "limit": "ct200"}
    assert of_a_release([], options, interrupted(went)).endswith("; to go back: trainops rollback --limit=ct200")
    assert of_a_release([], OPTIONS, interrupted(went, BEGUN, STARTED)).startswith(f"{said}; r1 on ct200 goes on; ")
    first = release("runner_on_ok", "ct200", **LIVE, release_id=new, previous_release_id=None)  # no way back
    assert "rollback" not in of_a_release([], OPTIONS, interrupted(first))


def test_an_interrupt_before_anything_ran_changed_nothing() -> None:
    assert of_a_release([], OPTIONS, KeyboardInterrupt()) == "canceled, nothing was changed"


def test_a_deploy_that_launches_says_what_it_started() -> None:
    said = of_a_release([], OPTIONS, interrupted(BEGUN, STARTED))
    assert said == "canceled; r1 on ct200 goes on; to come back: trainops logs -f r1"
    assert of_a_release([], OPTIONS, interrupted(BEGUN)).startswith(
        "canceled; whether a run was started on ct200 is not"
    )


def asked(host: str, run: str) -> dict[str, Any]:
    return {"event": "verbose", "stdout": f"{host}  run      {run} was asked to stop, it has 60 s for that"}


DONE = heard("runner_on_ok", "ct200", run="r3", state="ended", changed=True, summary="r3 was stopped after 9 s, by me")
ON = "may go on until it ends: trainops stop r3 waits again and then kills"


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ((), "canceled; nothing was stopped"),
        ((BEGUN, asked("ct200", "r3")), f"canceled; r3 on ct200 was asked to stop and {ON}"),
        ((BEGUN,), "canceled; whether a run on ct200 was asked to stop is not known: trainops status tells"),
        ((BEGUN, asked("ct200", "r3"), DONE), "canceled; ct200: r3 was stopped after 9 s, by me"),
        (
            (BEGUN, OTHERS, asked("ct210", "r5"), asked("ct200", "r3")),
            (
                "canceled; r3 on ct200, r5 on ct210 were asked to stop and may go on until they end: "
                "trainops stop r3 waits again and then kills"
            ),
        ),
    ],
)
def test_an_interrupted_stop_says_what_goes_on(events: tuple[dict[str, Any], ...], said: str) -> None:
    assert of_a_stop(["r3"], OPTIONS, interrupted(*events)) == said


def test_a_stop_that_only_looks_or_has_not_begun_asked_nobody() -> None:
    assert of_a_stop([], OPTIONS, KeyboardInterrupt()) == "canceled, nothing was stopped"
    checked = {**OPTIONS, "check_mode": True}
    assert of_a_stop([], checked, interrupted(BEGUN)) == "canceled, nothing was stopped"
