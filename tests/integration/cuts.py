# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Releases that take long enough to be cut in the middle, and whose processes are whose."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests.integration.connections import inventory
from tests.integration.inside import inside, shell
from tests.unit.releasing import write

_PLAYBOOK = Path(sys.executable).parent / "ansible-playbook"
_STAGED = 'ls "$1"/.trainops/demo/releases/.stage-*/tree/weights.bin 2>/dev/null || true'


def wait_for(condition: Callable[[], Any], seconds: float = 60) -> Any:
    """The first true value of a condition."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(0.05)
    return found


def begun_release(folder: Path, root: str, **variables: str) -> subprocess.Popen[bytes]:
    """A playbook that releases ``folder``/project as demo to container 200, 300 MB of which are on their way."""
    write(folder / "project", {"model.py": "V = 2\n", "weights.bin": os.urandom(1 << 20) * 300})
    task = {"trainops.proxmox.training_release": {"project": "project", "root": root, "name": "demo"}}
    play = {"hosts": "ct200", "gather_facts": False, "vars": variables, "tasks": [task]}
    (folder / "cut.yml").write_text(yaml.safe_dump([play]))
    command = [str(_PLAYBOOK), "-i", inventory(), "cut.yml"]
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    running = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE)
    wait_for(lambda: shell(200, _STAGED, root))
    return running


def descendants(pid: int) -> dict[int, str]:
    """A process and all that it started, and those started, by pid: Ansible's workers lead sessions of their own."""
    rows = [
        line.split() for line in subprocess.check_output(["ps", "-eo", "pid,ppid,comm"], text=True).splitlines()[1:]
    ]
    found = {pid: ""}
    for _generation in range(6):
        found |= {int(row[0]): row[2] for row in rows if int(row[1]) in found}
    return found


def workers(vmid: int) -> list[str]:
    """The command lines of workers in a container."""
    return [line for line in inside(vmid, "ps", "-eo", "args").splitlines() if "trainops_worker" in line]
