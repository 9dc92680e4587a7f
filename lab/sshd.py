# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The OpenSSH server of a node, and the sessions that its log shows."""

from __future__ import annotations

import contextlib
import re
import socket
from pathlib import Path

from .errors import LabError
from .nodes import TOOLS, Node
from .system import check, wait_for

#: What sshd logs before it gives up on its address.
_TAKEN = "Cannot bind any address"

_SESSION = re.compile(r"^Starting session: ", re.MULTILINE)


def log(node: Node) -> Path:
    """The server's log on this machine (LogLevel VERBOSE)."""
    return node.folder / "log" / "sshd.log"


def sessions(node: Node) -> int:
    """How many sessions (remote commands, shells, subsystems) the log shows since the node's folder was made."""
    return len(_SESSION.findall(_said(node)))


def answers(node: Node) -> bool:
    """Whether a server greets on the node's address."""
    try:
        with socket.create_connection((node.lab.address(node.name), node.lab.port), timeout=5) as link:
            return link.recv(4) == b"SSH-"
    except OSError:
        return False


def ensure(node: Node) -> None:
    """Start the server unless it runs. LabError when its address is taken or it does not come up."""
    if runs(node):
        return
    said_before = _said(node)
    server = [f"{TOOLS}/sshd", "-E", "/var/log/trainops-lab/sshd.log"]  # goes to the background by itself
    check(node.enter(server, own_network=False))

    def decided() -> bool:
        return (runs(node) and answers(node)) or _TAKEN in _said(node)[len(said_before) :]

    with contextlib.suppress(LabError):
        wait_for(decided, "OpenSSH server", 20)
    if not runs(node):
        raise LabError(_why_not(node, _said(node)[len(said_before) :]))


def _said(node: Node) -> str:
    try:
        return log(node).read_text(errors="replace")
    except FileNotFoundError:
        return ""


def runs(node: Node) -> bool:
    """Whether the server that the lab started is there; one that is busy may not answer just now."""
    if node.pid() is None:
        return False
    found = node.run(["sh", "-c", "readlink /proc/$(cat /run/sshd.pid)/exe"])
    return found.stdout.strip() == b"/usr/sbin/sshd"


def _why_not(node: Node, said: str) -> str:
    where = f"{node.lab.address(node.name)}:{node.lab.port}"
    hint = ""
    if _TAKEN in said:
        hint = f"Another server has {where} (an sshd on all addresses does): take TRAINOPS_LAB_SSH_PORT=2222\n"
    return f"the OpenSSH server of {node.name} does not answer on {where}\n{hint}{said}".rstrip()
