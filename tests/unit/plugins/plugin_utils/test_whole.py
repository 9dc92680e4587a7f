# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is a number in a text that anybody may have written."""

from __future__ import annotations

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils.whole import decimal, whole


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("200", 200), ("9" * 18, 10**18 - 1), ("007", 7)]
    + [(text, None) for text in ("", "-1", "+1", " 1", "1\n", "1.0", "²", "٣", "0x1", "9" * 19, "9" * 5000, "nan")],
)
def test_a_whole_number(text: str, number: int | None) -> None:
    assert whole(text) == number


@pytest.mark.parametrize(
    ("text", "number"), [("1", 1.0), ("12.50", 12.5), ("nan", 0.0), ("1e999", 0.0), ("", 0.0), ("9" * 400, 0.0)]
)
def test_seconds(text: str, number: float) -> None:
    assert decimal(text) == number
