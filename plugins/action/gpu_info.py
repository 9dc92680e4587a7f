# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The GPUs of a container, or of a node, and who holds them."""

from __future__ import annotations

from typing import Any

from ansible.utils.display import Display
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_look import look, look_at_node
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_result import info_result
from ansible_collections.trainops.proxmox.plugins.plugin_utils.named_step import NamedStep
from ansible_collections.trainops.proxmox.plugins.plugin_utils.on_node import is_node
from ansible_collections.trainops.proxmox.plugins.plugin_utils.tell import COLUMNS, indent

display = Display()


class ActionModule(NamedStep):
    """Its options and results are documented in the module of the same name."""

    def step(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        if is_node(self._connection):
            found = look_at_node(self._connection, self._low_level_execute_command, options)
        else:
            found = look(self._connection, options)
        return info_result(found, (display.columns or COLUMNS) - indent(task_vars))
