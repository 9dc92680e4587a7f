# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""When GPUs count as idle while they are watched, on a clock of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_select import Selection, select
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_wait import Clock, Outcome, wait
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpus import Snapshot, snapshot
from ansible_collections.trainops.proxmox.plugins.plugin_utils.nvidia_smi import Answer

from tests.unit.gpu_samples import VMID, eight, reading, view

IDLE = eight()
BUSY = eight({3: 5000})
INSIDE = eight(complete=False, reason="not root")
LOST = snapshot(reading(Answer(255, "Failed to initialize NVML: Unknown Error"), devices=[0]), view(), vmid=VMID)
SLOW = snapshot(reading(Answer(None, "", 30.0, timed_out=True), devices=[0]), view(), vmid=VMID)
NOTHING = snapshot(reading(Answer(1, "not yet"), devices=[]), view(), vmid=VMID)


class Watch:
    """A clock that moves by sleeping and by looking, and the looks and lines that were seen on it."""

    def __init__(self, looks: Sequence[Snapshot], cost: float = 0.0) -> None:
        self.now = 100.0
        self.looked_at: list[float] = []
        self.said_at: list[float] = []
        self._looks = list(looks)
        self._cost = cost

    def look(self) -> Snapshot:
        self.looked_at.append(self.now - 100)
        self.now += self._cost
        return self._looks.pop(0) if len(self._looks) > 1 else self._looks[0]

    def say(self, snapshot: Snapshot, selection: Selection, waited: float) -> None:
        self.said_at.append(waited)

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds

    def run(
        self,
        timeout: float = 300,
        interval: float = 5,
        choose: Callable[[Snapshot], Selection] = lambda found: select(found.gpus),
    ) -> Outcome:
        clock = Clock(lambda: self.now, self.sleep)
        return wait(self.look, choose, self.say, clock, timeout=timeout, interval=interval)


@pytest.mark.parametrize(
    ("looks", "timeout", "looked_at", "idle"),
    [
        # All evidence says idle at the first look.
        ([IDLE], 300, [0], True),
        # Two in a row after it was busy, the second a second later.
        ([BUSY, IDLE], 300, [0, 5, 6], True),
        # A flicker starts over.
        ([BUSY, IDLE, BUSY, IDLE], 300, [0, 5, 6, 11, 12], True),
        # From inside a job that starts elsewhere cannot be seen: once is not enough.
        ([INSIDE], 300, [0, 1], True),
        ([INSIDE, BUSY], 3, [0, 1, 3], False),
        # A single look.
        ([BUSY], 0, [0], False),
        ([IDLE], 0, [0], True),
        ([INSIDE], 0, [0], True),
        # The timeout, with a last look at its end.
        ([BUSY], 12, [0, 5, 10, 12], False),
        # What turned idle in the last look is confirmed beyond the timeout.
        ([BUSY, BUSY, BUSY, IDLE], 12, [0, 5, 10, 12, 13], True),
        # Time mends neither a lost container nor a library of another version, but a slow driver perhaps.
        ([LOST], 300, [0], False),
        ([SLOW], 7, [0, 5, 7], False),
        ([SLOW, IDLE], 300, [0, 5, 6], True),
    ],
)
def test_when_it_returns(looks: list[Snapshot], timeout: float, looked_at: list[float], idle: bool) -> None:
    watch = Watch(looks)
    outcome = watch.run(timeout)
    assert [round(at, 3) for at in watch.looked_at] == looked_at
    assert bool(outcome.chosen) is idle
    assert outcome.looks == len(looked_at)
    assert outcome.snapshot.gpus == looks[-1].gpus or not idle


def test_the_interval_is_kept_and_the_confirmation_is_never_later() -> None:
    watch = Watch([BUSY, BUSY, IDLE])
    watch.run(interval=0.5)
    assert watch.looked_at == [0, 0.5, 1.0, 1.5]


def test_a_line_every_ten_seconds() -> None:
    watch = Watch([BUSY])
    watch.run(timeout=31)
    assert watch.said_at == [10, 20, 30]
    watch = Watch([BUSY])
    watch.run(timeout=31, interval=30)
    assert watch.said_at == [10, 20, 30]


def test_a_slow_look_counts_as_waiting() -> None:
    watch = Watch([BUSY], cost=7)
    outcome = watch.run(timeout=20)
    assert [round(at, 3) for at in watch.looked_at] == [0, 12, 20]
    assert round(outcome.waited, 3) == 27


def test_only_the_selected_gpus_matter() -> None:
    outcome = Watch([BUSY]).run(choose=lambda found: select(found.gpus, [0, 1]))
    assert [gpu.index for gpu in outcome.chosen] == [0, 1]


def test_a_count_takes_gpus_that_were_idle_all_along() -> None:
    """GPU 0 turns idle in the second look; 1 and 2 were idle in both."""
    watch = Watch([eight(dict.fromkeys([0, 3, 4, 5, 6, 7], 5000)), eight(dict.fromkeys([3, 4, 5, 6, 7], 5000))])
    outcome = watch.run(choose=lambda found: select(found.gpus, 3))
    assert [gpu.index for gpu in outcome.chosen] == [0, 1, 2]
    assert watch.looked_at == [0, 5, 6]


def test_what_is_selected_is_decided_once() -> None:
    expressions: list[Snapshot] = []

    def choose(found: Snapshot) -> Selection:
        expressions.append(found)
        return select(found.gpus, "[?verdict == 'busy']")

    outcome = Watch([BUSY, IDLE]).run(choose=choose)
    assert expressions == [BUSY]
    assert [gpu.index for gpu in outcome.chosen] == [3]


def test_gpus_that_appear_later_are_selected_then() -> None:
    watch = Watch([NOTHING, IDLE])
    outcome = watch.run(choose=lambda found: select(found.gpus) if found.gpus else Selection(()))
    assert len(outcome.chosen) == 8
    assert watch.looked_at == [0, 5]
