# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a person reads about GPUs: one line, or a table with the holders. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_select import Selection, ranges
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpus import Gpu, Holder, Snapshot
from ansible_collections.trainops.proxmox.plugins.plugin_utils.processes import short_command
from ansible_collections.trainops.proxmox.plugins.plugin_utils.visible import one_line

WIDTH = 80
_LEAST_WIDTH = 50
_GROUPS = 2
_AS_SEEN = {"node": "", "inside": ", as seen from inside", "partial": ", as far as this login sees"}
_NOTES = {"inside": "As seen from inside the container", "partial": "As far as this login sees"}
_HOLDERS = 3


def summary(selection: Selection, view: str, chosen: Sequence[Gpu] = ()) -> str:
    """One line: ``8 of 8 idle, 0 MiB each, no holder``, or which GPU is held by whom.

    ``chosen`` are the GPUs taken where only some of the candidates are wanted.
    """
    candidates = selection.candidates
    idle = [gpu for gpu in candidates if gpu.verdict == "idle"]
    inside = _AS_SEEN[view]
    if selection.count is not None and chosen:
        return f"{_gpus(chosen)} of {len(candidates)} chosen, idle, {_memory(chosen)}, no holder{inside}"
    if len(idle) == len(candidates):
        return f"{len(idle)} of {len(candidates)} idle, {_memory(idle)}, no holder{inside}"
    wanted = "" if selection.count is None else f" where {selection.count} are wanted"
    groups = _grouped(gpu for gpu in candidates if gpu.verdict != "idle")
    told = "; ".join(f"{_gpus(gpus)} {gpus[0].verdict}: {why}" for why, gpus in groups[:_GROUPS])
    left = sum(len(gpus) for _why, gpus in groups[_GROUPS:])
    more = f"; {left} more not idle" if left else ""
    return f"{len(idle)} of {len(candidates)} idle{wanted}; {told}{more}{inside}"


def _memory(gpus: Iterable[Gpu]) -> str:
    amounts = {gpu.used or 0 for gpu in gpus}
    return f"{max(amounts)} MiB each" if len(amounts) == 1 else f"{min(amounts)} to {max(amounts)} MiB each"


def _grouped(gpus: Iterable[Gpu]) -> list[tuple[str, list[Gpu]]]:
    """GPUs with the same cause together, since one job often holds several."""
    groups: dict[object, list[Gpu]] = {}
    for gpu in gpus:
        first = gpu.holders[0] if gpu.holders else None
        who = first and (first.where, first.process.pid, len(gpu.holders))
        # A run may have a process for each GPU, and is one holder all the same.
        key = (gpu.verdict, gpu.runs) if gpu.runs else (gpu.verdict, gpu.cause, who)
        groups.setdefault(key, []).append(gpu)
    return [(_why(members), members) for members in groups.values()]


def _why(gpus: Sequence[Gpu]) -> str:
    gpu = gpus[0]
    if gpu.verdict == "unknown":
        return gpu.reasons[0]
    if gpu.runs:
        return _by_runs(gpus)
    if not gpu.holders:
        used = sum(member.used or 0 for member in gpus)
        if gpu.cause == "utilization":
            return gpu.reasons[0]
        return f"{used} MiB " + (
            "held from outside this container" if "inside" in gpu.reasons[1] else "held by no process"
        )
    first, others = gpu.holders[0], len(gpu.holders) - 1
    more = f" and {others} more" if others else ""
    if all(found.memory is None for found in gpu.holders):
        return f"opened by {holder(first)}{more}, no memory yet"
    memory = sum(member.holders[0].memory or member.used or 0 for member in gpus)
    return f"{memory} MiB held by {holder(first)}{more}"


def _by_runs(gpus: Sequence[Gpu]) -> str:
    who = your_runs(gpus[0].runs)
    if not any(gpu.holders for gpu in gpus):
        return f"given to {who}, not opened yet"
    if all(found.memory is None for gpu in gpus for found in gpu.holders):
        return f"opened by {who}, no memory yet"
    return f"{sum(found.memory or 0 for gpu in gpus for found in gpu.holders)} MiB held by {who}"


def your_runs(runs: Sequence[str]) -> str:
    """``your run r1``, or ``your runs r1, r2``."""
    return f"your run{'' if len(runs) == 1 else 's'} {', '.join(runs)}"


def holder(found: Holder) -> str:
    """Who it is: ``vmid 201 (train-b) pid 212 python3 train.py``."""
    process = found.process
    command = short_command(process.argv)
    if found.where == "unknown":
        return f"process {process.pid}, which is gone"
    if found.where == "node":
        return f"the node's pid {process.pid} {command}"
    pid = process.inside or process.pid
    if found.run:
        return f"{your_runs([found.run])}, pid {pid} {command}"
    if found.where == "here":
        return f"this container's pid {pid} {command}"
    name = f" ({process.container})" if process.container else ""
    return f"vmid {process.vmid}{name} pid {pid} {command}"


def table(snapshot: Snapshot, gpus: Sequence[Gpu], width: int = WIDTH) -> str:
    """The GPUs with their holders, at most ``width`` columns wide, and below it what needs a sentence."""
    lines = ["GPU  verdict  used MiB  holder"]
    for gpu in gpus:
        first, *others = _holder_cells(gpu)
        used = "-" if gpu.used is None else str(gpu.used)
        lines.append(f"{gpu.index:>3}  {gpu.verdict:<7}  {used:>8}  {first}")
        lines += [" " * 24 + cell for cell in others]
    notes = dict.fromkeys(gpu.reasons[0] for gpu in gpus if gpu.verdict == "unknown")
    if snapshot.view != "node":
        notes[f"{_NOTES[snapshot.view]}: {snapshot.view_reason}."] = None
    shown = [cut(one_line(line), max(width, _LEAST_WIDTH)) for line in lines]
    return "\n".join([*shown, *map(one_line, notes)])


def _holder_cells(gpu: Gpu) -> list[str]:
    if not gpu.holders:
        return [{"idle": "-", "unknown": gpu.cause or "-"}.get(gpu.verdict) or _why([gpu])]
    cells = [_holder_cell(found) for found in gpu.holders[:_HOLDERS]]
    left = len(gpu.holders) - _HOLDERS
    return cells + ([f"and {left} more"] if left > 0 else [])


def _holder_cell(found: Holder) -> str:
    memory = "no memory yet" if found.memory is None else f"{found.memory} MiB"
    since = f", for {age(found.process.age)}" if found.process.age is not None else ""
    return f"{holder(found)}, {memory}{since}"


def age(seconds: int) -> str:
    """A span of time in its two largest units: ``2 h 5 min``."""
    if seconds < 60:
        return f"{seconds} s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if minutes < 60:
        return f"{minutes} min"
    return f"{hours} h {minutes % 60} min" if hours < 48 else f"{days} d {hours % 24} h"


def cut(line: str, width: int) -> str:
    """``line``, or as much of it as has ``width`` columns."""
    return line if len(line) <= width else line[: width - 1] + "…"


def _gpus(gpus: Sequence[Gpu]) -> str:
    return f"GPU{'' if len(gpus) == 1 else 's'} {ranges([gpu.index for gpu in gpus])}"
