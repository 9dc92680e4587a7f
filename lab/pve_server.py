# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The API server's process: fakepve over the lab's containers, with what it gets wrong put right.

The differences from Proxmox VE that are mended here: answers to a failed login, calls that do not exist, booleans in
forms, privilege separation of tokens, unknown tasks, empty bodies. Run by pve.py as `python -m lab.pve_server NAME`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import ssl
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from fakepve import FakeCt, FakePve, PveError, TaskError
from fakepve.certs import make_cert

from . import instance, pve, pve_model, spec
from .containers import Container
from .errors import LabError
from .instance import Instance
from .system import write

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

#: Proxmox VE answers a failed login only after this many seconds (pve-http-server, AnyEvent.pm).
LOGIN_DELAY = 3.0

_UPID = re.compile(r"UPID:[^:]+:[0-9A-F]{8}:[0-9A-F]{8,9}:[0-9A-F]{8}:[^:]+:[^:]*:[^:]+:")
_PREFIXES = ("/api2/json", "/api2/extjs")


class LabCt(FakeCt):
    """A container whose digest is that of its file, as Proxmox VE's is."""

    file_digest = ""

    def digest(self) -> str:
        return self.file_digest


class LabPve(FakePve):
    """The API of one lab."""

    def __init__(self, lab: Instance, secret: pve.Credentials) -> None:
        super().__init__(user="root@pam", password=secret.root_password, host=secret.host, port=secret.port)
        self.lab = lab
        self.time_scale = 1.0
        self.cluster_name = "lab"
        self.version, self.release_version = "9.2.11", "9.2"
        self.client_max_size = 512 * 1024
        #: Tokens with privilege separation: what they may is what both they and their user may.
        self.separated: set[str] = set()
        token = f"{secret.user}!{secret.token_name}"
        self.apitokens[token] = secret.token_value
        self.separated.add(token)
        for who in (secret.user, _own_key(token)):
            self.grant(who, "/vms", "VM.Audit", "VM.PowerMgmt")
            self.grant(who, "/nodes", "Sys.Audit")
        self.refresh()

    # --- in step with the lab

    def refresh(self) -> None:
        """Take over what /etc/pve and the kernel say now."""
        for name, up in pve_model.online(self.lab).items():
            self.set_node_offline(name, not up)
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

    # --- put right: logins and privileges

    def _authenticate(self, request: web.Request) -> Any:
        header = request.headers.get("Authorization", "")
        if header.startswith(("PVEAPIToken=", "PVEAPIToken ")):
            token, _, secret = header[len("PVEAPIToken=") :].strip().partition("=")
            if self.apitokens.get(token) != secret:
                raise PveError(401, "Authentication failed!")
            return token
        if not header and "PVEAuthCookie" not in request.cookies and not request.path.endswith("/access/ticket"):
            raise PveError(401, "No ticket")
        return super()._authenticate(request)

    def allowed(self, user: str, path: str, priv: str) -> bool:
        owner, _, token = user.partition("!")
        if not token:
            return bool(super().allowed(user, path, priv))
        if user in self.separated and not super().allowed(_own_key(user), path, priv):
            return False
        return bool(super().allowed(owner, path, priv))

    def check_permissions(self, user: str | None, perms: Any, values: Any, declared: Any = None) -> None:
        """A token of root@pam has root's privileges, but is not root@pam where only root@pam may."""
        if user is None or not user.startswith("root@pam!"):
            super().check_permissions(user, perms, values, declared)
            return
        good, why = True, ""
        if perms is None:
            good, why = False, "user != root@pam"
        elif "check" in perms:
            good, why = self._check(user, perms["check"], values, declared)
        if not good:
            raise PveError(403, f"Permission check failed ({why})")

    # --- put right: calls and their parameters

    async def answer(self, request: web.Request, match: Any, params: Any, user: str | None, call: Any = None) -> Any:
        """Proxmox VE's order: is there such a call, may the user, are the parameters right."""
        info = match and match.methods.get(request.method)
        if not info:
            raise PveError(501, f"Method '{request.method} {_below_api(request.path)}' not implemented")
        declared = (info.get("parameters") or {}).get("properties", {})
        self.check_permissions(user, info.get("permissions"), {**params, **match.params}, declared)
        wrong = wrong_booleans(declared, params)
        if wrong:
            raise PveError(400, "Parameter verification failed.", wrong)
        return await super().answer(request, match, params, user, call)

    async def _resources(self, request: web.Request) -> Any:
        self._verify(request, dict(request.query))
        return await super()._resources(request)

    async def _nodes(self, request: web.Request) -> Any:
        """Every node shows the certificate that the API really has, so a client can pin it."""
        der = ssl.PEM_cert_to_DER_cert((self.lab.api / "pve.crt").read_text())
        fingerprint = hashlib.sha256(der).hexdigest().upper()
        colons = ":".join(fingerprint[at : at + 2] for at in range(0, len(fingerprint), 2))
        rows = json.loads((await super()._nodes(request)).text)["data"]
        return web.json_response({"data": [{**row, "ssl_fingerprint": colons} for row in rows]})

    async def _cluster_status(self, request: web.Request) -> Any:
        rows = json.loads((await super()._cluster_status(request)).text)["data"]
        for row in rows:
            if row["type"] == "node":
                row["ip"] = self.lab.address(row["name"])
        return web.json_response({"data": rows})

    def _get_task(self, request: web.Request) -> Any:
        upid = request.match_info["upid"]
        if upid not in self.tasks:
            why = "no such task" if _UPID.fullmatch(upid) else "unable to parse worker upid"
            raise PveError(400, "Parameter verification failed.", {"upid": why})
        return super()._get_task(request)

    def _task_view(self, task: Any, listing: bool = False) -> Any:
        seen = super()._task_view(task, listing)
        return {**seen, "user": seen["user"].partition("!")[0]}

    # --- put right: what goes over the wire

    def _build_app(self) -> web.Application:
        app: web.Application = super()._build_app()
        app.middlewares.insert(0, self._wire)
        return app

    @web.middleware
    async def _wire(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self.refresh()
        response = await handler(request)
        if request.method != "GET" and response.status < 400:
            self.keep()
        if response.status == 401:
            await asyncio.sleep(LOGIN_DELAY)
        if response.status == 595 or (response.status == 401 and not request.path.endswith("/access/ticket")):
            response = web.Response(status=response.status, reason=response.reason)
        if response.status >= 400:
            response.force_close()
        return response


def _own_key(token: str) -> str:
    """The name under which a separated token's own grants are kept; fakepve would add those of its user."""
    return f"token {token.replace('!', ' ')}"


def _below_api(path: str) -> str:
    return next((path[len(prefix) :] for prefix in _PREFIXES if path.startswith(prefix)), path)


def wrong_booleans(declared: dict[str, Any], given: dict[str, Any]) -> dict[str, str]:
    """Parameters that are no booleans to Proxmox VE: in a form only 1 and 0 are (JSONSchema.pm)."""
    return {
        name: f"type check ('boolean') failed - got '{value}'"
        for name, value in given.items()
        if (declared.get(name) or {}).get("type") == "boolean" and isinstance(value, str) and value not in ("0", "1")
    }


async def _serve(lab: Instance) -> None:
    names = (lab.api_address, *(node.name for node in spec.NODES))
    certificate, key, _ = make_cert(str(lab.api), name="pve", hosts=names)
    await LabPve(lab, pve.credentials(lab)).start(certificate, key)
    await asyncio.Event().wait()


def main() -> None:
    lab = instance.find(sys.argv[1])
    if lab is None:
        sys.exit(f"lab {sys.argv[1]} is not up")
    asyncio.run(_serve(lab))


if __name__ == "__main__":
    main()
