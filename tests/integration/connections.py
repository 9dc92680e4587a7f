# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A connection to a container of the lab, as Ansible would make it for a task."""

from __future__ import annotations

import os
from typing import Any

from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play_context import PlayContext
from ansible.plugins.loader import connection_loader
from ansible.vars.manager import VariableManager

from lab.api import open_lab


def inventory() -> str:
    """The path of the inventory of the lab that TRAINOPS_LAB selects."""
    return os.fspath(open_lab().inventory)


def host_variables(host: str, **more: Any) -> dict[str, Any]:
    """The variables of a host of the lab's inventory, with ``more`` over them."""
    loader = DataLoader()
    hosts = InventoryManager(loader=loader, sources=[inventory()])
    manager = VariableManager(loader=loader, inventory=hosts)
    variables: dict[str, Any] = manager.get_vars(host=hosts.get_host(host))
    variables["inventory_hostname"] = host
    return {**variables, **more}


def connect(host: str, **more: Any) -> Any:
    """The connection of ``host`` with the options of its variables (and ``more``), not yet used."""
    variables = host_variables(host, **more)
    connection = connection_loader.get("trainops.proxmox.pct", PlayContext())
    connection.set_options(var_options=variables)
    return connection
