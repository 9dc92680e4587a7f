# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parameters as Proxmox VE takes them."""

from __future__ import annotations

from typing import Any

import pytest

from lab.pve_mended import wrong_booleans

DECLARED: dict[str, Any] = {"current": {"type": "boolean"}, "cores": {"type": "integer"}}


@pytest.mark.parametrize(
    ("value", "refused"),
    [
        ("1", False),
        ("0", False),
        (True, False),
        ("True", True),
        ("true", True),
        ("yes", True),
        ("on", True),
        ("", True),
    ],
)
def test_only_one_and_zero_are_booleans_in_a_form(value: object, refused: bool) -> None:
    wrong = wrong_booleans(DECLARED, {"current": value, "cores": "x", "other": "True"})
    assert wrong == ({"current": f"type check ('boolean') failed - got '{value}'"} if refused else {})
