# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Imported at the start of every Python that the workers run on: at one chosen step of theirs they stop and wait.

A step is a call that changes something in the file system. ``/srv/faults/point`` holds the number of the one before
which to stop; the steps of all workers since it was written count. Without that file nothing happens.
"""

from __future__ import annotations

import os
import signal
import sys

FOLDER = "/srv/faults"
_CHANGES = {"os.mkdir", "os.rename", "os.symlink", "os.link", "os.remove", "os.rmdir", "os.chmod", "os.utime"}
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def _install() -> None:
    try:
        with open(f"{FOLDER}/point", encoding="ascii") as stream:
            point = int(stream.read())
    except (OSError, ValueError):
        return
    count = os.open(f"{FOLDER}/steps", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def hook(event: str, args: tuple[object, ...]) -> None:
        if event in _CHANGES or (event == "open" and isinstance(args[2], int) and args[2] & _WRITES):
            os.write(count, b".")
            if os.fstat(count).st_size == point:
                os.close(os.open(f"{FOLDER}/held", os.O_WRONLY | os.O_CREAT))  # a step too, but no longer the one
                os.kill(os.getpid(), signal.SIGSTOP)

    sys.addaudithook(hook)


_install()
