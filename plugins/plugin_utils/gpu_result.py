# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The results of the steps that look at GPUs, as plain values. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import OptionError, StepError
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_select import Selection, select
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_text import WIDTH, summary, table, your_runs
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_wait import Outcome
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpus import Gpu, Snapshot

_NO_GPU = (
    "no-devices",
    "in the container: there is no GPU: pass /dev/nvidia0 …, /dev/nvidiactl and /dev/nvidia-uvm into it",
)


def select_in(found: Snapshot, wanted: Any, count: int | None) -> Selection:
    """The selected GPUs of a look; nothing as long as no GPU can be seen. Raises OptionError."""
    if not found.gpus:
        return Selection((), count)
    try:
        return select(found.gpus, wanted, count)
    except OptionError as error:
        if found.trouble is None:
            raise
        # An expression over memory or names finds nothing when nvidia-smi told neither.
        raise OptionError(f"{error}. {found.trouble.text}") from error


def check_wish(found: Snapshot, wanted: Any, count: int | None) -> Selection | None:
    """The selected GPUs of a look, None when only their state or what could be read keeps them from being selected.

    An expression may ask for idle GPUs or free memory, which a later look finds. Raises OptionError for GPUs that do
    not exist.
    """
    try:
        return select_in(found, wanted, count)
    except OptionError:
        if found.trouble is None:
            select([_at_rest(gpu) for gpu in found.gpus], wanted, count)
        return None


def _at_rest(gpu: Gpu) -> Gpu:
    row = gpu.row and replace(gpu.row, memory_used=0, memory_free=gpu.row.memory_total, utilization=0)
    return Gpu(gpu.index, gpu.uuid, gpu.minor, row, (), "idle")


def info_result(found: Snapshot, width: int = WIDTH) -> dict[str, Any]:
    """The result of ``gpu_info``, its table ``width`` columns wide. Raises StepError when there is no GPU."""
    if not found.gpus:
        code, text = _trouble(found)
        raise StepError(code, text, {"gpus": [], "view": found.view, "view_reason": found.view_reason})
    line = summary(Selection(found.gpus), found.view)
    return {**_common(found), "summary": line, "msg": line, "table": table(found, found.gpus, width)}


def gpu_summary(found: Snapshot) -> str:
    """One line about all GPUs of a look, or why there is none."""
    return summary(Selection(found.gpus), found.view) if found.gpus else _trouble(found)[1]


def idle_result(outcome: Outcome, require: bool, width: int = WIDTH) -> dict[str, Any]:
    """The result of ``gpu_idle``: a failure with the table only where idle GPUs are required."""
    found, selection = outcome.snapshot, outcome.selection
    idle = bool(outcome.chosen)
    line = _line(outcome)
    line += f"; waited {outcome.waited:.0f} s" if outcome.looks > 1 else ""
    shown = table(found, selection.candidates, width) if selection.candidates else ""
    result = {
        **_common(found),
        "gpus": [gpu.as_result() for gpu in outcome.chosen or selection.candidates],
        "uuids": [gpu.uuid for gpu in outcome.chosen],
        "indexes": [gpu.index for gpu in outcome.chosen],
        "idle": idle,
        "held_by_runs": held_by_runs(selection.candidates),
        "waited_seconds": round(outcome.waited, 1),
        "looks": outcome.looks,
        "table": shown,
        "summary": line,
        "msg": line,
    }
    if idle or not require:
        return result
    code, fix = refusal(found, selection, "timeout")
    text = "\n".join(part for part in (line, shown, fix) if part)
    return {**result, "failed": True, "code": code, "msg": text}


def none_wanted() -> dict[str, Any]:
    """The same where no GPU is wanted: nothing was asked."""
    line = "none wanted, none looked at"
    lists: dict[str, Any] = {name: [] for name in ("gpus", "uuids", "indexes", "held_by_runs")}
    waited = {"idle": True, "waited_seconds": 0.0, "looks": 0}
    return {**lists, **waited, "view": None, "view_reason": "", "table": "", "summary": line, "msg": line}


def refusal(found: Snapshot, selection: Selection, option: str) -> tuple[str, str]:
    """The code of a failure for GPUs that are not idle, and what to do. ``option`` is the one that waits longer."""
    if not found.gpus or any(gpu.verdict == "unknown" for gpu in selection.candidates or found.gpus):
        return "gpus-unknown", "The state of a GPU must be known before it is used: mend what is said above."
    runs = held_by_runs(selection.candidates)
    first = f"Stop {your_runs(runs)} (trainops stop {runs[0]})" if runs else "Stop what holds them"
    return "gpus-busy", f"{first}, choose other GPUs by option select, or wait longer by option {option}."


def held_by_runs(gpus: Iterable[Gpu]) -> list[str]:
    """The runs of ours that hold those of ``gpus`` which are not idle; empty unless all of these are only ours."""
    busy = [gpu for gpu in gpus if gpu.verdict != "idle"]
    if not all(gpu.verdict == "busy" and gpu.runs for gpu in busy):
        return []
    return list(dict.fromkeys(run for gpu in busy for run in gpu.runs))


def _line(outcome: Outcome) -> str:
    found, selection = outcome.snapshot, outcome.selection
    if not found.gpus:
        return f"unknown: {_trouble(found)[1]}"
    if not selection.candidates:
        return f"too few GPUs match option select now; {summary(Selection(found.gpus), found.view)}"
    return summary(selection, found.view, outcome.chosen)


def _common(found: Snapshot) -> dict[str, Any]:
    result = found.as_result()
    if found.warnings:
        result["warnings"] = list(found.warnings)
    return result


def _trouble(found: Snapshot) -> tuple[str, str]:
    return (found.trouble.code, found.trouble.text) if found.trouble else _NO_GPU
