# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the numbers of NVIDIA's Xid messages mean, in short, by its documentation "XID Errors"."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Meaning:
    """``text`` says what happened, ``fix`` what to do.

    ``hardware``: the GPU, its memory or its links failed, whatever the program did. ``effect``: it follows from another
    error or from the end of a process, and explains nothing by itself.
    """

    text: str
    fix: str
    hardware: bool = False
    effect: bool = False


_PROGRAM = "look for an access out of bounds in the program (compute-sanitizer, CUDA_LAUNCH_BLOCKING=1)"
_RESET = "reset the GPU or reboot the node"
_REPLACE = "reset the GPU; if it comes again, have the hardware looked at"

MEANINGS = {
    13: Meaning("the program did something that the GPU refused (an illegal address or instruction)", _PROGRAM),
    31: Meaning("the program accessed GPU memory that it does not have (a page fault)", _PROGRAM),
    32: Meaning("the commands that were sent to the GPU were damaged", "look at driver and PCIe link"),
    43: Meaning("the GPU stopped the program after a fault of its own; the GPU itself is well", _PROGRAM),
    45: Meaning("the program's work on the GPU was cleared away after an earlier error or its end", "", effect=True),
    48: Meaning("the GPU's memory has an error that it cannot correct (double bit ECC)", _REPLACE, hardware=True),
    61: Meaning("a controller within the GPU failed", _RESET, hardware=True),
    62: Meaning("a controller within the GPU stopped", _RESET, hardware=True),
    63: Meaning("a bad row of the GPU's memory was replaced or will be", f"{_RESET} soon", hardware=True),
    64: Meaning("a bad row of the GPU's memory could not be replaced", _REPLACE, hardware=True),
    69: Meaning("the program did something that the GPU refused (a wrong class of commands)", _PROGRAM),
    74: Meaning(
        "an NVLink connection between GPUs failed", "look at nvidia-smi nvlink -e, reset the GPUs", hardware=True
    ),
    79: Meaning(
        "the GPU has fallen off the bus and cannot be reached any more",
        "reboot the node; look at power, temperature and the PCIe link",
        hardware=True,
    ),
    92: Meaning("the GPU's memory has many errors that it could correct", _REPLACE, hardware=True),
    94: Meaning(
        "the GPU's memory has an error that it cannot correct; only this program was hit",
        "start the run again and reset the GPU soon",
        hardware=True,
    ),
    95: Meaning(
        "the GPU's memory has an error that it cannot correct; every program on the GPU was hit", _RESET, hardware=True
    ),
    119: Meaning("the GPU's system processor does not answer the driver", _RESET, hardware=True),
    120: Meaning("the GPU's system processor failed", _RESET, hardware=True),
    140: Meaning("the GPU's memory has an error that was not recovered", _RESET, hardware=True),
    154: Meaning("the driver says what the GPU needs to recover", "", effect=True),
}
UNKNOWN = Meaning("the driver reports an error of the GPU", "look the number up in NVIDIA's list of XID errors")


def meaning(number: int) -> Meaning:
    """What a number means; UNKNOWN for one that is not listed here."""
    return MEANINGS.get(number, UNKNOWN)
