# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One look at a container's GPUs over its connection, for the steps that need one."""

from __future__ import annotations

import math
import sys
from typing import Any

from ansible_collections.trainops.proxmox.plugins.plugin_utils import on_node
from ansible_collections.trainops.proxmox.plugins.plugin_utils.enter import View
from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import OptionError
from ansible_collections.trainops.proxmox.plugins.plugin_utils.exchange import Request, exchange
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpus import Snapshot, node_snapshot, params, snapshot
from ansible_collections.trainops.proxmox.plugins.plugin_utils.node_view import SCRIPT, parse_node_view
from ansible_collections.trainops.proxmox.plugins.plugin_utils.on_node import Runner

# What a look costs besides nvidia-smi, on a node under load.
_MARGIN_SECONDS = 60.0
# The exchange ends a command that is silent for half a minute, which it is while only the node still answers.
_NODE_SECONDS = 25.0
_LEAST = {
    "nvidia_smi_timeout": 1,
    "memory_mib": 0,
    "timeout": 0,
    "interval": 0.1,
    "idle_timeout": 0,
    "idle_interval": 0.1,
}


def look(connection: Any, options: dict[str, Any]) -> Snapshot:
    """One exchange: nvidia-smi in the container, and beside it the node's view unless ``options`` decline it.

    ``options`` are those of the doc fragment ``gpus``. Raises OptionError, and what :func:`exchange` raises.
    """
    question, view = ask(connection, options)
    python = options["python"] or ("/usr/bin/python3" if _in_container(connection) else sys.executable)
    timeout = 2 * float(options["nvidia_smi_timeout"]) + _MARGIN_SECONDS
    reply = exchange(connection, Request("gpus", question, python=python, timeout=timeout, view=view))
    return seen(connection, options, reply.result, reply.node_view)


def ask(connection: Any, options: dict[str, Any]) -> tuple[dict[str, Any], View | None]:
    """What a look asks: the parameters of the worker's reading, and the node's view. Raises OptionError."""
    check_numbers(options)
    timeout = float(options["nvidia_smi_timeout"])
    wanted = options["node_view"] and _in_container(connection)
    view = View(SCRIPT, options["nvidia_smi"], min(timeout, _NODE_SECONDS)) if wanted else None
    return params(options["nvidia_smi"], timeout), view


def look_at_node(connection: Any, run: Runner, options: dict[str, Any]) -> Snapshot:
    """One remote command on a node over its own connection: all its GPUs, and who holds them.

    ``options`` are those of the doc fragment ``gpus``. Raises OptionError, and what :func:`on_node.ask` raises.
    """
    return node_seen(on_node.ask(connection, run, node_look(SCRIPT, options)), options)


def node_look(script: str, options: dict[str, Any]) -> on_node.Look:
    """What a look at a node runs: ``script`` has the node view in it. Raises OptionError."""
    check_numbers(options)
    timeout = float(options["nvidia_smi_timeout"])
    return on_node.Look(script, options["nvidia_smi"], timeout, timeout + _MARGIN_SECONDS)


def node_seen(text: str, options: dict[str, Any]) -> Snapshot:
    """The GPUs that the answer to such a look shows."""
    timeout = float(options["nvidia_smi_timeout"])
    return node_snapshot(parse_node_view(text), timeout=timeout, memory_mib=options["memory_mib"])


def check_numbers(options: dict[str, Any]) -> None:
    """Raises OptionError for the first number that is out of its range, infinite, or none at all."""
    for name, least in _LEAST.items():
        value = options.get(name)
        if value is not None and not least <= value < math.inf:
            raise OptionError(f"option {name}: {value:g} cannot be, it must be a number and at least {least:g}")


def seen(connection: Any, options: dict[str, Any], reading: dict[str, Any], node_view: str | None) -> Snapshot:
    """What the answers to a look show."""
    return snapshot(
        reading,
        None if node_view is None else parse_node_view(node_view),
        vmid=int(connection.get_option("vmid")) if _in_container(connection) else None,
        timeout=float(options["nvidia_smi_timeout"]),
        memory_mib=options["memory_mib"],
    )


def _in_container(connection: Any) -> bool:
    return hasattr(connection, "open_session")
