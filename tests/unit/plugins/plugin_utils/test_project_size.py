# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which file or folder of a project is named as too big, and that its content is not read for that."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import OptionError
from ansible_collections.trainops.proxmox.plugins.plugin_utils.project import Measured, measure_project, read_project
from ansible_collections.trainops.proxmox.plugins.plugin_utils.project_size import big, sizes


def measured(**files: int) -> Measured:
    """A project of files by path (with __ for a slash) and size."""
    rows = sorted((path.replace("__", "/"), size) for path, size in files.items())
    paths = {path[:end]: path[:end] for path, _size in rows for end in [*_ends(path), len(path)]}
    return Measured("p", rows, paths, sorted({path.partition("/")[0] for path, _size in rows}), [], [])


def _ends(path: str) -> list[int]:
    return [at for at, char in enumerate(path) if char == "/"]


CASES: list[tuple[dict[str, int], list[tuple[str, int, int]]]] = [
    ({}, []),
    ({"a": 10, "b__c": 10}, []),
    ({"a": 101}, [("a", 101, 1)]),
    ({"a": 100}, []),
    ({"data__a": 60, "data__b": 60, "train": 1}, [("data", 120, 2)]),
    # A folder of sources with one large file: the file is what is too big.
    ({"src__model": 5, "src__weights": 500}, [("src/weights", 500, 1)]),
    ({"d__x__y__z": 500}, [("d/x/y/z", 500, 1)]),
    ({"d__x__a": 60, "d__x__b": 60, "d__c": 1}, [("d/x", 120, 2)]),
    ({"d__a": 200, "d__b": 90, "d__c": 90}, [("d", 380, 3)]),
    # Many large files are one folder to leave out.
    ({f"runs__{number}": 200 for number in range(4)}, [("runs", 800, 4)]),
    ({f"runs__{number}": 200 for number in range(3)}, [(f"runs/{number}", 200, 1) for number in range(3)]),
    ({"small": 101, "large": 300}, [("large", 300, 1), ("small", 101, 1)]),
    # All of it together is too big, and nothing of it: there is nothing to name.
    ({f"f{number}": 90 for number in range(50)}, []),
]


@pytest.mark.parametrize(("files", "named"), CASES)
def test_what_is_named(files: dict[str, int], named: list[tuple[str, int, int]]) -> None:
    assert [(one["path"], one["bytes"], one["files"]) for one in big(measured(**files), 100)] == named


def test_the_numbers() -> None:
    project = measured(**{f"f{number:02}": number for number in range(20)})
    found = sizes(project, 100)
    assert (found["files"], found["total_bytes"], found["name"]) == (20, 190, "p")
    assert [one["bytes"] for one in found["largest"]] == list(range(19, 9, -1))
    assert sizes(None, 100)["files"] == 0


def write(path: Path, size: int = 1) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as stream:
        stream.truncate(size)


def measure(folder: Path, **options: Any) -> Measured:
    values = {"exclude": [], "cwd": "/", "shared": [], **options}
    return measure_project(str(folder), values["exclude"], values["cwd"], values["shared"])


def test_it_is_what_would_be_released(tmp_path: Path) -> None:
    folder = tmp_path / "dflash"
    for name in ("train.py", "lib/a.py", ".env", "lib/__pycache__/a.pyc", "data/x", "notes.txt"):
        write(folder / name)
    (folder / "link").symlink_to("train.py")
    project = measure_project(str(folder), ["*.txt"], "/", ["data"])
    real = read_project(str(folder), ["*.txt"], "/", ["data"])
    assert project.name == real.name == "dflash"
    assert [path for path, _size in project.files] == [one.path for one in real.files if one.type == "file"]
    assert project.ignored == real.ignored
    assert project.names == ["lib", "link", "train.py"]
    assert sizes(project, 100)["left_out"] == {"secrets": 1, "bytecode": 1, "shared": 1, "excluded by *.txt": 1}


def test_no_content_is_read(tmp_path: Path) -> None:
    """A file of a terabyte would take an hour."""
    folder = tmp_path / "dflash"
    write(folder / "data" / "huge", 1 << 40)
    project = measure(folder)
    assert [(one["path"], one["bytes"]) for one in big(project, 100)] == [("data/huge", 1 << 40)]


def test_the_pattern_leaves_out_that_path_alone(tmp_path: Path) -> None:
    folder = tmp_path / "dflash"
    for name in ("data [1]/a", "data 1/a", "sub/data [1]/a", "train.py"):
        write(folder / name, 60)
    write(folder / "data [1]" / "b", 60)
    (one,) = big(measure(folder), 100)
    assert one["path"] == "data [1]"
    left = measure(folder, exclude=[one["exclude"]])
    assert [path for path, _size in left.files] == ["data 1/a", "sub/data [1]/a", "train.py"]


def test_a_part_with_a_destination_is_named_by_it_and_left_out_by_its_own_path(tmp_path: Path) -> None:
    write(tmp_path / "lib" / "w.bin", 200)
    spec = [{"src": str(tmp_path / "lib"), "dest": "losses"}]
    project = measure_project(spec, [], "/")
    (one,) = big(project, 100)
    assert (one["path"], one["exclude"]) == ("losses/w.bin", "./w.bin")
    assert measure_project(spec, [one["exclude"]], "/").files == []


def test_what_keeps_it_from_being_released_is_told_and_no_failure(tmp_path: Path) -> None:
    folder = tmp_path / "what's this"
    write(folder / "a.py")
    (folder / "out").symlink_to("/etc")
    os.mkfifo(folder / "pipe")
    project = measure(folder)
    assert project.name is None
    assert len(project.problems) == 3
    for words in ("is a named pipe", "is a link out of the project", "cannot be a project's name"):
        assert any(words in problem for problem in project.problems), words


def test_an_empty_project_is_no_failure_and_a_missing_one_is(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert measure(tmp_path / "empty").files == []
    with pytest.raises(OptionError, match="No such file or directory"):
        measure(tmp_path / "missing")
