# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Watching over connections that break, on a clock of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.trainops.proxmox.plugins.plugin_utils import run_watch
from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import OptionError, StepError
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_wait import Clock
from ansible_collections.trainops.proxmox.plugins.plugin_utils.run_watch import Frames, Screen, Wish

OPTIONS = {"root": "/root/", "nvidia_smi": "nvidia-smi", "nvidia_smi_timeout": 30, "until_timeout": 900.0}
RECORD = {
    "run": "r1",
    "project": "demo",
    "release": "7c1e09a0" * 8,
    "state": "running",
    "why": "",
    "exit": None,
    "log": "/root/.trainops/demo/runs/r1/log",
    "gpus": [{"index": 0, "uuid": "GPU-a"}, {"index": 1, "uuid": "GPU-b"}],
    "process": {"pid": 7, "start": 1},
}
DIED = {**RECORD, "state": "ended", "exit": {"exit_code": 1, "seconds": 3.0, "last_lines": ["boom"]}}
ENDED: dict[str, Any] = {**RECORD, "state": "ended", "exit": {"exit_code": 0, "seconds": 3.0}}


def result(record: dict[str, Any] = ENDED, **more: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {"offset": 0, "reached": None, "found": {}, "more": False, "traceback": [], "silent_s": 1.0}
    return {"record": record, **usual, "stalled": False, "timed_out": False, "seen": False, **more}


class Worker:
    """Answers each exchange by the next of some scripts, on a log of its own."""

    def __init__(self, text: str, scripts: list[Callable[[Worker, dict[str, Any], Frames], dict[str, Any]]]) -> None:
        self.text = text
        self.scripts = scripts
        self.asked: list[dict[str, Any]] = []
        self.shown: list[str] = []
        self.notes: list[str] = []
        self.now = 100.0

    def ask(self, params: dict[str, Any], receive: Frames) -> dict[str, Any]:
        self.asked.append(params)
        return self.scripts.pop(0)(self, params, receive)

    def watch(self, wanted: Wish) -> dict[str, Any]:
        screen = Screen(self.shown.extend, self.notes.append)
        return run_watch.watch(self.ask, wanted, screen, Clock(lambda: self.now, self.sleep))

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds

    def lines(self, params: dict[str, Any], receive: Frames, count: int) -> int:
        """Send so many lines from the offset that was asked for."""
        offset = params["offset"] or 0
        receive({"kind": "run", "record": RECORD, "offset": offset})
        for _line in range(count):
            end = self.text.index("\n", offset) + 1
            receive({"kind": "lines", "offset": end, "lines": [self.text[offset : end - 1]], "skipped": 0})
            offset = end
        return offset


def breaks_after(count: int) -> Callable[[Worker, dict[str, Any], Frames], dict[str, Any]]:
    def script(worker: Worker, params: dict[str, Any], receive: Frames) -> dict[str, Any]:
        worker.lines(params, receive, count)
        raise AnsibleConnectionFailure("gone")

    return script


def never(worker: Worker, params: dict[str, Any], receive: Frames) -> dict[str, Any]:
    raise AnsibleConnectionFailure("no way")


def answers(count: int, **more: Any) -> Callable[[Worker, dict[str, Any], Frames], dict[str, Any]]:
    def script(worker: Worker, params: dict[str, Any], receive: Frames) -> dict[str, Any]:
        return result(offset=worker.lines(params, receive, count), **more)

    return script


def wish(**options: Any) -> Wish:
    return run_watch.wish({**OPTIONS, **options})


TEXT = "".join(f"line {number}\n" for number in range(9))
LINES = TEXT.splitlines()


@pytest.mark.parametrize(
    "scripts",
    [
        [answers(9)],
        [breaks_after(3), answers(6)],
        [breaks_after(0), breaks_after(9), answers(0)],
        [breaks_after(4), never, never, never, breaks_after(1), never, answers(4)],
        [answers(5, more=True), answers(4)],
        [answers(5, more=True), never, answers(4)],
    ],
)
def test_no_line_is_lost_and_none_comes_twice(scripts: list[Any]) -> None:
    worker = Worker(TEXT, list(scripts))
    done = worker.watch(wish(offset=0))
    assert worker.shown == LINES
    assert (done["offset"], done["timed_out"]) == (len(TEXT), False)


def test_the_same_run_is_asked_for_again_although_a_later_one_has_begun() -> None:
    worker = Worker(TEXT, [breaks_after(1), answers(8)])
    worker.watch(wish())
    assert [asked["run"] for asked in worker.asked] == [None, "r1"]


def test_a_loss_is_told_once_and_its_end_too() -> None:
    worker = Worker(TEXT, [breaks_after(1), never, never, answers(8)])
    worker.watch(wish(offset=0))
    lost = ["the connection is lost, r1 goes on; connecting again", "connected again"]
    assert worker.notes == ["the log of r1", *lost]  # nobody had said which run


def test_without_a_first_connection_there_is_nothing_to_wait_for() -> None:
    worker = Worker(TEXT, [never])
    with pytest.raises(AnsibleConnectionFailure, match="no way"):
        worker.watch(wish())


def test_it_gives_up_when_the_connection_stays_away() -> None:
    worker = Worker(TEXT, [breaks_after(1), *[never] * 500])
    with pytest.raises(AnsibleConnectionFailure):
        worker.watch(wish())
    assert 600 < worker.now - 100 < 640


def test_each_loss_has_its_own_patience() -> None:
    away: list[Any] = [breaks_after(1), *[never] * 30]
    worker = Worker(TEXT, [*away, *away, *away, answers(6)])
    worker.watch(wish(offset=0))
    assert worker.shown == LINES


def test_the_time_for_a_sign_is_kept_over_all_exchanges() -> None:
    def slow(worker: Worker, params: dict[str, Any], receive: Frames) -> dict[str, Any]:
        worker.lines(params, receive, 0)
        worker.now += params["seconds"]
        return result(RECORD, more=True)

    worker = Worker(TEXT, [slow] * 4)
    done = worker.watch(wish(until={"log": "x"}, until_timeout=50.0))
    assert done["timed_out"]
    assert [asked["seconds"] for asked in worker.asked] == [20, 20, 10]


def test_values_of_every_exchange_are_kept() -> None:
    def said(worker: Worker, params: dict[str, Any], receive: Frames) -> dict[str, Any]:
        worker.lines(params, receive, 1)
        receive({"kind": "values", "found": {"step": 1, "loss": 2.0}})
        raise AnsibleConnectionFailure("gone")

    worker = Worker(TEXT, [said, answers(8, found={"step": 9})])
    assert worker.watch(wish(offset=0))["found"] == {"step": 9, "loss": 2.0}


def test_what_is_left_out_and_a_stall_are_told() -> None:
    def flood(worker: Worker, params: dict[str, Any], receive: Frames) -> dict[str, Any]:
        worker.lines(params, receive, 0)
        receive({"kind": "lines", "offset": 93_000_005, "lines": ["last"], "skipped": 93_000_000})
        receive({"kind": "stall", "seconds": 312.0, "gpus": 2})
        return result()

    worker = Worker(TEXT, [flood])
    worker.watch(wish(run="r1"))
    assert worker.notes[0].startswith("93 MB are not shown")
    assert worker.notes[1] == "r1 seems stalled: it has printed nothing for 312 s, and its 2 GPUs do nothing"


@pytest.mark.parametrize(
    ("show", "traceback", "seen"),
    [
        (True, LINES[7:], True),
        (True, [*LINES[7:], "KeyError"], False),
        (True, [], True),
        (False, LINES[7:], False),
        (False, [], False),
    ],
)
def test_what_was_shown_is_not_told_again(show: bool, traceback: list[str], seen: bool) -> None:
    worker = Worker(TEXT, [answers(9, traceback=traceback)])
    screen = Screen(worker.shown.extend if show else run_watch.hide, worker.notes.append)
    done = run_watch.watch(worker.ask, wish(offset=0), screen, Clock(lambda: 0.0, worker.sleep))
    assert done["seen"] is seen


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"values": ["("]}, "option values: '(' is no regular expression"),
        ({"values": ["loss"]}, "option values: 'loss' has no named group"),
        ({"until": {"log": "("}}, "option until, log: '(' is no regular expression"),
        ({"until": {"log": "x"}, "until_timeout": -1}, "option until_timeout: -1 cannot be"),
        ({"until": {"value": "epoch"}}, "no pattern of option values has a group 'epoch'; there are: loss, step, tok"),
    ],
)
def test_what_cannot_be_watched_is_said_before_anything_is_asked(options: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError) as caught:
        wish(**options)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("options", "offset"), [({}, None), ({"offset": 7}, 7), ({"until": {"log": "x"}}, 0), ({"until": {}}, None)]
)
def test_a_sign_is_looked_for_from_the_beginning(options: dict[str, Any], offset: int | None) -> None:
    assert wish(**options).params["offset"] == offset


@pytest.mark.parametrize(
    ("options", "given", "summary"),
    [
        ({}, result(ENDED), "r1 ended after 3 s, exit 0"),
        ({"follow": False}, result(DIED), "r1 died after 3 s, exit 1"),
        ({"follow": False}, result(RECORD), "r1 of 7c1e09a runs on GPUs 0-1"),
        (
            {"until": {"value": "step"}},
            result(RECORD, reached="value", found={"step": 1, "loss": 3.40001, "tokens_per_s": 1200}),
            "r1 of 7c1e09a runs on GPUs 0-1: step 1 loss 3.4 tokens/s 1200",
        ),
        (
            {"follow": False},
            result(RECORD, stalled=True, silent_s=700.0),
            "r1 seems stalled: it has printed nothing for 11 min, and its 2 GPUs do nothing",
        ),
        ({"until": {"log": "x"}}, result(ENDED, reached="log"), "r1 ended after 3 s, exit 0"),
        # A short script may be done before there is any sign.
        ({"until": {"value": "*"}}, result(ENDED), "r1 ended after 3 s, exit 0, before any value"),
        ({"until": {"log": "x"}}, result(ENDED), "r1 ended after 3 s, exit 0, before a line that matches 'x'"),
    ],
)
def test_a_watch_that_came_to_something(options: dict[str, Any], given: dict[str, Any], summary: str) -> None:
    done = run_watch.watched(wish(**options), given)
    assert (done["summary"], done["run"], done["name"]) == (summary, "r1", "demo")
    assert done["pid"] == (7 if done["state"] == "running" else None)


@pytest.mark.parametrize(
    ("options", "given", "code", "said"),
    [
        ({}, result(DIED), "run-ended", "r1 died after 3 s, exit 1\nboom\nmore: trainops why r1"),
        ({}, result(DIED, seen=True), "run-ended", "r1 died after 3 s, exit 1\nmore: trainops why r1"),
        (
            {},
            result(DIED, traceback=["Traceback (most recent call last):", "  x", "KeyError: \x1b[2J"]),
            "run-ended",
            "KeyError: \\x1b[2J",
        ),
        # It was seen alive before it died: a dead run all the same.
        (
            {"until": {"value": "step"}},
            result(DIED, reached="value", seen=True),
            "run-ended",
            "r1 died after 3 s, exit 1",
        ),
        (
            {"until": {"value": "step"}},
            result({**ENDED, "exit": {**ENDED["exit"], "stopped_by": "me@here"}}),
            "run-ended",
            "r1 was stopped after 3 s, by me@here, exit 0, before a value of step",
        ),
        (
            {"until": {"log": "x", "gpu_memory_mib": 5}},
            result(RECORD, more=True, timed_out=True),
            "until-timeout",
            "a line that matches 'x' or 5 MiB of memory in use on each GPU did not come within 900 s. It goes on",
        ),
        ({}, result({**RECORD, "state": "lost", "why": "nobody knows"}), "run-ended", "r1 is lost: nobody knows"),
    ],
)
def test_a_watch_that_fails_says_why(options: dict[str, Any], given: dict[str, Any], code: str, said: str) -> None:
    with pytest.raises(StepError) as caught:
        run_watch.watched(wish(**options), given)
    assert caught.value.code == code
    assert said in caught.value.message
    assert caught.value.details["run"] == "r1"


def test_no_limit_is_as_long_as_the_run() -> None:
    assert wish(until={"value": "*"}, until_timeout=0).seconds is None


def test_a_run_that_was_stopped_is_no_failure_to_its_follower() -> None:
    stopped = {**RECORD, "state": "ended", "exit": {"signal": 15, "seconds": 9.0, "stopped_by": "me@here"}}
    assert "was stopped" in run_watch.watched(wish(), result(stopped))["summary"]
