# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A /dev with one GPU's device file in a mount namespace, a process that maps it and one that only opens it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

MINOR = 77

_JOB = f"""
import mmap, os, sys, time
device = open("/dev/nvidia{MINOR}", "r+b")
if sys.argv[1] == "map":
    mapped = mmap.mmap(device.fileno(), 4096)
with open(sys.argv[2] + "~", "w") as stream:
    stream.write(str(os.getpid()))
os.rename(sys.argv[2] + "~", sys.argv[2])
time.sleep(60)
"""
_SCRIPT = f"""
python=$1 folder=$2
shift 2
mount -t tmpfs dev /dev
mknod -m 666 /dev/null c 1 3
dd if=/proc/self/exe of=/dev/nvidia{MINOR} bs=4096 count=1 2>/dev/null
"$python" "$folder/job.py" map "$folder/map" & first=$!
"$python" "$folder/job.py" open "$folder/open" & second=$!
trap 'kill $first $second' EXIT
while [ ! -e "$folder/map" ] || [ ! -e "$folder/open" ]; do kill -0 $first; kill -0 $second; sleep 0.05; done
"$@"
"""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a /dev of its own")


def beside_two_jobs(folder: Path, argv: list[str], **environment: str) -> tuple[str, int, int]:
    """What ``argv`` prints there, and the PIDs of the job that maps the GPU and of the one that only opens it."""
    (folder / "job.py").write_text(_JOB)
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-euc", _SCRIPT, "sh", sys.executable, str(folder), *argv],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout, int((folder / "map").read_text()), int((folder / "open").read_text())
