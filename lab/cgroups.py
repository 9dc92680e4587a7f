# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Control groups of the lab, in every hierarchy of the machine: cgroup v1, v2 or both (hybrid).

Whatever runs for a lab is in a group below /trainops-lab/<lab>; so its processes are known without a PID file, and a
process that happens to have a remembered PID is never taken for one of ours.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .errors import LabError
from .system import wait_for

ROOT = "trainops-lab"

#: Flags of a v1 mount that are neither a controller nor part of a hierarchy's name.
_NOT_HIERARCHY = ("rw", "ro", "clone_children", "noprefix", "cpuset_v2_mode", "nsdelegate", "memory_recursiveprot")


@dataclass(frozen=True)
class Hierarchy:
    """A mounted hierarchy: where, of which kind ("cgroup" or "cgroup2"), and the options that name it."""

    mount: Path
    kind: str
    options: str

    def group(self, path: str) -> Path:
        """The folder of a group in this hierarchy."""
        return self.mount / path


def parse_mounts(mountinfo: str) -> list[Hierarchy]:
    """The hierarchies in a text of /proc/PID/mountinfo (proc(5)), each once, in mount order."""
    found: dict[str, Hierarchy] = {}
    for line in mountinfo.splitlines():
        place, _, source = line.partition(" - ")
        kind, _, flags = source.split(" ", 2)
        if kind not in ("cgroup", "cgroup2"):
            continue
        options = [flag for flag in flags.split(",") if kind == "cgroup" and _names_hierarchy(flag)]
        if any(option.startswith("name=") for option in options):
            options = ["none", *(option for option in options if option != "none")]
        key = ",".join(options) or kind
        found.setdefault(key, Hierarchy(Path(place.split(" ")[4]), kind, ",".join(options)))
    return list(found.values())


def _names_hierarchy(flag: str) -> bool:
    return flag not in _NOT_HIERARCHY and not flag.startswith("release_agent=")


def hierarchies() -> list[Hierarchy]:
    """The hierarchies of this machine. LabError when there are none."""
    found = parse_mounts(Path("/proc/self/mountinfo").read_text())
    if not found:
        raise LabError("no control groups are mounted at /sys/fs/cgroup: LXC cannot run containers on this machine")
    return found


def create(path: str) -> list[Path]:
    """Make a group in every hierarchy; the files that a process writes its PID to so as to join it."""
    joins = []
    for hierarchy in hierarchies():
        group = hierarchy.mount
        for part in path.split("/"):
            parent, group = group, group / part
            group.mkdir(exist_ok=True)
            _inherit_cpuset(parent, group)
        joins.append(group / "cgroup.procs")
    return joins


def _inherit_cpuset(parent: Path, group: Path) -> None:
    """A new v1 cpuset is empty, and no process can join it."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        with contextlib.suppress(FileNotFoundError):
            if not (group / name).read_text().strip() and (group / "cgroup.clone_children").exists():
                (group / name).write_text((parent / name).read_text())


def _groups(path: str) -> Iterator[Path]:
    """The group and all below it, in every hierarchy, the innermost first."""
    for hierarchy in hierarchies():
        for folder, _, _ in os.walk(hierarchy.group(path), topdown=False):
            yield Path(folder)


def members(path: str) -> set[int]:
    """PIDs of all processes in the group and below it, whichever hierarchy they joined first."""
    pids: set[int] = set()
    for group in _groups(path):
        with contextlib.suppress(OSError):
            pids.update(int(pid) for pid in (group / "cgroup.procs").read_text().split())
    return pids


def is_member(pid: int, path: str) -> bool:
    """Whether this process exists and belongs to the group or one below it."""
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return False
    groups = [line.split(":", 2)[2] for line in lines]
    return any(f"{group}/".startswith(f"/{path}/") for group in groups)


def is_ending(pid: int) -> bool:
    """Whether a process is gone or on its way: killed, though the kernel may not be done with it."""
    try:
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        os.readlink(f"/proc/{pid}/ns/mnt")  # given up before the process waits for its namespace to empty
    except OSError:
        return True
    killed = int(status["ShdPnd"], 16) | int(status["SigPnd"], 16)
    return status["State"].split()[0] in "ZX" or bool(killed & (1 << (signal.SIGKILL - 1)))


def kill(path: str, timeout: float = 20) -> None:
    """End every process of the group and wait until none is left."""

    def none_left() -> bool:
        pids = members(path)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not pids

    _thaw(path)
    wait_for(none_left, f"end of the processes in /{path}", timeout)


def _thaw(path: str) -> None:
    """A frozen process does not die on v1."""
    for group in _groups(path):
        for name, value in (("freezer.state", "THAWED"), ("cgroup.freeze", "0")):
            with contextlib.suppress(OSError):
                if (group / name).exists():
                    (group / name).write_text(value)


def remove(path: str) -> None:
    """Remove the group and all below it; its processes must have ended."""

    def gone() -> bool:
        left = list(_groups(path))
        for group in left:
            with contextlib.suppress(FileNotFoundError, OSError):
                group.rmdir()
        return not left

    wait_for(gone, f"removal of the control groups /{path}", 10)


def remove_empty_root() -> None:
    """Remove the group that all labs share, unless a lab has groups in it."""
    for hierarchy in hierarchies():
        with contextlib.suppress(OSError):
            hierarchy.group(ROOT).rmdir()
