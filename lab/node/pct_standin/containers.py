# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Containers of this node: their configuration, whether they run, and the way into their namespaces."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess

from .failure import Failure

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
NODES = "/etc/pve/nodes"
UNIX_SOCKETS = "/proc/net/unix"


def node_name() -> str:
    return os.uname().nodename.split(".")[0]


def known() -> list[int]:
    """The ids of the containers that are configured on this node."""
    try:
        names = os.listdir(f"{NODES}/{node_name()}/lxc")
    except FileNotFoundError:
        return []
    return sorted(int(name[:-5]) for name in names if re.fullmatch(r"[1-9][0-9]+\.conf", name))


def config(vmid: int) -> dict[str, str]:
    """The values of a container's configuration file.

    :raises Failure: when this node has none, whether or not another node has.
    """
    name = f"nodes/{node_name()}/lxc/{vmid}.conf"
    try:
        with open(f"/etc/pve/{name}", encoding="utf-8") as stream:
            return parse_config(stream.read())
    except FileNotFoundError:
        raise Failure(f"Configuration file '{name}' does not exist\n", 2) from None


def parse_config(text: str) -> dict[str, str]:
    """The current values: lines of a snapshot and raw lxc lines are left out, comments become the description."""
    values: dict[str, str] = {}
    description = ""
    for line in text.splitlines():
        if line.startswith("["):
            break
        if line.startswith("#"):
            description += percent_decoded(line[1:]) + "\n"
        match = re.fullmatch(r"([a-z][a-z_]*\d*):\s*(.*?)\s*", line)
        if match:
            values[match[1]] = match[2]
    if description:
        values["description"] = description
    return values


def percent_decoded(text: str) -> str:
    return re.sub(r"%([0-9A-Fa-f]{2})", lambda match: chr(int(match[1], 16)), text)


def running(vmid: int) -> bool:
    """Whether LXC's monitor listens; like the real one this takes a frozen container for a running one."""
    wanted = f" @/var/lib/lxc/{vmid}/command"
    with open(UNIX_SOCKETS, encoding="utf-8", errors="replace") as stream:
        return any(line.rstrip("\n").endswith(wanted) for line in stream)


def init_pid(vmid: int) -> int:
    """PID of the container's init, as this node counts.

    :raises Failure: when LXC does not know one.
    """
    argv = ["lxc-info", "-n", str(vmid), "-p", "-H"]
    out = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout.strip()
    if not out.isdigit():
        raise Failure(f"unable to get PID for CT {vmid} (not running?)\n")
    return int(out)


class Entrance:
    """The namespaces of a container, held open so that they can be entered later."""

    def __init__(self, pid: int, unprivileged: bool) -> None:
        self.mount = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        self.user = os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC) if unprivileged else None

    def enter(self) -> None:
        """Make this process see the container's files, as the container's root. There is no way back."""
        self._join(self.mount, CLONE_NEWNS, "mount")
        os.chdir("/")
        if self.user is not None:
            self._join(self.user, CLONE_NEWUSER, "user")
            os.setgid(0)
            os.setuid(0)

    @staticmethod
    def _join(descriptor: int, kind: int, name: str) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(descriptor, kind) != 0:
            raise Failure(f"failed to enter {name} namespace: {os.strerror(ctypes.get_errno())}\n")
