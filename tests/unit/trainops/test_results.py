"""Events of ansible-runner as typed results."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trainops.results import Ending, Reason, read_result

CHECK = "trainops.proxmox.syntax_check"


def ran(event: str = "runner_on_ok", host: str = "ct200", action: str = CHECK, **more: Any) -> dict[str, Any]:
    """One task's event on one host."""
    result = more.pop("res", {})
    data = {"host": host, "task": "Check", "task_action": action, "resolved_action": action, "res": result, **more}
    return {"event": event, "event_data": data, "stdout": ""}


def stats(*hosts: str, failures: tuple[str, ...] = (), dark: tuple[str, ...] = ()) -> dict[str, Any]:
    """The last event of a run."""
    data = {
        "processed": dict.fromkeys(hosts, 1),
        "failures": dict.fromkeys(failures, 1),
        "dark": dict.fromkeys(dark, 1),
    }
    return {"event": "playbook_on_stats", "event_data": data}


@pytest.mark.parametrize(
    ("events", "rc", "aborted", "expected"),
    [
        ([ran(), stats("ct200")], 0, None, Reason.OK),
        ([stats("ct200")], 0, None, Reason.OK),  # every task was skipped
        ([stats()], 0, None, Reason.FAILED),  # no host
        ([ran("runner_on_failed"), stats("ct200", failures=("ct200",))], 2, None, Reason.FAILED),
        ([ran("runner_on_unreachable"), stats("ct200", dark=("ct200",))], 4, None, Reason.UNREACHABLE),
        ([stats("a", "b", failures=("a",), dark=("b",))], 6, None, Reason.FAILED),
        ([], 4, None, Reason.FAILED),  # the playbook could not be read
        ([ran()], 0, None, Reason.INCOMPLETE),
        ([ran(), {"uuid": "lost"}, stats("ct200")], 0, None, Reason.INCOMPLETE),
        ([ran(), stats("ct200")], None, None, Reason.OK),  # all was done, then it did not end by itself
        ([ran(), stats("ct200", failures=("ct200",))], None, None, Reason.FAILED),
        ([ran()], None, None, Reason.INCOMPLETE),
        ([ran(), stats("ct200")], None, Reason.CANCELED, Reason.CANCELED),
        ([ran("runner_on_failed")], None, Reason.DEADLINE, Reason.DEADLINE),
    ],
)
def test_reason(events: list[dict[str, Any]], rc: int | None, aborted: Reason | None, expected: Reason) -> None:
    result = read_result(events, Ending(rc, aborted, 1.0), "site.yml", check=False)
    assert result.reason is expected
    assert result.ok is (expected is Reason.OK)
    assert bool(result.message) is not result.ok


def test_a_step_has_its_word_and_its_values() -> None:
    values = {"summary": "2 files compile", "files_checked": 2, "changed": False, "_ansible_no_log": False}
    result = read_result([ran(res=values), stats("ct200")], Ending(0, None, 1.0), "site.yml", check=True)
    step = result.hosts["ct200"].step("check")
    assert step is not None
    assert step.summary == "2 files compile"
    assert step.values == {"summary": "2 files compile", "files_checked": 2, "changed": False}
    assert result.hosts["ct200"].step("release") is None
    assert result.check


def test_a_result_is_printed_in_a_line() -> None:
    result = read_result(
        [ran(res={"table": "x" * 9999}), stats("ct200")], Ending(0, None, 1.25), "site.yml", check=False
    )
    assert str(result) == "<Result ok of site.yml on ct200 after 1.25 s>"
    assert len(repr(result.hosts["ct200"])) < 500


@pytest.mark.parametrize(
    ("event", "more", "failed", "unreachable"),
    [
        ("runner_on_failed", {}, True, False),
        ("runner_on_failed", {"ignore_errors": True}, False, False),
        ("runner_on_unreachable", {}, False, True),
    ],
)
def test_what_is_ignored_is_no_failure(event: str, more: dict[str, Any], failed: bool, unreachable: bool) -> None:
    result = read_result([ran(event, res={"msg": "no\nmore"}, **more)], Ending(2, None, 1.0), "site.yml", check=False)
    (step,) = result.hosts["ct200"].steps
    assert (step.failed, step.unreachable, step.summary) == (failed, unreachable, "no")


def test_the_message_names_host_step_and_what_is_wrong() -> None:
    events = [
        ran("runner_on_failed", res={"summary": "1 problem", "msg": "a.py:1:1: bad"}),
        ran("runner_on_unreachable", host="ct210", res={"msg": "node does not answer"}),
        stats("ct200", "ct210", failures=("ct200",), dark=("ct210",)),
    ]
    result = read_result(events, Ending(2, None, 1.0), "site.yml", check=False)
    assert result.message == "ct200 check: 1 problem; ct210 check: node does not answer"


def test_an_error_of_ansible_itself_is_the_message() -> None:
    events = [
        {"event": "verbose", "stdout": "[WARNING]: x"},
        {"event": "verbose", "stdout": "[ERROR]: no\r\nOrigin: y"},
    ]
    result = read_result(events, Ending(4, None, 1.0), "site.yml", check=False)
    assert result.message == "[ERROR]: no\nOrigin: y"
    assert result.output == "[WARNING]: x\n[ERROR]: no\nOrigin: y"


def test_a_result_is_plain_data_that_json_takes() -> None:
    result = read_result([ran(res={"summary": "x"}), stats("ct200")], Ending(0, None, 1.0), "site.yml", check=False)
    read = json.loads(json.dumps(result.as_dict()))
    assert read["reason"] == "ok"
    assert read["hosts"]["ct200"]["steps"][0]["summary"] == "x"


def begun(host: str, action: str, task: str = "Do it") -> dict[str, Any]:
    """The event of a task that starts on a host."""
    return {"event": "runner_on_start", "event_data": {"host": host, "task": task, "task_action": action}}


RELEASE = "trainops.proxmox.training_release"
COMMAND = "ansible.builtin.command"


@pytest.mark.parametrize(
    ("events", "check", "said"),
    [
        ([], False, "nothing was changed by then"),
        ([begun("ct200", CHECK)], False, "nothing was changed by then"),
        ([begun("ct200", CHECK), ran(res={"summary": "fine"})], False, "nothing was changed by then"),
        (
            [begun("ct200", RELEASE), ran(action=RELEASE, res={"summary": "7c1e live at /root", "changed": True})],
            False,
            "ct200 release: 7c1e live at /root",
        ),
        (
            [begun("ct200", RELEASE), ran(action=RELEASE, res={"summary": "7c1e would go live", "changed": True})],
            True,
            "nothing was changed by then",
        ),
        ([begun("ct200", RELEASE)], False, "ct200 release: under way, it may have taken effect"),
        ([begun("ct200", COMMAND)], False, "ct200 Do it: under way, it may have taken effect"),
        ([begun("ct200", COMMAND), ran("runner_on_skipped", action=COMMAND)], False, "nothing was changed by then"),
    ],
)
def test_a_run_that_was_ended_says_what_it_had_done(events: list[dict[str, Any]], check: bool, said: str) -> None:
    for reason, start in (
        (Reason.DEADLINE, "not finished within its deadline, ended after 7 s"),
        (Reason.CANCELED, "canceled before its end"),
    ):
        result = read_result(events, Ending(None, reason, 7.0), "site.yml", check=check)
        assert (result.ok, result.reason, result.message) == (False, reason, f"{start}; {said}")


@pytest.mark.parametrize(
    ("playbook", "differs", "expected"),
    [
        ("trainops.proxmox.diff_training", True, Reason.DIFFERS),
        ("/home/me/diff_training.yml", True, Reason.DIFFERS),
        ("trainops.proxmox.diff_training", False, Reason.OK),
        ("site.yml", True, Reason.OK),  # a comparison among other steps
    ],
)
def test_a_comparison_that_finds_something_has_a_reason_of_its_own(
    playbook: str, differs: bool, expected: Reason
) -> None:
    values = {"summary": "7c1e09a live at /root; by hand 1 changed (a.py)", "differs": differs}
    events = [ran(res=values, action="trainops.proxmox.training_release"), stats("ct200")]
    result = read_result(events, Ending(0, None, 1.0), playbook, check=False)
    assert (result.reason, result.ok) == (expected, expected is Reason.OK)
    assert result.message == ("" if result.ok else f"ct200: {values['summary']}")
    failed = [*events[:1], stats("ct200", failures=("ct200",))]
    assert read_result(failed, Ending(2, None, 1.0), playbook, check=False).reason is Reason.FAILED


@pytest.mark.parametrize(
    ("playbook", "said"),
    [
        ("trainops.proxmox.training_logs", "nothing was changed by then"),
        ("/home/me/training_status.yml", "nothing was changed by then"),
        ("trainops.proxmox.launch_training", "ct200 run: under way, it may have taken effect"),
    ],
)
def test_who_only_watched_has_changed_nothing(playbook: str, said: str) -> None:
    events = [begun("ct200", "trainops.proxmox.training_run")]
    result = read_result(events, Ending(None, Reason.DEADLINE, 7.0), playbook, check=False)
    assert result.message == f"not finished within its deadline, ended after 7 s; {said}"
