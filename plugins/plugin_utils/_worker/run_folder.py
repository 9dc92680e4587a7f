# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Making the folder of a run: its record, the space that its end will be written into, the pipe for its order."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time

from .caches import make_caches
from .channel import WorkerError
from .command import words_of
from .detach import SUPERVISOR
from .distributions import facts
from .environment import marks, recorded
from .runs import LAST, RUNS, number_of, open_run, run_ids
from .store import Store, make_folder, write_all
from .supervise import FORMAT, ORDER, RECORD, RESERVED, boot, iso, reserve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .run_plan import Plan


def prepare(
    store: Store, params: dict[str, Any], plan: Plan, gpus: list[dict[str, Any]]
) -> tuple[dict[str, Any], dict[str, Any], int]:
    """Make the run's folder with its record and its reserved space; nothing of it is left when that fails.

    Returns the record, the order for the supervisor, and the descriptor by which the record is locked.
    """
    caches = make_caches(store)
    runs_fd = make_folder(store.home_fd, RUNS, store.path(RUNS))
    try:
        run = next_id(store, runs_fd)
        os.mkdir(run, 0o700, dir_fd=runs_fd)
        try:
            env = {**plan.environment(caches), **plan.more}
            env.update(marks(run, params["token"], plan.release, gpus))
            record = record_of(store, params, plan, run, env, gpus)
            locked = _furnish(store, run, record)
        except BaseException:
            _clear(runs_fd, run)
            raise
        os.fsync(runs_fd)
    finally:
        os.close(runs_fd)
    return record, {"argv": plan.words, "env": env, "cwd": params["root"]}, locked


def record_of(
    store: Store, params: dict[str, Any], plan: Plan, run: str, env: dict[str, str], gpus: list[dict[str, Any]]
) -> dict[str, Any]:
    """What is written down of a start.

    wanted: what was asked for, as in params; altered: files of the release that somebody had changed; environment:
    {name: value, or null for a secret or a value of the env file}; boot: see :func:`.supervise.boot`.
    """
    now = time.time()
    wanted = dict(plan.given, env=recorded(plan.theirs, set()))
    for key, what in (("command", "training_command"), ("args", "training_args")):
        wanted[key] = words_of(wanted[key], what) if wanted[key] else None
    return {
        "format": FORMAT,
        "run": run,
        "project": store.name,
        "root": params["root"],
        "release": plan.release,
        "token": params["token"],
        "command": plan.words,
        "wanted": wanted,
        "like": params.get("like"),
        "python": plan.place.python,
        "cwd": params["root"],
        "environment": recorded(env, plan.from_file()),
        "gpus": gpus,
        "altered": plan.altered,
        "created": iso(now),
        "created_s": now,
        "who": params["who"],
        "boot": boot(),
        **facts(),
    }


def next_id(store: Store, runs_fd: int) -> str:
    """The id of the next run. It is written down first: a number is not used again even when its folder is removed."""
    ids = run_ids(store)
    with contextlib.suppress(OSError, ValueError):
        fd = os.open(LAST, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=runs_fd)
        with open(fd, "rb") as stream:
            ids.append(f"r{int(stream.read(32))}")
    number = 1 + max((number_of(one) for one in ids), default=0)
    write_whole(runs_fd, LAST, b"%d\n" % number)
    return f"r{number}"


def write_whole(folder: int, name: str, data: bytes) -> None:
    """Put a file in place in one step, on the disk when this returns."""
    os.close(write_locked(folder, name, data))


def write_locked(folder: int, name: str, data: bytes) -> int:
    """The same; returns the descriptor, by which the file is locked from the moment that it is there."""
    fresh = f".{name}.new"
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        write_all(fd, data)
        os.fsync(fd)
        os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _furnish(store: Store, run: str, record: dict[str, Any]) -> int:
    folder = open_own(store, run)
    try:
        for name in RESERVED:
            reserve(folder, name)
        write_whole(folder, SUPERVISOR, supervisor_source())
        os.mkfifo(ORDER, 0o600, dir_fd=folder)
        locked = write_locked(folder, RECORD, json.dumps(record, indent=1).encode("ascii") + b"\n")
        os.fsync(folder)
        return locked
    finally:
        os.close(folder)


def open_own(store: Store, run: str) -> int:
    """A descriptor of the folder of a run that was just made."""
    folder = open_run(store, run)
    if folder is None:
        raise WorkerError("no-run", f"{store.path(RUNS, run)} was removed while the run was started")
    return folder


def supervisor_source() -> bytes:
    """The source of the supervisor, from wherever this worker has it."""
    from . import supervise

    source: str | bytes | None = supervise.__loader__.get_source(supervise.__name__)  # type: ignore[union-attr]
    if source is None:
        raise WorkerError("crash", "the worker came without the source of its supervisor")
    return source if isinstance(source, bytes) else source.encode("utf-8")  # Ansible's loader has bytes


def _clear(runs_fd: int, run: str) -> None:
    """Remove the folder of a run that never began."""
    folder = os.open(run, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=runs_fd)
    try:
        for name in os.listdir(folder):
            os.unlink(name, dir_fd=folder)
    finally:
        os.close(folder)
    os.rmdir(run, dir_fd=runs_fd)
