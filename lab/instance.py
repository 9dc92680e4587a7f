# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A lab of a name: its addresses and its places on disk. Several can stand side by side (TRAINOPS_LAB=name)."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

from . import cgroups, spec
from .errors import LabError
from .system import folder_lock, write

STATE = Path("/var/lib/trainops-lab")
CACHE = Path("/var/cache/trainops-lab")
DEFAULT = "default"
_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")
_NETS = 250


@dataclass(frozen=True)
class Instance:
    """A lab's name, `net` (third octet of its addresses, 0 for the default lab) and SSH port."""

    name: str
    net: int
    port: int = 22

    @property
    def root(self) -> Path:
        """The folder that holds all of this lab's state; `down` removes it."""
        return STATE / self.name

    @property
    def keys(self) -> Path:
        """The folder of the lab's key pair, host keys and known_hosts."""
        return self.root / "keys"

    @property
    def tools(self) -> Path:
        """The stand-ins as nodes and containers see them, below /usr/lib/trainops-lab."""
        return self.root / "tools"

    @property
    def pve(self) -> Path:
        """The folder behind /etc/pve/nodes, the same on every node."""
        return self.root / "pve"

    @property
    def api(self) -> Path:
        """The folder of the API server: certificate, token, log."""
        return self.root / "api"

    def node(self, name: str) -> Path:
        """The folder of a node."""
        return self.root / "nodes" / name

    def address(self, node: str) -> str:
        """The loopback address of a node's OpenSSH server."""
        return f"127.0.{self.net}.{spec.node_spec(node).octet}"

    def link_address(self, node: str) -> str:
        """The loopback address on which a link to a node that can be cut listens."""
        return f"127.0.{self.net}.{spec.node_spec(node).octet + spec.LINK_OCTETS}"

    @property
    def api_address(self) -> str:
        """The loopback address of the Proxmox VE API."""
        return f"127.0.{self.net}.{spec.API_OCTET}"

    def cgroup(self, *parts: str) -> str:
        """The path of one of the lab's cgroups, below the root of each hierarchy."""
        return "/".join([cgroups.ROOT, self.name, *parts])


def selected_name() -> str:
    """The lab that TRAINOPS_LAB selects, or the default one. LabError for a name that cannot be one."""
    name = os.environ.get("TRAINOPS_LAB") or DEFAULT
    if not _NAME.fullmatch(name):
        raise LabError(f"TRAINOPS_LAB={name}: a lab's name is lower-case letters, digits and dashes, at most 31")
    return name


def selected_port() -> int:
    """The SSH port of a lab that is yet to be made, TRAINOPS_LAB_SSH_PORT or 22."""
    text = os.environ.get("TRAINOPS_LAB_SSH_PORT") or "22"
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise LabError(f"TRAINOPS_LAB_SSH_PORT={text}: a port is a number from 1 to 65535")
    return int(text)


def find(name: str) -> Instance | None:
    """The lab of that name if it has been brought up (or half so), else None."""
    try:
        kept = json.loads((STATE / name / "lab.json").read_text())
        return Instance(name, int(kept["net"]), int(kept["port"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def every() -> list[Instance]:
    """All labs that have state on this machine."""
    names = sorted(entry.name for entry in STATE.iterdir() if entry.is_dir()) if STATE.is_dir() else []
    return [lab for lab in map(find, names) if lab is not None]


def claim(name: str) -> Instance:
    """The lab of that name, given addresses of its own when it is new."""
    with folder_lock(STATE):
        known = find(name)
        if known:
            return known
        taken = {lab.net for lab in every()}
        net = 0 if name == DEFAULT else next((n for n in range(1, _NETS) if n not in taken), -1)
        if net < 0:
            raise LabError("no addresses left for another lab: take one down (python -m lab status --all)")
        lab = Instance(name, net, selected_port())
        write(lab.root / "lab.json", json.dumps({"net": lab.net, "port": lab.port}) + "\n")
        return lab
