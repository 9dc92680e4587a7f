# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node, its containers and its GPUs, as a login there finds them."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleError
from ansible_collections.trainops.proxmox.plugins.plugin_utils import on_node
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_look import node_look, node_seen
from ansible_collections.trainops.proxmox.plugins.plugin_utils.named_step import NamedStep
from ansible_collections.trainops.proxmox.plugins.plugin_utils.node_facts import SCRIPT, parse_node_facts
from ansible_collections.trainops.proxmox.plugins.plugin_utils.node_result import node_result


class ActionModule(NamedStep):
    """Its options and results are documented in the module of the same name."""

    def step(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        connection = self._connection
        if hasattr(connection, "open_session"):
            raise AnsibleError(
                "node_info looks at a node and this host is a container: use a host that is the node itself, with "
                "ansible_connection: ssh"
            )
        text = on_node.ask(connection, self._low_level_execute_command, node_look(SCRIPT, options))
        return node_result(parse_node_facts(text), node_seen(text, options), on_node.login_of(connection))
