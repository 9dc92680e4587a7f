# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Interpreters and places that a survey finds, as real files and processes."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker import pythons, survey

from tests.unit.devices import needs_root


@pytest.fixture(autouse=True)
def only_below_the_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What this machine has must not decide these tests."""
    monkeypatch.setattr(pythons, "_BIN", ())
    monkeypatch.setattr(survey, "_SHARED", (str(tmp_path / "data"),))
    monkeypatch.setattr(survey, "_HOMES", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path / "root"))


def environment(folder: Path, torch: str | None = None, text: str = "") -> str:
    """A virtual environment of this Python; ``torch`` is the version of its dist-info, ``text`` its version.py."""
    (folder / "bin").mkdir(parents=True)
    python = folder / "bin" / "python"
    python.symlink_to(os.path.realpath(sys.executable))
    packages = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    packages.mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text(f"home = {os.path.dirname(os.path.realpath(sys.executable))}\n")
    if torch is not None:
        (packages / "torch").mkdir()
        (packages / "torch" / "__init__.py").write_text("raise SystemExit('imported')\n")
        if text:
            (packages / "torch" / "version.py").write_text(text)
        if torch:
            (packages / f"torch-{torch}.dist-info").mkdir()
            metadata = f"Metadata-Version: 2.1\nName: torch\nVersion: {torch}\n"
            (packages / f"torch-{torch}.dist-info" / "METADATA").write_text(metadata)
    return str(python)


def program(path: Path, body: str) -> str:
    """A program that is taken for an interpreter."""
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def found(root: Path | None = None, wished: str | None = None) -> tuple[list[str], list[tuple[str, int]]]:
    return survey.candidates(str(root) if root else None, wished, time.monotonic() + 30)


def ask(paths: list[str], seconds: float = 30) -> list[tuple[str, str | None, bool]]:
    rows = survey.asked(paths, time.monotonic() + seconds)
    return [(row["path"], row["torch"], row["environment"]) for row in rows]


def test_the_best_comes_first(tmp_path: Path) -> None:
    bare = environment(tmp_path / "a")
    torch = environment(tmp_path / "b", "2.8.0+cu128")
    system = os.path.realpath(sys.executable)
    assert ask([system, bare, torch]) == [(torch, "2.8.0+cu128", True), (bare, None, True), (system, None, False)]


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("__version__ = '2.1.0+rocm'\n", "2.1.0+rocm"),
        ('__all__ = []\n__version__ = "2.0"\n', "2.0"),
        ("", "unknown"),
        ("nothing\n", "unknown"),
    ],
)
def test_torch_that_no_installer_listed(tmp_path: Path, text: str, version: str) -> None:
    assert ask([environment(tmp_path / "a", "", text)])[0][1] == version


def test_a_folder_called_torch_is_no_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = environment(tmp_path / "a")
    packages = next((tmp_path / "a" / "lib").glob("*/site-packages"))
    (packages / "torch").mkdir()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))  # of the login, which runs do not have
    assert ask([python]) == [(python, None, True)]


def test_a_conda_environment_is_one(tmp_path: Path) -> None:
    """It is no virtual environment: its prefix is its own, and conda's folder is what tells."""
    (tmp_path / "c" / "conda-meta").mkdir(parents=True)
    body = f"""
code="import sys
sys.prefix = sys.base_prefix = '{tmp_path}/c'
$3"
exec {os.path.realpath(sys.executable)} -c "$code" "$4"
"""
    python = program(tmp_path / "c" / "bin" / "python", body)
    assert ask([python]) == [(python, None, True)]


def test_what_an_interpreter_prints_besides_does_not_count(tmp_path: Path) -> None:
    python = environment(tmp_path / "a", "2.8.0")
    packages = next((tmp_path / "a" / "lib").glob("*/site-packages"))
    (packages / "sitecustomize.py").write_text("print('3.1.0 9.9 1'); print('0' * 16, '3.1.0 9.9 1')\n")
    assert ask([python]) == [(python, "2.8.0", True)]


def test_old_ones_come_last_and_hanging_ones_not_at_all(tmp_path: Path) -> None:
    old = program(tmp_path / "old" / "bin" / "python", 'printf "\\n%s 3.8.20 2.4.1 1\\n" "$4"')
    hangs = program(tmp_path / "hangs" / "bin" / "python", "exec sleep 600")
    fails = program(tmp_path / "fails" / "bin" / "python", "exit 1")
    odd = program(tmp_path / "odd" / "bin" / "python", 'printf "\\n%s version torch 1\\n" "$4"')
    new = environment(tmp_path / "new")
    assert ask([old, hangs, fails, odd, new], 5) == [(new, None, True), (old, "2.4.1", True)]


@pytest.mark.parametrize(
    ("version", "fit"),
    [("3.9.0", True), ("3.14.0rc1", True), ("4.0", True), ("3.8.20", False), ("2.7", False), ("x", False)],
)
def test_which_versions_are_fit(version: str, fit: bool) -> None:
    assert survey.is_fit(version) is fit


def test_where_interpreters_are_looked_for(tmp_path: Path) -> None:
    wanted = [
        environment(tmp_path / name)
        for name in (
            "train/venv",
            "train/.venv",
            "root/miniconda3",
            "root/miniconda3/envs/x",
            "root/.pyenv/versions/3.12.1",
            "root/.local/share/uv/python/cpython-3.13",
            "data/team/env",
            "home/ann/venv",
            "home/ann/work/.venv",
        )
    ]
    paths, others = found(tmp_path / "train")
    assert set(wanted) <= set(paths)
    assert paths[0] == wanted[1]  # near ones first, in the order of their names
    assert others == []
    assert os.path.realpath(paths[-1]) == os.path.realpath(sys.executable)


def test_the_wished_one_and_the_one_that_runs_this_count_once(tmp_path: Path) -> None:
    wished = environment(tmp_path / "odd" / "place" / "deep")
    paths, _others = found(None, wished)
    assert paths[0] == wished
    assert found(None, sys.executable)[0].count(sys.executable) == 1
    assert str(tmp_path / "none") not in found(None, str(tmp_path / "none"))[0]


@needs_root
@pytest.mark.parametrize("owned", ["bin/python", "bin", ".", "pyvenv.cfg"])
def test_what_another_user_could_change_is_not_a_candidate(tmp_path: Path, owned: str) -> None:
    python = environment(tmp_path / "data" / "env")
    os.chown(tmp_path / "data" / "env" / owned, 12345, -1, follow_symlinks=False)
    paths, others = found()
    assert python not in paths
    assert others == [(python, 12345)]
    assert found(None, python)[0][0] == python  # named by the user, it is the user's choice


def touch(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def test_where_the_project_is(tmp_path: Path) -> None:
    root, data = tmp_path / "root", tmp_path / "data"
    touch(root / "train.py", data / "x" / "train.py", data / "x" / "model.py", tmp_path / "home" / "ann" / "other")
    rows = survey.places(None, str(root), "p", ["model.py", "train.py"])
    assert [(row["path"], row["names"], row["deployed"]) for row in rows] == [
        (str(data / "x"), ["model.py", "train.py"], False),
        (str(root), ["train.py"], False),
    ]
    assert rows[0]["free"] > 0


def test_where_it_was_deployed_comes_first(tmp_path: Path) -> None:
    root, data = tmp_path / "root", tmp_path / "data"
    touch(root / "train.py", root / "model.py")
    (data / ".trainops" / "p" / "releases").mkdir(parents=True)
    (data / "train.py").symlink_to(".trainops/p/current/train.py")
    rows = survey.places(None, str(root), "p", ["model.py", "train.py"])
    assert [(row["path"], row["deployed"]) for row in rows] == [(str(data), True), (str(root), False)]
    assert survey.places(None, str(root), "q", [])[0]["deployed"] is False


def test_the_wished_root_and_the_home_are_told_in_any_case(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "wish").mkdir()
    rows = survey.places(str(tmp_path / "wish"), str(tmp_path / "root"), None, [])
    assert [row["path"] for row in rows] == [str(tmp_path / "wish"), str(tmp_path / "root")]
    assert survey.places(str(tmp_path / "none"), str(tmp_path / "none"), None, []) == []


def test_the_first_process_has_a_name() -> None:
    assert survey.init()


def test_the_operation_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    params: dict[str, Any] = {"root": None, "python": None, "name": None, "names": [], "gpus": None}
    result = survey.run(None, params)  # type: ignore[arg-type]
    assert result["gpus"] is None
    assert result["home"] == str(tmp_path / "root")
    assert result["pythons"][0]["path"] == sys.executable
    assert [row["path"] for row in result["places"]] == [str(tmp_path / "root")]
