# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is started: words, options of Python, paths through the release and not through links."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.command import (
    AS_MODULE,
    Place,
    build,
    near_names,
    python_path,
    real_script,
    split_options,
    without_cwd,
)

from tests.unit.releasing import refusal

PY = "/venv/bin/python"
FILES = ["conf/train.yml", "pkg/train.py", "train.py", "train_long.py"]


def place(version: tuple[int, int] = (3, 12), release: str = "/r/.trainops/d/releases/abc") -> Place:
    return Place(release, FILES, "/r", PY, version)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["train.py", "-m"], ([], "", ["train.py", "-m"])),
        (["-m", "pkg.train", "-x"], ([], "-m", ["pkg.train", "-x"])),
        (["-um", "pkg.train"], (["-u"], "-m", ["pkg.train"])),
        (["-mpkg.train"], ([], "-m", ["pkg.train"])),
        (["-W", "-m", "-X", "dev", "t.py"], (["-W", "-m", "-X", "dev"], "", ["t.py"])),
        (["-Wignore", "-Xdev", "-c", "code", "a"], (["-Wignore", "-Xdev"], "-c", ["code", "a"])),
        (["--check-hash-based-pycs", "never", "t.py"], (["--check-hash-based-pycs", "never"], "", ["t.py"])),
        (["-u", "-"], (["-u"], "", ["-"])),
        ([], ([], "", [])),
    ],
)
def test_python_s_own_options_are_told_from_a_script_s(
    words: list[str], expected: tuple[list[str], str, list[str]]
) -> None:
    assert split_options(words) == expected


@pytest.mark.parametrize(
    ("words", "version", "expected", "more"),
    [
        ([PY, "t.py", "-m", "x"], (3, 12), [PY, "t.py", "-m", "x"], False),
        ([PY, "-m", "pkg.train"], (3, 11), [PY, "-P", "-m", "pkg.train"], False),
        ([PY, "-u", "-m", "pkg", "a"], (3, 10), [PY, "-u", "-c", AS_MODULE, "pkg", "a"], False),
        (["/usr/bin/python3", "-m", "pkg"], (3, 12), ["/usr/bin/python3", "-c", AS_MODULE, "pkg"], False),
        ([PY, "-c", "x = 1"], (3, 12), [PY, "-P", "-c", "x = 1"], False),
        (["/b/torchrun", "--n", "8", "t.py", "-m"], (3, 9), ["/b/torchrun", "--n", "8", "t.py", "-m"], False),
        (["/b/torchrun", "-m", "pkg"], (3, 12), ["/b/torchrun", "-m", "pkg"], True),
        (["/b/accelerate", "launch", "--module", "p"], (3, 12), ["/b/accelerate", "launch", "--module", "p"], True),
        ([PY, "-m", "torchrun", "-m", "p"], (3, 12), [PY, "-P", "-m", "torchrun", "-m", "p"], True),
        ([PY, "-m", "mine", "-m", "3"], (3, 9), [PY, "-c", AS_MODULE, "mine", "-m", "3"], False),
    ],
)
def test_the_working_folder_is_not_searched(
    words: list[str], version: tuple[int, int], expected: list[str], more: bool
) -> None:
    assert without_cwd(words, place(version)) == (expected, {"PYTHONSAFEPATH": "1"} if more else {})


def test_a_launcher_of_modules_under_an_old_python_is_refused() -> None:
    error = refusal(without_cwd, ["/b/torchrun", "-m", "pkg"], place((3, 10)))
    assert error.message.startswith("torchrun -m would look in /r first, not in the release: name the script's file")


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("train.py", "/r/.trainops/d/releases/abc/train.py"),
        ("./pkg/../train.py", "/r/.trainops/d/releases/abc/train.py"),
        ("/r/pkg/train.py", "/r/.trainops/d/releases/abc/pkg/train.py"),
        ("/elsewhere/train.py", "/elsewhere/train.py"),
        ("other.py", "other.py"),
        ("conf/train.yml", "conf/train.yml"),
        ("--script=train.py", "--script=train.py"),
    ],
)
def test_only_a_file_of_the_project_is_replaced(word: str, expected: str) -> None:
    assert real_script(word, place()) == expected


def test_only_our_two_names_are_expanded() -> None:
    words = build({"command": ["{python}", "{release}/train.py", '{"a": {x}}', "--out={release}-{python}"]}, place())
    assert words[2:] == ['{"a": {x}}', f"--out=/r/.trainops/d/releases/abc-{PY}"]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("trian.py", ["train.py"]),
        ("src/train.py", ["pkg/train.py", "train.py"]),
        ("train_lng.py", ["train_long.py"]),
        ("zzz", []),
        ("zzz.py", []),  # its ending is that of all
    ],
)
def test_near_names(word: str, expected: list[str]) -> None:
    assert near_names(word, FILES)[: len(expected)] == expected
    assert bool(near_names(word, FILES)) == bool(expected)


def test_a_folder_of_the_project_on_the_path_is_the_release_s(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    here = place(release=str(tmp_path))
    assert python_path(["src", "/r/src", "data", ".", "/opt/x"], here) == [
        *(str(tmp_path), f"{tmp_path}/src", f"{tmp_path}/src", "/r/data", "/r", "/opt/x")
    ]
