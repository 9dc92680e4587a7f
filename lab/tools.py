# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The stand-ins that nodes and containers see below /usr/lib/trainops-lab: copies of this folder's scripts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .instance import Instance
from .system import write

_HERE = Path(__file__).parent

#: The folders of lab/ that are copied whole, and single files with their place below /usr/lib/trainops-lab.
_FOLDERS = ("gpu", "node")
_SINGLE = {"sshd": _HERE / "files" / "sshd"}

#: What a node has on its PATH: path below its root, and what it leads to.
ON_NODES = {"usr/sbin/pct": "node/pct", "usr/share/trainops-lab": "node"}
#: What whoever has GPUs has on its PATH.
WITH_GPUS = {"usr/bin/nvidia-smi": "gpu/nvidia-smi", "usr/bin/hold": "gpu/hold"}


def install(lab: Instance) -> None:
    """Bring the copies up to date. They are replaced by rename: what runs keeps the script that it began with."""
    sources = {**_SINGLE, **dict(_scripts())}
    for target, path in sources.items():
        write(lab.tools / target, path.read_bytes(), 0o755)
    for entry in lab.tools.rglob("*"):
        if entry.is_file() and str(entry.relative_to(lab.tools)) not in sources:
            entry.unlink()


def _scripts() -> Iterator[tuple[str, Path]]:
    for folder in _FOLDERS:
        for path in sorted((_HERE / folder).rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                yield str(path.relative_to(_HERE)), path
