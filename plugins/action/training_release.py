# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The step `release`: a project made live in a container, an earlier release again, plain files, or a comparison."""

from __future__ import annotations

import functools
import getpass
import os
import socket
from collections.abc import Callable, Iterable
from typing import Any

from ansible.utils.display import Display
from ansible_collections.trainops.proxmox.plugins.plugin_utils.check import refuse_unchecked
from ansible_collections.trainops.proxmox.plugins.plugin_utils.exchange import Answer, Request, exchange, no_answer
from ansible_collections.trainops.proxmox.plugins.plugin_utils.frames import Frame
from ansible_collections.trainops.proxmox.plugins.plugin_utils.named_step import NamedStep
from ansible_collections.trainops.proxmox.plugins.plugin_utils.project import Project, project_name, project_of
from ansible_collections.trainops.proxmox.plugins.plugin_utils.reader import Progress
from ansible_collections.trainops.proxmox.plugins.plugin_utils.release import (
    check_options,
    released,
    rolled_back,
    sender,
)
from ansible_collections.trainops.proxmox.plugins.plugin_utils.tell import teller

display = Display()
# A rollback to what was live before, done twice, is none.
_UNSURE = (
    "it may have gone back already, and going back once more would undo that: see what is live (trainops status), or "
    "name the release (training_rollback_to, trainops rollback --to)"
)


class ActionModule(NamedStep):
    """Its options and results are documented in the module of the same name."""

    def step(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        check_options(options)
        common = {
            "root": os.path.normpath(options["root"]),
            "who": f"{getpass.getuser()}@{socket.gethostname()}",
            "check_mode": bool(self._task.check_mode),
            "want_diff": bool(self._task.diff),
            "adopt_folders": options["adopt_folders"],
            "patience": options["wait"],
        }
        tell = teller(display.display, task_vars, "release")
        if options["state"] == "rolled_back":
            done = self._ask("rollback", {**common, "name": _name(options), "to": options["to"]}, options, tell)
            return rolled_back({**done, "root": common["root"]}, common["check_mode"])
        if options["state"] == "ejected":
            from ansible_collections.trainops.proxmox.plugins.plugin_utils.eject import ejected  # rarely needed

            done = self._ask("eject", {**common, "name": _name(options)}, options, tell)
            return ejected(done, common["check_mode"], common["want_diff"])
        if options["state"] == "compared":
            return self._compare(options, common, tell, str(task_vars.get("inventory_hostname", "")))
        return self._release(options, common, tell)

    def _release(self, options: dict[str, Any], common: dict[str, Any], tell: Progress) -> dict[str, Any]:
        @functools.cache
        def project() -> Project:
            found = _project(options, tell)
            refuse_unchecked(found.files, options["checked"])
            return found

        def params() -> dict[str, Any]:
            checked = {key: value for key, value in (options["checked"] or {}).items() if key != "sources"}
            return {
                **common,
                "name": project().name,
                "manifest": {"files": project().rows},
                "keep": options["keep_releases"],
                "source": {"commit": project().commit, "dirty": project().dirty},
                "checked": checked or None,
            }

        def answer(frame: dict[str, Any]) -> Iterable[Frame]:
            return sender(project().files)(frame)

        done = self._ask("release", params, options, tell, answer)
        return released(project(), {**done, "root": common["root"], "name": project().name}, common["check_mode"])

    def _compare(self, options: dict[str, Any], common: dict[str, Any], tell: Progress, host: str) -> dict[str, Any]:
        from ansible_collections.trainops.proxmox.plugins.plugin_utils.compare import compared  # rarely needed

        project = _project(options, tell) if options["project"] else None
        name = project.name if project else options["name"]
        asked = {**common, "name": name, "manifest": project and {"files": project.rows}}
        done = self._ask("compare", asked, options, tell)
        return compared(project, done, common["want_diff"], host)

    def _ask(
        self,
        operation: str,
        params: dict[str, Any] | Callable[[], dict[str, Any]],
        options: dict[str, Any],
        tell: Progress,
        answer: Answer = no_answer,
    ) -> dict[str, Any]:
        unsure = _UNSURE if operation == "rollback" and options["to"] is None else ""
        request = Request(operation, params, options["python"], options["timeout"], unsure=unsure)
        return exchange(self._connection, request, answer, tell).result


def _project(options: dict[str, Any], tell: Progress) -> Project:
    def reading(done: int, total: int, more: int) -> None:
        tell({"done": done + more, "total": total, "what": "bytes read"})

    project = project_of(options, os.getcwd(), reading=reading)
    for warning in project.warnings:
        display.warning(warning)
    return project


def _name(options: dict[str, Any]) -> str | None:
    """The project's name where nothing of the project itself is needed; None means the only one there."""
    return options["name"] or (project_name(options["project"], os.getcwd()) if options["project"] else None)
