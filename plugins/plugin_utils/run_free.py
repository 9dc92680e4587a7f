# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the GPUs of a run that was stopped are free again. Effects come in as functions."""

from __future__ import annotations

from collections.abc import Callable, Collection

from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_select import Selection
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_text import summary
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_wait import Clock
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpus import Snapshot

# A driver gives memory back within a quarter of a second, and after a crash or with much of it within some more.
PATIENCE_SECONDS = 60.0
_INTERVAL_SECONDS = 0.5


def still_held(found: Snapshot, uuids: Collection[str], runs: Collection[str]) -> str:
    """Which of these GPUs are not free of the stopped ``runs``, as a sentence; empty when all are.

    A GPU that somebody else has taken meanwhile is free of them.
    """
    held = tuple(
        gpu
        for gpu in found.gpus
        if gpu.uuid in uuids
        and gpu.verdict != "idle"
        and (not gpu.holders or any(holder.run in runs or holder.where == "unknown" for holder in gpu.holders))
    )
    return summary(Selection(held), found.view) if held else ""


def wait_until_free(
    look: Callable[[], Snapshot], uuids: Collection[str], runs: Collection[str], clock: Clock
) -> tuple[str, Snapshot]:
    """Look until the GPUs are free, or PATIENCE_SECONDS have passed: what is still held, and the last look."""
    end = clock.now() + PATIENCE_SECONDS
    while True:
        found = look()
        held = still_held(found, uuids, runs)
        if not held or clock.now() >= end or (found.trouble is not None and found.trouble.lasting):
            return held, found
        clock.sleep(_INTERVAL_SECONDS)
