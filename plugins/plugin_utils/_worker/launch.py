# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operation `launch`: look, let the controller decide about the GPUs, then start a run that outlives everything."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys
import time

from .caches import make_caches, size_of
from .channel import WorkerError
from .command import Place, build, python_path, resolved, without_cwd, words_of
from .detach import SUPERVISOR, start_supervisor
from .distributions import differences, facts
from .environment import base, check_given, marks, read_env_file, recorded, with_paths
from .lock import Locked
from .look import verify
from .runs import LAST, RUNS, Run, all_runs, find_run, living_runs, number_of, open_run, read_run, run_ids
from .store import (
    Store,
    guarded,
    live_id,
    make_folder,
    open_store,
    releases,
    require_writable,
    short_id,
    some,
    write_all,
)
from .supervise import (
    EXIT,
    FORMAT,
    ORDER,
    RECORD,
    RESERVED,
    STARTED,
    boot,
    exit_record,
    iso,
    read_record,
    reserve,
    write_record,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .channel import Channel

_SETTLE_SECONDS = 10.0
_LOOK_SECONDS = 0.005
_GIVEN = ("command", "script", "args", "env", "env_file", "pythonpath")


def run(channel: Channel, params: dict[str, Any]) -> dict[str, Any]:
    """Start a run.

    params: root; name; release (an id, its first characters, or null for the live one); token (a random word, made once
    for a launch however often it is asked for); command (list or text) or script and args (list or text), env
    {name: text}, env_file, pythonpath; like (a run's id, or null) for what is not given; python; systemd: auto | never;
    gpus: the parameters of the operation `gpus`, or null where no GPU is wanted; who; patience: seconds to wait while a
    deploy runs; check_mode.

    Conversation: `ready` {gpus: the reading or null, runs: [those that live], cache_bytes, release_id, command,
    altered}, answered by `again` {} for another reading, by `go` {gpus: [{index, uuid}]}, or by `stop` {}. There is no
    `ready` when a run with this token was started already.

    Result: run: the record (see :func:`_record`) with state, why, unsupervised, exit, log, or null; state: that of the
    run, "possible" in check mode, "refused" after `stop`; repeated; differs: see :func:`.distributions.differences`,
    against the last run that ended with exit code 0; cache_bytes; altered: files of the release that somebody changed;
    fallback: why systemd did not take it, or an empty text.
    """
    return guarded(lambda: _run(channel, params), params["root"])


def _run(channel: Channel, params: dict[str, Any]) -> dict[str, Any]:
    with open_store(params["root"], params["name"], create=False) as store:
        require_writable(store)
        before = with_token(store, params["token"])
        if before:
            return _result(store, before, [], repeated=True)
        plan = Plan(store, params)
        gpus = _agree(channel, store, params, plan)
    if gpus is None or params["check_mode"]:
        return _nothing_started("refused" if gpus is None else "possible", plan)
    return _launch(params, plan, gpus)


def _agree(channel: Channel, store: Store, params: dict[str, Any], plan: Plan) -> list[dict[str, Any]] | None:
    """The GPUs that the controller gives to the run; None when it decides against it."""
    while True:
        reading = None
        if params["gpus"]:
            from .gpus import read

            reading = read(params["gpus"])
        ready = {
            "gpus": reading,
            "runs": [one.view(long=False) for one in living_runs(store)],
            "cache_bytes": size_of(store),
            "release_id": plan.release,
            "command": plan.words,
            "altered": plan.altered,
        }
        channel.send("ready", ready)
        answer = channel.receive("go", "again", "stop")
        if answer["kind"] == "stop":
            return None
        if answer["kind"] == "go":
            return [{"index": int(gpu["index"]), "uuid": str(gpu["uuid"])} for gpu in answer["gpus"]]


class Plan:
    """What would be started, looked at before anybody is asked: all that can be wrong with it is said by now."""

    def __init__(self, store: Store, params: dict[str, Any]) -> None:
        self.release = choose_release(store, params["release"])
        verdict = verify(store, self.release)
        self.altered = sorted(verdict.drift)
        if not store.has_tree(self.release):
            gone = store.path("releases", self.release)
            raise WorkerError("unknown-release", f"release {short_id(self.release)} is gone from {gone}: deploy again")
        self.given = given(store, params)
        python = os.path.join(params["root"], params["python"] or sys.executable)
        tree = store.path("releases", self.release)
        self.place = Place(tree, sorted(verdict.files), params["root"], python, sys.version_info[:2])
        self.hidden: dict[str, str] = {}
        if self.given["env_file"]:
            self.hidden = read_env_file(str(self.given["env_file"]), params["root"])
        self.theirs = check_given(self.given["env"], "training_env")
        self.words, self.more = self._words()

    def environment(self, caches: dict[str, str]) -> dict[str, str]:
        """All but the marks."""
        env = {**base(caches), **self.hidden, **self.theirs}
        return with_paths(env, self.place.python, python_path(self.given["pythonpath"], self.place))

    def from_file(self) -> set[str]:
        """The variables whose value the env file decides."""
        return set(self.hidden) - set(self.theirs)

    def _words(self) -> tuple[list[str], dict[str, str]]:
        words = resolved(build(self.given, self.place), self.environment({}), self.place)
        return without_cwd(words, self.place)


def choose_release(store: Store, wanted: str | None) -> str:
    """The release to start: an id, its first characters, or the live one. Raises WorkerError naming what there is."""
    live = live_id(store)
    if wanted is None:
        if live is None:
            fix = "deploy first, or correct training_root and training_name"
            raise WorkerError("nothing-live", f"no release of {store.name} is live below {store.root}: {fix}")
        return live
    ids = releases(store) if store.exists() else []
    found = [one for one in ids if one == wanted] or [one for one in ids if len(wanted) >= 4 and one.startswith(wanted)]
    if len(found) == 1:
        return found[0]
    what = f"means {len(found)} releases" if found else "is no release"
    there = some([short_id(one) for one in ids]) or "none"
    raise WorkerError("unknown-release", f"{wanted} {what} of {store.name} below {store.root}; there are: {there}")


def given(store: Store, params: dict[str, Any]) -> dict[str, Any]:
    """What was asked for: {command, script, args, env, env_file, pythonpath}, the rest as the run ``like`` had it.

    Raises WorkerError("secret") for a value that the other run had and that was not recorded.
    """
    wanted: dict[str, Any] = {key: params.get(key) for key in _GIVEN}
    wanted["env"], wanted["pythonpath"] = dict(wanted["env"] or {}), list(wanted["pythonpath"] or [])
    if not params.get("like"):
        return wanted
    other = find_run(store, params["like"])
    theirs = other.record.get("wanted")
    if not theirs:
        raise WorkerError("no-run", f"what {other.id} was started with was not recorded: give its command")
    if not (wanted["command"] or wanted["script"]):
        args = wanted["args"]
        wanted.update({key: theirs[key] for key in ("command", "script", "args")})
        if args and theirs["script"]:
            wanted["args"] = args
    missing = [name for name, value in theirs["env"].items() if value is None and name not in wanted["env"]]
    if missing:
        fix = "give it again in training_env, or keep it in training_env_file"
        raise WorkerError("secret", f"{other.id} had {', '.join(missing)}, whose value is not recorded: {fix}")
    wanted["env"] = {**{name: value for name, value in theirs["env"].items() if value is not None}, **wanted["env"]}
    wanted["env_file"] = wanted["env_file"] or theirs["env_file"]
    wanted["pythonpath"] = wanted["pythonpath"] or theirs["pythonpath"]
    return wanted


def with_token(store: Store, token: str) -> Run | None:
    """The run that was started for this launch, settled; None when nothing was started for it."""
    found = next((one for one in reversed(all_runs(store)) if one.record.get("token") == token), None)
    if found is None:
        return None
    run = _settled(store, found.id)
    return None if run.never_started else run


def _settled(store: Store, run: str) -> Run:
    """A run as soon as it is known whether it started."""
    end = time.monotonic() + _SETTLE_SECONDS
    while True:
        found = read_run(store, run)
        if found is None:
            raise WorkerError("no-run", f"{store.path(RUNS, run)} was removed while the run was started")
        if found.state != "starting" or time.monotonic() > end:
            return found
        time.sleep(_LOOK_SECONDS)


def _launch(params: dict[str, Any], plan: Plan, gpus: list[dict[str, Any]]) -> dict[str, Any]:
    with Locked(params["root"], params["name"], params["who"], params["patience"], create=False) as store:
        # An earlier try may have come through only now, after this one had looked.
        before = with_token(store, params["token"])
        if before:
            return _result(store, before, plan.altered, repeated=True)
        if not store.has_tree(plan.release):
            what = f"release {short_id(plan.release)} was removed meanwhile"
            raise WorkerError("unknown-release", f"{what}: launch what is live")
        _refuse_held(store, gpus)
        record, order, locked = _prepare(store, params, plan, gpus)
    with open_store(params["root"], params["name"], create=False) as store:
        try:
            fallback = _start(store, params, record, order)
        finally:
            os.close(locked)
        run = _settled(store, record["run"])
        if run.exit and run.exit["how"] == "not-started":
            raise WorkerError("not-started", f"{run.id}: {run.exit['note']}", run=run.id, log=run.log)
        return _result(store, run, plan.altered, fallback=fallback)


def _refuse_held(store: Store, gpus: list[dict[str, Any]]) -> None:
    """Two launches at once both saw idle GPUs: it takes seconds until a run shows on its own."""
    for other in living_runs(store):
        both = {gpu["uuid"] for gpu in gpus} & {gpu["uuid"] for gpu in other.record.get("gpus") or []}
        if both:
            held = ", ".join(str(gpu["index"]) for gpu in gpus if gpu["uuid"] in both)
            fix = "stop it, or choose other GPUs by training_gpus"
            raise WorkerError("gpus-held", f"GPU {held} is held by your run {other.id}: {fix}", run=other.id)


def _prepare(
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
            record = _record(store, params, plan, run, env, gpus)
            locked = _furnish(store, run, record)
        except BaseException:
            _clear(runs_fd, run)
            raise
        os.fsync(runs_fd)
    finally:
        os.close(runs_fd)
    return record, {"argv": plan.words, "env": env, "cwd": params["root"]}, locked


def _record(
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
    folder = _open(store, run)
    try:
        for name in RESERVED:
            reserve(folder, name)
        write_whole(folder, SUPERVISOR, supervisor_source().encode("utf-8"))
        os.mkfifo(ORDER, 0o600, dir_fd=folder)
        locked = write_locked(folder, RECORD, json.dumps(record, indent=1).encode("ascii") + b"\n")
        os.fsync(folder)
        return locked
    finally:
        os.close(folder)


def _open(store: Store, run: str) -> int:
    folder = open_run(store, run)
    if folder is None:
        raise WorkerError("no-run", f"{store.path(RUNS, run)} was removed while the run was started")
    return folder


def supervisor_source() -> str:
    """The source of the supervisor, from wherever this worker has it."""
    from . import supervise

    source: str | None = supervise.__loader__.get_source(supervise.__name__)  # type: ignore[union-attr]
    if source is None:
        raise WorkerError("crash", "the worker came without the source of its supervisor")
    return source


def _clear(runs_fd: int, run: str) -> None:
    """Remove the folder of a run that never began."""
    folder = os.open(run, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=runs_fd)
    try:
        for name in os.listdir(folder):
            os.unlink(name, dir_fd=folder)
    finally:
        os.close(folder)
    os.rmdir(run, dir_fd=runs_fd)


def _start(store: Store, params: dict[str, Any], record: dict[str, Any], order: dict[str, Any]) -> str:
    """Start the supervisor and give it the order; returns when it has said what came of it, or is given up.

    The order goes through a pipe, so nothing secret reaches the disk, and a supervisor that comes after this ended
    finds nothing to start.
    """
    folder = _open(store, record["run"])
    try:
        # Open for both, so that it neither waits for the reader nor loses what it wrote before there is one.
        pipe = os.open(ORDER, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            unit = f"trainops-{store.name}-{record['run']}-{record['token'][:8]}.service"
            _unit, fallback = start_supervisor(store.path(RUNS, record["run"]), unit, params["systemd"])
            heard = _hand_over(folder, pipe, json.dumps(order).encode("ascii") + b"\n")
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(ORDER, dir_fd=folder)
            os.close(pipe)
        if not (heard or read_record(folder, STARTED)):
            note = f"its supervisor did not begin within {_SETTLE_SECONDS:g} s: look at the load of the container"
            write_record(folder, EXIT, exit_record("not-started", time.time(), note=note))
        return fallback
    finally:
        os.close(folder)


def _hand_over(folder: int, pipe: int, data: bytes) -> bool:
    """Feed the order to the supervisor until it has reported; whether it took it."""
    end = time.monotonic() + _SETTLE_SECONDS
    while time.monotonic() < end:
        if data:
            with contextlib.suppress(BlockingIOError):
                data = data[os.write(pipe, data) :]
        if read_record(folder, STARTED) or read_record(folder, EXIT):
            return True
        time.sleep(_LOOK_SECONDS)
    return not data and _is_taken(folder)


def _is_taken(folder: int) -> bool:
    try:
        os.stat(ORDER, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return True
    return False


def last_good(store: Store, but: str) -> Run | None:
    """The latest run that ended with exit code 0."""
    good = [one for one in all_runs(store) if one.id != but and one.exit and one.exit["exit_code"] == 0]
    return good[-1] if good else None


def _result(store: Store, run: Run, altered: list[str], repeated: bool = False, fallback: str = "") -> dict[str, Any]:
    good = last_good(store, run.id)
    return {
        "run": run.view(),
        "state": run.state,
        "repeated": repeated,
        "differs": differences(good.record, run.record) if good else [],
        "differs_from": good.id if good else None,
        "cache_bytes": size_of(store),
        "altered": altered or run.record.get("altered") or [],
        "fallback": fallback,
    }


def _nothing_started(state: str, plan: Plan) -> dict[str, Any]:
    return {
        "run": None,
        "state": state,
        "repeated": False,
        "differs": [],
        "differs_from": None,
        "cache_bytes": None,
        "altered": plan.altered,
        "fallback": "",
    }
