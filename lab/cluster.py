# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A whole lab: up, down and what is there."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import cgroups, containers, instance, inventory, keys, nodes, pve, rootfs, sshd, tools
from .errors import LabError
from .instance import Instance
from .system import folder_lock

Say = Callable[[str], None]

#: Program: Debian package that brings it.
_PROGRAMS = {
    "mmdebstrap": "mmdebstrap",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "setsid": "util-linux",
    "mount": "mount",
    "ip": "iproute2",
    "mkfs.btrfs": "btrfs-progs",
    "lxc-start": "lxc",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
}


def require() -> None:
    """LabError that says at once everything this machine lacks."""
    if os.geteuid() != 0:
        raise LabError("the lab needs root (it makes namespaces, mounts and containers): run it with sudo")
    packages = sorted({package for program, package in _PROGRAMS.items() if not shutil.which(program)})
    if packages:
        raise LabError(f"the lab needs programs that are not installed: apt-get install {' '.join(packages)}")
    if not _has_overlay():
        raise LabError("the kernel has no overlay file system, which the lab's roots need: modprobe overlay")
    cgroups.hierarchies()


def _has_overlay() -> bool:
    return "\toverlay\n" in Path("/proc/filesystems").read_text() or bool(
        list(Path("/lib/modules", os.uname().release).rglob("overlay.ko*"))
    )


def up(name: str, say: Say) -> Instance:
    """Bring the lab of that name to its declared state, whatever state it is in. LabError when that fails."""
    require()
    os.umask(0o022)
    rootfs.ensure(say)
    while True:
        lab = instance.claim(name)
        with folder_lock(lab.root):
            if instance.find(name) == lab:  # else: taken down while this waited for the lock
                if not _up(lab):
                    say("no Proxmox VE API: this Python has no fakepve (pip install fakepve cryptography)")
                return lab


def _up(lab: Instance) -> bool:
    """Bring every part up; whether the API is served."""
    keys.ensure(lab)
    tools.install(lab)
    inventory.install(lab)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        served = pool.submit(pve.ensure, lab)
        list(pool.map(_up_node, nodes.nodes(lab)))
        list(pool.map(containers.ensure, containers.containers(lab)))
        return served.result()


def _up_node(node: nodes.Node) -> None:
    nodes.ensure(node)
    sshd.ensure(node)


def down(name: str, *, purge: bool = False) -> None:
    """End the lab of that name and remove all that it made but the cached roots; those too with `purge`."""
    require_root()
    root = instance.STATE / name
    if root.is_dir():
        with folder_lock(root):
            cgroups.kill(f"{cgroups.ROOT}/{name}")
            cgroups.remove(f"{cgroups.ROOT}/{name}")
            shutil.rmtree(root)
    others = [lab.name for lab in instance.every()]
    with contextlib.suppress(OSError):
        instance.STATE.rmdir()
    cgroups.remove_empty_root()
    if purge:
        if others:
            raise LabError(f"the cached roots stay: labs rest on them ({', '.join(others)})")
        rootfs.purge()


def require_root() -> None:
    if os.geteuid() != 0:
        raise LabError("the lab needs root: run it with sudo")


def status(name: str) -> dict[str, Any]:
    """What of the lab is there, as JSON values; "up" is whether all of it is as declared."""
    lab = instance.find(name)
    if lab is None:
        return {"name": name, "up": False, "nodes": {}, "containers": {}, "api": {}}
    found = {node.name: _node_status(node) for node in nodes.nodes(lab)}
    guests = {c.vmid: _container_status(c) for c in containers.containers(lab)}
    good = all(node["pid"] and node["ssh"] for node in found.values()) and all(
        g["as_declared"] for g in guests.values()
    )
    served = {"address": f"{lab.api_address}:{pve.PORT}", "running": pve.running(lab)}
    return {"name": name, "up": good, "nodes": found, "containers": guests, "api": served}


def _node_status(node: nodes.Node) -> dict[str, Any]:
    address = f"{node.lab.address(node.name)}:{node.lab.port}"
    return {"pid": node.pid(), "address": address, "ssh": sshd.runs(node)}


def _container_status(container: containers.Container) -> dict[str, Any]:
    state = container.state() if container.node.pid() else "NODE DOWN"
    declared = "RUNNING" if container.spec.running else "STOPPED"
    facts = {"node": container.spec.node, "name": container.spec.hostname, "state": state}
    return {**facts, "as_declared": state == declared}
