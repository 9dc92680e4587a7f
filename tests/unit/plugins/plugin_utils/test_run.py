# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What can be said of a wish to run before any container is asked."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import OptionError
from ansible_collections.trainops.proxmox.plugins.plugin_utils.run import (
    check_options,
    environment,
    order,
    set_apart,
    words,
)

OPTIONS: dict[str, Any] = {
    "state": "started",
    "root": "/root",
    "run": None,
    "like": None,
    "command": None,
    "script": "train.py",
    "args": None,
    "release": None,
    "select": None,
    "count": None,
    "idle_timeout": 0.0,
    "idle_interval": 5.0,
    "patience": 60.0,
    "timeout": 120.0,
    "lines": 0,
    "stall_seconds": 300.0,
    "python": "/root/venv/bin/python",
    "env": {},
    "env_file": "",
    "pythonpath": [],
    "systemd": "auto",
}


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"script": None, "command": ["torchrun", "x.py"]},
        {"script": None, "like": "r1"},
        {"state": "stopped", "run": "all", "script": None},
        {"state": "watched", "run": "r12", "script": None},
        {"select": 0, "count": None},
        {"select": "0,1", "count": 1},
    ],
)
def test_what_can_be(change: dict[str, Any]) -> None:
    check_options({**OPTIONS, **change})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"script": None}, "Instead of option script there may be option command, or option like"),
        ({"run": "1", "state": "stopped"}, "option run: '1' is no run: give its id, such as r1, or all"),
        ({"run": "all", "state": "watched"}, "option run: 'all' is no run: give its id, such as r1"),
        ({"like": "r0"}, "option like: 'r0' is no run"),
        ({"root": "root"}, "option root: 'root' is not an absolute path"),
        ({"patience": -1.0}, "option patience: -1 cannot be, it must be a number and at least 0"),
        ({"timeout": float("nan")}, "option timeout: nan cannot be"),
        ({"idle_timeout": float("inf")}, "option idle_timeout: inf cannot be"),
        ({"select": 2, "count": 1}, "option select: 2 is a count and option count: 1 is another"),
    ],
)
def test_what_cannot_be_is_named(change: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError) as caught:
        check_options({**OPTIONS, **change})
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (None, []),
        ("", []),
        ([], []),
        ("torchrun --nproc_per_node 8 {release}/train.py", ["torchrun", "--nproc_per_node", "8", "{release}/train.py"]),
        ("--name 'my run' --lr 1e-4", ["--name", "my run", "--lr", "1e-4"]),
        (["bash", "-c", "a | b > c"], ["bash", "-c", "a | b > c"]),
        (["--steps", 10, "--lr", 0.5], ["--steps", "10", "--lr", "0.5"]),
        (10, ["10"]),
        ("--text 'größer > $HOME'", ["--text", "größer > $HOME"]),
    ],
)
def test_words(value: Any, found: list[str]) -> None:
    assert words(value, "command") == found


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("python a.py && python b.py", "no shell is between that would understand '&&'"),
        ("python a.py > log", "no shell is between that would understand '>'"),
        ("python 'a.py --token hunter2", "its text cannot be split into words: the ' is never closed"),
        ("python a.py --out $HOME/x", "no shell is between that would understand '$HOME'"),
        (["a", True], "word 2 is true or false, no word: write it as a text, in quotes"),
        (["a", {"b": "hunter2"}], "word 2 is a mapping, no word"),
        ({"a": "hunter2"}, "a mapping is neither a text nor a list of words"),
        ("python a.py --password=x$hunter2", "no shell is between that would understand '$'"),
        (True, "neither a text nor a list of words"),
        (["a\0b"], "a NUL byte is in no word"),
    ],
)
def test_what_is_no_list_of_words(value: Any, said: str) -> None:
    with pytest.raises(OptionError, match=r"^option args: ") as caught:
        words(value, "args")
    assert said in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_variable_before_a_command_belongs_into_the_environment() -> None:
    with pytest.raises(OptionError, match=r"^option command: A=… is no program: set A in option env$"):
        words("A=hunter2 python a.py", "command")
    assert words("A=b", "args") == words("'A=b'", "args") == ["A=b"]


def test_an_environment_of_texts() -> None:
    assert environment({"A": "x y", "B_1": 2, "C": 0.5, "D": ""}) == {"A": "x y", "B_1": "2", "C": "0.5", "D": ""}
    assert environment('{"A": "b"}') == environment("A=b") == {"A": "b"}  # as -e training_env=… gives it
    assert environment(None) == {}


@pytest.mark.parametrize(
    ("env", "said"),
    [
        (["A=hidden"], "option env: a list is no mapping of names to values: write it as NAME: value"),
        ("hidden", "option env: a text is no mapping"),
        (7, "option env: a value is no mapping"),
        ({"A": 1, "A-B": "x"}, "the name of variable 2 is no name of one: letters, digits and _ make one"),
        ({"TOKEN: hidden": ""}, "the name of variable 1 is no name of one"),
        ({"": "x"}, "the name of variable 1 is no name of one"),
        ({"HF_TOKEN": True}, "the value of HF_TOKEN is no text"),
        ({"HF_TOKEN": None}, "the value of HF_TOKEN is no text"),
        ({"A": "hidden\0"}, "the value of A has a NUL byte"),
        ({"CUDA_VISIBLE_DEVICES": "0"}, "CUDA_VISIBLE_DEVICES is set for each run: choose GPUs by option select"),
        ({"TRAINOPS_RUN": "hidden"}, "TRAINOPS_RUN is set for each run: leave it out"),
    ],
)
def test_what_is_no_environment(env: Any, said: str) -> None:
    with pytest.raises(OptionError) as caught:
        environment(env)
    assert said in str(caught.value)
    assert "hidden" not in str(caught.value)


def test_what_the_worker_is_told() -> None:
    told = order({**OPTIONS, "args": "--lr 1e-4", "env": {"A": 1}, "release": ""})
    assert told == {
        "release": None,
        "like": None,
        "command": None,
        "script": "train.py",
        "args": ["--lr", "1e-4"],
        "python": "/root/venv/bin/python",
        "env": {"A": "1"},
        "env_file": None,
        "pythonpath": [],
        "systemd": "auto",
    }


def test_of_a_launch_like_another_only_what_was_said_counts() -> None:
    standing = {"script", "args", "env", "env_file", "pythonpath"}
    options = {**OPTIONS, "args": "--n 3", "env": {"A": "1"}, "env_file": "x.env", "pythonpath": ["p"]}
    assert set_apart(options, standing) == (options, {})
    said, rest = set_apart({**options, "like": "r1"}, standing)
    assert [said[name] for name in ("script", "args", "env", "env_file", "pythonpath")] == [None, None, {}, None, []]
    assert rest == {
        "standing": {
            "command": None,
            "script": "train.py",
            "args": ["--n", "3"],
            "env": {"A": "1"},
            "env_file": "x.env",
        }
    }
    said, rest = set_apart({**options, "like": "r1"}, standing - {"env", "args"})
    assert (said["env"], said["args"], rest["standing"]["env"]) == ({"A": "1"}, "--n 3", {})
    check_options(said)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"command": "a"}, "option command and option script both say what to run"),
        ({"script": None, "command": "a", "args": "b"}, "option args belongs to option script"),
    ],
)
def test_only_one_thing_says_what_to_run(change: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        check_options({**OPTIONS, **change})
