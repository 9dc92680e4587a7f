# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text of others, as it is shown."""

from __future__ import annotations

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils.lines import beneath, step_line
from ansible_collections.trainops.proxmox.plugins.plugin_utils.visible import (
    cell,
    cut_short,
    one_line,
    path_text,
    visible,
    visible_diff,
    visible_values,
)

OBEYED = ["\x1b]0;title\x07", "\x1b[2J", "\r", "\x08", "\x9b31m", "\x7f", "\u202e", "\u2028", "\u2066", "\x00", "\x85"]


@pytest.mark.parametrize("text", OBEYED)
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    for shown in (visible(f"a{text}b"), step_line("ct200", 5, "gpus", f"a{text}b"), beneath("", [f"a{text}b"], 0)):
        assert all(char == "\n" or char.isprintable() for char in shown)
        assert "a" in shown
        assert "b" in shown
        assert "\\x" in shown or "\\u" in shown or "\\r" in shown


@pytest.mark.parametrize("text", ["plain", "two\nlines", "tab\there", "ünïcödé 汉语 🙂", "back\\slash", ""])
def test_what_a_person_may_write_stays_as_it_is(text: str) -> None:
    assert visible(text) == text


def test_a_text_that_no_person_reads_to_its_end_is_cut_and_says_so() -> None:
    shown = visible("x" * 3_000_000)
    assert len(shown) < 20_000
    assert shown.endswith("characters more)")


def test_values_are_made_visible_by_name_and_diffs_in_full() -> None:
    long = "\x1b" + "y" * 20_000
    shown = visible_values(
        {"msg": "\x1b", "list": ["\r", 1], "other": "\x1b", "diff": [{"after": long, "n": 1}]}, "msg", "list", "none"
    )
    assert shown == {
        "msg": "\\x1b",
        "list": ["\\r", 1],
        "other": "\x1b",
        "diff": [{"after": "\\x1b" + "y" * 20_000, "n": 1}],
    }


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x1e", "\x85", "\u2028", "\u2029"])
def test_nothing_ends_a_line_but_we(end: str) -> None:
    text = f"a{end}ct201  release  live{end}"
    for shown in (one_line(text), cell(text), path_text(text), step_line("ct200", 5, "gpus", text)):
        assert len(shown.splitlines()) == 1
    assert len(beneath("head", [text], 4).splitlines()) == 2
    values = visible_values({"summary": text, "warnings": [text]}, "summary", "warnings")
    assert [len(one.splitlines()) for one in (values["summary"], *values["warnings"])] == [1, 1]
    part = {"before_header": text, "after_header": text, "before": "1\n2\n", "after": ""}
    for shown_part in (visible_diff(part), visible_diff([part])[0], visible_values({"diff": [part]})["diff"][0]):
        assert len(shown_part["before_header"].splitlines()) == len(shown_part["after_header"].splitlines()) == 1
        assert shown_part["before"] == "1\n2\n"


def test_a_cell_pushes_no_other_away() -> None:
    assert len(cell("x" * 10_000)) < 400
    assert cell("a\tb") == "a\\tb"


def test_a_line_is_one_line_and_what_is_endless_is_cut() -> None:
    assert one_line("live at /x\nct201  release  FAILED") == "live at /x\\nct201  release  FAILED"
    assert len(cut_short("x" * 10_000)) < 400
    visible("\udcff \ud800").encode()
