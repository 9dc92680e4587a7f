# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A process that may hold a GPU, from its files in /proc."""

from __future__ import annotations

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils import processes

STAT = "918 (python) S 562 561 561 0 -1 4194560 91065 0 0 0 706 75 0 0 20 0 3 0 4082 23326564352 157806"


@pytest.mark.parametrize("name", ["python", "a b", "x) S 1 2", "(("])
def test_the_name_in_stat_may_hold_anything(name: str) -> None:
    assert processes.start_of(STAT.replace("python", name)) == (562, 40.82)


def test_a_cut_stat_tells_nothing() -> None:
    assert processes.start_of("918 (python) S 562") == (0, 0.0)


@pytest.mark.parametrize(
    ("cmdline", "expected"),
    [
        ("python3\0train.py\0--name\0a b\0", ("python3", "train.py", "--name", "a b")),
        ("python3\0-c\0print(1)\nprint(2)\0", ("python3", "-c", "print(1)\nprint(2)")),
        ("", ("python",)),
    ],
)
def test_words_of_a_command_line(cmdline: str, expected: tuple[str, ...]) -> None:
    assert processes.argv_of(cmdline, STAT, "\0") == expected


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (("/root/venv/bin/python3", "-u", "/root/train.py", "--api-key", "secret"), "python3 train.py"),
        (("python3", "-W", "ignore", "train.py"), "python3 train.py"),
        (("python3.12", "-m", "torch.distributed.run", "train.py"), "python3.12 -m torch.distributed.run"),
        (("python3", "-c", "import torch; secret()"), "python3 -c …"),
        (("/usr/bin/torchrun", "--nproc_per_node", "8", "/root/train.py"), "torchrun train.py"),
        (("bash", "-x", "/root/run.sh"), "bash run.sh"),
        (("/usr/lib/xorg/Xorg", ":0", "-auth", "/run/auth"), "Xorg"),
        (("python3",), "python3"),
        (("x" * 100,), "x" * 59 + "…"),
    ],
)
def test_what_a_person_calls_a_command(argv: tuple[str, ...], expected: str) -> None:
    assert processes.short_command(argv) == expected


def test_the_whole_command_is_one_line() -> None:
    assert processes.command_line(("sh", "-c", "echo 1\necho 2")) == "sh -c echo 1 echo 2"


def test_a_secret_in_a_command_is_not_told() -> None:
    assert processes.command_line(("t.py", "--api-key", "s3same", "--n", "3")) == "t.py --api-key *** --n 3"
