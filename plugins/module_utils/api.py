# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Proxmox VE API: what it knows of containers and nodes. Read-only; proxmoxer and requests are loaded when asked.

api = Api(options_from(module.params))
one = api.container(200)
if sentence := ready(one): ...
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ansible_collections.trainops.proxmox.plugins.module_utils._api_container import (
    Container,
    container,
    elsewhere,
    gpus,
    ready,
    truth,
    warnings,
)
from ansible_collections.trainops.proxmox.plugins.module_utils._api_errors import (
    ApiAnswer,
    ApiDenied,
    ApiError,
    ApiMissing,
    ApiNotFound,
    ApiUnreachable,
    ApiUntrusted,
    ApiUsage,
    NodeDown,
    NotThere,
    grant,
)
from ansible_collections.trainops.proxmox.plugins.module_utils._api_http import Http, Parameters
from ansible_collections.trainops.proxmox.plugins.module_utils._api_options import (
    API_ARGUMENT_SPEC,
    ApiOptions,
    loose_secrets,
    options_from,
)

__all__ = [
    "API_ARGUMENT_SPEC",
    "Api",
    "ApiAnswer",
    "ApiDenied",
    "ApiError",
    "ApiMissing",
    "ApiNotFound",
    "ApiOptions",
    "ApiUnreachable",
    "ApiUntrusted",
    "ApiUsage",
    "Container",
    "elsewhere",
    "loose_secrets",
    "options_from",
    "ready",
    "warnings",
]


class Api:
    """Questions to one API. Nothing is sent before the first of them; to be made in the process that asks.

    Every method raises an ApiError whose message can be shown as it is.
    """

    def __init__(self, options: ApiOptions) -> None:
        self._server = options.server
        self._http = Http(
            self._server, options.host, options.port, options.timeout, options.ca_path, options.fingerprint
        )
        self._down: dict[str, str] = {}

    def containers(self) -> list[Container]:
        """All containers that the token may see, in the order of their ids; a state may be 10 s old.

        Proxmox VE leaves out what the token may not see and does not say so.
        """
        rows = [row for row in self._rows() if row.get("type") == "lxc"]
        return sorted((self._with_config(self._container(row)) for row in rows), key=lambda one: one.vmid)

    def container(self, vmid: int) -> Container:
        """One container with its present state. Of one whose node is down the status is ``unknown``.

        Raises ApiNotFound when there is none, ApiDenied when the token may not see it.
        """
        where = self._find(vmid)
        try:
            return self._look(where)
        except NotThere:
            # It went to another node between the two questions: look once more where it is.
            where = self._find(vmid)
        try:
            return self._look(where)
        except NotThere as exc:
            message = f"{exc.message}. {where.title} is being moved or removed right now: try again"
        raise ApiNotFound(message)

    def node_addresses(self) -> dict[str, str]:
        """The nodes' addresses by name; empty where the token may not see them (Sys.Audit on /)."""
        try:
            rows = self._list("cluster/status")
        except ApiDenied:
            return {}
        return {str(row["name"]): str(row["ip"]) for row in rows if row.get("type") == "node" and row.get("ip")}

    def _rows(self) -> list[dict[str, Any]]:
        return self._list("cluster/resources", {"type": "vm"})

    def _list(self, path: str, parameters: Parameters | None = None) -> list[dict[str, Any]]:
        data = self._http.get(path, parameters)
        if not isinstance(data, list) or not all(isinstance(row, dict) for row in data):
            raise self._strange(path)
        return data

    def _table(self, path: str, parameters: Parameters | None = None, patient: bool = True) -> dict[str, Any]:
        data = self._http.get(path, parameters, patient)
        if not isinstance(data, dict):
            raise self._strange(path)
        return data

    def _strange(self, path: str) -> ApiAnswer:
        return ApiAnswer(f"{self._server.name} answers /{path} in a form that is not known")

    def _container(self, row: Mapping[str, Any]) -> Container:
        try:
            return container(row)
        except (KeyError, TypeError, ValueError, RecursionError):
            pass
        raise self._strange("cluster/resources")

    def _find(self, vmid: int) -> Container:
        """Where a container is, by the list of the whole cluster."""
        row = next((row for row in self._rows() if str(row.get("vmid")) == str(vmid)), None)
        if row is None:
            raise self._absent(vmid)
        found = self._container(row)
        if row.get("type") != "lxc":
            raise ApiNotFound(f"{vmid} is a virtual machine on {found.node}: set the vmid to a container's id")
        return found

    def _absent(self, vmid: int) -> ApiError:
        """Lists leave out what one may not see, so ask what one may. A key that is there counts, whatever its value."""
        path = f"/vms/{vmid}"
        held = self._table("access/permissions", {"path": path}).get(path)
        if isinstance(held, dict) and "VM.Audit" in held:
            return ApiNotFound(f"{self._server.name} has no container {vmid}: correct the vmid (see pct list)")
        return ApiDenied(
            f"{self._server.name} does not let the token {self._server.token} see container {vmid}, if there is one: "
            f"it has no VM.Audit on {path}. {grant(self._server, path)}"
        )

    def _look(self, found: Container) -> Container:
        """The container's present state, asked of its node."""
        path = f"nodes/{found.node}/lxc/{found.vmid}/status/current"
        try:
            # Where the list says unknown the node is not heard of for minutes: no need to ask it three times.
            now = self._table(path, patient=found.status != "unknown")
        except NodeDown as exc:
            self._down[found.node] = exc.message
            return replace(found, status="unknown", unknown_because=self._node_down(found.node))
        return self._with_config(self._container({"vmid": found.vmid, "name": found.name, "node": found.node, **now}))

    def _with_config(self, one: Container) -> Container:
        if one.node not in self._down:
            try:
                path = f"nodes/{one.node}/lxc/{one.vmid}/config"
                config = self._table(path, {"current": 1}, one.status != "unknown")
                return replace(one, unprivileged=truth(config.get("unprivileged")), gpus=gpus(config))
            except NodeDown as exc:
                self._down[one.node] = exc.message
            except NotThere as exc:
                return replace(one, unknown_because=exc.message)
        return replace(one, status="unknown", unknown_because=self._node_down(one.node))

    def _node_down(self, node: str) -> str:
        return f"node {node} does not answer. {self._down[node]}: bring it back, or look why pveproxy there is silent"
