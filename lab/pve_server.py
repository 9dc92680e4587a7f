# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The API server's process: the mended fakepve over the lab's containers. Run by pve.py as `lab.pve_server NAME`."""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from fakepve import FakeCt, TaskError
from fakepve.certs import make_cert

from . import instance, pve, pve_model, spec
from .containers import Container
from .errors import LabError
from .instance import Instance
from .pve_mended import MendedPve
from .system import write


class LabCt(FakeCt):
    """A container whose digest is that of its file, as Proxmox VE's is."""

    file_digest = ""

    def digest(self) -> str:
        return self.file_digest


class LabPve(MendedPve):
    """The API of one lab."""

    def __init__(self, lab: Instance, secret: pve.Credentials) -> None:
        super().__init__(user="root@pam", password=secret.root_password, host=secret.host, port=secret.port)
        self.lab = lab
        self.cluster_name = "lab"
        self.addresses = {node.name: lab.address(node.name) for node in spec.NODES}
        for name, value in secret.secrets.items():
            self.add_token(secret.user, name, value, pve.GRANTS[name])
        self.refresh()

    def refresh(self) -> None:
        """Take over what /etc/pve and the kernel say now."""
        away = pve.unreachable(self.lab)
        for name, up in pve_model.online(self.lab).items():
            self.set_node_offline(name, not up or name in away)
        guests = pve_model.guests(self.lab)
        self.cts = [ct for ct in self.cts if any((g.vmid, g.node) == (ct.vmid, ct.node) for g in guests)]
        for guest in guests:
            ct = self.ct(guest.vmid)
            if ct is None:
                ct = LabCt(guest.vmid, node=guest.node, defaults=False)
                self.cts.append(ct)
            ct.config, ct.file_digest = dict(guest.config), guest.digest
            ct.status = "running" if guest.pid else "stopped"
            ct.pid, ct.started_at = guest.pid, guest.started

    def keep(self) -> None:
        """Write configurations that a call has changed to /etc/pve."""
        for ct in self.cts:
            path = pve_model.config_file(self.lab, ct.node, ct.vmid)
            if path.exists() and pve_model.parse_config(path.read_text()) != ct.config:
                write(path, pve_model.render_config(ct.config), 0o640)

    async def _ct_task(self, ct: Any, ttype: str, user: str, body: Callable[[], Awaitable[Any]], **kwargs: Any) -> Any:
        """A task does what it says: after fakepve's bookkeeping the real container follows."""

        async def real() -> Any:
            before = ct.status
            note = await body()
            if ct.status != before:
                await self._follow(ct.vmid, ct.status)
            return note

        return await super()._ct_task(ct, ttype, user, real, **kwargs)

    async def _follow(self, vmid: int, status: str) -> None:
        try:
            container = Container(self.lab, spec.container_spec(vmid))
            await asyncio.to_thread(container.start if status == "running" else container.stop)
        except (LabError, KeyError) as exc:
            raise TaskError(str(exc.args[0])) from exc


async def _serve(lab: Instance) -> None:
    names = (lab.api_address, *(node.name for node in spec.NODES))
    certificate, key, _ = make_cert(str(lab.api), name="pve", hosts=names)
    server = LabPve(lab, pve.credentials(lab))
    server.certificate = ssl.PEM_cert_to_DER_cert(Path(certificate).read_text())
    await server.start(certificate, key)
    await asyncio.Event().wait()


def main() -> None:
    lab = instance.find(sys.argv[1])
    if lab is None:
        sys.exit(f"lab {sys.argv[1]} is not up")
    asyncio.run(_serve(lab))


if __name__ == "__main__":
    main()
