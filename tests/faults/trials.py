# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Interrupted deploys in one container, each followed by a normal one, and what both left."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.faults.kinds import KINDS, Blow, Kind
from tests.faults.moments import AfterBytes, AfterTime, BeforeStep, Moment
from tests.faults.place import FOLDER, Place, until
from tests.faults.plan import Trial, again
from tests.faults.table import Outcome

#: Seconds after which a command that was struck must have ended, by a deadline of its own.
DEADLINE = 150.0
_BY_NAME = {kind.name: kind for kind in KINDS}


@dataclass(frozen=True)
class Whole:
    """A whole deploy: what passes of each clock from its start to its end."""

    seconds: float
    to_node: int
    back: int
    steps: int


def measure(place: Place, root: str) -> Whole:
    """Deploy once with a fresh login, and see how much passed."""
    place.next_stamp()
    place.close_connection()
    before, begun = dict(place.link.passed), time.monotonic()
    counted = BeforeStep(place.container, place.seen(FOLDER), 1 << 30)
    assert place.deploy(root) == 0, place.said()
    counted.go_on()
    steps = place.seen(f"{FOLDER}/steps").stat().st_size
    passed = place.link.passed
    return Whole(
        time.monotonic() - begun, passed["node"] - before["node"], passed["controller"] - before["controller"], steps
    )


def moment(place: Place, trial: Trial, part: float, whole: Whole) -> Moment:
    """The moment of a trial, of a deploy that begins now."""
    if trial.clock == "time":
        return AfterTime(part * whole.seconds)
    if trial.clock == "steps":
        return BeforeStep(place.container, place.seen(FOLDER), 1 + int(part * whole.steps))
    if trial.clock == "bytes back":
        return AfterBytes(place.link, "controller", int(part * whole.back))
    return AfterBytes(place.link, "node", int(part * whole.to_node))


class Trials:
    """The trials of one container, one after the other."""

    def __init__(self, place: Place, seed: int) -> None:
        self.place = place
        self.whole: Whole
        self._parts = again(seed, place.container.vmid)

    def begin(self) -> None:
        """A first deploy to each root, and one that is measured."""
        for root in sorted({kind.root for kind in KINDS}):
            self.place.next_stamp()
            assert self.place.deploy(root) == 0, self.place.said()
        self.whole = measure(self.place, "disk")

    def run(self, trial: Trial) -> Outcome:
        """Try it; at other moments when its own does not come before the command has ended."""
        kind, part = _BY_NAME[trial.kind], trial.part
        for _attempt in range(20):
            outcome = self._attempt(kind, trial, part)
            if outcome:
                return outcome
            part = next(self._parts)
        raise AssertionError(f"{trial}: its moment never came")

    def _attempt(self, kind: Kind, trial: Trial, part: float) -> Outcome | None:
        place, root = self.place, kind.root
        if place.live(root) is None:  # the small disk went with the container
            place.next_stamp()
            assert place.deploy(root) == 0, place.said()
        if trial.cold:
            place.close_connection()
        old, new = place.live(root), place.next_stamp()
        reads = place.reads()
        come = moment(place, trial, part, self.whole)
        process = place.start(place.command(root, kind.program))
        try:
            when = self._strike(kind, come, process)
            if when is None:
                assert process.wait() == 0, place.said()
                return None
            struck = time.monotonic()
            ended = self._ended(process)
        finally:
            come.go_on()
        seconds = time.monotonic() - struck
        kind.mend(place)
        problems = [] if ended else [("next failed", f"no end within {DEADLINE:g} s: {place.said()[-500:]}")]
        found = self._look(root, old, new, ended and process.returncode == 0, problems)
        self._next(kind, new, problems)
        problems += [("bad reads", text) for text in place.bad_reads()]
        place.link.cut("reset")  # a silent link ends, some day
        passes = place.reads()
        passes -= reads if passes >= reads else 0  # one that began anew with its container counts from 0
        return Outcome(kind.name, place.container.vmid, when, *found, seconds, passes, tuple(problems))

    def _strike(self, kind: Kind, come: Moment, process: subprocess.Popen[bytes]) -> str | None:
        """Wait for the moment and strike; how far the deploy was then. None when the command ended before."""
        place, root = self.place, kind.root
        old = place.target(root)
        while not come.reached():
            if process.poll() is not None:
                return None
            time.sleep(0.01)
        self._let_the_reader_see(come)
        while True:
            when = "switched" if place.target(root) != old else "staged" if place.staged(root) else "before"
            if kind.strike(Blow(place, process.pid)):
                break
            come.go_on()  # whom it is to strike is not there yet
            if process.poll() is not None:
                return None
            time.sleep(0.01)
        come.go_on()
        return when

    def _let_the_reader_see(self, come: Moment) -> None:
        """Where the worker stands still in the middle of its work, let a whole pass of the reader fall into that."""
        if isinstance(come, BeforeStep):
            reads = self.place.reads()
            with contextlib.suppress(TimeoutError):
                until(lambda: self.place.reads() >= reads + 2, "two passes of the reader", 5)

    def _ended(self, process: subprocess.Popen[bytes]) -> bool:
        """Wait until the command, and whatever of it is on this machine, has ended; False after the deadline."""
        try:
            process.wait(DEADLINE)
            until(lambda: not self.place.started_here(), "the end of what the command started", DEADLINE)
        except (subprocess.TimeoutExpired, TimeoutError):
            self.place.kill_all()
            process.wait()
            return False
        return True

    def _look(
        self, root: str, old: int | None, new: int, ok: bool, problems: list[tuple[str, str]]
    ) -> tuple[bool, bool]:
        """Whether the new release is live, and whether the command said so."""
        live = None
        with _noted(problems, "bad reads"):
            live = self.place.live(root)
            assert live in (old, new), f"{live} is live, not {old} or {new}"
        if ok and live != new:
            problems.append(("false ok", self.place.said()[-500:]))
        return live == new, ok

    def _next(self, kind: Kind, new: int, problems: list[tuple[str, str]]) -> None:
        """The next deploy, as a user would start it: it succeeds, and nothing of the interrupted one is left."""
        place, root = self.place, kind.root
        if place.deploy(root, kind.program) != 0:
            problems.append(("next failed", place.said()[-700:]))
            place.kill_all()
            place.close_connection()
            assert place.deploy(root) == 0, place.said()
        with _noted(problems, "bad reads"):
            assert place.live(root) == new, f"{place.live(root)} is live after the next deploy, not {new}"
        problems += [("leftovers", text) for text in place.leftovers(root)]


@contextlib.contextmanager
def _noted(problems: list[tuple[str, str]], column: str) -> Iterator[None]:
    try:
        yield
    except AssertionError as error:
        problems.append((column, str(error)))


Told = Callable[[Outcome], None]


def run_all(place: Place, seed: int, trials: list[Trial], told: Told) -> list[Outcome]:
    """All trials of a container."""
    work = Trials(place, seed)
    work.begin()
    outcomes = []
    for trial in trials:
        outcomes.append(work.run(trial))
        told(outcomes[-1])
    return outcomes
