# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How much a run's GPUs are used, asked beside other work: an nvidia-smi that hangs must not hold up the log."""

from __future__ import annotations

import os
import threading

from .gpus import Child, find_tool, gather

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

UNUSED_PERCENT = 5
_QUERY = "--query-gpu=uuid,memory.used,utilization.gpu"


def parse(text: str, uuids: list[str]) -> list[dict[str, Any]]:
    """{uuid, memory_mib, percent} of each GPU that is asked for; a number that is not shown is None.

    Empty unless all of them are there, in the units that are expected.
    """
    lines = [[field.strip() for field in line.split(",")] for line in text.splitlines()]
    found = {fields[0]: fields for fields in lines if len(fields) == 3}
    if found.get("uuid", ["", "", ""])[1:] != ["memory.used [MiB]", "utilization.gpu [%]"]:
        return []
    rows = [
        {"uuid": uuid, "memory_mib": _number(found[uuid][1]), "percent": _number(found[uuid][2])}
        for uuid in uuids
        if uuid in found
    ]
    return rows if len(rows) == len(uuids) else []


def _number(text: str) -> int | None:
    word = text.partition(" ")[0]
    return int(word) if word.isdigit() else None


def least(rows: list[dict[str, Any]], what: str) -> int | None:
    """The least of all GPUs; None when there is none, or one does not show it."""
    numbers = [row[what] for row in rows]
    return None if not numbers or None in numbers else min(numbers)


def unused(rows: list[dict[str, Any]]) -> bool:
    """Whether every GPU is known to do nothing."""
    return bool(rows) and all(row["percent"] is not None and row["percent"] <= UNUSED_PERCENT for row in rows)


class Usage:
    """The last answer about the GPUs, and whether another one is awaited."""

    def __init__(self, nvidia_smi: str, uuids: list[str], timeout: float) -> None:
        self.rows: list[dict[str, Any]] = []
        self.answers = 0
        self._nvidia_smi = nvidia_smi
        self._uuids = uuids
        self._timeout = timeout
        self._thread: threading.Thread | None = None

    def ask(self) -> None:
        """Ask once more, unless an answer is awaited or there is no GPU."""
        if self._uuids and not (self._thread and self._thread.is_alive()):
            self._thread = threading.Thread(target=self._ask, daemon=True)
            self._thread.start()

    def _ask(self) -> None:
        tool = find_tool(self._nvidia_smi, os.environ.get("PATH", ""))
        rows: list[dict[str, Any]] = []
        if tool is not None:
            answer = gather([Child([tool, _QUERY, "--format=csv"])], self._timeout)[0]
            rows = parse(answer["text"], self._uuids) if answer["exit"] == 0 else []
        self.rows = rows
        self.answers += 1
