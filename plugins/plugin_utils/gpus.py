# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The truth about a container's GPUs: what it sees joined with what its node sees, and a verdict on each. Pure.

A GPU is ``idle``, ``busy`` or ``unknown``, always with reasons; unknown is never treated as idle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.trainops.proxmox.plugins.plugin_utils import nvidia_smi
from ansible_collections.trainops.proxmox.plugins.plugin_utils.node_view import NodeView
from ansible_collections.trainops.proxmox.plugins.plugin_utils.nvidia_smi import AppRow, GpuRow, Trouble
from ansible_collections.trainops.proxmox.plugins.plugin_utils.processes import Process, argv_of, command_line, start_of

# An idle card shows 0 to 20 MiB, a bare CUDA context takes some 500 MiB (H200, driver 580).
MEMORY_MIB = 64
# CUDA opens every GPU that it may see, then takes memory on those that it uses: a process this young may still do so.
STARTING_SECONDS = 120
UTILIZATION_PERCENT = 10


_NO_TOOL = (
    f"{nvidia_smi.ON_NODE}: there is no nvidia-smi on the PATH or where drivers put it: install the NVIDIA driver "
    "there, or set option nvidia_smi to its path"
)


@dataclass(frozen=True)
class Holder:
    """A process that holds a GPU: by ``memory`` (MiB) there, or None by having opened it.

    ``run`` is the run of ours that it belongs to, when it is one of this container.
    """

    process: Process
    where: str  # here, other (container), node, or unknown: listed by nvidia-smi, but gone
    memory: int | None = None
    run: str | None = None

    def as_result(self) -> dict[str, Any]:
        """Plain values for a step's result."""
        process, inside = self.process, self.process.inside
        read_inside = self.where == "here" and process.vmid is None
        return {
            "pid": process.pid if read_inside else inside,
            "node_pid": None if read_inside else process.pid,
            "vmid": process.vmid,
            "container": process.container,
            "command": command_line(process.argv),
            "age_seconds": process.age,
            "memory_mib": self.memory,
            "where": self.where,
            "run": self.run,
        }


@dataclass(frozen=True)
class Gpu:
    """One GPU of the container; ``row`` is None when nvidia-smi said nothing of it, neither inside nor on the node."""

    index: int
    uuid: str | None
    minor: int | None
    row: GpuRow | None
    holders: tuple[Holder, ...] = ()
    verdict: str = "unknown"
    cause: str | None = None
    reasons: tuple[str, ...] = ()
    given: str | None = None  # a run of ours that was started on it and has not opened it yet

    @property
    def key(self) -> str:
        """What names the GPU from one look to the next, also while nvidia-smi tells no UUID."""
        return str(self.uuid) if self.minor is None else f"nvidia{self.minor}"

    @property
    def runs(self) -> tuple[str, ...]:
        """The runs of ours that hold it; empty unless nobody else does."""
        runs = dict.fromkeys([holder.run for holder in self.holders] or [self.given])
        return () if None in runs else tuple(run for run in runs if run)

    @property
    def used(self) -> int | None:
        """MiB in use, as nvidia-smi counts: without what the driver reserves for itself."""
        return self.row.memory_used if self.row else None

    def as_result(self) -> dict[str, Any]:
        """Plain values for a step's result, over which JMESPath expressions select."""
        row = self.row
        return {
            "index": self.index,
            "uuid": self.uuid,
            "name": row.name if row else None,
            "minor": self.minor,
            "bus_id": row.bus_id if row else None,
            "memory_total_mib": row.memory_total if row else None,
            "memory_used_mib": row.memory_used if row else None,
            "memory_free_mib": row.memory_free if row else None,
            "utilization_gpu_percent": row.utilization if row else None,
            "temperature_celsius": row.temperature if row else None,
            "mig": row.mig if row else None,
            "processes": [holder.as_result() for holder in self.holders],
            "verdict": self.verdict,
            "cause": self.cause,
            "reasons": list(self.reasons),
        }


@dataclass(frozen=True)
class Snapshot:
    """One look.

    ``view`` is "node" when no holder can have been missed. Otherwise ``view_reason`` says why it is "inside", what the
    container alone sees, or "partial", what a login on the node sees that may not look at all processes there.
    """

    gpus: tuple[Gpu, ...]
    view: str
    view_reason: str
    trouble: Trouble | None
    driver_version: str | None
    seconds: float
    warnings: tuple[str, ...] = ()

    def as_result(self) -> dict[str, Any]:
        """Plain values for a step's result."""
        return {
            "gpus": [gpu.as_result() for gpu in self.gpus],
            "view": self.view,
            "view_reason": self.view_reason,
            "driver_version": self.driver_version,
            "seconds": self.seconds,
        }


@dataclass(frozen=True)
class _Side:
    """What nvidia-smi said at one place."""

    rows: tuple[GpuRow, ...] = ()
    apps: tuple[AppRow, ...] = ()
    trouble: Trouble | None = None
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True)
class _Evidence:
    """All that is known, before it is spread over the GPUs."""

    inside: _Side
    node: _Side
    complete: bool
    why_not: str
    memory_mib: int
    node_processes: Mapping[int, Process] = field(default_factory=dict)
    own_processes: Mapping[int, Process] = field(default_factory=dict)
    vmid: int | None = None
    partly: str = "as seen from inside"
    runs: Mapping[int, str] = field(default_factory=dict)


def params(smi: str, timeout: float) -> dict[str, Any]:
    """The parameters of the worker's operation ``gpus``: nvidia-smi in the container, and seconds for it."""
    return {"nvidia_smi": smi, "timeout": timeout, "queries": [nvidia_smi.GPU_QUERY, nvidia_smi.APP_QUERY]}


def snapshot(
    reading: Mapping[str, Any],
    view: NodeView | None,
    *,
    vmid: int | None = None,
    timeout: float = 30.0,
    memory_mib: int = MEMORY_MIB,
) -> Snapshot:
    """Join the worker's ``reading`` in container ``vmid`` with the ``view`` of its node (None: it was not asked)."""
    answers = [nvidia_smi.answer_of(raw) for raw in reading["answers"]]
    inside = _side(answers[0], answers[1], nvidia_smi.IN_CONTAINER, timeout, reading["version"])
    node = _node_side(view, timeout, reading["version"])
    evidence = _Evidence(
        inside=inside,
        node=node,
        complete=view is not None and view.complete,
        why_not=_why_not(view, reading["hidden"]),
        memory_mib=memory_mib,
        node_processes=view.processes if view else {},
        own_processes=_own_processes(reading),
        vmid=vmid,
        runs={int(pid): run for pid, run in reading.get("runs", {}).items()},
    )
    given = {number: run for run, numbers in reading.get("given", {}).items() for number in numbers}
    judged = [_judged(_with_holders(gpu, evidence), evidence) for gpu in _gpus(reading, view, inside, node)]
    gpus = tuple(given_to(gpu, given.get(gpu.index)) for gpu in judged)
    rows = inside.rows or node.rows
    return Snapshot(
        gpus=gpus,
        view="node" if evidence.complete else "inside",
        view_reason=evidence.why_not,
        trouble=inside.trouble,
        driver_version=rows[0].driver_version if rows else None,
        seconds=max(inside.seconds, node.seconds),
        warnings=(*inside.warnings, *node.warnings, *_node_warnings(view, node)),
    )


def node_snapshot(view: NodeView, *, timeout: float = 30.0, memory_mib: int = MEMORY_MIB) -> Snapshot:
    """All GPUs of a node, from its ``view`` alone."""
    told = _node_side(view, timeout, view.version)
    if not view.tool:
        told = _Side(trouble=Trouble("not-found", _NO_TOOL))
    rows = tuple(sorted(told.rows, key=lambda row: row.index))
    minors = _minors(rows, view.minors, view.devices)
    gpus = [Gpu(row.index, row.uuid, minors.get(row.uuid), row) for row in rows] or [
        Gpu(index, None, minor, None) for index, minor in enumerate(view.devices)
    ]
    if not gpus and told.trouble is None:
        told = replace(told, trouble=Trouble("no-devices", f"{nvidia_smi.ON_NODE}: nvidia-smi lists no GPU"))
    # The node's rows stand for both places, its holders for themselves.
    evidence = _Evidence(
        inside=replace(told, apps=()),
        node=told,
        complete=view.complete,
        why_not=view.reason,
        memory_mib=memory_mib,
        node_processes=view.processes,
        partly="as far as this login sees",
    )
    return Snapshot(
        gpus=tuple(_judged(_with_holders(gpu, evidence), evidence) for gpu in gpus),
        view="node" if view.complete else "partial",
        view_reason=view.reason,
        trouble=told.trouble,
        driver_version=rows[0].driver_version if rows else None,
        seconds=told.seconds,
        warnings=told.warnings,
    )


def given_to(gpu: Gpu, run: str | None) -> Gpu:
    """The GPU, busy where a run was started on it: it opens it seconds later, once its libraries are loaded."""
    if run is None or gpu.verdict != "idle":
        return gpu
    return replace(gpu, verdict="busy", cause="run", reasons=(f"given to your run {run}",), given=run)


def _why_not(view: NodeView | None, hidden: int) -> str:
    if view is not None and view.complete:
        return ""
    why = view.reason if view else "the node was not asked"
    return f"{why}; {hidden} processes in the container could not be looked at" if hidden else why


def _side(gpus: nvidia_smi.Answer, apps: nvidia_smi.Answer, place: str, timeout: float, version: str) -> _Side:
    seconds = max(gpus.seconds, apps.seconds)
    for answer in (gpus, apps):
        trouble = nvidia_smi.trouble(answer, place, deadline=timeout, kernel_module=version)
        if trouble:
            return _Side(trouble=trouble, seconds=seconds)
    try:
        rows, warnings = nvidia_smi.parse_gpus(gpus.text)
        listed = nvidia_smi.parse_apps(apps.text)
    except nvidia_smi.FormatError as error:
        text = f"{place}: the output of nvidia-smi cannot be read with certainty: {error}"
        return _Side(trouble=Trouble("format", text), seconds=seconds)
    warnings = [f"{place}: nvidia-smi says: {line}" for line in warnings]
    if seconds > nvidia_smi.SLOW_SECONDS:
        warnings.append(_slow(place, seconds, rows))
    return _Side(tuple(rows), tuple(listed), None, tuple(warnings), seconds)


def _slow(place: str, seconds: float, rows: Iterable[GpuRow]) -> str:
    off = [row.index for row in rows if row.persistence is False]
    seen = f"it is off for GPU {', '.join(map(str, off))}" if off else "it is on here"
    return (
        f"{place}: nvidia-smi took {seconds:.1f} s. Known causes: persistence mode off ({seen}; run "
        "nvidia-persistenced on the node), or its socket in a container whose limit of open files is huge (ulimit -n)"
    )


def _node_side(view: NodeView | None, timeout: float, version: str) -> _Side:
    if view is None or view.gpus is None or view.apps is None:
        return _Side()
    return _side(view.gpus, view.apps, nvidia_smi.ON_NODE, timeout, version)


def _node_warnings(view: NodeView | None, node: _Side) -> list[str]:
    """Trouble on the node matters less where its /proc names all holders, but is worth a line."""
    if view is None:
        return []
    if node.trouble:
        return [node.trouble.text]
    if not view.tool and view.complete:
        return [
            "on the node: there is no nvidia-smi on the PATH, so holders were found by their open device files alone"
        ]
    return []


def _own_processes(reading: Mapping[str, Any]) -> dict[int, Process]:
    found = {}
    for pid, files in reading["processes"].items():
        parent, started = start_of(files["stat"])
        age = max(0, int(reading["now"] - started))
        argv = argv_of(files["cmdline"], files["stat"], "\0")
        found[int(pid)] = Process(int(pid), parent, argv, age, frozenset(files["opened"]))
    return found


def _gpus(reading: Mapping[str, Any], view: NodeView | None, inside: _Side, node: _Side) -> list[Gpu]:
    """The container's GPUs: as it lists them itself, else those whose device files it has, as the node lists them."""
    devices: Sequence[int] = reading["devices"]
    own = nvidia_smi.minors(reading["information"])
    here = _minors(inside.rows, own, devices)
    there = _minors(node.rows, view.minors if view else {}, view.devices if view else ())
    if inside.rows:
        return [
            Gpu(row.index, row.uuid, there.get(row.uuid, here.get(row.uuid)), row)
            for row in sorted(inside.rows, key=lambda row: row.index)
        ]
    by_minor = {there[row.uuid]: row for row in node.rows if row.uuid in there}
    rows = [(minor, by_minor.get(minor)) for minor in devices]
    return [Gpu(index, row.uuid if row else None, minor, row) for index, (minor, row) in enumerate(rows)]


def _minors(rows: Sequence[GpuRow], known: Mapping[str, int], devices: Sequence[int]) -> dict[str, int]:
    """The N of /dev/nvidiaN by UUID: as the driver says; else, where each GPU has its file, in the order of both."""
    found = {row.uuid: known[key] for row in rows if (key := nvidia_smi.bus_key(row.bus_id)) in known}
    if not found and len(rows) == len(devices):
        ordered = sorted(rows, key=lambda row: row.index)
        found = {row.uuid: minor for row, minor in zip(ordered, sorted(devices), strict=True)}
    return found


def _with_holders(gpu: Gpu, evidence: _Evidence) -> Gpu:
    node = _holders(gpu, evidence.node.apps, evidence.node_processes)
    known = {holder.process.inside for holder in node if holder.process.vmid == evidence.vmid}
    holders = [replace(holder, where=_where(holder, evidence)) for holder in node]
    for holder in _holders(gpu, evidence.inside.apps, evidence.own_processes):
        if holder.process.pid not in known and not (holder.where == "unknown" and evidence.complete):
            holders.append(replace(holder, where=holder.where or "here"))
    holders = [replace(one, run=_run(one, evidence)) if one.where == "here" else one for one in holders]
    # A process that is gone comes last: who can be stopped matters more.
    order = sorted(holders, key=lambda holder: (holder.where == "unknown", -(holder.memory or 0)))
    return replace(gpu, holders=tuple(order))


def _run(holder: Holder, evidence: _Evidence) -> str | None:
    return evidence.runs.get(holder.process.inside or holder.process.pid)


def _where(holder: Holder, evidence: _Evidence) -> str:
    if holder.where:
        return holder.where
    if holder.process.vmid is None:
        return "node"
    return "here" if holder.process.vmid == evidence.vmid else "other"


def _holders(gpu: Gpu, apps: Sequence[AppRow], processes: Mapping[int, Process]) -> list[Holder]:
    """Who holds ``gpu``, as one place saw it; ``where`` is left empty but for listed processes that are gone."""
    owned: dict[int, list[AppRow]] = {}
    for app in apps:
        owned.setdefault(app.pid, []).append(app)
    found = []
    for pid, process in processes.items():
        rows = [row for row in owned.get(pid, []) if _is_on(row, gpu)]
        if rows:
            found.append(Holder(process, "", sum(row.memory or 0 for row in rows)))
        elif gpu.minor in process.opened and _may_take(process, pid in owned, processes):
            found.append(Holder(process, ""))
    for pid, rows in owned.items():
        mine = [row for row in rows if _is_on(row, gpu)]
        if mine and pid not in processes:
            found.append(Holder(Process(pid, 0, (mine[0].name,), None), "unknown", mine[0].memory))
    return found


def _is_on(row: AppRow, gpu: Gpu) -> bool:
    # A process on a MIG device may be listed under that device's UUID, which no GPU of the list has.
    return row.uuid == gpu.uuid or (row.uuid.startswith("MIG-") and gpu.row is not None and gpu.row.mig)


def _may_take(process: Process, owns_memory: bool, processes: Mapping[int, Process]) -> bool:
    """Whether a process counts on a GPU that it has opened without owning memory there.

    One without memory anywhere may take any of them at any time. One that owns memory elsewhere has opened the others
    only because it can see them, unless it is still starting. A forked child (a data loader) shares its parent's files
    and counts by itself only once the parent is gone: then it keeps what the parent had.
    """
    if process.parent in processes:
        return False
    return not owns_memory or process.age is None or process.age < STARTING_SECONDS


def _judged(gpu: Gpu, evidence: _Evidence) -> Gpu:
    verdict, cause, reasons = _verdict(gpu, evidence)
    return replace(gpu, verdict=verdict, cause=cause, reasons=tuple(reasons))


def _verdict(gpu: Gpu, evidence: _Evidence) -> tuple[str, str | None, list[str]]:
    # Without its minor number the open device files that the node sees cannot be told to be this GPU's.
    complete = evidence.complete and gpu.minor is not None
    why_not = evidence.why_not or "which device file is this GPU's could not be told"
    seen = "as seen from the node" if complete else f"{evidence.partly} ({why_not})"
    if evidence.inside.trouble:
        return "unknown", evidence.inside.trouble.code, [evidence.inside.trouble.text, _beside(gpu, evidence)]
    used = gpu.used
    if gpu.row is None or used is None:
        return "unknown", "memory-not-shown", [_not_shown(gpu)]
    rule = f"{used} MiB used, {evidence.memory_mib} MiB allowed by option memory_mib"
    if any(holder.memory is not None for holder in gpu.holders):
        return "busy", "process", [f"{_count(gpu)}, {seen}", rule]
    if gpu.holders:
        return "busy", "opened", [f"{_count(gpu)} without memory yet, {seen}", rule]
    if used > evidence.memory_mib:
        who = "no process of the node holds it: a driver that is cleaning up, a display, or a process that is gone"
        return "busy", "memory", [rule, who if complete else f"no process here holds it, {seen}: held from outside"]
    # Without persistence mode the question itself wakes the GPU up, which shows as utilisation.
    utilization = gpu.row.utilization if gpu.row.persistence and not complete else None
    if utilization is not None and utilization > UTILIZATION_PERCENT:
        return "busy", "utilization", [f"{utilization} % utilisation although no process is seen, {seen}", rule]
    return "idle", None, [rule, f"no process holds it, {seen}"]


def _count(gpu: Gpu) -> str:
    number = len(gpu.holders)
    return "1 process holds it" if number == 1 else f"{number} processes hold it"


def _beside(gpu: Gpu, evidence: _Evidence) -> str:
    """What the node reads, beside a reading inside that failed."""
    row = next((row for row in evidence.node.rows if row.uuid == gpu.uuid), None)
    if row is None:
        return f"the node says nothing of this GPU ({evidence.why_not or 'no nvidia-smi answered there'})"
    holders = _count(gpu) if gpu.holders else "no holder"
    return f"the node reads {row.memory_used} MiB used, {holders}"


def _not_shown(gpu: Gpu) -> str:
    said = gpu.row.odd.get("memory.used", "") if gpu.row else ""
    mig = " (MIG is on, where it is shown for each MIG device alone)" if gpu.row and gpu.row.mig else ""
    return f"nvidia-smi shows {said or 'nothing'!r} in place of the memory in use{mig}"
