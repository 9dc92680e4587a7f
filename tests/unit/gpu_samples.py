# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Readings of GPUs to test with: recorded ones, and made ones of a container with any holders."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpus import Snapshot, snapshot
from ansible_collections.trainops.proxmox.plugins.plugin_utils.node_view import NodeView, parse_node_view
from ansible_collections.trainops.proxmox.plugins.plugin_utils.nvidia_smi import Answer
from ansible_collections.trainops.proxmox.plugins.plugin_utils.processes import Process

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "gpus"
GPU_HEADER = (
    "index, uuid, pci.bus_id, memory.total [MiB], memory.used [MiB], memory.free [MiB], utilization.gpu [%], "
    "temperature.gpu, mig.mode.current, persistence_mode, driver_version, name"
)
APP_HEADER = "gpu_uuid, pid, used_gpu_memory [MiB], process_name"
VMID = 200


def recorded(name: str) -> tuple[dict[str, Any], NodeView]:
    """The worker's reading and the node's view on one machine with two H200, which is both here."""
    reading: dict[str, Any] = json.loads((FIXTURES / f"{name}.json").read_text())
    return reading, parse_node_view((FIXTURES / f"{name}.view").read_text())


def uuid(number: int) -> str:
    """The UUID of the node's GPU of that number."""
    return f"GPU-{number:08d}-2222-3333-4444-555555555555"


def gpu_row(index: int, number: int, used: str = "0 MiB", **values: str) -> str:
    """A row of nvidia-smi; ``number`` is the GPU's on the node, ``index`` where it is asked."""
    shown = {"total": "143771 MiB", "util": "0 %", "mig": "Disabled", "persistence": "Enabled", **values}
    return (
        f"{index}, {uuid(number)}, 00000000:{number:02X}:00.0, {shown['total']}, {used}, 1 MiB, {shown['util']}, 34, "
        f"{shown['mig']}, {shown['persistence']}, 580.159.04, NVIDIA H200"
    )


def answer(header: str, rows: Sequence[str], seconds: float = 0.05) -> Answer:
    """A good answer of nvidia-smi."""
    return Answer(0, "\n".join([header, *rows, ""]), seconds)


def raw(found: Answer) -> dict[str, Any]:
    """An answer as the worker sends it."""
    return dict(vars(found))


def reading(
    rows: Sequence[str] | Answer,
    apps: Sequence[str] = (),
    processes: dict[str, Any] | None = None,
    devices: Sequence[int] = (),
) -> dict[str, Any]:
    """What the worker sends."""
    gpus = rows if isinstance(rows, Answer) else answer(GPU_HEADER, rows)
    second = gpus if isinstance(rows, Answer) and rows.exit != 0 else answer(APP_HEADER, apps)
    return {
        "answers": [raw(gpus), raw(second)],
        "processes": processes or {},
        "hidden": 0,
        "devices": list(devices),
        "information": {},
        "version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\n",
        "now": 1000.0,
    }


def view(
    rows: Sequence[str] = (), listed: Sequence[str] = (), processes: Sequence[Process] = (), **values: Any
) -> NodeView:
    """What the node says; its GPUs have the minor numbers 0, 1, 2 … in the order of their rows."""
    parts: dict[str, Any] = {
        "complete": True,
        "reason": "",
        "tool": "/usr/bin/nvidia-smi",
        "gpus": answer(GPU_HEADER, rows),
        "apps": answer(APP_HEADER, listed),
        "devices": tuple(range(len(rows))),
        "processes": {process.pid: process for process in processes},
        **values,
    }
    return NodeView(**parts)


def process(pid: int, *opened: int, vmid: int | None = None, inside: int | None = None, **values: Any) -> Process:
    """A process as the node sees it."""
    parts: dict[str, Any] = {
        "parent": 1,
        "argv": ("python3", "train.py"),
        "age": 30,
        "container": {200: "train-a", 201: "train-b"}.get(vmid or 0),
        **values,
    }
    return Process(pid=pid, opened=frozenset(opened), vmid=vmid, inside=inside, **parts)


def eight(
    used: dict[int, int] | None = None,
    processes: Sequence[Process] = (),
    apps: Sequence[str] = (),
    runs: dict[str, str] | None = None,
    given: dict[str, list[int]] | None = None,
    **values: Any,
) -> Snapshot:
    """A look at container 200 with all eight GPUs of its node; ``used`` is MiB by GPU, the runs are the worker's."""
    rows = [gpu_row(number, number, f"{(used or {}).get(number, 0)} MiB") for number in range(8)]
    node = view(rows, apps, processes, **values)
    return snapshot({**reading(rows, devices=range(8)), "runs": runs or {}, "given": given or {}}, node, vmid=VMID)
