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
    without_gpus,
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
        ({"script": None}, "nothing says what to run: set option script, option command, or option like"),
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
        ("python 'a.py", "cannot be split into words: No closing quotation"),
        (["a", True], "True is no word: write it as a text, in quotes"),
        (["a", {"b": 1}], "is no word"),
        ({"a": 1}, "neither a text nor a list of words"),
        (True, "neither a text nor a list of words"),
        (["a\0b"], "a NUL byte is in no word"),
    ],
)
def test_what_is_no_list_of_words(value: Any, said: str) -> None:
    with pytest.raises(OptionError, match=r"^option args: ") as caught:
        words(value, "args")
    assert said in str(caught.value)


def test_an_environment_of_texts() -> None:
    assert environment({"A": "x y", "B_1": 2, "C": 0.5, "D": ""}) == {"A": "x y", "B_1": "2", "C": "0.5", "D": ""}


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"A-B": "x"}, "'A-B' is no name of a variable"),
        ({"": "x"}, "'' is no name of a variable"),
        ({"HF_TOKEN": True}, "the value of HF_TOKEN is no text"),
        ({"HF_TOKEN": None}, "the value of HF_TOKEN is no text"),
        ({"A": "hidden\0"}, "the value of A has a NUL byte"),
        ({"CUDA_VISIBLE_DEVICES": "0"}, "CUDA_VISIBLE_DEVICES is set for each run: choose GPUs by option select"),
        ({"TRAINOPS_RUN": "hidden"}, "TRAINOPS_RUN is set for each run: leave it out"),
    ],
)
def test_what_is_no_environment(env: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError) as caught:
        environment(env)
    assert said in str(caught.value)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("select", "without"),
    [(0, True), ("0", True), ([], True), (" [] ", True), (None, False), ("", False), (1, False), ([0], False)],
)
def test_a_run_without_gpus(select: Any, without: bool) -> None:
    assert without_gpus(select) is without


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
