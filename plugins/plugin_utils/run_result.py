# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The results of starting, stopping and listing runs, as plain values and the lines that a person reads. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.store import short_id, some
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.usage import UNUSED_PERCENT
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.values import compiled, find
from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import StepError
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_select import ranges
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpus import Snapshot
from ansible_collections.trainops.proxmox.plugins.plugin_utils.lines import size
from ansible_collections.trainops.proxmox.plugins.plugin_utils.run_ending import ended_well, record_ending, span
from ansible_collections.trainops.proxmox.plugins.plugin_utils.run_launch import Verdict
from ansible_collections.trainops.proxmox.plugins.plugin_utils.run_watch import known_of
from ansible_collections.trainops.proxmox.plugins.plugin_utils.visible import one_line, visible

_ALIVE = ("starting", "running")
_DIFFERENCES = 3


def started(
    done: Mapping[str, Any], told: Verdict | None, more: Sequence[str] = (), *, unwatched: bool = False
) -> dict[str, Any]:
    """The result of a start; ``more`` are notes beside the worker's own, ``unwatched`` that nobody looks at it next.

    Raises StepError, with the same values, for a run that has died already.
    """
    record = done["run"]
    values = {
        **known_of(record),
        "unit": record.get("unit"),
        "changed": not done["repeated"],
        "command": record["command"],
        "environment": record["environment"],
        "differs": done["differs"],
        "repeated": done["repeated"],
        "cache_bytes": done["cache_bytes"],
        "altered": done["altered"],
        **_view(told),
    }
    if record["state"] not in _ALIVE and not ended_well(record["state"], record["exit"]):
        raise _died(record, values)
    line = f"run {record['run']} of {short_id(record['release'])} {on_gpus(record['gpus'])}"
    if record["state"] not in _ALIVE:
        line += f", which has ended after {span(float(record['exit']['seconds'] or 0))}, exit 0"
    elif unwatched:
        line += f", not watched: trainops logs -f {record['run']}"
    if done["repeated"]:
        line += " (it was started before the connection was lost)"
    differences = [f"{one['what']} {_side(one['before'])} → {_side(one['now'])}" for one in done["differs"]]
    summary = line
    if differences:
        rest = len(differences) - _DIFFERENCES
        told_ones = ", ".join(differences[:_DIFFERENCES]) + (f" and {rest} more" if rest > 0 else "")
        summary += f"; since the last good run: {told_ones}"
    notes = [*more, *map(str, done["notes"]), *([str(done["fallback"])] if done["fallback"] else [])]
    if done["altered"]:
        notes.append(f"changed by hand since it was released: {some(done['altered'])}")
    details = [f"log {record['log']}", f"command {' '.join(record['command'])}", f"compile caches {_caches(done)}"]
    details += ["different from the last good run:", *(f"  {text}" for text in differences)] if differences else []
    return _with_warnings({**values, "summary": summary, "msg": "\n".join(map(one_line, [line, *details]))}, notes)


def foretold(
    ready: Mapping[str, Any], told: Verdict | None, more: Sequence[str] = (), deployed: bool = False
) -> dict[str, Any]:
    """The result of a start in check mode, where everything was looked at and nothing done; ``more`` are notes.

    ``deployed``: a deploy was foretold just before, so what is live now need not be what would run.
    """
    gpus = [{"index": gpu.index, "uuid": gpu.uuid} for gpu in (told.chosen if told else ())]
    what = "what is live then" if deployed else short_id(ready["release_id"])
    line = f"would start a run of {what} {on_gpus(gpus)}"
    values = {
        "changed": True,
        "run": None,
        "state": "possible",
        "release_id": None if deployed else ready["release_id"],
        "pid": None,
        "log": None,
        "gpus": gpus,
        "exit": None,
        "command": ready["command"],
        "altered": ready["altered"],
        **_view(told),
        "summary": line,
        "msg": line,
    }
    return _with_warnings(values, [*more, *map(str, ready["notes"])])


def _with_warnings(result: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    return {**result, "warnings": [*result.get("warnings", []), *notes]} if notes else result


def _view(told: Verdict | None) -> dict[str, Any]:
    view = {"view": told.found.view if told else None}
    return {**view, "warnings": list(told.found.warnings)} if told and told.found.warnings else view


def _died(record: Mapping[str, Any], values: Mapping[str, Any]) -> StepError:
    end = record["exit"] or {}
    last = [visible(one_line(str(line))) for line in end.get("last_lines") or []]
    line = record_ending(record, last)
    code = "not-started" if end.get("how") == "not-started" else "run-ended"
    text = "\n".join([line, *last[-15:], f"log {record['log']}"])
    return StepError(code, text, {**values, "summary": line})


def on_gpus(gpus: Sequence[Mapping[str, Any]]) -> str:
    """``on GPUs 0-7``, or ``without GPUs``."""
    if not gpus:
        return "without GPUs"
    return f"on GPU{'' if len(gpus) == 1 else 's'} {ranges([int(gpu['index']) for gpu in gpus])}"


def _side(value: Any) -> str:
    return "none" if value is None else str(value)


def _caches(done: Mapping[str, Any]) -> str:
    count = done["cache_bytes"]
    return "of many files" if count is None else size(count)


def stopped(done: Sequence[Mapping[str, Any]], busy: str = "", check_mode: bool = False) -> dict[str, Any]:
    """The result of a stop of one or more runs. ``busy`` says of GPUs that are not free although no process is left.

    Raises StepError, with the same values, for such GPUs, and for a run that is still alive.
    """
    lines = [_stop_line(one) for one in done]
    first = done[0] if done else None
    values: dict[str, Any] = {
        "changed": any(one["changed"] for one in done),
        "stopped": [{**known_of(one["run"]), "processes_killed": one["killed"]} for one in done],
        "processes_killed": [process for one in done for process in one["killed"]],
        **(known_of(first["run"]) if first and len(done) == 1 else {"run": None, "gpus": []}),
    }
    summary = "; ".join(lines) if lines else "no run is alive, nothing changed"
    killed = [
        f"killed pid {process['pid']} {process.get('command', '')}".rstrip() for process in values["processes_killed"]
    ]
    alive = [str(one["run"]["run"]) for one in done if one["run"]["state"] in _ALIVE]
    if alive and not check_mode:
        line = f"{', '.join(alive)} is not known to have ended, look again: {summary}"
        raise StepError("still-alive", line, {**values, "summary": line})
    if busy:
        line = f"{summary}; no process of it is left, and {busy}"
        raise StepError("gpus-not-free", line, {**values, "summary": line})
    return {**values, "summary": summary, "msg": "\n".join(map(one_line, [summary, *killed]))}


def _stop_line(one: Mapping[str, Any]) -> str:
    record = one["run"]
    line = record_ending(record, [])
    if not one["changed"]:
        return f"{line}; nothing to stop"
    if one["left_behind"]:
        line += "; the processes that it had left behind were ended"
    killed = one["killed_count"]
    return line + (f", {killed} {'process' if killed == 1 else 'processes'} had to be killed" if killed else "")


def listed(done: Mapping[str, Any], patterns: Sequence[str] | None, lines: int) -> dict[str, Any]:
    """The result of a listing; ``lines`` of each log are shown, more of them were read for the values."""
    compiled_patterns = compiled(patterns)
    runs = []
    for record in reversed(done["runs"]):
        tail = [str(line) for line in record["tail"]]
        kept = tail[len(tail) - min(lines, len(tail)) :]
        runs.append({**record, "found": find(tail, compiled_patterns), "tail": kept, "stalled": False})
    projects = [{name: value for name, value in project.items() if name != "runs"} for project in done["projects"]]
    return {"runs": runs, "projects": projects, "live": {one["name"]: one["live"] for one in projects}}


def mark_stalled(runs: Iterable[dict[str, Any]], found: Snapshot) -> None:
    """Say of each silent run that it is stalled, where all its GPUs are known to do nothing."""
    rows = {gpu.uuid: gpu.row.utilization for gpu in found.gpus if gpu.row}
    for run in runs:
        used = [rows.get(gpu["uuid"]) for gpu in run["gpus"]]
        run["stalled"] = all(percent is not None and percent <= UNUSED_PERCENT for percent in used)


def silent(runs: Iterable[dict[str, Any]], seconds: float) -> list[dict[str, Any]]:
    """The runs that may be stalled: alive, with GPUs, and without output for so long."""
    return [
        run for run in runs if run["state"] == "running" and run["gpus"] and (run.get("log_age_s") or 0.0) >= seconds
    ]
