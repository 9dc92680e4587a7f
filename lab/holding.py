# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Holding GPU memory from a container or a node, for as long as a process here lives."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Sequence

from .containers import Container
from .errors import LabError
from .nodes import TOOLS, Node

#: Each hop dies with the one before it, so a holder never outlives whoever asked for it.
DIE_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL")


def command(target: Node | Container, options: Sequence[str]) -> list[str]:
    """The command line that runs the stand-in `hold` with these options in a node or a running container."""
    hold = [*DIE_WITH_PARENT, f"{TOOLS}/gpu/hold", *options]
    if isinstance(target, Container):
        state = target.state()
        if state != "RUNNING":
            raise LabError(f"container {target.vmid} is {state.lower()}: nothing in it can hold a GPU")
        return target.attach(hold, *DIE_WITH_PARENT)
    return target.enter(hold)


@contextlib.contextmanager
def held(target: Node | Container, options: Sequence[str]) -> Iterator[str]:
    """Hold while the block runs; gives the line by which `hold` says what it holds. LabError when it cannot.

    Start it from a thread that outlives the block: the holder ends with that thread.
    """
    argv = [*DIE_WITH_PARENT, *command(target, options)]
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    try:
        line = process.stdout.readline().decode().strip()
        if not line:
            raise LabError(f"hold: {process.stderr.read().decode(errors='replace').strip()}")
        yield line
    finally:
        process.kill()
        process.communicate()  # both pipes end only when the last process of the chain has
