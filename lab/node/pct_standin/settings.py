# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The lab's switches for tests: how long the start takes, and faults.

/etc/trainops-lab/pct.json holds an object with
    startup  seconds of CPU that a start takes (1.0, as measured); TRAINOPS_LAB_PCT_STARTUP overrides it
    faults   an object or a list of objects; all whose `match` is part of the command line ("push 200") count:
        exit, stdout, stderr   this and nothing else
        slow                   seconds to wait after the start
        held_lock              seconds for which the configuration lock counts as taken
        copy_bytes             a copy ends after so many bytes, and says nothing
        copy_rate              bytes a second of a copy
"""

from __future__ import annotations

import json
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FILE = "/etc/trainops-lab/pct.json"
STARTUP = 1.0


class Settings:
    """The switches of one run: seconds of CPU for the start, and the faults that are on."""

    def __init__(self, startup: float, fault: dict[str, Any]) -> None:
        self.startup = startup
        self.fault = fault

    def start_up(self) -> None:
        """Use the CPU for as long as Perl needs to load its modules: on a busy node it takes longer, as there."""
        while time.process_time() < self.startup:
            pass
        time.sleep(float(self.fault.get("slow", 0)))


def read(argv: list[str], environment: dict[bytes, bytes]) -> Settings:
    """The switches as they are now, with the faults for this command line merged."""
    try:
        with open(FILE, encoding="utf-8") as stream:
            values = json.load(stream)
    except (FileNotFoundError, PermissionError):
        values = {}
    faults = values.get("faults", [])
    merged: dict[str, Any] = {}
    for fault in faults if isinstance(faults, list) else [faults]:
        if fault.get("match", "") in " ".join(argv):
            merged.update(fault)
    startup = os.fsdecode(environment.get(b"TRAINOPS_LAB_PCT_STARTUP", b"")) or values.get("startup", STARTUP)
    return Settings(float(startup), merged)
