# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The processes on the way into a container, by what they are, with their PIDs on this machine."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Iterable
from pathlib import Path

from . import cgroups
from .containers import Container
from .nodes import Node

#: Words on the command line of the worker, whose first source it is.
_WORKER = b"trainops_worker"


def command_line(pid: int) -> list[bytes]:
    """The words of a process; none when it is gone, or a zombie."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]
    except OSError:
        return []


def parent(pid: int) -> int:
    """The parent of a process; 0 when it is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def is_stopped(pid: int) -> bool:
    """Whether a process is held by SIGSTOP."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False


def workers(container: Container) -> list[int]:
    """Our worker in a container, and children that it has just forked."""
    inside = cgroups.members(f"{container.node.cgroup}/lxc/{container.vmid}")
    return [pid for pid in inside if any(_WORKER in word for word in command_line(pid))]


def init(container: Container) -> int | None:
    """The first process of a container; None when it does not run."""
    for pid in cgroups.members(f"{container.node.cgroup}/lxc/{container.vmid}"):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/status").read_text().partition("NSpid:")[2].split("\n")[0].split()[-1] == "1":
                return pid
    return None


def _on_node(container: Container) -> dict[int, list[bytes]]:
    """The command lines on the node that have the container's vmid and are of our way into it."""
    vmid = str(container.vmid).encode()
    inside = cgroups.members(f"{container.node.cgroup}/lxc/{container.vmid}")
    pids = cgroups.members(f"{container.node.cgroup}/system.slice") - inside
    found = {pid: command_line(pid) for pid in pids}
    return {pid: words for pid, words in found.items() if vmid in words}


def attaches(container: Container) -> list[int]:
    """What enters the container on its node, lxc-attach or pct, but for what the lab itself does there."""
    return [
        pid
        for pid, words in _on_node(container).items()
        if re.fullmatch(rb"(.*/)?(lxc-attach|pct)", words[0]) or words[1:2] == [b"/usr/sbin/pct"]
        if not any(word.startswith(b"--set-var=") for word in words)
    ]


def shells(container: Container) -> list[int]:
    """The shells on the node that the connection started for the container."""
    return [pid for pid, words in _on_node(container).items() if words[3:4] == [b"trainops"]]


def sessions(container: Container) -> list[int]:
    """The processes of the node's OpenSSH server that carry what goes on in the container."""
    found = set()
    for pid in shells(container):
        while pid > 1 and not _is_server(pid):
            pid = parent(pid)
        if pid > 1:
            found.add(pid)
    return sorted(found)


def _is_server(pid: int) -> bool:
    words = command_line(pid)
    return bool(words) and words[0].startswith(b"sshd: ")


def servers(node: Node) -> list[int]:
    """All processes of the node's OpenSSH server."""
    return [pid for pid in cgroups.members(f"{node.cgroup}/system.slice") if _is_server(pid)]


def kill(pids: Iterable[int], number: signal.Signals = signal.SIGKILL) -> list[int]:
    """Send a signal; the PIDs of those that were there to get it."""
    reached = []
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
            reached.append(pid)
    return reached
