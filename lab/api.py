# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The lab for tests and tools, typed: nodes, containers, what it costs in sessions.

lab = open_lab()                               # the lab that TRAINOPS_LAB selects; `make lab` brings it up
lab.node("pve1").run(["pct", "status", "200"]).stdout
lab.container(200).run(["cat", "/etc/hostname"]).stdout
with lab.counting("pve1") as sessions: ...
sessions()                                     # how many the node's OpenSSH server began since
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from . import cluster, holding, instance, inventory, keys, pve, spec, sshd
from .containers import Container
from .errors import LabError
from .instance import Instance
from .nodes import Node
from .system import run

__all__ = ["Container", "Lab", "LabError", "Node", "open_lab"]


@dataclass(frozen=True)
class Lab:
    """A lab that is up, or was."""

    instance: Instance

    def node(self, name: str) -> Node:
        """The node of that name; KeyError when there is none."""
        return Node(self.instance, spec.node_spec(name))

    def container(self, vmid: int) -> Container:
        """The container of that vmid; KeyError when there is none."""
        return Container(self.instance, spec.container_spec(vmid))

    def target(self, name: str) -> Node | Container:
        """A node by its name or a container by its vmid. LabError when the lab has neither."""
        try:
            return self.container(int(name)) if name.isdigit() else self.node(name)
        except KeyError as exc:
            raise LabError(str(exc.args[0])) from exc

    def gpus(self, vmid: int) -> tuple[spec.Gpu, ...]:
        """The GPUs that a container has, as seen inside."""
        return spec.container_gpus(spec.container_spec(vmid))

    def address(self, node: str) -> str:
        """The loopback address of a node's OpenSSH server."""
        return self.instance.address(node)

    @property
    def key(self) -> Path:
        """The private key that logs in on every node as root, ops and limited."""
        return self.instance.keys / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        """The nodes' host keys."""
        return self.instance.keys / "known_hosts"

    @property
    def inventory(self) -> Path:
        """An Ansible inventory of the lab."""
        return inventory.path(self.instance)

    @property
    def api(self) -> pve.Credentials:
        """How to reach the lab's Proxmox VE API. LabError when it serves none."""
        return pve.credentials(self.instance)

    def cut_off(self, node: str) -> contextlib.AbstractContextManager[None]:
        """Within the block the API answers for this node as it does for one that is down; the node itself stays up."""
        return pve.cut_off(self.instance, node)

    def ssh_args(self, node: str, user: str = "root") -> list[str]:
        """The command line of ssh(1) up to and with the destination, no configuration of the user's read."""
        options = [part for item in keys.ssh_options(self.instance).items() for part in ("-o", "=".join(item))]
        return ["ssh", "-F", "/dev/null", *options, f"{user}@{self.address(node)}"]

    def ssh(
        self, node: str, command: str, *, user: str = "root", stdin: bytes | None = None, timeout: float = 120
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a shell command on a node over a connection of its own."""
        return run([*self.ssh_args(node, user), "--", command], stdin=stdin, timeout=timeout)

    def sessions_log(self, node: str) -> Path:
        """The log of a node's OpenSSH server: one line `Starting session: …` a session."""
        return sshd.log(self.node(node))

    @contextlib.contextmanager
    def counting(self, node: str) -> Iterator[Callable[[], int]]:
        """Gives a function that says how many sessions the node has begun since the block was entered."""
        before = sshd.sessions(self.node(node))
        yield lambda: sshd.sessions(self.node(node)) - before

    @contextlib.contextmanager
    def hold(self, target: str | int, gpu: int, mib: int | None = None) -> Iterator[str]:
        """Hold MiB of a GPU (its index as seen there) from a container or node; without mib only its device files."""
        memory = ["--no-memory"] if mib is None else ["--mib", str(mib)]
        with holding.held(self.target(str(target)), ["--gpu", str(gpu), *memory]) as line:
            yield line


def open_lab(name: str | None = None) -> Lab:
    """The lab of that name, by default the one that TRAINOPS_LAB selects. LabError when it was never brought up."""
    wanted = name or instance.selected_name()
    found = instance.find(wanted)
    if found is None:
        raise LabError(f"lab {wanted} is not up: python -m lab up")
    return Lab(found)


def bring_up(name: str | None = None) -> Lab:
    """Bring the lab to its declared state, whatever state it is in, and give it. LabError when that fails."""
    return Lab(cluster.up(name or instance.selected_name(), lambda text: None))
