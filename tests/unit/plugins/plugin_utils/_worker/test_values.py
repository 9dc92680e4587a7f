# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Values in the lines of a log, and what is a number."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.values import compiled, find, number


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (["step 12 loss 3.4 tokens/s 1200"], {"step": 12, "loss": 3.4, "tokens_per_s": 1200}),
        (["step 1 loss 9", "step 2 loss 8"], {"step": 2, "loss": 8}),
        (["step=3 | loss: 1e-3 | tok/s = 88.5"], {"step": 3, "loss": 0.001, "tokens_per_s": 88.5}),
        (["Step: 7, Loss=nan, 1234.5 tokens/sec"], {"step": 7, "loss": "nan", "tokens_per_s": 1234.5}),
        (["loss 2.5", "saving", "step 4"], {"step": 4, "loss": 2.5}),
        (["resumed at step 240 from checkpoint.json"], {}),
        (["resumed from step 240"], {}),
        (["stopped before the first step, nothing to save"], {}),
        (["closs 3 footstep 4"], {}),
        (["loss -inf"], {"loss": "-inf"}),
        (["\x1b[32mstep\x1b[0m"], {}),
        ([], {}),
    ],
)
def test_the_usual_names_are_found(lines: list[str], found: dict[str, Any]) -> None:
    assert find(lines, compiled(None)) == found


def test_own_patterns_take_the_place_of_the_usual_ones() -> None:
    patterns = compiled([r"epoch (?P<epoch>\d+)/(?P<of>\d+)", r"(?:acc (?P<acc>\S+)|err (?P<err>\S+))"])
    lines = ["epoch 1/3", "acc 0.5", "step 1 err 0.25", "epoch 2/3"]
    assert find(lines, patterns) == {"epoch": 2, "of": 3, "acc": 0.5, "err": 0.25}


def test_of_a_line_the_last_match_counts() -> None:
    assert find(["step 1 then step 2"], compiled(None)) == {"step": 2}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12),
        ("-3", -3),
        ("1e-4", 0.0001),
        (".5", 0.5),
        ("nan", "nan"),
        ("inf", "inf"),
        ("1e999", "1e999"),
        ("1_000", "1_000"),
        ("12 GB", "12 GB"),
        ("9" * 400, "9" * 400),
        ("", ""),
    ],
)
def test_numbers_are_numbers_and_always_json(text: str, value: Any) -> None:
    assert number(text) == value
    assert type(number(text)) is type(value)
    assert json.loads(json.dumps(number(text), allow_nan=False)) == value


@pytest.mark.parametrize(("pattern", "said"), [("(?P<a>", "is no regular expression"), ("loss", "has no named group")])
def test_a_pattern_that_cannot_be_used_is_named(pattern: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        compiled([pattern])
