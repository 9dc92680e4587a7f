# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which GPUs of its node a container is given, by its configuration. Pure.

A configuration names the N of /dev/nvidiaN on the node, in one of several forms; only the hook of the NVIDIA container
tools counts as nvidia-smi does, or by UUID.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpus import Gpu
from ansible_collections.trainops.proxmox.plugins.plugin_utils.node_facts import Config

_DEVICE = re.compile(r"/dev/nvidia(\d+)")
_NOBODY = ("", "none", "void")


def given(container: Config, gpus: Sequence[Gpu]) -> tuple[list[int], str | None]:
    """The minor numbers that ``container`` is given of the node's ``gpus``, and what is left open, as a sentence."""
    minors: set[int] = set()
    notes: list[str] = []
    for key, value in container.lines:
        source = _source(key, value)
        if match := _DEVICE.fullmatch(source):
            minors.add(int(match[1]))
        elif source == "/dev":
            _take_all(gpus, "/dev as a whole", minors, notes)
    if any(key.startswith("lxc.hook") and "nvidia" in value for key, value in container.lines):
        _hooked(container, gpus, minors, notes)
    there = {gpu.minor for gpu in gpus}
    if there and (absent := sorted(minors - there)):
        notes.append(f"the node has no {', '.join(f'/dev/nvidia{minor}' for minor in absent)}")
    if script := container.value("hookscript"):
        notes.append(f"its hookscript {script} may pass more")
    return sorted(minors), "; ".join(notes) or None


def _source(key: str, value: str) -> str:
    """The path on the node that a line passes; empty for lines that pass none."""
    if key == "lxc.mount.entry":
        return (value.split() or [""])[0].rstrip("/")
    if re.fullmatch(r"dev\d+|mp\d+", key):
        first = next((part for part in value.split(",") if re.match(r"(path|volume)=", part)), value.split(",")[0])
        return re.sub(r"^(path|volume)=", "", first)
    return ""


def _hooked(container: Config, gpus: Sequence[Gpu], minors: set[int], notes: list[str]) -> None:
    """NVIDIA_VISIBLE_DEVICES, which the hook reads: all, none, or a list of indexes and UUIDs."""
    wanted = dict(
        value.split("=", 1) for key, value in container.lines if key.startswith("lxc.environment") and "=" in value
    ).get("NVIDIA_VISIBLE_DEVICES", "")
    if wanted in _NOBODY:
        return
    if wanted == "all":
        _take_all(gpus, "NVIDIA_VISIBLE_DEVICES=all", minors, notes)
        return
    unknown = []
    for word in filter(None, wanted.split(",")):
        match = [gpu.minor for gpu in gpus if word == str(gpu.index) or (gpu.uuid or "").startswith(word)]
        if len(match) == 1 and match[0] is not None:
            minors.add(match[0])
        else:
            unknown.append(word)
    if unknown:
        notes.append(f"NVIDIA_VISIBLE_DEVICES names {', '.join(unknown)}, which no GPU could be found for")


def _take_all(gpus: Iterable[Gpu], what: str, minors: set[int], notes: list[str]) -> None:
    found = {gpu.minor for gpu in gpus if gpu.minor is not None}
    minors |= found
    if not found:
        notes.append(f"it is given all GPUs of the node ({what}), and these could not be read")
