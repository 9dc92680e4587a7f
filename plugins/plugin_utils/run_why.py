# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The step that explains the end of a run: what was asked, and its result as a person reads it. Pure."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from ansible_collections.trainops.proxmox.plugins.plugin_utils.causes import Evidence, causes
from ansible_collections.trainops.proxmox.plugins.plugin_utils.enter import View
from ansible_collections.trainops.proxmox.plugins.plugin_utils.kernel_log import SCRIPT, parse_kernel_log
from ansible_collections.trainops.proxmox.plugins.plugin_utils.lines import size
from ansible_collections.trainops.proxmox.plugins.plugin_utils.run_ending import record_ending, seconds_of, span
from ansible_collections.trainops.proxmox.plugins.plugin_utils.run_watch import known_of
from ansible_collections.trainops.proxmox.plugins.plugin_utils.visible import one_line
from ansible_collections.trainops.proxmox.plugins.plugin_utils.xids import meaning

_LINES = 15
_NODE_SECONDS = 20.0


def params(options: Mapping[str, Any]) -> dict[str, Any]:
    """What the operation ``why`` is asked."""
    return {
        "root": os.path.normpath(options["root"]),
        "name": options.get("name"),
        "run": options.get("run"),
        "nvidia_smi": options["nvidia_smi"],
        "nvidia_smi_timeout": float(options["nvidia_smi_timeout"]),
    }


def view(options: Mapping[str, Any]) -> View | None:
    """The look into the node's kernel log that goes beside it, unless the user wants nothing asked there."""
    return View(SCRIPT, options["nvidia_smi"], _NODE_SECONDS) if options.get("node_view", True) else None


def explained(known: Mapping[str, Any], node_view: str | None, vmid: int | None) -> dict[str, Any]:
    """The step's result: the most likely cause in ``summary``, then all others and the evidence in ``msg``."""
    kernel = parse_kernel_log(node_view or "")
    evidence = Evidence(known, kernel, vmid)
    found = causes(evidence)
    facts = _facts(evidence)
    more = [one_line(f"also: {cause.text}") for cause in found[1:]]
    lines = [one_line(str(line)) for line in known["traceback"] or known["last_lines"][-_LINES:]]
    shown = ["its last traceback:" if known["traceback"] else "its last lines:", *(f"  {line}" for line in lines)]
    summary = one_line(f"{known['record']['run']}: {found[0].text}")
    return {
        **known_of(known["record"]),
        "command": known["record"].get("command"),
        "summary": summary,
        "msg": "\n".join([summary, *more, *facts, *(shown if lines else [])]),
        "table": "\n".join([*more, *facts, *(shown if lines else [])]),
        "cause": [cause.text for cause in found],
        "causes": [{"code": cause.code, "text": cause.text} for cause in found],
        "evidence": facts,
        "xids": [
            {
                "time": _iso(one.when),
                "bus": one.bus,
                "number": one.number,
                "text": one.text,
                "meaning": meaning(one.number).text,
            }
            for one in evidence.xids()
        ],
        "traceback": [str(line) for line in known["traceback"]],
        "last_lines": [str(line) for line in known["last_lines"]],
    }


def _facts(evidence: Evidence) -> list[str]:
    known, end = evidence.known, evidence.end
    found = [record_ending(evidence.record, evidence.traceback)]
    begun = evidence.record.get("started") or evidence.record.get("created")
    ended = end.get("ended")
    found.append(f"from {begun} to {ended}" if ended else f"begun {begun}, its end was not recorded")
    found += [f"{_iso(one.when)} Xid {one.number} on {one.bus}: {one.text}" for one in evidence.xids()[:8]]
    found += [f"{_iso(one.when)} the kernel killed {one.task} for lack of memory" for one in evidence.ooms()[:8]]
    if not evidence.kernel.source:
        found.append("the node's kernel log could not be read, so Xid messages of GPUs are not known")
    memory = end.get("memory") or {}
    if memory.get("peak") and memory.get("limit"):
        found.append(f"memory: {size(memory['peak'])} at most of {size(memory['limit'])}")
    rooms = [*known["disks"], *([known["shm"]] if known["shm"] else [])]
    found.append(
        "free now: " + ", ".join(f"{row['path']} {size(row['free'])} of {size(row['total'])}" for row in rooms)
    )
    if known["log_bytes"]:
        found.append(f"log: {evidence.record['log']} ({size(known['log_bytes'])}, {_silence(evidence)})")
    if end.get("left_over_count"):
        found.append(f"{end['left_over_count']} of its processes outlived it")
    if end.get("note"):
        found.append(str(end["note"]))
    return [one_line(text) for text in found]


def _silence(evidence: Evidence) -> str:
    """How long before its end it printed last."""
    ended = evidence.end.get("ended_s") or seconds_of(evidence.end.get("ended"))
    last = float(evidence.known["now"]) - float(evidence.known["log_age_s"])
    if ended is None:
        return f"last written {span(float(evidence.known['log_age_s']))} ago"
    return f"last written {span(max(0.0, float(ended) - last))} before its end"


def _iso(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
