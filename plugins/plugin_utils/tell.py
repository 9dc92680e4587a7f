# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a step tells that it is still at work: one line every ten seconds, for a terminal and for a log file."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.run_files import is_run_id
from ansible_collections.trainops.proxmox.plugins.plugin_utils.lines import size, step_line

EVERY_SECONDS = 10.0
COLUMNS = 80  # of a line that wraps nowhere


def indent(task_vars: Mapping[str, Any]) -> int:
    """How far a host's texts are indented beneath its line."""
    host = str(task_vars.get("inventory_hostname", ""))
    return max(map(len, task_vars.get("ansible_play_hosts_all") or [host])) + 2


def room(task_vars: Mapping[str, Any], step: str, columns: int = COLUMNS) -> int:
    """How many columns a step's line leaves for its text."""
    return columns - len(step_line("", indent(task_vars) - 2, step, "-")) + 1


def waiting(frame: Mapping[str, Any]) -> str:
    """What a progress frame says of whoever keeps a step waiting; empty for one that says how far it is."""
    return f"waits for {frame['waits_for']}" if frame.get("waits_for") else ""


def asked(frame: Mapping[str, Any]) -> str:
    """What a progress frame says of a run that was asked to stop and takes its time; empty for any other."""
    run = str(frame.get("asked") or "")
    return f"{run} was asked to stop, it has {frame['total']:.0f} s for that" if is_run_id(run) else ""


def progress_text(frame: Mapping[str, Any], seconds: float) -> str:
    """How far a step is: a progress frame {done, total, what}, where bytes are told as people read them."""
    done, total, what = int(frame["done"]), int(frame["total"]), str(frame["what"])
    is_bytes = what.startswith("bytes ")
    amount = f"{size(done)} of {size(total)} {what.removeprefix('bytes ')}" if is_bytes else f"{done} of {total} {what}"
    return f"{amount} after {seconds:.0f} s"


def teller(
    show: Callable[[str], None],
    task_vars: Mapping[str, Any],
    step: str,
    clock: Callable[[], float] = time.monotonic,
) -> Callable[[dict[str, Any]], None]:
    """A receiver of progress frames {done, total, what} that shows the host's line at most every ten seconds."""
    host = str(task_vars.get("inventory_hostname", ""))
    width = max(map(len, task_vars.get("ansible_play_hosts_all") or [host]))
    begun = told = clock()

    def tell(frame: dict[str, Any]) -> None:
        nonlocal told
        now = clock()
        if text := asked(frame) or waiting(frame):
            show(step_line(host, width, step, text))
        elif now - told >= EVERY_SECONDS:
            told = now
            show(step_line(host, width, step, progress_text(frame, now - begun)))

    return tell
