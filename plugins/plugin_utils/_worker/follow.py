# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operation `follow`: a run's log from a byte on, line by line as it comes, until a sign of life or its end."""

from __future__ import annotations

import os
import stat
import time

from .channel import WorkerError
from .log import Budget, Held, Log, body
from .runs import find_run, open_run, read_run, the_project
from .store import guarded, open_store
from .supervise import LOG
from .tail import last_traceback, offset_of_last, read_end
from .usage import Usage, least, unused
from .values import compiled, find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .channel import Channel
    from .runs import Run
    from .store import Store

ANY = "*"
_LOOK_SECONDS = 0.1
_STATE_SECONDS = 0.25
_USAGE_SECONDS = 2.0
_VALUES_SECONDS = 1.0
_STALL_SECONDS = 30.0
# What is left out of a flood: more than this unread, and only the end of it is shown.
_FLOOD_BYTES = 4 << 20
_KEPT_BYTES = 64 << 10
# One exchange: its frames stay below what the controller takes of one.
_LEG_BYTES = 6 << 20
_LOG_SECONDS = 5.0


def run(channel: Channel, params: dict[str, Any]) -> dict[str, Any]:
    """Follow a run.

    params: root; name and run, or null for the only project and its latest run; offset (a byte, or null for the
    beginning of the last ``lines`` lines); follow (false: what is there now, and no more); seconds (after which it
    returns in any case, to be asked again); until (null, or {log, file, value, gpu_memory_mib,
    gpu_utilization_percent}, of which the first to come true counts); patterns (null: the usual ones), stall_seconds,
    nvidia_smi, nvidia_smi_timeout.

    Frames: ``run`` {record, offset} first; ``lines`` {offset, lines, skipped}; ``values`` {found};
    ``stall`` {seconds, gpus}, once in a silence.

    Result: record (see :meth:`.runs.Run.view`, with project), offset, reached (the condition's name, or null), found
    (the values), more (whether there is more to come), traceback (lines, of a run that is over), silent_s, stalled.
    """
    return guarded(lambda: _follow(channel, params), params["root"])


def _follow(channel: Channel, params: dict[str, Any]) -> dict[str, Any]:
    name = params["name"] or the_project(params["root"])
    with open_store(params["root"], name, create=False) as store:
        one = find_run(store, params["run"])
        fd = open_log(store, one)
        try:
            return _Follower(channel, dict(params, name=name), store, one, fd).follow()
        finally:
            os.close(fd)


def open_log(store: Store, one: Run) -> int:
    """A descriptor of a run's log, waited for while the run starts; of an empty file for one that never had a log."""
    end = time.monotonic() + _LOG_SECONDS
    while True:
        folder = open_run(store, one.id)
        if folder is None:
            raise WorkerError("no-run", "%s was removed" % one.path)
        try:
            return _plain(folder, one.log)
        except FileNotFoundError:
            again = read_run(store, one.id)
            if again is None or again.state != "starting" or time.monotonic() > end:
                return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        finally:
            os.close(folder)
        time.sleep(_LOOK_SECONDS)


def _plain(folder: int, shown: str) -> int:
    fd = os.open(LOG, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise WorkerError(
            "planted", "%s is no plain file, where the log of a run belongs: look who put it there" % shown
        )
    return fd


class _Follower:
    """What is known of a run that is watched, and when it was looked at last."""

    def __init__(self, channel: Channel, params: dict[str, Any], store: Store, one: Run, fd: int) -> None:
        now = time.monotonic()
        self._channel = channel
        self._params = params
        self._store = store
        self._run = one
        self._until = {name: value for name, value in (params["until"] or {}).items() if value is not None}
        try:
            self._patterns = compiled(params["patterns"])
            self._sign = compiled_sign(self._until.get("log"))
        except ValueError as error:
            raise WorkerError("pattern", str(error)) from None
        offset = params["offset"]
        self._log = Log(fd, offset_of_last(fd, params["lines"]) if offset is None else offset, now)
        uuids = [gpu["uuid"] for gpu in one.record.get("gpus") or []]
        self._since = float(one.record.get("created_s") or 0.0)
        self._usage = Usage(params["nvidia_smi"], uuids, params["nvidia_smi_timeout"])
        self._budget = Budget(now)
        self._found: dict[str, Any] = {}
        self._told: dict[str, Any] = {}
        self._held = Held()
        self._sent = 0
        self._at = {"state": now, "usage": 0.0, "values": now, "stall": now}
        self._asked: int | None = None  # how many answers there were when the GPUs were asked about a silence
        self._stalled = False

    def follow(self) -> dict[str, Any]:
        """Until the condition, the end of the run, or the end of this exchange's share."""
        end = time.monotonic() + self._params["seconds"]
        self._channel.send("run", {"record": self._view(), "offset": self._log.offset})
        while True:
            now = time.monotonic()
            # First the state and then the log: what a run that is over wrote is all there.
            over = self._over(now)
            reached, more = self._read(now, over)
            reached = reached or self._other_sign(now)
            done = reached is not None or (not more and (over or not self._params["follow"]))
            pause = now > end or self._sent > _LEG_BYTES
            self._show(now, done or pause)
            self._tell_values(now, done or pause)
            if done or pause:
                return self._result(reached, more=not done)
            self._look_for_stall(now)
            if not more:
                time.sleep(_LOOK_SECONDS)

    def _over(self, now: float) -> bool:
        if self._run.alive and now - self._at["state"] >= _STATE_SECONDS:
            self._at["state"] = now
            again = read_run(self._store, self._run.id)
            if again is None:
                raise WorkerError("no-run", "%s was removed while it was followed" % self._run.path)
            self._run = again
        return not self._run.alive

    def _read(self, now: float, over: bool) -> tuple[str | None, bool]:
        """Read once: the sign that was found, and whether there is more to read at once."""
        if self._sign is None and self._log.unread() > _FLOOD_BYTES:
            count = self._log.skip(_KEPT_BYTES)
            self._held.leave_out(count, self._log.offset)
        batch = self._log.read(now, over or not self._params["follow"])
        lines = batch.lines if batch else [self._log.fresh] if self._log.fresh else []
        found = find(lines, self._patterns)
        self._found.update(found)
        if batch:
            self._held.add(batch)
            self._asked, self._stalled = None, False
        reached = None
        if self._sign is not None and any(self._sign(line) for line in lines):
            reached = "log"
        elif "value" in self._until and (self._until["value"] in found or (found and self._until["value"] == ANY)):
            reached = "value"
        return reached, batch is not None or self._log.unread() > 0

    def _show(self, now: float, last: bool) -> None:
        """Show what was read as far as the budget goes; the last words are shown in any case."""
        if not self._held:
            return
        if not (last or self._budget.spend(self._held.size, now)):
            self._held.shorten(_KEPT_BYTES)
            return
        self._sent += self._held.size
        self._channel.send("lines", body(self._held.take()))

    def _other_sign(self, now: float) -> str | None:
        path = self._until.get("file")
        if path is not None and written_since(os.path.join(self._params["root"], path), self._since):
            return "file"
        memory, percent = self._until.get("gpu_memory_mib"), self._until.get("gpu_utilization_percent")
        if memory is None and percent is None:
            return None
        if now - self._at["usage"] >= _USAGE_SECONDS:
            self._at["usage"] = now
            self._usage.ask()
        rows = self._usage.rows
        for name, what, wanted in (
            ("gpu_memory_mib", "memory_mib", memory),
            ("gpu_utilization_percent", "percent", percent),
        ):
            have = least(rows, what)
            if wanted is not None and have is not None and have >= wanted:
                return name
        return None

    def _tell_values(self, now: float, last: bool) -> None:
        if self._found != self._told and (last or now - self._at["values"] >= _VALUES_SECONDS):
            self._at["values"], self._told = now, dict(self._found)
            self._channel.send("values", {"found": self._found})

    def _silent(self) -> float:
        return max(0.0, time.time() - os.fstat(self._log.fd).st_mtime)

    def _look_for_stall(self, now: float) -> None:
        """A silent log alone is no alarm: an epoch may be long. With GPUs that do nothing it is one, told once."""
        silent = self._silent()
        if (
            self._stalled
            or self._run.state != "running"
            or now < self._at["stall"]
            or silent < self._params["stall_seconds"]
        ):
            return
        if self._asked is None:
            self._asked = self._usage.answers
            self._usage.ask()
        elif self._usage.answers > self._asked:
            self._asked, self._at["stall"] = None, now + _STALL_SECONDS
            self._stalled = unused(self._usage.rows)
            if self._stalled:
                self._channel.send("stall", {"seconds": silent, "gpus": len(self._usage.rows)})

    def _view(self) -> dict[str, Any]:
        return dict(self._run.view(long=False), project=self._params["name"])

    def _result(self, reached: str | None, more: bool) -> dict[str, Any]:
        return {
            "record": self._view(),
            "offset": self._log.offset,
            "reached": reached,
            "found": self._found,
            "more": more,
            "traceback": [] if self._run.alive else last_traceback(read_end(self._log.fd)),
            "silent_s": self._silent(),
            "stalled": self._stalled,
        }


def compiled_sign(pattern: str | None) -> Callable[[str], Any] | None:
    """The search for a line of the log. Raises ValueError."""
    if pattern is None:
        return None
    import re

    try:
        return re.compile(pattern).search
    except re.error as error:
        raise ValueError("%r is no regular expression: %s" % (pattern, error)) from None


def written_since(path: str, since: float) -> bool:
    """Whether there is a file that was written after ``since`` (seconds since 1970)."""
    try:
        return os.stat(path).st_mtime >= since
    except OSError:
        return False
