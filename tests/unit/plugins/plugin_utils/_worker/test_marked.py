# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which processes belong to runs, over made folders of /proc and one real process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.marked import marks

SUPERVISOR = b"/usr/bin/python3\0/root/.trainops/dflash/runs/r3/supervisor.py\0/root/.trainops/dflash/runs/r3\0"
ONE = b"TRAINOPS_RUN=ab\0TRAINOPS_RUN_ID=r1\0A=b\0"
# pid: parent, environment, command line
PROCESSES = {
    1: (0, b"", b"/sbin/init\0"),
    10: (1, ONE, b"python3\0train.py\0"),
    11: (10, b"\0\0\0\0", b"my own title\0"),  # it wrote over its environment
    12: (
        1,
        b"TRAINOPS_RUN_ID=r2\0CUDA_VISIBLE_DEVICES=1",
        b"sleep\0100\0",
    ),  # a daemon of a run whose supervisor is gone
    20: (1, b"HOME=/root\0", SUPERVISOR),
    21: (20, b"title\0", b"title\0"),
    30: (1, b"HOME=/root\0", b"vim\0/root/.trainops/dflash/runs/r3/supervisor.py\0"),
    31: (1, b"X_TRAINOPS_RUN_ID=r9\0Y=TRAINOPS_RUN_ID=r9\0TRAINOPS_RUN_ID=rest\0", b"python3\0-c\0supervisor.py\0"),
    32: (31, b"", b"python3\0"),
    60: (1, b"HOME=/root\0", SUPERVISOR.replace(b"r3", b"r4")),
    61: (60, b"TRAINOPS_RUN_ID=r4\0CUDA_VISIBLE_DEVICES=0,3\0A=b", b"python3\0train.py\0"),
    62: (61, b"TRAINOPS_RUN_ID=r4\0CUDA_VISIBLE_DEVICES=7\0", b"python3\0worker.py\0"),  # what it chose for its child
    40: (41, b"", b"one\0"),  # parents that are gone, or that were read while they changed
    41: (40, b"", b"two\0"),
    42: (99, b"", b"three\0"),
}


def test_marks_parents_and_supervisors(tmp_path: Path) -> None:
    for pid, (parent, environment, command) in PROCESSES.items():
        folder = tmp_path / str(pid)
        folder.mkdir()
        (folder / "stat").write_bytes(b"%d (a) b) c) S %d 1 1 0" % (pid, parent))
        (folder / "environ").write_bytes(environment)
        (folder / "cmdline").write_bytes(command)
    (tmp_path / "50").mkdir()  # it ended meanwhile
    (tmp_path / "self").mkdir()
    runs, given = marks(str(tmp_path))
    assert runs == {"10": "r1", "11": "r1", "12": "r2", "20": "r3", "21": "r3", "60": "r4", "61": "r4", "62": "r4"}
    assert given == {"r4": [0, 3]}


def test_a_real_process() -> None:
    code = "print('ready', flush=True); input()"
    environment = {**os.environ, "TRAINOPS_RUN_ID": "r77"}
    with subprocess.Popen([sys.executable, "-c", code], env=environment, stdin=-1, stdout=-1, text=True) as process:
        assert process.stdout and process.stdout.readline() == "ready\n"
        assert marks()[0][str(process.pid)] == "r77"
        process.communicate("\n")
    assert str(process.pid) not in marks()[0]
