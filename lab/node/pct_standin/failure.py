# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The one exception of the stand-in."""

from __future__ import annotations


class Failure(Exception):
    """The end of a run: the text for stderr, with its newline, and the exit status."""

    def __init__(self, text: str, status: int = 255) -> None:
        super().__init__(text)
        self.text = text
        self.status = status
