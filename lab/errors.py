# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The lab's own exceptions: expected failures with a text for a person."""

from __future__ import annotations


class LabError(Exception):
    """Something the user can act on; the command line prints its text and exits 1."""
