# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operation `launch`: look, let the controller decide about the GPUs, then start a run that outlives everything."""

from __future__ import annotations

import contextlib
import json
import os
import time

from .caches import size_of
from .channel import WorkerError
from .container_lock import ContainerLock
from .detach import start_supervisor
from .distributions import differences
from .environment import device_of
from .lock import Locked
from .names import root_lock
from .run_folder import open_own, prepare
from .run_plan import Plan
from .runs import RUNS, Run, all_runs, busy, living_runs, projects, read_run, the_project
from .secret import shown_words
from .store import Store, guarded, open_store, require_writable, short_id
from .supervise import EXIT, ORDER, STARTED, exit_record, pids, read_record, start_of, write_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .channel import Channel

_SETTLE_SECONDS = 10.0
_LOOK_SECONDS = 0.005


def run(channel: Channel, params: dict[str, Any]) -> dict[str, Any]:
    """Start a run.

    params: root; name, or null for the only project; release (an id, its first characters, or null for the live one);
    token (a random word, made once for a launch however often it is asked for); command (list or text) or script and
    args (list or text), env {name: text}, env_file, pythonpath; like (a run's id, or null) for what is not given, with
    standing {command, args, env, env_file}, which an inventory says, see :mod:`.run_like`; python; systemd: auto |
    never; gpus: the parameters of the operation `gpus`, or null where no GPU is wanted; who; patience: seconds to wait
    while a deploy runs; check_mode.

    Conversation: `ready` {gpus: the reading or null, runs: [those that live], cache_bytes, release_id, command,
    altered, notes}, answered by `again` {} for another reading, by `go` {gpus: [{index, uuid}]}, or by `stop` {}. There
    is no `ready` when a run with this token was started already.

    Result: run: the record (see :func:`.run_folder.record_of`) with state, why, unsupervised, exit, log, or null;
    state: that of the run, "possible" in check mode, "refused" after `stop`; repeated; differs: see
    :func:`.distributions.differences`, against differs_from, the last run that ended with exit code 0; cache_bytes;
    altered: files of the release that somebody changed; notes: sentences for the user; fallback: why systemd did not
    take it, or an empty text.
    """
    return guarded(lambda: _run(channel, params), params["root"])


def _run(channel: Channel, params: dict[str, Any]) -> dict[str, Any]:
    params = dict(params, name=params["name"] or the_project(params["root"]))
    with open_store(params["root"], params["name"], create=False) as store:
        require_writable(store)
        before = with_token(store, params["token"])
        if before:
            return _result(store, before, None, repeated=True)
        plan = Plan(store, params)
        gpus = _agree(channel, store, params, plan)
    if gpus is None or params["check_mode"]:
        return _nothing_started("refused" if gpus is None else "possible", plan)
    return _launch(channel, params, plan, gpus)


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
            "command": shown_words(plan.words),
            "altered": plan.altered,
            "notes": plan.notes,
        }
        channel.send("ready", ready)
        answer = channel.receive("go", "again", "stop")
        if answer["kind"] == "stop":
            return None
        if answer["kind"] == "go":
            return [{"index": int(gpu["index"]), "uuid": str(gpu["uuid"])} for gpu in answer["gpus"]]


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


def _launch(channel: Channel, params: dict[str, Any], plan: Plan, gpus: list[dict[str, Any]]) -> dict[str, Any]:
    with contextlib.ExitStack() as held:
        with Locked(params["root"], params["name"], params["who"], params["patience"], False, channel.waits) as store:
            # An earlier try may have come through only now, after this one had looked.
            before = with_token(store, params["token"])
            if before:
                return _result(store, before, plan, repeated=True)
            if not store.has_tree(plan.release):
                what = f"release {short_id(plan.release)} was removed meanwhile"
                raise WorkerError("unknown-release", f"{what}: launch what is live")
            if gpus:
                # Below another root of this container a run shows by its process alone: until that is there, or until
                # it is known that there will be none, nobody else may look.
                held.enter_context(ContainerLock(channel.waits))
            with root_lock(store, params["who"]):  # runs of other projects are started from here too
                _refuse_held(store, gpus)
                record, order, locked = prepare(store, params, plan, gpus)
        return _started(params, plan, record, order, locked)


def _started(
    params: dict[str, Any], plan: Plan, record: dict[str, Any], order: dict[str, Any], locked: int
) -> dict[str, Any]:
    """Start what was prepared; ``locked`` says meanwhile that a launch is at work."""
    with open_store(params["root"], params["name"], create=False) as store:
        try:
            fallback = _start(store, params, record, order)
        finally:
            os.close(locked)
        run = _settled(store, record["run"])
        if run.exit and run.exit["how"] == "not-started":
            raise WorkerError("not-started", f"{run.id}: {run.exit['note']}", run=run.id, log=run.log)
        return _result(store, run, plan, fallback=fallback)


def _refuse_held(store: Store, gpus: list[dict[str, Any]]) -> None:
    """Two launches at once both saw idle GPUs: it takes seconds until a run shows on its own."""
    wanted = {gpu["uuid"]: gpu["index"] for gpu in gpus}
    for name in projects(store.root) if wanted else []:
        with open_store(store.root, name, create=False) as other:
            for one in busy(other):
                both = [gpu["uuid"] for gpu in one.record.get("gpus") or [] if gpu["uuid"] in wanted]
                if both:
                    held = ", ".join(str(index) for index in sorted(wanted[uuid] for uuid in both))
                    by = one.id if name == store.name else f"{one.id} of {name}"
                    fix = "stop it, or choose other GPUs by training_gpus"
                    raise WorkerError("gpus-held", f"GPU {held} is held by your run {by}: {fix}", run=one.id)
    _refuse_elsewhere({device_of(gpu) for gpu in gpus})


def _refuse_elsewhere(wanted: set[str]) -> None:
    """The same for runs below another root of this container: their processes carry their marks with them.

    ``wanted`` are GPUs as a run's environment names them.
    """
    here = os.readlink("/proc/self/ns/pid")
    for pid in pids() if wanted else []:
        try:
            if os.readlink(f"/proc/{pid}/ns/pid") != here:  # of a container in this one
                continue
            with open(f"/proc/{pid}/environ", "rb") as stream:
                marks = dict(entry.partition(b"=")[::2] for entry in stream.read().split(b"\0"))
        except OSError:
            continue
        given = set(os.fsdecode(marks.get(b"CUDA_VISIBLE_DEVICES", b"")).split(","))
        if b"TRAINOPS_RUN" in marks and given & wanted and start_of(pid) is not None:
            held = ", ".join(sorted(given & wanted, key=lambda word: (len(word), word)))
            run = os.fsdecode(marks.get(b"TRAINOPS_RUN_ID", b"a run"))
            text = f"GPU {held} was given to {run} below another root of this container (pid {pid})"
            raise WorkerError("gpus-held", f"{text}: stop it there, or choose other GPUs by training_gpus")


def _start(store: Store, params: dict[str, Any], record: dict[str, Any], order: dict[str, Any]) -> str:
    """Start the supervisor and give it the order; returns when it has said what came of it, or is given up.

    The order goes through a pipe, so nothing secret reaches the disk, and a supervisor that comes after this ended
    finds nothing to start.
    """
    folder = open_own(store, record["run"])
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


def _result(store: Store, run: Run, plan: Plan | None, repeated: bool = False, fallback: str = "") -> dict[str, Any]:
    good = last_good(store, run.id)
    return {
        "run": run.view(),
        "state": run.state,
        "repeated": repeated,
        "differs": differences(good.record, run.record) if good else [],
        "differs_from": good.id if good else None,
        "cache_bytes": size_of(store),
        "altered": (plan.altered if plan else None) or run.record.get("altered") or [],
        "notes": plan.notes if plan else [],
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
        "notes": plan.notes,
        "fallback": "",
    }
