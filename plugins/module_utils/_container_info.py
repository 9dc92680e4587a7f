# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What container_info returns, made from what the API tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ansible_collections.trainops.proxmox.plugins.module_utils._api_container import (
    Container,
    elsewhere,
    ready,
    warnings,
)


class Asked(Protocol):
    """What is used of the API."""

    def containers(self) -> list[Container]:
        """All of them."""

    def container(self, vmid: int) -> Container:
        """One."""

    def node_addresses(self) -> dict[str, str]:
        """Addresses of nodes by name."""


@dataclass(frozen=True)
class Found:
    """The result. ``refusal`` is why the container cannot be worked in, empty when it can or nobody asked for that."""

    containers: list[dict[str, Any]]
    summary: str
    warnings: list[str] = field(default_factory=list)
    refusal: str = ""
    code: str = ""


def look(api: Asked, vmid: int | None, must_be_ready: bool, expected_address: str | None) -> Found:
    """Ask for one container or for all. Raises what the API raises."""
    if vmid is None:
        found = api.containers()
        addresses = api.node_addresses() if found else {}
        return Found(_rows(found, addresses), count(found), [text for one in found for text in warnings(one)])
    one = api.container(vmid)
    addresses = api.node_addresses()
    refusal, code = (ready(one) or "") if must_be_ready else "", "not-ready"
    if not refusal and expected_address:
        refusal, code = elsewhere(one, expected_address, addresses) or "", "other-node"
    told = [] if refusal else warnings(one)
    return Found(_rows([one], addresses), state(one), told, refusal, code)


def state(one: Container) -> str:
    """``running on pve1, not locked``."""
    kind = "template" if one.template else one.status if one.status != "unknown" else "state unknown"
    return f"{kind} on {one.node}, {f'locked ({one.lock})' if one.lock else 'not locked'}"


def count(found: Sequence[Container]) -> str:
    """``4 containers, 3 running``."""
    if not found:
        return "no container that the token may see"
    running = sum(one.status == "running" for one in found)
    return f"{len(found)} {'container' if len(found) == 1 else 'containers'}, {running} running"


def _rows(found: Sequence[Container], addresses: Mapping[str, str]) -> list[dict[str, Any]]:
    return [
        {
            "vmid": one.vmid,
            "name": one.name,
            "node": one.node,
            "node_address": addresses.get(one.node),
            "status": one.status,
            "lock": one.lock,
            "template": one.template,
            "tags": list(one.tags),
            "unprivileged": one.unprivileged,
            "gpus": None if one.gpus is None else list(one.gpus),
        }
        for one in found
    ]
