# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Numbers in texts of others: whoever wrote them may have written anything that looks like one."""

from __future__ import annotations

import re

#: As many digits as any number has that we read: int() refuses thousands of them, and takes those of every script.
DIGITS = "[0-9]{1,18}"
_WHOLE = re.compile(DIGITS)
_DECIMAL = re.compile(rf"{DIGITS}(\.{DIGITS})?")


def whole(text: str) -> int | None:
    """The number that a text is; None for anything else."""
    return int(text) if _WHOLE.fullmatch(text) else None


def decimal(text: str) -> float:
    """Seconds as /proc and journalctl write them; 0.0 for anything else."""
    return float(text) if _DECIMAL.fullmatch(text) else 0.0
