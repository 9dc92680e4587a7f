# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A user of the lab who has plain `ssh root@node` and nothing else: no inventory, no ssh options, keys where ssh looks.

Commands run in a mount namespace of their own, in which /etc/ssh/ssh_config.d holds what that user's ~/.ssh would.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from . import keys
from .api import Lab
from .system import write

_SCRIPT = 'mount --bind "$1" /etc/ssh/ssh_config.d && shift && exec "$@"'


def argv(lab: Lab, command: Sequence[str]) -> list[str]:
    """The command line that runs `command` as that user."""
    folder = lab.instance.root / "stranger"
    addresses = " ".join(lab.address(name) for name in ("pve1", "pve2"))
    options = {**keys.ssh_options(lab.instance), "GlobalKnownHostsFile": "none"}
    text = f"Host {addresses}\n" + "".join(f"  {name} {value}\n" for name, value in options.items())
    write(folder / "lab.conf", text)
    inside = ["sh", "-c", _SCRIPT, "stranger", str(folder), *command]
    return ["unshare", "--mount", "--propagation", "private", "--", *inside]


def environment() -> dict[str, str]:
    """The environment of such a user: this checkout's tools first on PATH, no setting of Ansible or of the lab."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "TRAINOPS_"))}
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    return {**kept, "PATH": path, "LC_ALL": "C.UTF-8", "COLUMNS": "80", "NO_COLOR": "1", "ANSIBLE_NOCOLOR": "1"}


def run(lab: Lab, command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder as that user; what it printed on either stream is in `stdout`."""
    return subprocess.run(
        argv(lab, command),
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=300,
    )
