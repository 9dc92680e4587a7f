# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files and folders into a container, each file whole and proven, only what differs."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.utils.display import Display
from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import OptionError, StepError
from ansible_collections.trainops.proxmox.plugins.plugin_utils.exchange import Request, exchange
from ansible_collections.trainops.proxmox.plugins.plugin_utils.named_step import NamedStep
from ansible_collections.trainops.proxmox.plugins.plugin_utils.push import (
    check_options,
    pushed,
    question,
    received,
    sender,
)
from ansible_collections.trainops.proxmox.plugins.plugin_utils.push_source import read_source
from ansible_collections.trainops.proxmox.plugins.plugin_utils.tell import teller
from ansible_collections.trainops.proxmox.plugins.plugin_utils.way import (
    Login,
    Node,
    api_options,
    connect,
    find_node,
    in_options,
    is_inside,
)

display = Display()


class ActionModule(NamedStep):
    """Its options and results are documented in the module of the same name."""

    def step(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        check_options(options)
        inside = is_inside(self._connection, options["vmid"])
        source = read_source(self._find(options["src"]), options["exclude"])
        check_mode = bool(self._task.check_mode)
        params = question(options, source, check_mode, bool(self._task.diff))
        request = Request("push", params, options["python"], options["timeout"])
        connection, node = self._container(inside, options, task_vars)
        tell = teller(display.display, task_vars, "push")
        try:
            reply = exchange(connection, request, sender(source), lambda frame: tell(received(frame)))
        except AnsibleConnectionFailure as error:
            if inside:
                raise
            # Of localhost, which the task runs on, Ansible would say that it cannot be reached.
            raise StepError(
                "unreachable", in_options(str(error)), {"node": node.name, "vmid": options["vmid"]}
            ) from error
        result = pushed(source, reply.result, check_mode)
        vmid = int(connection.get_option("vmid"))
        return {**result, "warnings": [*node.warnings, *result["warnings"]], "node": node.name, "vmid": vmid}

    def _find(self, src: str) -> str:
        """The path of ``src`` where Ansible looks for files, with the slash at its end when it has one."""
        try:
            found = str(self._find_needle("files", src)).rstrip("/")
        except AnsibleError as error:
            lines = str(error.message).replace(" on the Ansible Controller.", "").splitlines()
            searched = dict.fromkeys(line.strip() for line in lines if line.startswith("\t"))
            where = f" (searched: {', '.join(searched)})" if searched else ""
            raise OptionError(f"option src: there is no {src!r} on the controller: correct it{where}") from error
        return found + "/" if src.endswith("/") else found

    def _container(self, inside: bool, options: dict[str, Any], task_vars: dict[str, Any]) -> tuple[Any, Node]:
        """The connection into the container, and where that is."""
        if inside:
            host = str(self._connection.get_option("host"))
            return self._connection, Node(host, host)
        node = find_node(options["vmid"], api_options(options, self._task.args), options["node_address"])
        login = Login(options["node_user"], options["node_port"])
        connection = connect(options["vmid"], node, login, task_vars, self._templar.template)
        return connection, Node(node.name or node.address, node.address, node.warnings)
