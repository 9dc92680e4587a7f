# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The lab's Proxmox VE API: a server process over TLS on loopback, in step with the lab's containers."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import secrets
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from . import cgroups
from .errors import LabError
from .instance import Instance
from .nodes import JOIN, digest
from .system import wait_for, write

PORT = 8006
_REPOSITORY = Path(__file__).parent.parent
_SOURCES = ("pve.py", "pve_mended.py", "pve_model.py", "pve_server.py")

#: What the tokens may, by path: the lab's own, and one that knows of two containers and of nothing else.
GRANTS: dict[str, dict[str, tuple[str, ...]]] = {
    "lab": {"/": ("Sys.Audit",), "/vms": ("VM.Audit", "VM.PowerMgmt")},
    "narrow": {"/vms/200": ("VM.Audit",), "/vms/202": ("VM.Audit",)},
}


@dataclass(frozen=True)
class Credentials:
    """How to reach the API. The token may see and start and stop every container, and see the nodes; no more.

    `narrow_value` is the secret of the same user's token `narrow`, see GRANTS.
    """

    url: str
    host: str
    port: int
    ca: str
    user: str
    token_name: str
    token_value: str
    root_password: str
    narrow_value: str = ""

    @property
    def secrets(self) -> dict[str, str]:
        """The tokens' secrets by their names."""
        return {self.token_name: self.token_value, "narrow": self.narrow_value}


def credentials(lab: Instance) -> Credentials:
    """The lab's credentials, from its state folder. LabError when the lab has no API."""
    try:
        return Credentials(**json.loads((lab.api / "credentials.json").read_text()))
    except FileNotFoundError as exc:
        raise LabError(
            f"lab {lab.name} serves no API: install fakepve (a development dependency), then lab up"
        ) from exc


def unreachable(lab: Instance) -> set[str]:
    """The nodes that the API is to take for down although they are up."""
    try:
        return set((lab.api / "unreachable").read_text().split())
    except FileNotFoundError:
        return set()


@contextlib.contextmanager
def cut_off(lab: Instance, node: str) -> Iterator[None]:
    """The API answers for this node as it does for one that is down."""
    write(lab.api / "unreachable", f"{node}\n")
    try:
        yield
    finally:
        (lab.api / "unreachable").unlink()


def available() -> bool:
    """Whether this Python can serve the API."""
    return all(importlib.util.find_spec(name) for name in ("fakepve", "cryptography"))


def running(lab: Instance) -> bool:
    """Whether the API server runs and accepts connections."""
    if not cgroups.members(lab.cgroup("api")):
        return False
    try:
        with socket.create_connection((lab.api_address, PORT), timeout=5):
            return True
    except OSError:
        return False


def ensure(lab: Instance) -> bool:
    """Have the server running as the lab now wants it; False when this Python cannot serve it and none runs."""
    if not available():
        return running(lab)
    wanted = digest(*((Path(__file__).parent / name).read_bytes() for name in _SOURCES))
    kept = lab.api / "generation"
    if running(lab) and kept.exists() and kept.read_text() == wanted:
        return True
    cgroups.kill(lab.cgroup("api"))
    _prepare(lab)
    _start(lab)
    write(kept, wanted)
    return True


def _prepare(lab: Instance) -> None:
    place = lab.api / "credentials.json"
    kept = credentials(lab) if place.exists() else None
    if kept and not kept.narrow_value:  # of a lab that knew one token only
        write(place, json.dumps(asdict(replace(kept, narrow_value=str(uuid.uuid4()))), indent=1) + "\n", 0o600)
    if not kept:
        fresh = Credentials(
            url=f"https://{lab.api_address}:{PORT}",
            host=lab.api_address,
            port=PORT,
            ca=str(lab.api / "pve.crt"),
            user="automation@pve",
            token_name="lab",
            token_value=str(uuid.uuid4()),
            root_password=secrets.token_hex(8),
            narrow_value=str(uuid.uuid4()),
        )
        write(place, json.dumps(asdict(fresh), indent=1) + "\n", 0o600)


def _start(lab: Instance) -> None:
    joins = [str(path) for path in cgroups.create(lab.cgroup("api"))]
    server = ["setsid", "--fork", sys.executable, "-m", "lab.pve_server", lab.name]
    log = lab.api / "server.log"
    with log.open("wb") as stream:
        subprocess.run(
            ["sh", "-c", JOIN, "sh", *joins, "--", *server],
            stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, cwd=_REPOSITORY, check=True,
        )  # fmt: skip
    try:
        wait_for(lambda: running(lab) or _ended(lab, log), "the API server", 20)
        if not running(lab):
            raise LabError("it ended")
    except LabError as exc:
        raise LabError(f"the Proxmox VE API does not answer ({log}):\n{log.read_text()[-2000:].strip()}") from exc


def _ended(lab: Instance, log: Path) -> bool:
    return bool(log.read_text()) and not cgroups.members(lab.cgroup("api"))
