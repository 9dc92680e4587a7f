# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The OpenSSH server of a node, and the sessions that its log shows."""

from __future__ import annotations

import re
import socket
from pathlib import Path

from .errors import LabError
from .nodes import TOOLS, Node
from .system import check, wait_for

_SESSION = re.compile(r"^Starting session: ", re.MULTILINE)


def log(node: Node) -> Path:
    """The server's log on this machine (LogLevel VERBOSE)."""
    return node.folder / "log" / "sshd.log"


def sessions(node: Node) -> int:
    """How many sessions (remote commands, shells, subsystems) the log shows since the node's folder was made."""
    try:
        return len(_SESSION.findall(log(node).read_text(errors="replace")))
    except FileNotFoundError:
        return 0


def _pid(node: Node) -> int | None:
    """The listening server's PID inside the node, by its PID file; None when there is none."""
    text = node.run(["cat", "/run/sshd.pid"]).stdout.decode().strip()
    return int(text) if text.isdigit() else None


def answers(node: Node) -> bool:
    """Whether a server greets on the node's address."""
    try:
        with socket.create_connection((node.lab.address(node.name), node.lab.port), timeout=5) as link:
            return link.recv(4) == b"SSH-"
    except OSError:
        return False


def ensure(node: Node) -> None:
    """Start the server unless it answers. LabError when its address is taken or it does not come up."""
    if answers(node) and _ours(node):
        return
    server = [f"{TOOLS}/sshd", "-E", "/var/log/trainops-lab/sshd.log"]  # goes to the background by itself
    check(node.enter(server, own_network=False))
    try:
        wait_for(lambda: _ours(node) and answers(node), "OpenSSH server", 10)
    except LabError as exc:
        raise LabError(_why_not(node)) from exc


def _ours(node: Node) -> bool:
    pid = _pid(node)
    return pid is not None and not node.run(["test", "-d", f"/proc/{pid}"]).returncode


def _why_not(node: Node) -> str:
    where = f"{node.lab.address(node.name)}:{node.lab.port}"
    tail = "\n".join(log(node).read_text(errors="replace").splitlines()[-5:]) if log(node).exists() else ""
    hint = ""
    if "Address already in use" in tail:
        hint = f"\nAnother server has {where} (an sshd on all addresses does): take TRAINOPS_LAB_SSH_PORT=2222"
    return f"the OpenSSH server of {node.name} does not answer on {where}:\n{tail}{hint}"
