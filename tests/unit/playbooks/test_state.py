# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The question that playbooks ask first: what is not set is left out, what refers to nothing is an error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BIN = Path(sys.executable).parent
TASKS = Path(__file__).resolve().parents[3] / "playbooks/tasks/state.yml"
SET = {
    "proxmox_vmid": 200,
    "proxmox_api_host": "127.0.0.1",
    "proxmox_api_port": "1",
    "proxmox_api_token_id": "a@pve!tt",
    "proxmox_api_token_secret": "s3cr3t",
    "proxmox_api_fingerprint": "ab" * 32,
}


def ask(folder: Path, **variables: Any) -> str:
    """What the tasks say with these variables; None leaves one out."""
    given = {name: value for name, value in {**SET, **variables}.items() if value is not None}
    tasks = [{"ansible.builtin.import_tasks": str(TASKS)}]
    play = {"hosts": "all", "gather_facts": False, "vars": given, "tasks": tasks}
    (folder / "play.yml").write_text(json.dumps([play]))
    env = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_STDOUT", "PROXMOX_"))}
    env |= {"ANSIBLE_NOCOLOR": "1", "LC_ALL": "C.UTF-8", "ANSIBLE_DISPLAY_SKIPPED_HOSTS": "true"}
    argv = [str(BIN / "ansible-playbook"), "-i", "one,", "-c", "local", "play.yml"]
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=120)
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    "name",
    ["proxmox_vmid", "proxmox_api_host", "proxmox_api_token_secret", "proxmox_api_ca_path", "proxmox_api_timeout"],
)
def test_a_variable_that_refers_to_nothing_is_named(name: str, tmp_path: Path) -> None:
    said = ask(tmp_path, **{name: "{{ vault_of_nobody }} x"})
    assert "'vault_of_nobody' is undefined" in said
    assert "failed=1" in said


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, "the Proxmox VE API at 127.0.0.1:1 does not accept connections"),
        ({"proxmox_api_token_secret": None}, "cannot be asked without api_token_secret"),
        ({"proxmox_api_token_secret": ""}, "cannot be asked without api_token_secret"),
        ({"proxmox_api_port": "{{ none }}"}, "the Proxmox VE API at 127.0.0.1:8006"),
        ({"proxmox_api_ca_path": "nowhere.pem"}, "/nowhere.pem cannot be read"),
        ({"proxmox_api_host": None}, "skipped=1"),
        ({"proxmox_api_host": ""}, "skipped=1"),
        ({"proxmox_vmid": None}, "skipped=1"),
    ],
)
def test_what_is_not_set_is_left_out(variables: dict[str, Any], said: str, tmp_path: Path) -> None:
    assert said in " ".join(ask(tmp_path, **variables).split())


@pytest.mark.parametrize(
    "variables",
    [
        {"proxmox_api_port": "https://a:Hunter2Swordfish@127.0.0.1:1"},
        {"proxmox_api_host": "https://a:Hunter2Swordfish@127.0.0.1:1"},
        {"proxmox_api_token_id": "a@pve!tt=Hunter2Swordfish"},
        {"proxmox_api_timeout": "Hunter2Swordfish"},
    ],
)
def test_a_secret_in_the_wrong_variable_is_not_shown(variables: dict[str, str], tmp_path: Path) -> None:
    said = ask(tmp_path, **variables)
    assert "failed=1" in said
    assert next(iter(variables)) in said
    assert "Hunter2Swordfish" not in said
