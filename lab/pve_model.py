# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the API tells of the lab's containers, read from the files and processes that make them."""

from __future__ import annotations

import contextlib
import hashlib
import time
from dataclasses import dataclass
from pathlib import Path

from . import cgroups
from .instance import Instance
from .nodes import nodes

#: Options whose values the API gives as numbers.
_INTEGERS = ("cores", "memory", "swap", "unprivileged", "template", "onboot", "protection", "tty", "console", "debug")

Config = dict[str, str | int | list[list[str]]]


@dataclass(frozen=True)
class Guest:
    """A container as /etc/pve and the kernel have it; pid is the node's, started is in seconds since 1970."""

    vmid: int
    node: str
    config: Config
    digest: str
    pid: int | None
    started: float | None


def parse_config(text: str) -> Config:
    """The options of a container's file as the API gives them; raw lxc.* lines as pairs under `lxc`, in file order.

    Sections of snapshots are left out. Source: PVE::LXC::Config::parse_pct_config.
    """
    config: Config = {}
    raw: list[list[str]] = []
    for line in text.splitlines():
        if line.startswith("["):
            break
        key, colon, value = line.partition(":")
        if not colon or line.startswith("#"):
            continue
        value = value.strip()
        if key.startswith("lxc."):
            raw.append([key, value])
        else:
            config[key] = int(value) if key in _INTEGERS and value.isdigit() else value
    return {**config, "lxc": raw} if raw else config


def render_config(config: Config) -> str:
    """The file of a configuration: keys sorted, raw lines last."""
    lines = [f"{key}: {value}" for key, value in sorted(config.items()) if key != "lxc"]
    raw = config.get("lxc")
    lines += [f"{key}: {value}" for key, value in raw] if isinstance(raw, list) else []
    return "".join(f"{line}\n" for line in lines)


def config_file(lab: Instance, node: str, vmid: int) -> Path:
    """The container's file in /etc/pve, on this machine."""
    return lab.pve / "nodes" / node / "lxc" / f"{vmid}.conf"


def guests(lab: Instance) -> list[Guest]:
    """Every container that /etc/pve has a file for, in the order of the vmids."""
    found = []
    for node in nodes(lab):
        up = node.pid() is not None
        for path in (lab.pve / "nodes" / node.name / "lxc").glob("*.conf"):
            with contextlib.suppress(FileNotFoundError, ValueError):
                text = path.read_text()
                init = _init(f"{node.cgroup}/lxc/{int(path.stem)}") if up else None
                pid, started = init or (None, None)
                sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
                found.append(Guest(int(path.stem), node.name, parse_config(text), sha, pid, started))
    return sorted(found, key=lambda guest: guest.vmid)


def online(lab: Instance) -> dict[str, bool]:
    """The nodes, and whether each is up."""
    return {node.name: node.pid() is not None for node in nodes(lab)}


def _init(group: str) -> tuple[int, float] | None:
    """PID on the node and start of a container's init: the process of the group that is number 1 inside."""
    for pid in sorted(cgroups.members(group)):
        with contextlib.suppress(OSError, ValueError, IndexError):
            numbers = _status_line(pid, "NSpid:")
            if len(numbers) > 2 and numbers[-1] == "1":
                return int(numbers[1]), _started(pid)
    return None


def _status_line(pid: int, name: str) -> list[str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line for line in lines if line.startswith(name)).split()[1:]


def _started(pid: int) -> float:
    """When a process began; field 22 of /proc/PID/stat is in 1/100 s since boot (proc(5))."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    since_boot = float(Path("/proc/uptime").read_text().split()[0])
    return time.time() - since_boot + int(fields[19]) / 100
