# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operation `stop`: ask a run to end, give it time, then end all of it; done only when no process of it is left."""

from __future__ import annotations

import fcntl
import os
import signal
import time

from .channel import WorkerError
from .members import Member, asked, find, kill, main_of
from .runs import Run, busy, find_run, open_run, read_run, the_project
from .store import Store, guarded, open_store
from .supervise import EXIT, FORMAT, STOPPED, exit_record, iso, last_lines, write_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .channel import Channel

_SIGNALS = {"INT": signal.SIGINT, "TERM": signal.SIGTERM}
_LOOK_SECONDS = 0.02
_REST_SECONDS = 5.0
_KILL_SECONDS = 30.0
_RECORD_SECONDS = 5.0
_CLAIM_SECONDS = 0.5  # longer than anybody looks at a lock
_TELL_SECONDS = 2.0
_SHOWN = 64


def run(channel: Channel, params: dict[str, Any]) -> dict[str, Any]:
    """Stop runs.

    params: root; name, or null for the only project; run: an id, "all", or null for the only one that is alive; signal:
    INT or TERM; patience: seconds for the run to save what it has and end by itself; who; check_mode.

    The run's own process gets the signal (and where that is a shell, also what it waits for), and after ``patience``
    SIGKILL, as does everything that belongs to it, again and again until nothing does. What outlives the run's own
    process is asked by SIGTERM first and has the rest of the time.

    Result: stopped: [{run: the record with state and exit as it is now, changed, left_behind: whether the run itself
    had ended before and only processes that it left were there, killed: [{pid, command}] that had to be killed,
    killed_count, seconds}], changed.

    Raises WorkerError: "no-run", "several" (naming those that are alive), "unkillable" for a process that does not die.
    """
    return guarded(lambda: _run(channel, params), params["root"])


def _run(channel: Channel, params: dict[str, Any]) -> dict[str, Any]:
    name = params["name"] or the_project(params["root"])
    with open_store(params["root"], name, create=False) as store:
        chosen = choose(store, params["run"])
        done = [_Stop(channel, store, one, params).done() for one in chosen]
    return {"stopped": done, "changed": any(one["changed"] for one in done)}


def choose(store: Store, wanted: str | None) -> list[Run]:
    """The runs that are meant. Raises WorkerError naming those that are there."""
    if wanted not in (None, "all"):
        return [find_run(store, wanted)]
    living = busy(store)
    if wanted == "all":
        return living
    alive = [one for one in living if one.alive] or living
    if len(alive) > 1:
        names = ", ".join(one.id for one in alive)
        raise WorkerError("several", f"{names} of {store.name} are alive: say which one to stop, or all")
    return alive or [find_run(store, None)]


class _Stop:
    """One run that is stopped."""

    def __init__(self, channel: Channel, store: Store, one: Run, params: dict[str, Any]) -> None:
        self.channel = channel
        self.store = store
        self.run = one
        self.params = params
        self.killed: list[Member] = []
        self.sent: list[str] = []
        self.claimed = -1
        self.began = time.monotonic()

    def done(self) -> dict[str, Any]:
        """Stop it; what came of it."""
        was = self.run
        there = bool(was.alive or find(was))
        if there and not self.params["check_mode"]:
            self._stop()
        now = read_run(self.store, self.run.id) or self.run
        return {
            "run": now.view(),
            "changed": there,
            "left_behind": there and not was.alive,
            "killed": [{"pid": one.pid, "command": one.command} for one in self.killed[:_SHOWN]],
            "killed_count": len(self.killed),
            "seconds": round(time.monotonic() - self.began, 3),
        }

    def _stop(self) -> None:
        try:
            self._wait_for_start()
            self._end()
        finally:
            if self.claimed >= 0:
                os.close(self.claimed)

    def _end(self) -> None:
        main, patience = main_of(self.run), float(self.params["patience"])
        if main:
            asked_at = self._ask(main, patience)
            left = patience - (time.monotonic() - asked_at)
            # What it left behind was asked by nobody yet, and may have something to save too.
            self._ask_the_rest(max(left, min(_REST_SECONDS, patience)) if not main.lives() else 0.0)
        else:
            self._ask_the_rest(patience)
        self._kill()
        self._close(unseen=main is not None)

    def _ask(self, main: Member, patience: float) -> float:
        """Ask its own process, and wait for it to end; returns when it was asked."""
        self._wait(self._claim, _CLAIM_SECONDS, "waiting for another stop")
        self._say_who(self.params["signal"])
        kill(asked(main), _SIGNALS[self.params["signal"]])
        asked_at = time.monotonic()
        told = False

        def over() -> bool:
            nonlocal told
            self._claim()
            if not told and time.monotonic() - asked_at > _TELL_SECONDS:
                told = True
                self.channel.asked(self.run.id, int(patience))
            return not main.lives()

        self._wait(over, patience, "waiting for it to end")
        return asked_at

    def _wait_for_start(self) -> None:
        self._wait(lambda: self._again().state != "starting", _KILL_SECONDS, "waiting for it to start")

    def _again(self) -> Run:
        self.run = read_run(self.store, self.run.id) or self.run
        return self.run

    def _ask_the_rest(self, patience: float) -> None:
        if patience and kill(find(self.run), signal.SIGTERM):
            self._wait(lambda: not find(self.run), patience, "waiting for what it left behind")

    def _kill(self) -> None:
        """Until nothing is left: a process that is just being started shows only in the next look."""
        end = time.monotonic() + _KILL_SECONDS
        left = find(self.run)
        if left:
            self._say_who("KILL")
        while left:
            known = {(one.pid, one.start) for one in self.killed}
            self.killed += [one for one in kill(left, signal.SIGKILL) if (one.pid, one.start) not in known]
            if time.monotonic() > end:
                names = ", ".join(f"{one.pid} ({one.command})" for one in left[:5])
                fix = "it waits in the kernel, as for a driver that is stuck: free that, or restart the node"
                raise WorkerError("unkillable", f"{self.run.id}: process {names} does not end by SIGKILL: {fix}")
            time.sleep(_LOOK_SECONDS)
            left = find(self.run)

    def _wait(self, condition: Any, patience: float, what: str) -> None:
        began = time.monotonic()
        while not condition() and time.monotonic() - began < patience:
            self.channel.progress(min(int(time.monotonic() - began), int(patience)), int(patience), what)
            time.sleep(_LOOK_SECONDS)

    def _claim(self) -> bool:
        """Lock the note of who stops it, for as long as this stop is at work; another one may be, and end before."""
        if self.claimed < 0:
            self.claimed = self._lock_note()
            if self.claimed >= 0 and self.sent:
                self._say_who()
        return self.claimed >= 0

    def _lock_note(self) -> int:
        folder = open_run(self.store, self.run.id)
        if folder is None:
            return -1
        try:
            fd = os.open(STOPPED, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
        except OSError:
            return -1
        finally:
            os.close(folder)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return -1
        return fd

    def _say_who(self, *signals: str, ended: bool = False) -> None:
        """For the exit record: it must be there before the process can end of it."""
        self.sent += signals
        if self.claimed < 0:  # the other stop says it
            return
        said = {"format": FORMAT, "who": self.params["who"], "sent": self.sent, "ended": ended}
        self._write(STOPPED, {**said, "at": iso(time.time())})

    def _close(self, unseen: bool) -> None:
        """Wait for the exit record; where no supervisor is left to write it, write what is known."""
        self._wait(
            lambda: self._again().exit or not self.run.supervised, _RECORD_SECONDS, "waiting for its exit record"
        )
        if self._again().exit is None and self.run.supervised:
            self._say_who(ended=True)  # its supervisor is late, and may write it when this is over
        if unseen and self._again().exit is None and not self.run.supervised:
            note = "its supervisor was killed before, so its exit code is not known"
            by = self.params["who"]
            self._write(EXIT, exit_record("unknown", time.time(), stopped_by=by, last_lines=self._last(), note=note))

    def _last(self) -> list[str]:
        folder = open_run(self.store, self.run.id)
        if folder is None:
            return []
        try:
            return last_lines(folder)
        finally:
            os.close(folder)

    def _write(self, name: str, record: dict[str, Any]) -> None:
        folder = open_run(self.store, self.run.id)
        if folder is None:
            return
        try:
            write_record(folder, name, record)
        except OSError:  # a disk without any room: a run must be possible to stop there too
            pass
        finally:
            os.close(folder)
