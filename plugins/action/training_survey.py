# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A look at a container and at the project before the first deploy."""

from __future__ import annotations

import os
import secrets
from typing import Any

from ansible.errors import AnsibleError
from ansible.module_utils.common.text.converters import to_text
from ansible_collections.trainops.proxmox.plugins.plugin_utils.exchange import Request, exchange
from ansible_collections.trainops.proxmox.plugins.plugin_utils.find_python import Found, find_command, read_found
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_look import ask, seen
from ansible_collections.trainops.proxmox.plugins.plugin_utils.named_step import NamedStep
from ansible_collections.trainops.proxmox.plugins.plugin_utils.project import measure_project
from ansible_collections.trainops.proxmox.plugins.plugin_utils.survey import (
    Wish,
    check_options,
    surveyed,
    without_python,
)

_MARGIN_SECONDS = 90.0  # for the search and the interpreters, beside nvidia-smi


class ActionModule(NamedStep):
    """Its options and results are documented in the module of the same name."""

    def step(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Measure the project here, find some Python there, and have the worker look around in it."""
        check_options(options)
        question, view = ask(self._connection, options)
        if not hasattr(self._connection, "open_session"):
            raise AnsibleError(
                f"training_survey looks into a container, and this host is reached over {self._connection.transport}: "
                "set ansible_connection: trainops.proxmox.pct in the vars of its group"
            )
        project = None
        if options["project"] is not None:
            project = measure_project(
                options["project"], options["exclude"], os.getcwd(), options["shared"], options["name"] or ""
            )
        wish = Wish(options["root"], options["python"], project, options["big_mib"])
        found = self._find(wish)
        if found.python is None:
            return without_python(wish, found)
        params = {
            "root": os.path.normpath(wish.root) if wish.root else None,
            "python": wish.python,
            "name": wish.name,
            "names": wish.names,
            "gpus": question,
        }
        timeout = 2 * float(options["nvidia_smi_timeout"]) + _MARGIN_SECONDS
        reply = exchange(self._connection, Request("survey", params, found.python, timeout, view))
        answer = reply.result
        return surveyed(wish, answer, seen(self._connection, options, answer["gpus"], reply.node_view))

    def _find(self, wish: Wish) -> Found:
        nonce = secrets.token_hex(8)
        _code, stdout, _stderr = self._connection.exec_command(find_command(nonce, wish.python, wish.root))
        return read_found(to_text(stdout, errors="surrogate_or_replace"), nonce)
