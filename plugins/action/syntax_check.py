# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The step `check`: the project's sources compile where they will run, and their imports resolve."""

from __future__ import annotations

import os
import sys
from typing import Any

from ansible.utils.display import Display
from ansible_collections.trainops.proxmox.plugins.plugin_utils.check import (
    Kinds,
    config_problems,
    left_out_modules,
    outcome,
    pack_sources,
    sources,
    with_gpus,
    worker_files,
)
from ansible_collections.trainops.proxmox.plugins.plugin_utils.exchange import Request, exchange
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_look import ask, check_numbers, seen
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_select import understood, without_gpus
from ansible_collections.trainops.proxmox.plugins.plugin_utils.named_step import NamedStep
from ansible_collections.trainops.proxmox.plugins.plugin_utils.project import project_of
from ansible_collections.trainops.proxmox.plugins.plugin_utils.tell import room, teller

display = Display()


class ActionModule(NamedStep):
    """Its options and results are documented in the module of the same name."""

    def step(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Look at the project, have the interpreter check its sources, and put everything that was found together."""
        check_numbers(options)
        no_gpu = without_gpus(options["select"])
        if not no_gpu:
            understood(options["select"], options["count"])
        sorter = Kinds()
        project = project_of(options, os.getcwd(), wanted=sorter)
        kind = sorter.of(project.files)
        config, unread = config_problems(project.files, kind)
        params = {
            "root": os.path.normpath(options["root"]) if options["root"] else None,
            "name": project.name,
            "files": worker_files(project.files, kind),
            "left_out": left_out_modules(project.ignored),
            "pythonpath": options["pythonpath"],
            "optional": options["optional_modules"],
            "missing": options["missing_modules"],
        }
        question, view = ask(self._connection, options) if options["gpus"] and not no_gpu else (None, None)
        reply = exchange(
            self._connection,
            Request("check", {**params, "gpus": question}, self._python(options), options["timeout"], view),
            sources(project.files),
            teller(display.display, task_vars, "check"),
        )
        elsewhere = options["missing_modules"] == "warning"
        result = outcome(reply.result, kind, config, unread, room(task_vars, "check"), elsewhere)
        if "checked" in result:
            result["checked"] = {**result["checked"], "sources": pack_sources(project.files, kind)}
        if question is None:
            return result
        return with_gpus(
            result,
            reply.result["gpus"],
            lambda reading: seen(self._connection, options, reading, reply.node_view),
            options,
        )

    def _python(self, options: dict[str, Any]) -> str:
        in_container = hasattr(self._connection, "open_session")
        return str(options["python"] or ("/usr/bin/python3" if in_container else sys.executable))
