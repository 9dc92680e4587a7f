# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operation `why`: all that the container knows of the end of a run. Reads only; what it means others say."""

from __future__ import annotations

import os
import time

from .follow import open_log
from .gpus import Child, find_tool, gather
from .runs import find_run, the_project
from .store import guarded, open_store
from .supervise import Memory
from .tail import last_lines, last_traceback, read_end

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .channel import Channel

_LINES, _CHARACTERS = 40, 8 * 1024
_TAIL_BYTES = 64 * 1024  # of the log, for what errors of libraries look like
_BUSES = "--query-gpu=uuid,pci.bus_id"


def run(channel: Channel, params: dict[str, Any]) -> dict[str, Any]:
    """Gather what tells why a run ended.

    params: root; name and run, or null for the only project and its latest run; nvidia_smi, nvidia_smi_timeout.

    Result: record (as of `follow`), now (seconds since 1970), memory ({before, after, limit, peak} of the control group
    now), disks ([{path, free, total, inodes}], bytes), shm (the same of /dev/shm, or null), last_lines, traceback
    (lines), tail (the end of the log), buses ({uuid: PCI address}), log_bytes, log_age_s, boot_age_s (since the
    container was started).
    """
    return guarded(lambda: _why(params), params["root"])


def _why(params: dict[str, Any]) -> dict[str, Any]:
    name = params["name"] or the_project(params["root"])
    with open_store(params["root"], name, create=False) as store:
        one = find_run(store, params["run"])
        fd = open_log(store, one)
        try:
            whole, info = read_end(fd), os.fstat(fd)
        finally:
            os.close(fd)
    uuids = [gpu["uuid"] for gpu in one.record.get("gpus") or []]
    return {
        "record": dict(one.view(long=False), project=name),
        "now": time.time(),
        "memory": Memory("self").report(),
        "disks": [row for row in map(space, dict.fromkeys([params["root"], "/tmp"])) if row],
        "shm": space("/dev/shm"),
        "last_lines": last_lines(whole, _LINES, _CHARACTERS),
        "traceback": last_traceback(whole),
        "tail": whole[-_TAIL_BYTES:],
        "buses": buses(params["nvidia_smi"], params["nvidia_smi_timeout"]) if uuids else {},
        "log_bytes": info.st_size,
        "log_age_s": max(0.0, time.time() - info.st_mtime),
        "boot_age_s": boot_age(),
    }


def space(path: str) -> dict[str, Any] | None:
    """Free and all bytes of the file system of a folder, and its free inodes (null where it counts none)."""
    try:
        info = os.statvfs(path)
    except OSError:
        return None
    return {
        "path": path,
        "free": info.f_bavail * info.f_frsize,
        "total": info.f_blocks * info.f_frsize,
        "inodes": info.f_favail if info.f_files else None,
    }


def buses(nvidia_smi: str, timeout: float) -> dict[str, str]:
    """The PCI address of each GPU by its UUID; empty where nvidia-smi does not say."""
    tool = find_tool(nvidia_smi, os.environ.get("PATH", ""))
    if tool is None:
        return {}
    answer = gather([Child([tool, _BUSES, "--format=csv"])], timeout)[0]
    rows = [[field.strip() for field in line.split(",")] for line in answer["text"].splitlines()]
    return {row[0]: row[1] for row in rows if len(row) == 2 and row[0].startswith(("GPU-", "MIG-"))}


def boot_age() -> float | None:
    """Seconds since the container's first process began."""
    try:
        with open("/proc/1/stat", encoding="ascii", errors="replace") as stream:
            ticks = int(stream.read().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
