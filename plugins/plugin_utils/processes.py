# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A process that may hold a GPU, from the texts of its files in /proc. Pure."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.secret import shown_words
from ansible_collections.trainops.proxmox.plugins.plugin_utils.whole import whole

_TICKS = 100  # USER_HZ, part of the kernel's interface on every architecture that nvidia-smi exists for
_LONGEST = 60


@dataclass(frozen=True)
class Process:
    """A process as its /proc shows it; ``pid`` and ``parent`` count where it was read, ``age`` is in seconds.

    ``opened`` are the minor numbers of the GPUs that it has initialised CUDA on: device file open **and** mapped. Every
    user of NVML, nvidia-smi among them, opens all device files too, /dev/nvidia-uvm included, but maps none (seen
    with driver 580). ``vmid``, ``container`` and ``inside`` (its PID in there) are known on the node only.
    """

    pid: int
    parent: int
    argv: tuple[str, ...]
    age: int | None
    opened: frozenset[int] = frozenset()
    vmid: int | None = None
    container: str | None = None
    inside: int | None = None


def start_of(stat: str) -> tuple[int, float]:
    """Parent and start (seconds after boot) from /proc/PID/stat. Its second field is a name that may hold anything."""
    fields = stat.rpartition(")")[2].split()
    if len(fields) < 20:
        return 0, 0.0
    return whole(fields[1]) or 0, (whole(fields[19]) or 0) / _TICKS


def argv_of(cmdline: str, stat: str, separator: str) -> tuple[str, ...]:
    """The words of a command line; the kernel's name of a process that has none (it is exiting)."""
    words = tuple(cmdline.rstrip(separator).split(separator))
    if words != ("",):
        return words
    return (stat.partition("(")[2].rpartition(")")[0],)


def command_line(argv: tuple[str, ...]) -> str:
    """The whole command in one line, with ``***`` for what looks like a secret."""
    return " ".join(" ".join(word.split()) for word in shown_words(argv))


def short_command(argv: tuple[str, ...]) -> str:
    """What a person calls the command: ``python3 train.py`` for ``/root/venv/bin/python3 -u /root/train.py --lr 1``.

    Other arguments are left out: they are long and may hold secrets.
    """
    words = [os.path.basename(argv[0]) or argv[0], *_script(argv)]
    text = " ".join(" ".join(words).split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _script(argv: tuple[str, ...]) -> list[str]:
    """What an interpreter or a launcher (torchrun …) was told to run; nothing for other programs."""
    rest = argv[1:]
    if re.match(r"(python|pypy|perl|ruby|node|(ba|da|z)?sh\b)", os.path.basename(argv[0])):
        for at, word in enumerate(rest):
            if word == "-c":
                return ["-c …"]
            if word == "-m":
                return ["-m", *rest[at + 1 : at + 2]]
            if not word.startswith("-") and rest[at - 1 : at] not in (("-W",), ("-X",)):
                return [os.path.basename(word) or word]
    return [os.path.basename(word) for word in rest if re.search(r"\.(py|sh)$", word)][:1]
