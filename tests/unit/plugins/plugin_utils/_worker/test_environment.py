# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The environment of a run: what an env file says, and what is nobody's business."""

from __future__ import annotations

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.environment import (
    base,
    check_given,
    parse_env,
    parse_line,
    with_paths,
)

from tests.unit.releasing import refusal


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=", ""),
        ("A = b ", "b"),
        ("export A=b", "b"),
        ("A=b c", "b c"),
        ("A=b # c", "b"),
        ("A=b#c", "b#c"),
        ("A=#c", ""),
        ("A=$HOME/${X}`id`", "$HOME/${X}`id`"),
        ("A='b # \\n'", "b # \\n"),
        ('A="b\\n\\"\\\\ \\x"', 'b\n"\\ \\x'),
        ('A="" # c', ""),
        ("A=b=c", "b=c"),
        ("A=ü€", "ü€"),
    ],
)
def test_a_line_of_an_env_file(line: str, value: str) -> None:
    assert parse_line(line) == ("A", value)


def test_the_last_of_several_lines_counts() -> None:
    assert parse_env("\ufeffA=1\r\n\r\n  # no\r\nA=2\r\nB='3'\n", "f") == {"A": "2", "B": "3"}
    assert refusal(parse_env, "A=1\n\nB\n", "/f").message.startswith("/f:3: there is no '='")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("WANDB_API_KEY: c2VjTail99==", "what is before the '=' cannot be a variable's name"),
        ("A b=Tail99", "what is before the '=' cannot be a variable's name"),
        ("WANDB_API_KEY c2VjTail99", "there is no '='"),
        ("A='x' Tail99", "there is more after the closing '"),
        ('A="Tail99', 'the " at the beginning of the value is never closed'),
    ],
)
def test_a_wrong_line_is_named_and_not_shown(line: str, said: str) -> None:
    message = refusal(parse_env, f"A=1\n{line}\n", "/f").message
    assert message.startswith(f"/f:2: {said}")
    assert "Tail99" not in message and "c2Vj" not in message


def test_a_wrong_name_is_counted_and_not_shown() -> None:
    message = refusal(check_given, {"A": "b", "TOKEN: Tail99": ""}, "training_env").message
    assert message.startswith("training_env: the name of variable 2 cannot be one")
    assert "Tail99" not in message


def test_the_interpreter_s_folder_is_first_whatever_the_path_is() -> None:
    env = {**base({"TRITON_CACHE_DIR": "/c"}), "PATH": "/mine::/bin", "PYTHONPATH": "/their:/release"}
    done = with_paths(env, "/venv/bin/python", ["/release", "/extra"])
    assert (done["PATH"], done["PYTHONPATH"]) == ("/venv/bin:/mine:/bin", "/release:/extra:/their")
    assert (done["TRITON_CACHE_DIR"], done["PYTHONUNBUFFERED"]) == ("/c", "1")
