# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The runs of a project: where their records are, how they are read, and what state a run is in.

    ROOT/.trainops/NAME/runs/rN/run.json        what was started: written whole, by the launch, before anything starts;
                                                the launch holds it locked until it has heard from the supervisor
    ROOT/.trainops/NAME/runs/rN/started.json    PIDs and time, in reserved space, by the supervisor
    ROOT/.trainops/NAME/runs/rN/stopped.json    who asked it to stop, in reserved space, by the stop, which holds it
                                                locked for as long as it is at work
    ROOT/.trainops/NAME/runs/rN/exit.json       the exit record, in reserved space, by the supervisor
    ROOT/.trainops/NAME/runs/rN/log             what the run prints, written by its processes themselves
    ROOT/.trainops/NAME/runs/rN/lock            held by the supervisor for as long as anything of the run is left
    ROOT/.trainops/NAME/runs/rN/supervisor.py   the supervisor's source, see :mod:`.supervise`
    ROOT/.trainops/NAME/runs/last               the last number that was given; none is used twice
    ROOT/.trainops/NAME/runs/key                for digests of what no record may hold, see :mod:`.run_key`
    ROOT/.trainops/NAME/cache/                  compile caches, which no deploy wipes

Whether a supervisor lives is asked of the kernel, by its lock; whether a process is the one that was started, by its
PID with its start time and the container's boot. Neither is ever concluded from a PID alone.
"""

from __future__ import annotations

import os
import stat
import time

from .channel import WorkerError
from .run_files import is_run_id
from .store import HOME, Store, check_name, guarded, live_id, lstat, open_folder, open_root, open_store, releases
from .supervise import EXIT, LOCK, LOG, RECORD, STARTED, STOPPED, boot, is_locked, read_record, start_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .channel import Channel

RUNS, LAST, KEY = "runs", "last", "key"
ALIVE = ("starting", "running")
_TAIL_BYTES = 64 << 10
# What is said of a run whose record is gone.
_UNKNOWN: dict[str, Any] = {
    **dict.fromkeys(("project", "root", "release", "wanted", "like", "python", "cwd", "created", "created_s", "who")),
    **dict.fromkeys(("boot", "driver", "python_version")),
    "token": "",
    "command": [],
    "environment": {},
    "gpus": [],
    "altered": [],
    "distributions": {},
}
# What only one run is asked for, and never many at once.
_LONG = ("environment", "distributions", "order")
# What stays in the container.
_KEPT = ("digests",)


class Run:
    """One run as it is now.

    ``record`` holds run.json with what the supervisor added (run, release, token, command, process …), ``exit`` the
    exit record or None, ``state`` one of starting, running, ended, lost. ``unsupervised``: it runs, and nobody is left
    to record its end. ``supervised``: its supervisor lives, which of an ended run means that processes of it are left.
    ``why`` is a sentence about a lost run, otherwise empty.
    """

    def __init__(self, run: str, path: str, seen: Seen) -> None:
        self.id = run
        self.path = path
        self.record: dict[str, Any] = {"run": run, **_UNKNOWN, **(seen.record or {}), **started_part(seen.started)}
        self.exit = seen.exit
        self.supervised = seen.locked
        self.state, self.why = state_of(seen)
        self.unsupervised = self.state == "running" and not seen.locked
        self.stopped = seen.stopped

    @property
    def alive(self) -> bool:
        """Whether its main process lives, or may be about to."""
        return self.state in ALIVE

    @property
    def never_started(self) -> bool:
        """Whether it is known that nothing of it ever ran."""
        return self.record["process"] is None and not self.alive

    @property
    def release(self) -> str | None:
        """The release that it was started from."""
        release: str | None = self.record.get("release")
        return release

    @property
    def log(self) -> str:
        """The path of its log."""
        return os.path.join(self.path, LOG)

    def view(self, long: bool = True) -> dict[str, Any]:
        """The record as results carry it, with state and exit record; without its long parts unless wanted."""
        left_out = _KEPT if long else (*_KEPT, *_LONG)
        kept = {key: value for key, value in self.record.items() if key not in left_out}
        return {
            **kept,
            "state": self.state,
            "why": self.why,
            "unsupervised": self.unsupervised,
            "left_behind": self.supervised and bool((self.exit or {}).get("left_over")),
            "exit": self.exit,
            "log": self.log,
            "stopping_by": self.stopped["who"] if self.stopped and self.alive else None,
        }


class Seen:
    """What was read of a run, for :func:`state_of`.

    ``stopped``: who stops it now; ``locked``: its supervisor lives; ``launching``: whoever launched it has not heard
    from the supervisor yet;
    ``process_start``: the start time of whatever has the process's PID now, or None.
    """

    def __init__(
        self,
        record: dict[str, Any] | None,
        started: dict[str, Any] | None,
        exit_record: dict[str, Any] | None,
        stopped: dict[str, Any] | None,
        locked: bool,
        launching: bool,
        process_start: int | None,
        boot: str,
    ) -> None:
        self.record = record
        self.started = started
        self.exit = exit_record
        self.stopped = stopped
        self.locked = locked
        self.launching = launching
        self.process_start = process_start
        self.boot = boot


def started_part(started: dict[str, Any] | None) -> dict[str, Any]:
    """What the supervisor adds to a run's record; the same keys with None while it has not."""
    keys = ("supervisor", "process", "unit", "started", "started_s")
    return {key: (started or {}).get(key) for key in keys}


def state_of(seen: Seen) -> tuple[str, str]:
    """The state of a run, and for a lost one the sentence that says what is known."""
    if seen.exit:
        return "ended", ""
    if seen.record and seen.record.get("boot") != seen.boot:
        return "lost", "the container was restarted while it ran: how it ended is not known"
    if seen.started is None:
        if seen.locked or seen.launching:
            return "starting", ""
        return "lost", "its launch was cut off before anything was started"
    if seen.process_start == seen.started["process"]["start"]:
        return "running", ""
    if seen.locked:  # it has just ended, and its exit record is being written
        return "running", ""
    return "lost", "its supervisor was killed, and it ended later: its exit code is not known"


def run_ids(store: Store) -> list[str]:
    """The ids of a project's runs, oldest first."""
    runs_fd = open_runs(store)
    if runs_fd is None:
        return []
    try:
        return sorted((name for name in os.listdir(runs_fd) if is_run_id(name)), key=number_of)
    finally:
        os.close(runs_fd)


def number_of(run: str) -> int:
    """The number in a run's id."""
    return int(run[1:])


def open_runs(store: Store) -> int | None:
    """A descriptor of the folder of a project's runs; None when nothing was ever launched."""
    return open_folder(store.home_fd, RUNS, store.path(RUNS)) if store.home_fd >= 0 else None


def open_run(store: Store, run: str) -> int | None:
    """A descriptor of the folder of a run; None when there is none."""
    runs_fd = open_runs(store)
    if runs_fd is None or not is_run_id(run):
        return None
    try:
        return open_folder(runs_fd, run, store.path(RUNS, run))
    finally:
        os.close(runs_fd)


def read_run(store: Store, run: str) -> Run | None:
    """A run as it is now; None when there is none of that id."""
    folder = open_run(store, run)
    if folder is None:
        return None
    try:
        return Run(run, store.path(RUNS, run), see(folder))
    finally:
        os.close(folder)


def see(folder: int) -> Seen:
    """Read a run's folder. The order matters: whoever gives a lock back has written or handed on all it knew before."""
    launching = is_locked(folder, RECORD)
    locked = is_locked(folder, LOCK)
    record, started = read_record(folder, RECORD), read_record(folder, STARTED)
    process = started["process"]["pid"] if started else None
    process_start = start_of(process) if process else None
    return Seen(
        record,
        started,
        read_record(folder, EXIT),
        read_record(folder, STOPPED) if is_locked(folder, STOPPED) else None,
        locked,
        launching,
        process_start,
        boot(),
    )


def all_runs(store: Store) -> list[Run]:
    """The runs of a project as they are now, oldest first."""
    found = [read_run(store, run) for run in run_ids(store)]
    return [run for run in found if run]


def living_runs(store: Store) -> list[Run]:
    """The runs of a project that live, oldest first."""
    return [run for run in all_runs(store) if run.alive]


def busy(store: Store) -> list[Run]:
    """The runs of a project of which any process is left: also those that ended and left processes behind."""
    return [run for run in all_runs(store) if run.alive or run.supervised]


def releases_in_use(store: Store) -> set[str]:
    """The releases that a process of a run may still read from: any, where the record of one that lives is damaged."""
    used = {run.release for run in busy(store)}
    if None in used and store.exists():
        used |= set(releases(store))
    return {release for release in used if release}


def find_run(store: Store, wanted: str | None) -> Run:
    """The run of an id, or the latest. Raises WorkerError("no-run"), which names those that are there."""
    ids = run_ids(store)
    run = read_run(store, wanted or (ids[-1] if ids else "r0"))
    if run:
        return run
    if not ids:
        raise WorkerError("no-run", f"nothing was ever launched for {store.name} below {store.root}: launch it first")
    there = ", ".join(ids if len(ids) < 8 else [*ids[:2], "…", *ids[-4:]])
    raise WorkerError("no-run", f"there is no run {wanted} of {store.name} below {store.root}: there are {there}")


def projects(root: str) -> list[str]:
    """The projects below a root that have runs or something live, by name."""
    root_fd = open_root(root)
    try:
        home = open_folder(root_fd, HOME, os.path.join(root, HOME))
        if home is None:
            return []
        try:
            return sorted(name for name in os.listdir(home) if _is_project(home, name))
        finally:
            os.close(home)
    finally:
        os.close(root_fd)


def the_project(root: str) -> str:
    """The only project below a root. Raises WorkerError when there is none, or more than one."""
    names = projects(root)
    if len(names) == 1:
        return names[0]
    if not names:
        raise WorkerError("no-run", "nothing was ever deployed below %s: deploy first, or correct training_root" % root)
    fix = "say which one by training_name"
    raise WorkerError("name", "there are several projects below %s (%s): %s" % (root, ", ".join(names), fix))


def _is_project(home: int, name: str) -> bool:
    try:
        check_name(name)
    except WorkerError:
        return False
    return any(lstat(home, f"{name}/{part}") for part in (RUNS, "current"))


def tail(folder: int, size: int) -> tuple[int, float | None, list[str]]:
    """Of a run's log: its size, the seconds since anything was written, and its last ``size`` lines."""
    try:
        fd = os.open(LOG, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return 0, None, []
    with open(fd, "rb"):
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            return 0, None, []
        data = os.pread(fd, _TAIL_BYTES, max(0, info.st_size - _TAIL_BYTES)) if size else b""
    lines = data.decode("utf-8", "replace").splitlines()
    if info.st_size > _TAIL_BYTES and len(lines) > 1:
        del lines[0]
    return info.st_size, max(0.0, time.time() - info.st_mtime), lines[len(lines) - min(size, len(lines)) :]


def listed(store: Store, run: str, lines: int, long: bool = False) -> dict[str, Any] | None:
    """A run as the operation ``runs`` tells it; None when it went meanwhile."""
    folder = open_run(store, run)
    if folder is None:
        return None
    try:
        found = Run(run, store.path(RUNS, run), see(folder))
        size, silent, last = tail(folder, lines)
    finally:
        os.close(folder)
    began = found.record.get("started_s") or found.record.get("created_s")
    age = None if began is None else max(0.0, time.time() - began)
    return {
        **found.view(long),
        "age_s": age,
        "log_bytes": size,
        "log_age_s": silent,
        "tail": last,
    }


def run(channel: Channel, params: dict[str, Any]) -> dict[str, Any]:
    """The operation ``runs``: reads only.

    params: root; name, or null for all projects below it; run: only this one, with its environment and distributions,
    or null; logs: how many of the last lines of each log; most: how many of the latest runs of each project (those that
    live come in any case).

    Result: projects: [{name, live: release id or null, activations (see :mod:`.history`, oldest first), releases: ids
    of those that are there, cache_bytes, runs: [{the record (see :func:`.run_folder.record_of`), project, state, why,
    unsupervised, exit, log, stopping_by, age_s: since its start, log_bytes, log_age_s: since it last printed, tail:
    lines}]}], oldest run first; runs: those
    of all projects.
    """
    return guarded(lambda: _listing(params), params["root"])


def _listing(params: dict[str, Any]) -> dict[str, Any]:
    names = [params["name"]] if params["name"] else projects(params["root"])
    found = [_project(params, name) for name in names]
    return {"projects": found, "runs": [run for project in found for run in project["runs"]]}


def _project(params: dict[str, Any], name: str) -> dict[str, Any]:
    from .caches import size_of
    from .history import activations

    with open_store(params["root"], name, create=False) as store:
        if params.get("run"):
            ids = [find_run(store, params["run"]).id]
        else:
            latest = run_ids(store)[-int(params.get("most", 20)) :]
            ids = sorted({*latest, *(one.id for one in busy(store))}, key=number_of)
        runs = [listed(store, run, int(params.get("logs", 0)), bool(params.get("run"))) for run in ids]
        return {
            "name": name,
            "live": live_id(store),
            "activations": activations(store),
            "releases": [release for release in releases(store) if store.has_tree(release)] if store.exists() else [],
            "cache_bytes": size_of(store),
            "runs": [dict(run, project=name) for run in runs if run],
        }
