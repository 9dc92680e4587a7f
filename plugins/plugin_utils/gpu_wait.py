# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Waiting for idle GPUs: when they count as idle, and how often to look. Effects come in as functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_select import Selection
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpus import Gpu, Snapshot

SAY_SECONDS = 10.0
_CONFIRM_SECONDS = 1.0


@dataclass
class Settling:
    """Counts, for each GPU, the looks in a row that found it idle.

    One look is enough for a GPU that was never seen otherwise, when the node's view shows that nobody holds it. Two in
    a row are needed after it was busy or unknown (memory flickers while a job is torn down or restarted) and when only
    the inside could be seen, where a job that starts elsewhere stays invisible for seconds.
    """

    _streaks: dict[str, int] = field(default_factory=dict)
    _disturbed: set[str] = field(default_factory=set)
    _partial: bool = False

    def look(self, snapshot: Snapshot) -> None:
        """Take one look into account."""
        self._partial = snapshot.view != "node"
        idle = {gpu.key for gpu in snapshot.gpus if gpu.verdict == "idle"}
        seen = {gpu.key for gpu in snapshot.gpus}
        self._disturbed |= (seen | self._streaks.keys()) - idle
        self._streaks = {key: self._streaks.get(key, 0) + 1 if key in idle else 0 for key in seen}

    def settled(self, gpu: Gpu) -> bool:
        """Whether this GPU is idle for good."""
        needed = 2 if self._partial or gpu.key in self._disturbed else 1
        return gpu.verdict == "idle" and self._streaks.get(gpu.key, 0) >= needed


@dataclass(frozen=True)
class Clock:
    """Time as the wait sees it: seconds that only grow, and sleeping."""

    now: Callable[[], float]
    sleep: Callable[[float], None]


@dataclass(frozen=True)
class Outcome:
    """The last look, and the GPUs that were ``chosen``: empty unless as many as wanted are idle."""

    snapshot: Snapshot
    selection: Selection
    chosen: tuple[Gpu, ...]
    waited: float
    looks: int


def wait(
    look: Callable[[], Snapshot],
    select: Callable[[Snapshot], Selection],
    say: Callable[[Snapshot, Selection, float], None],
    clock: Clock,
    *,
    timeout: float,
    interval: float,
) -> Outcome:
    """Look until the selected GPUs are idle, ``timeout`` seconds have passed, or asking again would be pointless.

    What is selected is decided at the first look. With ``timeout`` 0 that is the only one, and idle in it is idle. A
    look that finds all idle where two in a row are needed is confirmed a second later, also beyond the timeout.
    ``say`` is called every ten seconds.
    """
    start = said = clock.now()
    settling, selection, looks = Settling(), None, 0
    while True:
        snapshot = look()
        looks += 1
        selection = selection.again(snapshot.gpus) if selection and selection.candidates else select(snapshot)
        settling.look(snapshot)
        waited = clock.now() - start
        idle = selection.choose(_is_idle)
        chosen = idle if timeout <= 0 else selection.choose(settling.settled)
        pointless = snapshot.trouble is not None and snapshot.trouble.lasting
        if chosen or pointless or (waited >= timeout and not idle) or timeout <= 0:
            return Outcome(snapshot, selection, chosen, waited, looks)
        until = clock.now() + (min(_CONFIRM_SECONDS, interval) if idle else min(interval, max(timeout - waited, 0.1)))
        while (now := clock.now()) < until:
            if now >= said + SAY_SECONDS:
                say(snapshot, selection, now - start)
                said = now
            clock.sleep(min(until, said + SAY_SECONDS) - now)


def _is_idle(gpu: Gpu) -> bool:
    return gpu.verdict == "idle"
