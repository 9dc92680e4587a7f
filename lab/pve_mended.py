# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""fakepve with what it gets wrong put right, for whatever containers it is given.

The differences from Proxmox VE that are mended here: answers to a failed login, calls that do not exist, booleans in
forms, privilege separation of tokens, who may see the cluster's state, effective permissions, unknown tasks, empty
bodies.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from fakepve import FakePve, PveError
from fakepve.server import USER
from fakepve.shapes import PRIVILEGES

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

#: Proxmox VE answers a failed login only after this many seconds (pve-http-server, AnyEvent.pm).
LOGIN_DELAY = 3.0

_UPID = re.compile(r"UPID:[^:]+:[0-9A-F]{8}:[0-9A-F]{8,9}:[0-9A-F]{8}:[^:]+:[^:]*:[^:]+:")
_PREFIXES = ("/api2/json", "/api2/extjs")


class MendedPve(FakePve):
    """The API of a cluster."""

    login_delay = LOGIN_DELAY

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.time_scale = 1.0
        self.version, self.release_version = "9.2.11", "9.2"
        self.client_max_size = 512 * 1024
        #: Tokens with privilege separation: what they may is what both they and their user may.
        self.separated: set[str] = set()
        #: The certificate that is served, as DER; nodes tell its fingerprint.
        self.certificate = b""
        #: Addresses of nodes, as /cluster/status gives them.
        self.addresses: dict[str, str] = {}

    def add_token(self, user: str, name: str, secret: str, grants: dict[str, tuple[str, ...]]) -> str:
        """A token with privilege separation that has these privileges by path, and its user too; its full id."""
        token = f"{user}!{name}"
        self.apitokens[token] = secret
        self.separated.add(token)
        for path, privileges in grants.items():
            self.grant(user, path, *privileges)
            self.grant(_own_key(token), path, *privileges)
        return token

    def refresh(self) -> None:
        """Called before each request is answered: whatever stands behind the API may have changed."""

    def keep(self) -> None:
        """Called after each request that may have changed something."""

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
        fingerprint = hashlib.sha256(self.certificate).hexdigest().upper()
        colons = ":".join(fingerprint[at : at + 2] for at in range(0, len(fingerprint), 2))
        rows = json.loads((await super()._nodes(request)).text)["data"]
        return web.json_response({"data": [{**row, "ssl_fingerprint": colons} for row in rows]})

    async def _cluster_status(self, request: web.Request) -> Any:
        """Only who audits the whole system sees it (PVE::API2::Cluster), with the nodes' addresses."""
        self.require(request[USER], "/", "Sys.Audit")
        rows = json.loads((await super()._cluster_status(request)).text)["data"]
        for row in rows:
            if row["type"] == "node":
                row["ip"] = self.addresses[row["name"]]
        return web.json_response({"data": rows})

    async def _permissions(self, v: Any, user: str) -> Any:
        """What one effectively may, by path; a path that is asked for is always there (PVE::API2::AccessControl)."""
        who = v.get("userid") or user
        asked = v.get("path")
        paths = [asked] if asked else ["/", "/vms", "/nodes", *(f"/vms/{ct.vmid}" for ct in self.cts)]
        held = {path: {name: 1 for name in PRIVILEGES if self.allowed(who, path, name)} for path in paths}
        return {path: names for path, names in held.items() if names or asked}

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
            await asyncio.sleep(self.login_delay)
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
