# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The launch's conversation: who gets which GPUs, who is refused, and what happens to lost connections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import OptionError
from ansible_collections.trainops.proxmox.plugins.plugin_utils.exchange import ConnectionLost
from ansible_collections.trainops.proxmox.plugins.plugin_utils.frames import Frame
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_wait import Clock
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpus import Snapshot, snapshot
from ansible_collections.trainops.proxmox.plugins.plugin_utils.nvidia_smi import Answer
from ansible_collections.trainops.proxmox.plugins.plugin_utils.run_launch import Conversation, once, refused, verdict

from tests.unit.gpu_samples import VMID, eight, process, reading, uuid

OTHER = process(841, 3, vmid=201, inside=212)
BUSY = eight({3: 2057}, [OTHER], [f"{uuid(3)}, 841, 2048 MiB, python3"])
OURS = eight({3: 2057}, [process(900, 3, vmid=VMID, inside=44)], runs={"44": "r1"})
NOTHING = snapshot(reading(Answer(127, "there is no nvidia-smi on the PATH")), None, vmid=VMID)


def run(name: str, *gpus: int) -> dict[str, Any]:
    return {"run": name, "gpus": [{"index": number, "uuid": uuid(number)} for number in gpus]}


@pytest.mark.parametrize(
    ("found", "runs", "select", "count", "chosen"),
    [
        (eight(), [], None, None, list(range(8))),
        (eight(), [], 2, None, [0, 1]),
        (BUSY, [], None, None, []),
        (BUSY, [], None, 4, [0, 1, 2, 4]),
        (BUSY, [], [3], None, []),
        (eight(), [run("r1", 0, 1)], None, None, []),
        (eight(), [run("r1", 0, 1)], 2, None, [2, 3]),
        (eight(), [run("r1", 0, 1), run("r2", 2)], "[?memory_total_mib > `1`]", 1, [3]),
        (eight(), [run("r1")], None, None, list(range(8))),
    ],
)
def test_the_gpus_of_a_run(
    found: Snapshot, runs: list[dict[str, Any]], select: Any, count: int | None, chosen: list[int]
) -> None:
    assert [gpu.index for gpu in verdict(found, runs, select, count).chosen] == chosen


@pytest.mark.parametrize(
    ("found", "runs", "select", "code", "line", "fix"),
    [
        (
            BUSY,
            [],
            [3],
            "gpus-busy",
            "not started: 0 of 1 idle; GPU 3 busy: 2048 MiB held by vmid 201 (train-b) pid 212 python3 train.py",
            "Stop what holds them, choose other GPUs by option select, or wait longer by option idle_timeout.",
        ),
        (
            OURS,
            [],
            [3, 4],
            "gpus-busy",
            "not started: 1 of 2 idle; GPU 3 busy: opened by your run r1, no memory yet",
            "Stop your run r1 (trainops stop r1), choose",
        ),
        (
            eight(),
            [run("r7", 0, 1)],
            [0, 1],
            "gpus-busy",
            "not started: 0 of 2 idle; GPUs 0-1 busy: given to your run r7, not opened yet",
            "Stop your run r7",
        ),
        (
            NOTHING,
            [],
            None,
            "gpus-unknown",
            "not started: in the container: there is no nvidia-smi on the PATH",
            "For a run without GPUs set option select to 0.",
        ),
    ],
)
def test_a_refusal_names_the_holder_and_the_fix(
    found: Snapshot, runs: list[dict[str, Any]], select: Any, code: str, line: str, fix: str
) -> None:
    error = refused(verdict(found, runs, select, None))
    assert error.code == code
    assert error.message.splitlines()[0] == error.details["summary"] == line
    assert error.message.splitlines()[-1].startswith(fix)
    assert error.details["run"] is None


def ready(gpus: Any = "reading", runs: Any = ()) -> dict[str, Any]:
    return {"kind": "ready", "gpus": gpus, "runs": list(runs), "node_view": "view"}


def talk(found: Snapshot, select: Any = None) -> tuple[Conversation, list[Any]]:
    asked: list[Any] = []

    def see(gpus: Any, node_view: str | None) -> Snapshot:
        asked.append((gpus, node_view))
        return found

    return Conversation(see, {"select": select, "count": None}), asked


def test_idle_gpus_are_given() -> None:
    conversation, asked = talk(eight(), [1, 2])
    given = [{"index": 1, "uuid": uuid(1)}, {"index": 2, "uuid": uuid(2)}]
    assert list(conversation.answer(ready())) == [Frame("go", {"gpus": given})]
    assert conversation.refused is None
    assert asked == [("reading", "view")]


def test_busy_gpus_stop_it_and_a_later_look_counts_anew() -> None:
    conversation, _asked = talk(BUSY)
    assert list(conversation.answer(ready())) == [Frame("stop")]
    assert conversation.refused is not None
    free, _asked = talk(eight())
    assert list(free.answer(ready(runs=[run("r1", 0)]))) == [Frame("stop")]
    assert [frame.kind for frame in free.answer(ready())] == ["go"]
    assert free.refused is None


def test_a_run_without_gpus_asks_nobody() -> None:
    conversation, asked = talk(BUSY, 0)
    assert list(conversation.answer(ready(gpus=None))) == [Frame("go", {"gpus": []})]
    assert (conversation.refused, asked) == (None, [])


def test_gpus_that_do_not_exist_are_an_error_of_the_option() -> None:
    with pytest.raises(OptionError, match="there is no GPU 77"):
        talk(eight(), [77])[0].answer(ready())


class Time:
    """A clock that stands still but for sleeping."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.clock = Clock(lambda: self.seconds, self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.seconds += seconds


def failing(*errors: Exception | None) -> Callable[[], dict[str, Any]]:
    """Raises these one after the other; None is an answer, and the last one stays."""
    left = list(errors)

    def ask() -> dict[str, Any]:
        error = left.pop(0) if len(left) > 1 else left[0]
        if error:
            raise error
        return {"state": "running"}

    return ask


LOST, UNREACHED = ConnectionLost("in container 200: lost"), AnsibleConnectionFailure("controller -> node: refused")


def test_what_was_lost_is_asked_again_until_it_answers() -> None:
    time = Time()
    notes: list[str] = []
    ask = failing(LOST, UNREACHED, LOST, UNREACHED, None)
    assert once(ask, time.clock, notes.append) == {"state": "running"}
    assert notes == ["the connection was lost, asking again"]
    assert 1 < time.seconds < 10


def test_what_was_never_reached_is_not_asked_again() -> None:
    time = Time()
    with pytest.raises(AnsibleConnectionFailure, match=r"^controller -> node: refused$"):
        once(failing(UNREACHED, None), time.clock, lambda _text: None)
    assert time.seconds == 0


def test_the_end_of_patience_says_that_the_run_may_run() -> None:
    time = Time()
    with pytest.raises(
        ConnectionLost, match=r"refused\. .* whether it runs is not known. See trainops status"
    ) as caught:
        once(failing(LOST, UNREACHED), time.clock, lambda _text: None)
    assert str(caught.value).count("refused") == 1
    assert 60 <= time.seconds <= 70
