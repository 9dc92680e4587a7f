# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the lab consists of: nodes, containers and GPUs, as plain values. Nothing here touches the machine."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

#: The namespace of the lab's GPU UUIDs: the same GPU has the same UUID in every lab and after every `up`.
_UUIDS = uuid.UUID("6f1dd3a4-8f7c-4b0e-9c55-6d3f0b0f2a10")

#: First id and number of ids of an unprivileged container, as Proxmox VE maps them.
ID_BASE = 100000
ID_COUNT = 65536

#: Passwords in containers, for becoming another user. Nothing listens on a network there.
PASSWORDS = {"root": "lab-root", "trainer": "lab-trainer"}


@dataclass(frozen=True)
class Gpu:
    """One GPU: `index` as nvidia-smi counts where it is asked, `minor` as in /dev/nvidia<minor>."""

    index: int
    uuid: str
    name: str
    total_mib: int
    bus_id: str
    minor: int

    def row(self) -> dict[str, Any]:
        """The GPU as a row of gpus.json, which the stand-in nvidia-smi reads."""
        return {
            "index": self.index,
            "uuid": self.uuid,
            "name": self.name,
            "memory_total_mib": self.total_mib,
            "bus_id": self.bus_id,
            "minor": self.minor,
        }


@dataclass(frozen=True)
class NodeSpec:
    """A node: its name, the last octet of its loopback address, its GPUs in minor order."""

    name: str
    octet: int
    gpus: tuple[Gpu, ...]


@dataclass(frozen=True)
class ContainerSpec:
    """A container. `gpus` are minors on its node; `image` names a stack of layers in rootfs.py."""

    vmid: int
    node: str
    hostname: str
    image: str
    unprivileged: bool = False
    systemd: bool = False
    gpus: tuple[int, ...] = ()
    running: bool = True
    raw_devices: bool = False
    cores: int = 2
    memory_mib: int = 4096


def _gpus(node: str, name: str, total_mib: int, buses: str) -> tuple[Gpu, ...]:
    return tuple(
        Gpu(n, f"GPU-{uuid.uuid5(_UUIDS, f'{node}/{n}')}", name, total_mib, f"00000000:{bus}:00.0", n)
        for n, bus in enumerate(buses.split())
    )


#: pve2 has GPUs of another kind, so that a selection by name or memory has something to tell apart.
NODES: tuple[NodeSpec, ...] = (
    NodeSpec("pve1", 11, _gpus("pve1", "NVIDIA H200", 143771, "03 2A 3A 5D 9A AB BA DB")),
    NodeSpec("pve2", 12, _gpus("pve2", "NVIDIA RTX A6000", 49140, "41 81")),
)

#: What is added to a node's last octet for the address of a link to it that can be cut.
LINK_OCTETS = 10

#: The last octet of the address that serves the Proxmox VE API.
API_OCTET = 10

#: 201 has the upper half of 200's GPUs, so an index inside it is not the node's, as it happens to people.
CONTAINERS: tuple[ContainerSpec, ...] = (
    ContainerSpec(200, "pve1", "train-a", "bookworm", gpus=tuple(range(8))),
    ContainerSpec(201, "pve1", "train-b", "bullseye", unprivileged=True, gpus=(4, 5, 6, 7), raw_devices=True),
    ContainerSpec(202, "pve1", "spare", "bookworm", running=False),
    ContainerSpec(210, "pve2", "train-c", "bookworm-systemd", systemd=True, gpus=(0, 1)),
)


def node_spec(name: str) -> NodeSpec:
    """The node of that name; KeyError with the names there are."""
    for node in NODES:
        if node.name == name:
            return node
    raise KeyError(f"no node {name!r} in the lab: it has {', '.join(node.name for node in NODES)}")


def container_spec(vmid: int) -> ContainerSpec:
    """The container of that vmid; KeyError with the vmids there are."""
    for container in CONTAINERS:
        if container.vmid == vmid:
            return container
    raise KeyError(f"no container {vmid} in the lab: it has {', '.join(str(c.vmid) for c in CONTAINERS)}")


def container_gpus(container: ContainerSpec) -> tuple[Gpu, ...]:
    """The container's GPUs as seen inside: counted from 0 in the node's order, as the NVIDIA driver does."""
    given = [gpu for gpu in node_spec(container.node).gpus if gpu.minor in container.gpus]
    return tuple(Gpu(n, g.uuid, g.name, g.total_mib, g.bus_id, g.minor) for n, g in enumerate(given))


def device_names(minors: tuple[int, ...]) -> tuple[str, ...]:
    """The device files in /dev that whoever has these GPUs sees; none without a GPU."""
    return (*(f"nvidia{minor}" for minor in minors), "nvidiactl", "nvidia-uvm") if minors else ()
