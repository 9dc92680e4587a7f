# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One lock for a whole container, whichever roots are used in it: GPUs are of the container, not of a root.

It is a flock on the container's own top folder: that is there in every container, nobody can plant another one in its
place or remove it, every user may open it, nothing is written, and the kernel gives the lock back however its holder
ends. Any process in the container could hold it, so whoever waits gives up after a while and names who it is.
"""

from __future__ import annotations

import fcntl
import os
import time

from .channel import WorkerError
from .secret import shown_words
from .supervise import in_line, words_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_TOP = "/"
_POLL_SECONDS = 0.05
_TELL_SECONDS = 1.0
#: Longer than a launch can take from its look at the GPUs until it knows what came of its run.
PATIENCE_SECONDS = 60.0


class ContainerLock:
    """Hold the lock for as long as the ``with`` block lasts.

    Waits up to ``patience`` seconds, then raises WorkerError("locked"), which names the holder; ``tell`` gets who that
    is while it waits.
    """

    def __init__(self, tell: Callable[[str], None], patience: float = PATIENCE_SECONDS) -> None:
        self._tell = tell
        self._patience = patience
        self._fd = -1

    def __enter__(self) -> ContainerLock:
        try:
            self._fd = os.open(_TOP, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise WorkerError("locked", f"{_TOP} cannot be opened: {error.strerror}: chmod 755 {_TOP}") from None
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        os.close(self._fd)

    def _wait(self) -> None:
        begun, told = time.monotonic(), False
        while not self._try():
            waited = time.monotonic() - begun
            if waited > self._patience:
                raise WorkerError("locked", self._refusal())
            if waited >= _TELL_SECONDS and not told:
                told = True
                self._tell(holder(self._fd))
            time.sleep(_POLL_SECONDS)

    def _try(self) -> bool:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _refusal(self) -> str:
        return (
            f"another launch in this container holds the lock of its GPUs ({_TOP}), still after {self._patience:g} s: "
            f"{holder(self._fd)}: launch again when that is done, or end that process"
        )


def holder(fd: int) -> str:
    """Who holds a flock on what ``fd`` is open for, for a sentence."""
    found = {pid: in_line(shown_words(words_of(pid))) for pid in _pids_of(os.fstat(fd))}
    return (
        ", ".join(f"process {pid} there ({shown})" for pid, shown in found.items()) or "a process that cannot be seen"
    )


def _pids_of(info: os.stat_result) -> list[int]:
    """The processes of this container that hold a flock on a file, as the kernel lists them; its lines name no path."""
    try:
        with open("/proc/locks", encoding="ascii") as stream:
            lines = [line.split() for line in stream]
    except OSError:
        return []
    held = [words for words in lines if len(words) > 5 and words[1] == "FLOCK" and words[4].isdigit()]
    inode = str(info.st_ino)
    same = [words for words in held if words[5].rpartition(":")[2] == inode]
    # Some file systems have another number there than stat tells; then the inode alone must do.
    device = f"{os.major(info.st_dev):02x}:{os.minor(info.st_dev):02x}:{inode}"
    exact = [words for words in same if words[5] == device]
    return sorted({int(words[4]) for words in exact or same} - {0})
