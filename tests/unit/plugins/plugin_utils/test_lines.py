# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The texts of the lines that a person reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils import lines

ROOT = Path(__file__).resolve().parents[4]


@pytest.mark.parametrize(
    ("host", "width", "step", "text", "expected"),
    [
        ("ct200", 5, "check", "2 files compile", "ct200  check    2 files compile"),
        ("ct200", 5, "release", "7c1e09a live", "ct200  release  7c1e09a live"),
        ("ct2", 5, "gpus", "8 of 8 idle", "ct2    gpus     8 of 8 idle"),
        ("longer", 5, "gpus", "idle", "longer  gpus     idle"),
        ("ct200", 5, "gpus", "", "ct200  gpus"),
    ],
)
def test_step_line_has_columns(host: str, width: int, step: str, text: str, expected: str) -> None:
    assert lines.step_line(host, width, step, text) == expected


def test_every_module_of_the_collection_has_a_word() -> None:
    modules = {f"trainops.proxmox.{path.stem}" for path in (ROOT / "plugins/modules").glob("*.py")}
    assert modules == set(lines.STEPS)


@pytest.mark.parametrize(
    ("action", "word"),
    [
        ("trainops.proxmox.syntax_check", "check"),
        ("trainops.proxmox.gpu_info", "gpus"),
        ("ansible.builtin.copy", None),
        ("syntax_check", None),
        (None, None),
    ],
)
def test_step_word_goes_by_the_full_name(action: str | None, word: str | None) -> None:
    assert lines.step_word(action) == word


@pytest.mark.parametrize(
    ("result", "headline", "rest"),
    [
        # A step's summary heads its whole message …
        ({"summary": "1 problem", "msg": "a.py:1:2: bad\nb.py:3: no"}, "1 problem", ["a.py:1:2: bad", "b.py:3: no"]),
        # … which is not said twice.
        ({"summary": "no space", "msg": "no space"}, "no space", []),
        ({"summary": "refused: a.py:1:2: bad", "msg": "a.py:1:2: bad"}, "refused: a.py:1:2: bad", []),
        ({"summary": "no space", "msg": "no space\nfree 3 MB"}, "no space", ["free 3 MB"]),
        # Other modules: the first line, then what was printed.
        ({"msg": "bad status", "rc": 3, "stderr": "e\n", "stdout": "o"}, "bad status (exit 3)", ["e", "o"]),
        ({"msg": "", "module_stderr": "sh: no python\n"}, "no message", ["sh: no python"]),
        ({"msg": "Task failed: Action failed: there is no node"}, "there is no node", []),
        ({"msg": "Task failed: Error while evaluating conditional: set it"}, "set it", []),
        ({"censored": "the output has been hidden"}, "the output has been hidden", []),
        ({}, "no message", []),
        ({"msg": 7, "rc": None}, "7", []),
    ],
)  # fmt: skip
def test_failure_says_everything_once(result: dict[str, Any], headline: str, rest: list[str]) -> None:
    assert lines.failure(result) == (headline, rest)


def test_beneath_indents_every_line_and_leaves_no_blanks_behind() -> None:
    assert lines.beneath("head", ["one", "", "two"], 3) == "head\n   one\n\n   two"
    assert lines.beneath("head", [], 3) == "head"


@pytest.mark.parametrize(
    ("what", "hosts", "total", "expected"),
    [
        ("failed", ["ct200", "ct210"], 3, "2 of 3 hosts failed: ct200, ct210"),
        ("unreachable", ["ct200"], 1, "1 of 1 host unreachable: ct200"),
    ],
)
def test_ended_badly_counts_and_names(what: str, hosts: list[str], total: int, expected: str) -> None:
    assert lines.ended_badly(what, hosts, total) == expected
