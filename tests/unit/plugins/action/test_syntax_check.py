# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role syntax_check where there is no container: the Python that runs Ansible checks, as a CI job would have it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

BIN = Path(sys.executable).parent


def play(folder: Path, **variables: object) -> subprocess.CompletedProcess[str]:
    """Run the role on localhost in `folder`, with the lines that a person reads."""
    role = [{"role": "trainops.proxmox.syntax_check"}]
    text = [{"hosts": "localhost", "connection": "local", "gather_facts": False, "vars": variables, "roles": role}]
    (folder / "check.yml").write_text(yaml.safe_dump(text))
    env = {
        **os.environ,
        "ANSIBLE_STDOUT_CALLBACK": "trainops.proxmox.summary",
        "ANSIBLE_LOCALHOST_WARNING": "false",
        "ANSIBLE_NOCOLOR": "1",
        "LC_ALL": "C.UTF-8",
    }
    argv = [sys.executable, str(BIN / "ansible-playbook"), "-i", "localhost,", "check.yml"]
    return subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A sound project of two files."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "train.py").write_text("from model import Config\n")
    (tmp_path / "scripts" / "model.py").write_text("class Config: ...\n")
    return tmp_path


def test_a_sound_project(project: Path) -> None:
    done = play(project, training_project="scripts")
    version = sys.version.split()[0]
    line = f"localhost check 2 files compile, imports resolve {sys.executable} {version}"
    assert done.returncode == 0, done.stdout + done.stderr
    assert line in [" ".join(text.split()) for text in done.stdout.splitlines()]


def test_all_that_is_wrong_with_another(project: Path) -> None:
    (project / "scripts" / "model.py").write_text("class Conf: ...\n")
    (project / "scripts" / "late.py").write_text("return\n")
    (project / "scripts" / "plot.py").write_text("import flash_attn\nimport nowhere\n")
    done = play(project, training_project="scripts", training_optional_modules=["flash_attn"])
    assert done.returncode == 2, done.stdout + done.stderr
    said = [line.strip() for line in done.stdout.splitlines()]
    assert any(line.endswith("refused: late.py:1:1: 'return' outside function (+2 more)") for line in said), said
    assert "train.py:1:1: model.py has no name Config (did you mean Conf?)" in said
    assert any(line.startswith(f"plot.py:2:1: {sys.executable} has no nowhere; ") for line in said), said
    assert not any("flash_attn" in line for line in said)


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"training_project": "missing"}, "missing"),
        (
            {"training_project": "scripts", "training_python": "/nowhere/python"},
            "no Python at /nowhere/python",
        ),
        ({}, "training_project"),
    ],
)
def test_what_is_said_of_wrong_settings(project: Path, variables: dict[str, object], said: str) -> None:
    done = play(project, **variables)
    assert done.returncode != 0
    assert said in done.stdout + done.stderr
