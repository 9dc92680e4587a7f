# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Copies of examples/dflash to work in, for the demo, tests and measurements."""

from __future__ import annotations

import shutil
from pathlib import Path

from .api import Lab
from .errors import LabError

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "dflash"
_SCRIPT = "    training_script: train_dflash_pipeline.py\n"
# The lab's GPUs compute nothing, so the training itself is on the CPU.
_HOLDING = """\
    training_command:
      - bash
      - -c
      - for gpu in ${CUDA_VISIBLE_DEVICES//,/ }; do setpriv --pdeathsig KILL hold --gpu $gpu --mib 5000 >/dev/null &
        done; exec {python} {release}/train_dflash_pipeline.py
"""


def copy(folder: Path, lab: Lab) -> Path:
    """Copy the example to ``folder`` and let its inventory describe ``lab``: as it is, it describes the default one."""
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__", "checkpoints"))
    inventory = folder / "inventory.yml"
    text = inventory.read_text()
    for node, address in (("pve1", "127.0.0.11"), ("pve2", "127.0.0.12")):
        text = text.replace(address, lab.address(node))
    text = text.replace("/var/lib/trainops-lab/default/keys", str(lab.instance.keys))
    inventory.write_text(text.replace("  vars:\n", f"  vars:\n    ansible_port: {lab.instance.port}\n"))
    return folder


def hold_gpus(folder: Path) -> None:
    """Let the run of a copy hold memory on its GPUs for as long as it trains."""
    inventory = folder / "inventory.yml"
    text = inventory.read_text()
    if _SCRIPT not in text:
        raise LabError(f"{inventory} does not say which script is run")
    inventory.write_text(text.replace(_SCRIPT, _HOLDING))
