# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The lab's SSH keys: one pair to log in with, one host key a node, a known_hosts file."""

from __future__ import annotations

import tempfile
from pathlib import Path

from . import spec
from .instance import Instance
from .system import check, write


def ensure(lab: Instance) -> None:
    """Make what is missing."""
    lab.keys.mkdir(parents=True, exist_ok=True)
    lab.keys.chmod(0o700)
    for name in ("id_ed25519", *(f"host_{node.name}" for node in spec.NODES)):
        if not all((lab.keys / one).exists() for one in (name, f"{name}.pub")):
            _make(lab, name)
    write(lab.keys / "known_hosts", "".join(_known_host(lab, node.name) for node in spec.NODES), 0o600)


def _make(lab: Instance, name: str) -> None:
    """Make a pair aside, since ssh-keygen may be ended while it writes either file, and put it in place whole."""
    with tempfile.TemporaryDirectory(dir=lab.keys) as folder:
        comment = f"trainops-lab {lab.name}"
        check(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", f"{folder}/{name}"])
        for one in (name, f"{name}.pub"):
            Path(folder, one).replace(lab.keys / one)


def _known_host(lab: Instance, node: str) -> str:
    address, link = lab.address(node), lab.link_address(node)
    place = address if lab.port == 22 else f"[{address}]:{lab.port}"
    kind, key, *_ = (lab.keys / f"host_{node}.pub").read_text().split()
    return f"{place} {kind} {key}\n{link},[{link}]:* {kind} {key}\n"


def ssh_options(lab: Instance) -> dict[str, str]:
    """The options of ssh(1) that reach the lab's nodes and no others, host keys checked."""
    return {
        "IdentityFile": str(lab.keys / "id_ed25519"),
        "IdentitiesOnly": "yes",
        "UserKnownHostsFile": str(lab.keys / "known_hosts"),
        "GlobalKnownHostsFile": "/dev/null",
        "StrictHostKeyChecking": "yes",
        "Port": str(lab.port),
    }
