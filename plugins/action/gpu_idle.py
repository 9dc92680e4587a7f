# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Wait until GPUs are idle, or say who holds them."""

from __future__ import annotations

import time
from typing import Any

from ansible.utils.display import Display
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_look import look
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_result import (
    check_wish,
    idle_result,
    none_wanted,
)
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_select import (
    Selection,
    understood,
    without_gpus,
)
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_text import summary
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_wait import Clock, wait
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpus import Snapshot
from ansible_collections.trainops.proxmox.plugins.plugin_utils.lines import step_line
from ansible_collections.trainops.proxmox.plugins.plugin_utils.named_step import NamedStep
from ansible_collections.trainops.proxmox.plugins.plugin_utils.tell import COLUMNS, indent

display = Display()


class ActionModule(NamedStep):
    """Its options and results are documented in the module of the same name."""

    def step(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        if without_gpus(options["select"]):
            return none_wanted()
        understood(options["select"], options["count"])  # before anything is asked
        host = str(task_vars.get("inventory_hostname", ""))
        width = max(map(len, task_vars.get("ansible_play_hosts_all") or [host]))

        def say(snapshot: Snapshot, selection: Selection, waited: float) -> None:
            wanted = selection if selection.candidates else Selection(snapshot.gpus)
            text = f"waiting {waited:.0f} s of {options['timeout']:g} s: {summary(wanted, snapshot.view)}"
            display.display(step_line(host, width, "gpus", text))

        outcome = wait(
            lambda: look(self._connection, options),
            lambda snapshot: (
                check_wish(snapshot, options["select"], options["count"]) or Selection((), options["count"])
            ),
            say,
            Clock(time.monotonic, time.sleep),
            timeout=0 if self._task.check_mode else options["timeout"],
            interval=options["interval"],
        )
        return idle_result(outcome, options["require"], (display.columns or COLUMNS) - indent(task_vars))
