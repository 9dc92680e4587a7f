# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every command and playbook with wrong input: one clear message each, the one that docs/messages.md shows."""

from __future__ import annotations

import os
import re
import shlex
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lab import stranger
from lab.api import Lab, open_lab
from tests.integration.messages import FRESH, MISTAKES, NODE, PAGE, Mistake, page

INVENTORY = f"""\
training:
  hosts:
    ct200: {{ansible_host: {NODE}, ansible_user: root, proxmox_vmid: 200}}
  vars:
    ansible_connection: trainops.proxmox.pct
    training_project: scripts
    training_root: /root
    training_python: /root/venv/bin/python
"""
PUSH = """\
- hosts: training
  gather_facts: false
  tasks:
    - trainops.proxmox.container_push:
        src: "{{ src | default('scripts') }}"
        dest: "{{ dest | default('/srv/pushed/') }}"
        owner: "{{ owner | default(omit) }}"
        python: "{{ training_python }}"
"""


@pytest.fixture(scope="module")
def folder(lab_is_up: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's folder with a project, an inventory and a play of the user's own."""
    path = tmp_path_factory.mktemp("user")
    for name in ("scripts", FRESH):
        (path / name).mkdir()
    (path / "scripts" / "train.py").write_text("print('training')\n")
    (path / "inventory.yml").write_text(INVENTORY.replace(NODE, open_lab().address("pve1")))
    (path / "ansible.cfg").write_text(
        "[defaults]\ninventory = inventory.yml\nstdout_callback = trainops.proxmox.summary\n"
    )
    (path / "deploy_training.yml").write_text("- import_playbook: trainops.proxmox.deploy_training\n")
    (path / "push.yml").write_text(PUSH)
    return path


@pytest.fixture
def lab(lab_is_up: None) -> Lab:
    """The lab, for a command that knows nothing of it."""
    return open_lab()


def said(lab: Lab, folder: Path, line: str) -> tuple[int, str]:
    """How a command line ends, and all that it prints, with the addresses of the docs."""
    address = lab.address("pve1")
    where = folder / FRESH if line.startswith("trainops init") else folder
    done = stranger.run(lab, shlex.split(line.replace(NODE, address)), where)
    return done.returncode, done.stdout.replace(address, NODE).replace(str(folder), "/home/you/training")


def unwrapped(text: str) -> str:
    """One line of words, without what frames a message: usage, host and step, the count of hosts."""
    text = re.sub(r"^Usage: .*\n(  .*\n)*Try .*\n\n", "", text)
    text = re.sub(r"^node (.*\n)*failed ", "failed ", text)  # what init found until then
    text = re.sub(r"^\S+ +check +\d+ files? .*\n", "", text)  # a step that passed before
    text = re.sub(r"\n\d+ of \d+ hosts? (failed|unreachable).*", "", text)
    text = re.sub(r"^(trainops: |Error: |failed +|\S+ +[\w ]+:? +(FAILED|UNREACHABLE)  )", "", text)
    return " ".join(text.split())


@pytest.mark.parametrize("mistake", MISTAKES, ids=[mistake.what for mistake in MISTAKES])
def test_a_mistake_gives_its_one_message(lab: Lab, folder: Path, mistake: Mistake) -> None:
    expected, begins = mistake.message.removesuffix("…").strip(), mistake.message.endswith("…")

    def wrong(case: tuple[str, int]) -> str:
        line, status = case
        code, output = said(lab, folder, line)
        text = unwrapped(output)
        right = (text[: len(expected)] if begins else text, code) == (expected, status)
        return "" if right else f"$ {line}\n{output}[exit {code}, not {status}, or not: {expected}]"

    with ThreadPoolExecutor(os.cpu_count()) as pool:  # each waits most of the time for ssh, or for Ansible to start
        found = [text for text in pool.map(wrong, mistake.lines()) if text]
    assert not found, "\n".join(found)
    assert list((folder / FRESH).iterdir()) == []


def test_the_page_is_of_these_rows() -> None:
    assert PAGE.read_text() == page(), "make docs writes it anew"
