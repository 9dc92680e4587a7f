# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run playbooks as a user does: one of a single step, to look at its results, or one that is there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

_BIN = Path(sys.executable).parent


def run_step(
    folder: Path,
    module: str,
    options: dict[str, Any],
    inventory: str,
    hosts: str = "all",
    connection: str | None = None,
    **keywords: Any,
) -> dict[str, dict[str, Any]]:
    """The results of ``module`` by host; failures and unreachable hosts are results too.

    ``folder`` is the current folder of the run and gets the playbook and what it writes. ``keywords`` are the task's.
    """
    out = folder / "results"
    out.mkdir(exist_ok=True)
    keep = {"content": "{{ outcome | to_json }}", "dest": f"{out}/{{{{ inventory_hostname }}}}.json"}
    local = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
    play = {
        "hosts": hosts,
        "gather_facts": False,
        "ignore_unreachable": True,
        **({"connection": connection} if connection else {}),
        "tasks": [
            {module: options, "register": "outcome", "ignore_errors": True, **keywords},
            {"ansible.builtin.copy": keep, "delegate_to": "localhost", "vars": local},
        ],
    }
    playbook = folder / "step.yml"
    playbook.write_text(yaml.safe_dump([play]))
    done = subprocess.run(
        [sys.executable, _BIN / "ansible-playbook", "-i", inventory, playbook],
        cwd=folder,
        env={**os.environ, "LC_ALL": "C.UTF-8", "PATH": f"{_BIN}:{os.environ['PATH']}", "ANSIBLE_LOCAL_TEMP": str(out)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    found = {path.stem: json.loads(path.read_text()) for path in out.glob("*.json")}
    assert found, done.stdout + done.stderr
    for path in out.glob("*.json"):
        path.unlink()
    return found


def play(folder: Path, *arguments: str, status: int = 0, **environment: str) -> str:
    """Run ansible-playbook in a user's folder; what it printed."""
    done = subprocess.run(
        [_BIN / "ansible-playbook", *arguments],
        cwd=folder,
        env={**os.environ, "LC_ALL": "C.UTF-8", "ANSIBLE_NOCOLOR": "1", **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == status, done.stdout
    return done.stdout
