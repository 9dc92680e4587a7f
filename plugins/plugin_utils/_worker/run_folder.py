# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Making the folder of a run: its record, the space that its end will be written into, the pipe for its order."""

from __future__ import annotations

import contextlib
import json
import os
import time

from . import secret, supervise
from .caches import make_caches
from .channel import WorkerError
from .command import words_of
from .detach import SUPERVISOR
from .distributions import facts
from .environment import marks, recorded
from .run_files import write_locked, write_whole
from .run_key import digests, make_key
from .runs import LAST, RUNS, number_of, open_run, run_ids
from .secret import secrets_of, shown_words
from .store import Store, make_folder
from .supervise import FORMAT, ORDER, RECORD, RESERVED, boot, iso, reserve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
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
            record = record_of(store, params, plan, run, env, gpus, make_key(runs_fd))
            locked = _furnish(store, run, record)
        except BaseException:
            _clear(runs_fd, run)
            raise
        os.fsync(runs_fd)
    finally:
        os.close(runs_fd)
    secrets = {"hidden": secrets_of(plan.words), "rules": source_of(secret).decode("utf-8")}
    order = {"argv": plan.words, "env": env, "cwd": params["root"], **secrets}
    return record, order, locked


def record_of(
    store: Store,
    params: dict[str, Any],
    plan: Plan,
    run: str,
    env: dict[str, str],
    gpus: list[dict[str, Any]],
    key: bytes,
) -> dict[str, Any]:
    """What is written down of a start.

    wanted: what was asked for, as in params, without secrets; altered: files of the release that somebody had changed;
    environment: {name: value, or null for what may be a secret and for a value of the env file}; digests: of what was
    not written down, see :mod:`.run_key`; boot: see :func:`.supervise.boot`.
    """
    now = time.time()
    environment = recorded(env, plan.from_file())
    wanted = dict(plan.given, env=recorded(plan.theirs))
    words = {name: words_of(wanted[name], f"training_{name}") if wanted[name] else None for name in ("command", "args")}
    wanted.update({name: shown_words(found) if found else None for name, found in words.items()})
    hidden = {name: env[name] for name, value in environment.items() if value is None}
    hidden.update({name: plan.theirs[name] for name, value in wanted["env"].items() if value is None})
    return {
        "format": FORMAT,
        "run": run,
        "project": store.name,
        "root": params["root"],
        "release": plan.release,
        "token": params["token"],
        "command": shown_words(plan.words),
        "wanted": wanted,
        "digests": digests(key, hidden, words["command"] or words["args"] or []),
        "like": params.get("like"),
        "python": plan.place.python,
        "cwd": params["root"],
        "environment": environment,
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


def _furnish(store: Store, run: str, record: dict[str, Any]) -> int:
    folder = open_own(store, run)
    try:
        for name in RESERVED:
            reserve(folder, name)
        write_whole(folder, SUPERVISOR, source_of(supervise))
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


def source_of(module: ModuleType) -> bytes:
    """The source of a module that goes on without this worker, from wherever this worker has it."""
    source: str | bytes | None = module.__loader__.get_source(module.__name__)  # type: ignore[union-attr]
    if source is None:
        raise WorkerError("crash", f"the worker came without the source of {module.__name__}")
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
