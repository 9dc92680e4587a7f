# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which Python programs were started from a project: they look for modules in the folder of a release.

Python puts the real folder of its script first on the path, whatever links led there.
"""

from __future__ import annotations

import os

from .secret import shown_words
from .store import Store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_ARGUMENTS = 32  # the script is among the first
_BYTES = 1 << 16


def running(store: Store) -> list[dict[str, Any]]:
    """The processes of this container that run a script of the project: {pid, command}, by pid.

    A command is without what looks like a secret in it: it is printed where others read along.
    """
    home = os.path.realpath(f"/proc/self/fd/{store.home_fd}") + "/"
    found = []
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
        command = _command(pid)
        if command and any(os.path.realpath(path).startswith(home) for path in _paths(pid, command)):
            found.append({"pid": pid, "command": " ".join(shown_words(command))[:200]})
    return found


def _command(pid: int) -> list[str]:
    """The command line of a process that is a Python; empty for any other, and for one that is gone."""
    try:
        if not os.path.basename(os.readlink(f"/proc/{pid}/exe")).startswith("python"):
            return []
        with open(f"/proc/{pid}/cmdline", "rb") as stream:
            return os.fsdecode(stream.read(_BYTES)).rstrip("\0").split("\0")
    except OSError:
        return []


def _paths(pid: int, command: list[str]) -> list[str]:
    try:
        folder = os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return []
    words = [word for word in command[1:_ARGUMENTS] if word and not word.startswith("-") and "\n" not in word]
    return [os.path.join(folder, word) for word in words]
