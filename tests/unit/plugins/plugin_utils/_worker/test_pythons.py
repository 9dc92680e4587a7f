# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which other interpreters are looked for, and what is said of them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker import pythons
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.pythons import who_has


@pytest.fixture(autouse=True)
def only_below_the_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The interpreters of this machine must not decide these tests."""
    monkeypatch.setattr(pythons, "_BIN", ())
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))


def interpreter(folder: Path, modules: str = "", body: str = "") -> str:
    """A program that is asked like an interpreter and has these modules."""
    path = folder / "bin" / "python"
    path.parent.mkdir(parents=True)
    has = "|".join(modules.split()) or "-"
    path.write_text(f'#!/bin/sh\n{body}\nshift 3\nfor name; do case $name in {has}) echo "$name";; esac; done\n')
    path.chmod(0o755)
    return str(path)


def test_the_environment_beside_the_project_has_it(tmp_path: Path) -> None:
    venv = interpreter(tmp_path / "venv", "torch numpy")
    assert who_has(["torch", "nowhere"], str(tmp_path)) == {"torch": venv}


def test_the_one_with_more_of_them_wins(tmp_path: Path) -> None:
    interpreter(tmp_path / "a", "torch")
    both = interpreter(tmp_path / "deep" / "env", "torch numpy")
    assert who_has(["torch", "numpy"], str(tmp_path)) == {"torch": both, "numpy": both}


def test_the_nearer_one_wins_among_equals(tmp_path: Path) -> None:
    interpreter(tmp_path / "deep" / "env", "torch")
    near = interpreter(tmp_path / "venv", "torch")
    assert who_has(["torch"], str(tmp_path)) == {"torch": near}


def test_a_real_environment(tmp_path: Path) -> None:
    env = tmp_path / "venv"
    (env / "bin").mkdir(parents=True)
    (env / "bin" / "python").symlink_to(os.path.realpath(sys.executable))
    packages = env / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages" / "onlythere"
    packages.mkdir(parents=True)
    (packages / "__init__.py").write_text("raise SystemExit('executed')\n")
    (env / "pyvenv.cfg").write_text(f"home = {os.path.dirname(os.path.realpath(sys.executable))}\n")
    assert who_has(["onlythere"], str(tmp_path)) == {"onlythere": str(env / "bin" / "python")}


def test_one_that_hangs_and_one_that_fails_cost_no_more_than_the_deadline(tmp_path: Path) -> None:
    interpreter(tmp_path / "a", "torch", "exec sleep 600")
    interpreter(tmp_path / "b", "torch", "exit 1")
    works = interpreter(tmp_path / "c", "torch")
    assert who_has(["torch"], str(tmp_path), seconds=2.0) == {"torch": works}


def test_what_others_put_there_is_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interpreter(tmp_path / "venv", "torch", f"touch {tmp_path}/started")
    owner = (tmp_path / "venv").stat().st_uid
    monkeypatch.setattr(pythons, "_TRUSTED", frozenset((owner + 1,)))
    assert who_has(["torch"], str(tmp_path)) == {}
    assert not (tmp_path / "started").exists()


def test_neither_itself_nor_what_is_no_interpreter(tmp_path: Path) -> None:
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv" / "bin").symlink_to(Path(sys.executable).parent)
    (tmp_path / "x" / "bin").mkdir(parents=True)
    (tmp_path / "x" / "bin" / "python3-config").write_text("")
    (tmp_path / "x" / "bin" / "python3").write_text("not executable")
    assert pythons._candidates(str(tmp_path), float("inf")) == []
