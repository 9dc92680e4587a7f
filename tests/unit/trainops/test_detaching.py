"""What is said of an interrupt while runs are started or followed."""

from __future__ import annotations

from typing import Any

import pytest

from trainops.detaching import of_a_follower, of_a_launch, of_a_release
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


def test_an_interrupt_before_anything_ran_started_nothing() -> None:
    assert of_a_launch([], OPTIONS, KeyboardInterrupt()) == "canceled, nothing was started"


def test_the_way_back_is_the_way_there() -> None:
    options = {"inventory": ("my inv",), "limit": "ct200", "name": "demo"}
    back = "root@n/200:/root '--inventory=my inv' --limit=ct200 --name=demo"
    words = ["root@n/200:/root"]
    assert of_a_launch(words, options, interrupted(BEGUN, STARTED)).endswith(f"trainops logs -f r1 {back}")
    assert of_a_launch(words, options, interrupted(BEGUN)).endswith(f"not known: trainops status {back} tells")
    assert of_a_follower(["r2", *words], options).endswith(f"goes on. To come back: trainops logs -f r2 {back}")


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


def test_an_interrupt_before_anything_ran_changed_nothing() -> None:
    assert of_a_release([], OPTIONS, KeyboardInterrupt()) == "canceled, nothing was changed"


def test_a_deploy_that_launches_says_what_it_started() -> None:
    said = of_a_release([], OPTIONS, interrupted(BEGUN, STARTED))
    assert said == "canceled; r1 on ct200 goes on; to come back: trainops logs -f r1"
    assert of_a_release([], OPTIONS, interrupted(BEGUN)).startswith(
        "canceled; whether a run was started on ct200 is not"
    )
