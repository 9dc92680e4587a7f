# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which Python programs were started from a project: they look for modules in the folder of a release.

Python puts the real folder of its script first on the path, whatever links led there. A run's own children have the
folder in their environment, too, also those that outlive both it and its supervisor.
"""

from __future__ import annotations

import os
import re

from .secret import shown_words
from .store import Store, is_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_ARGUMENTS = 32  # the script is among the first
_BYTES = 1 << 16


def running(store: Store) -> list[dict[str, Any]]:
    """The processes of this container that run a script of the project: {pid, command}, by pid.

    A command is without what looks like a secret in it: it is printed where others read along.
    """
    home = _real(store.home_fd)
    found = []
    for pid in _pids():
        command = _command(pid)
        if command and any(path.startswith(home) for path in _paths(pid, command)):
            found.append({"pid": pid, "command": " ".join(shown_words(command))[:200]})
    return found


def releases_run(store: Store) -> set[str]:
    """The releases from which a process of this container was started, be it one of a run or one by hand.

    What was started by hand through the links in the root cannot be told from what would be started so now.
    """
    place = _real(store.releases_fd)
    named = re.compile(re.escape(os.fsencode(place)) + b"([^/:\0]+)")
    found = set()
    for pid in _pids():
        found |= {os.fsdecode(name) for name in named.findall(_read(pid, "environ"))}
        for path in _paths(pid, _command(pid)):
            if path.startswith(place):
                found.add(path[len(place) :].partition("/")[0])
    return {name for name in found if is_id(name)}


def _real(folder: int) -> str:
    return os.path.realpath(f"/proc/self/fd/{folder}") + "/"


def _pids() -> list[int]:
    return sorted(int(name) for name in os.listdir("/proc") if name.isdigit())


def _read(pid: int, name: str) -> bytes:
    """A file of a process; empty when it is gone, or not ours to see."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as stream:
            return stream.read(_BYTES)
    except OSError:
        return b""


def _command(pid: int) -> list[str]:
    """The command line of a process that is a Python; empty for any other, and for one that is gone."""
    try:
        if not os.path.basename(os.readlink(f"/proc/{pid}/exe")).startswith("python"):
            return []
    except OSError:
        return []
    return os.fsdecode(_read(pid, "cmdline")).rstrip("\0").split("\0")


def _paths(pid: int, command: list[str]) -> list[str]:
    """Where the words of a command lead that may be its script."""
    try:
        folder = os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return []
    words = [word for word in command[1:_ARGUMENTS] if word and not word.startswith("-") and "\n" not in word]
    return [os.path.realpath(os.path.join(folder, word)) for word in words]
