# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The project on the controller beside what a launch starts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils import run_project
from ansible_collections.trainops.proxmox.plugins.plugin_utils.project import read_project
from ansible_collections.trainops.proxmox.plugins.plugin_utils.run_project import Comparison

LIVE = "5f603a2" + "0" * 57
OPTIONS: dict[str, Any] = {
    "compare": True,
    "project": "scripts",
    "release": None,
    "name": None,
    "exclude": ["*.log"],
    "shared": ["data"],
    "max_size": "1MB",
    "max_files": 100,
}


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    (tmp_path / "scripts" / "data").mkdir(parents=True)
    (tmp_path / "scripts" / "train.py").write_text("x = 1\n")
    (tmp_path / "scripts" / "old.log").write_text("x")
    return tmp_path


def notes(desk: Path, live: str = LIVE, **change: Any) -> list[str]:
    return Comparison({**OPTIONS, **change}, os.fspath(desk)).notes(live)


def test_a_project_that_is_live_is_not_worth_a_word(desk: Path) -> None:
    live = read_project("scripts", ["*.log"], os.fspath(desk), ["data"]).release_id
    assert notes(desk, live) == []
    assert notes(desk, live, project=[os.fspath(desk / "scripts")]) == []
    (desk / "scripts" / "train.py").write_text("x = 2\n")
    assert notes(desk, live) != []


def test_one_that_is_not_live_is_named(desk: Path) -> None:
    what = "is not what is live (5f603a2): deploy first, or see trainops diff"
    assert notes(desk) == [f"the project in {desk}/scripts {what}"]
    assert notes(desk, project=["scripts", "scripts/old.log"]) == [f"the project {what}"]


@pytest.mark.parametrize(
    "change",
    [
        {"compare": False},
        {"project": None},
        {"release": "abcd"},
        {"project": "elsewhere"},
        {"project": 7},
        {"max_size": "3B"},
        {"max_size": "much"},
        {"name": "no name"},
    ],
)
def test_what_cannot_be_read_or_compared_is_no_matter_of_a_launch(desk: Path, change: dict[str, Any]) -> None:
    assert notes(desk, **change) == []


def test_a_launch_that_is_refused_does_not_wait_for_the_project(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began: list[object] = []
    monkeypatch.setattr(run_project, "project_of", lambda *args: began.append(args))
    comparison = Comparison(OPTIONS, os.fspath(desk))
    assert comparison._thread is not None
    assert comparison._thread.daemon
