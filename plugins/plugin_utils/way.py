# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The way into a container for a task that runs on the controller: which node, by the API, and a connection to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible import constants as C
from ansible.module_utils.common.parameters import set_fallbacks
from ansible.playbook.play_context import PlayContext
from ansible.plugins.loader import connection_loader
from ansible_collections.trainops.proxmox.plugins.module_utils.api import (
    API_ARGUMENT_SPEC,
    Api,
    ApiError,
    ApiOptions,
    options_from,
    ready,
    warnings,
)
from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import OptionError, StepError

PCT = "trainops.proxmox.pct"
_LOGIN = ("api_host", "api_user", "api_token_id", "api_token_secret")
_OPTIONS = {
    "ansible_host": "node_address",
    "ansible_user": "node_user",
    "ansible_port": "node_port",
    "proxmox_vmid": "vmid",
}


@dataclass(frozen=True)
class Node:
    """Where a container is: the node's name as far as known, and the address for SSH."""

    name: str
    address: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Login:
    """Who logs in on the node; without a port what ssh would take."""

    user: str
    port: int | None = None


def is_inside(connection: Any, vmid: int | None) -> bool:
    """Whether the task's host is the container itself; False when ``vmid`` names one and the task runs here.

    Raises OptionError, with the fix, where it is neither.
    """
    if hasattr(connection, "open_session"):
        own = int(connection.get_option("vmid"))
        if vmid not in (None, own):
            raise OptionError(
                f"option vmid: this host is container {own} already (connection {PCT}), not {vmid}: leave vmid out, or "
                "delegate the task to localhost"
            )
        return True
    if connection.transport != "local":
        raise OptionError(
            f"this host's connection is {connection.transport!r}: set ansible_connection: {PCT} in the vars of the "
            "group of containers, or run the task on localhost with option vmid"
        )
    if vmid is None:
        raise OptionError(
            "this host is the controller itself: set option vmid for a container, or copy files here with "
            "ansible.builtin.copy"
        )
    return False


def api_options(options: Mapping[str, Any], given: Mapping[str, Any]) -> ApiOptions | None:
    """How to ask the API; None where it is not configured.

    ``given`` are the options that the task itself or its module_defaults have; for others the environment counts before
    the defaults, as in modules. Raises StepError for half a configuration.
    """
    asked = {name: options[name] for name in API_ARGUMENT_SPEC if name in given and options[name] is not None}
    values = dict(asked)
    set_fallbacks(API_ARGUMENT_SPEC, values)
    if not any(name in asked for name in _LOGIN) and not all(values.get(name) for name in ("api_host", *_LOGIN[2:])):
        return None
    try:
        return options_from({**{name: options[name] for name in API_ARGUMENT_SPEC}, **values})
    except ApiError as error:
        raise StepError(f"api-{error.kind}", error.message) from error


def find_node(vmid: int, api: ApiOptions | None, address: str | None) -> Node:
    """The node of a container that one can work in now; ``address`` overrides what the API knows of the node.

    Raises StepError when the container is absent, stopped or locked, and OptionError when nobody says where it is.
    """
    if api is None:
        if not address:
            raise OptionError(
                f"option vmid: nothing says on which node container {vmid} is: set option node_address, or api_host, "
                "api_token_id and api_token_secret so that the Proxmox VE API can be asked"
            )
        return Node("", address)
    try:
        asked = Api(api)
        container = asked.container(vmid)
        if sentence := ready(container):
            raise StepError("not-ready", sentence, {"node": container.node, "vmid": vmid})
        address = address or asked.node_addresses().get(container.node) or container.node
    except ApiError as error:
        raise StepError(f"api-{error.kind}", error.message, {"vmid": vmid}) from error
    return Node(container.node, address, tuple(warnings(container)))


def connect(vmid: int, node: Node, login: Login, variables: Mapping[str, Any], template: Callable[[Any], Any]) -> Any:
    """A connection into the container, as a host has it; the ssh options among ``variables``, templated, apply."""
    connection = connection_loader.get(PCT, PlayContext())
    # Which variables its options have is known once it is loaded.
    names = [name for name in C.config.get_plugin_vars("connection", connection._load_name) if name in variables]
    direct = {"host": node.address, "vmid": vmid, "remote_user": login.user, "port": login.port}
    connection.set_options(
        var_options={name: template(variables[name]) for name in names},
        direct={name: value for name, value in direct.items() if value is not None},
    )
    return connection


def in_options(text: str) -> str:
    """A failure of the way, which names the variables of an inventory, with the options of a task on localhost."""
    for variable, own in _OPTIONS.items():
        text = text.replace(variable, own)
    return text
