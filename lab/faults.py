# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Faults of nodes and containers, each for as long as a block lasts; links that are cut are in link.py.

with faults.disk(lab.container(200), "/srv/small", size=1 << 20): ...
with faults.full(lab.container(200), "/srv/small"): ...
with faults.pct(lab.node("pve1"), match="push 200", copy_bytes=10): ...
with faults.frozen(lab.container(201)): ...
with faults.gone(lab.node("pve2")): ...
"""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Iterator
from typing import Any

from . import processes, sshd
from .containers import Container
from .errors import LabError
from .nodes import Node
from .system import wait_for

_PCT = "/etc/trainops-lab/pct.json"
_FILLER = ".filler-of-the-lab"
# Writes until nothing more fits, by smaller and smaller pieces; then takes every inode that is left. The first word it
# says is that all of it is taken.
_FILL = """
import errno, os, sys
folder, what = sys.argv[1], sys.argv[2]
os.makedirs(folder, exist_ok=True)
if what == "bytes":
    fd = os.open(folder + "/0", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for size in (1 << 20, 1 << 12, 1):
        try:
            while True:
                os.write(fd, bytes(size))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
else:
    count = 0
    try:
        while True:
            os.close(os.open("%s/%d" % (folder, count), os.O_WRONLY | os.O_CREAT))
            count += 1
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
"""


def mount(container: Container, folder: str, options: str) -> None:
    """Mount a file system in memory on a folder in a container, which is made if need be."""
    _inside(container, "mkdir", "-p", folder)
    _inside(container, "mount", "-t", "tmpfs", "-o", f"mode=755,{options}", "none", folder)


def unmount(container: Container, folder: str) -> None:
    """Take it away again, whoever uses it; nothing when there is none, or no container that runs."""
    if container.state() == "RUNNING":
        container.run(["umount", "-l", folder])


@contextlib.contextmanager
def disk(
    container: Container, folder: str, *, size: int = 0, inodes: int = 0, read_only: bool = False
) -> Iterator[None]:
    """A small disk on a folder: of so many bytes, of so many inodes, or one that cannot be written."""
    options = [f"size={size}"] * bool(size) + [f"nr_inodes={inodes}"] * bool(inodes) + ["ro"] * read_only
    mount(container, folder, ",".join(options) or "rw")
    try:
        yield
    finally:
        unmount(container, folder)


def fill(container: Container, folder: str, what: str = "bytes") -> None:
    """Use up all bytes, or all inodes, of the file system of a folder."""
    _inside(container, "python3", "-c", _FILL, f"{folder}/{_FILLER}", what)


def empty(container: Container, folder: str) -> None:
    """Give back what :func:`fill` took."""
    if container.state() == "RUNNING":
        container.run(["rm", "-rf", f"{folder}/{_FILLER}"])


@contextlib.contextmanager
def full(container: Container, folder: str, what: str = "bytes") -> Iterator[None]:
    """A full disk: no byte, or no inode, is left where a folder is. Take a small one, since this really fills it."""
    try:
        fill(container, folder, what)
        yield
    finally:
        empty(container, folder)


@contextlib.contextmanager
def pct(node: Node, **fault: Any) -> Iterator[None]:
    """Let the node's pct fail as pct_standin/settings.py describes: copy_bytes, held_lock, slow, exit, stderr …"""
    before = node.run(["cat", _PCT])
    values = json.loads(before.stdout) if before.returncode == 0 else {}
    known = values.get("faults", [])
    faults = [*(known if isinstance(known, list) else [known]), fault]
    node.check(["tee", _PCT], stdin=json.dumps({**values, "faults": faults}).encode())
    try:
        yield
    finally:
        if before.returncode == 0:
            node.check(["tee", _PCT], stdin=before.stdout)
        else:
            node.check(["rm", "-f", _PCT])


@contextlib.contextmanager
def frozen(container: Container) -> Iterator[None]:
    """A container whose processes stand still, as while it is being backed up in the mode that suspends it."""
    container.freeze()
    try:
        yield
    finally:
        container.thaw()


@contextlib.contextmanager
def stopped(container: Container) -> Iterator[None]:
    """A container that is stopped, running again afterwards."""
    container.stop()
    try:
        yield
    finally:
        container.start()


def reboot(container: Container) -> None:
    """Stop a container at once and start it again, as `pct reboot` does at the end of its patience."""
    container.stop()
    container.start()


@contextlib.contextmanager
def gone(node: Node) -> Iterator[None]:
    """A node that nobody can log in to: its OpenSSH server and all sessions are gone, connections are refused."""
    processes.kill(processes.servers(node))
    wait_for(lambda: not processes.servers(node), f"the end of the OpenSSH server of {node.name}", 20)
    try:
        yield
    finally:
        sshd.ensure(node)


@contextlib.contextmanager
def hung(node: Node) -> Iterator[None]:
    """A node whose OpenSSH server stands still: connections are accepted by the kernel, and nothing ever answers."""
    held = processes.kill(processes.servers(node), signal.SIGSTOP)
    try:
        yield
    finally:
        processes.kill(held, signal.SIGCONT)


def _inside(container: Container, *argv: str) -> None:
    done = container.run(argv)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise LabError(f"container {container.vmid}: {argv[0]}: {said}")
