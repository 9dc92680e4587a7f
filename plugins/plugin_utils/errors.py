# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What can go wrong, as types. Each edge (action, connection, command) translates them once."""

from __future__ import annotations

from typing import Any


class TrainopsError(Exception):
    """Base of this collection's own errors; the text names the file, option or host and the fix."""


class OptionError(TrainopsError):
    """An option or input file of the user cannot be used."""


class SourceChanged(TrainopsError):
    """A file of the project changed while it was read."""


class StepError(TrainopsError):
    """An operation in the container ended with an expected failure.

    ``code`` is a short stable word, ``details`` JSON values for the step's result.
    """

    def __init__(self, code: str, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details or {}
