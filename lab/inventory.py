# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The lab as an Ansible inventory: the default lab's is inventories/lab, any lab's is also in its state folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import keys, spec
from .instance import Instance
from .system import write

HEADER = "# The lab's containers (python -m lab up). Written by lab/inventory.py; a test compares it with that.\n"


def path(lab: Instance) -> Path:
    """The inventory of a lab."""
    return lab.root / "inventory" / "hosts.yml"


def install(lab: Instance) -> None:
    """Write the lab's inventory to its state folder."""
    write(path(lab), render(lab))


def render(lab: Instance) -> str:
    """The inventory's text: every container that is meant to run, in the group `training`."""
    options = keys.ssh_options(lab)
    identity, port = options.pop("IdentityFile"), options.pop("Port")
    common: dict[str, Any] = {
        "ansible_connection": "trainops.proxmox.pct",
        "ansible_user": "root",
        "ansible_port": int(port),
        "ansible_ssh_private_key_file": identity,
        "ansible_ssh_common_args": ">-" + "".join(f"\n      -o {name}={value}" for name, value in options.items()),
        "ansible_python_interpreter": "/usr/bin/python3",
        "training_root": "/root",
        "training_python": "/root/venv/bin/python",
    }
    hosts = [container for container in spec.CONTAINERS if container.running]
    lines = ["training:", "  hosts:"]
    for container in hosts:
        address = lab.address(container.node)
        lines += [f"    ct{container.vmid}:", f"      ansible_host: {address}", f"      proxmox_vmid: {container.vmid}"]
    lines += ["  vars:", *(f"    {name}: {value}" for name, value in common.items())]
    return HEADER + "---\n" + "\n".join(lines) + "\n"
