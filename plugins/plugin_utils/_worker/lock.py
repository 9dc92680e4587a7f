# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A lock that cannot go stale: the kernel gives it back when its holder ends, however it ends."""

from __future__ import annotations

import fcntl
import json
import os
import time

from .channel import WorkerError
from .control import open_control
from .store import HOME, Store, lstat, now, open_store, write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Tell = Callable[[str], None]

_POLL_SECONDS = 0.1
_TELL_SECONDS = 1.0  # who waits no longer need not know


class Lock:
    """An exclusive lock on the file ``name`` in the folder ``folder``, for as long as the ``with`` block lasts.

    While it is held the file says who holds it. Waits up to ``patience`` seconds, then raises WorkerError("locked"),
    which names the holder. ``tell`` gets who that is while it waits, and each one that comes after him.
    """

    def __init__(self, folder: int, name: str, shown: str, who: str, patience: float, tell: Tell | None = None) -> None:
        self._folder = folder
        self._name = name
        self._shown = shown
        self._who = who
        self._patience = patience
        self._tell = tell
        self._told = ""
        self._fd = -1

    def __enter__(self) -> Lock:
        begun = time.monotonic()
        while not self._try():
            waited = time.monotonic() - begun
            if waited > self._patience:
                raise WorkerError("locked", self._refusal())
            if waited >= _TELL_SECONDS:
                self._say_for_whom()
            time.sleep(_POLL_SECONDS)
        self._say_who()
        return self

    def __exit__(self, *_exc: object) -> None:
        os.close(self._fd)

    def _say_for_whom(self) -> None:
        holder = _holder(self._folder, self._name, self._shown) if self._tell else ""
        if self._tell and holder != self._told:
            self._told = holder
            self._tell(holder)

    def _say_who(self) -> None:
        record = {"pid": os.getpid(), "started": _start_ticks(), "since": now(), "who": self._who}
        try:
            os.ftruncate(self._fd, 0)
            write_all(self._fd, json.dumps(record).encode("ascii"))
        except OSError:  # a full disk: the lock holds all the same, only nobody can say for whom
            pass

    def _try(self) -> bool:
        fd = open_control(self._folder, self._name, self._shown, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A lock on a file that somebody removed in between would exclude nobody.
            found = os.stat(self._name, dir_fd=self._folder, follow_symlinks=False)
            if os.path.samestat(found, os.fstat(fd)):
                self._fd, fd = fd, -1
        except (BlockingIOError, FileNotFoundError):
            pass
        finally:
            if fd >= 0:
                os.close(fd)
        return self._fd >= 0

    def _refusal(self) -> str:
        by = _holder(self._folder, self._name, self._shown)
        return f"{self._shown} is held by {by}, still after {self._patience:g} s: run again when that deploy is done"


class Locked:
    """The folders of a project, opened as :func:`.store.open_store` does, under the project's lock.

    Whoever waited for an eject finds the folders removed and opens them anew. Where there are none, and none are made,
    there is nothing to lock either: the store then has no ``home_fd``.
    """

    def __init__(self, root: str, name: str, who: str, patience: float, create: bool, tell: Tell | None = None) -> None:
        self._of = (root, name, create)
        self._tell = tell
        self._who = who
        self._end = time.monotonic() + patience
        self._patience = patience
        self._store: Store | None = None
        self._lock: Lock | None = None

    def __enter__(self) -> Store:
        while True:
            try:
                store = self._open()
            except FileNotFoundError:  # a folder went between two steps
                self.__exit__()
                if time.monotonic() > self._end:
                    raise
                continue
            except BaseException:
                self.__exit__()
                raise
            if store:
                return store
            self.__exit__()

    def __exit__(self, *_exc: object) -> None:
        if self._lock:
            self._lock.__exit__()
        if self._store:
            self._store.__exit__()
        self._lock = self._store = None

    def _open(self) -> Store | None:
        """Open and lock; None when what was locked is no longer what is there."""
        store = self._store = open_store(*self._of)
        if store.home_fd < 0:
            return store
        lock = Lock(store.home_fd, "lock", store.path("lock"), self._who, self._patience, self._tell)
        lock.__enter__()
        self._lock = lock
        there = _is(store.root_fd, f"{HOME}/{store.name}", store.home_fd)
        return store if there and (not store.exists() or _is(store.home_fd, "releases", store.releases_fd)) else None


def _is(folder: int, path: str, fd: int) -> bool:
    found = lstat(folder, path)
    return found is not None and os.path.samestat(found, os.fstat(fd))


def held_by(folder: int, name: str, shown: str) -> str | None:
    """Who holds a lock now, for a sentence; None when nobody does. Nothing is written, and nobody is kept waiting."""
    try:
        fd = open_control(folder, name, shown)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _holder(folder, name, shown)
    finally:
        os.close(fd)
    return None


def _holder(folder: int, name: str, shown: str) -> str:
    try:
        fd = open_control(folder, name, shown)
    except FileNotFoundError:
        return "somebody"
    try:
        holder = json.loads(os.read(fd, 4096))
    except (ValueError, RecursionError):
        return "somebody"
    finally:
        os.close(fd)
    if not (isinstance(holder, dict) and {"who", "since", "pid"} <= holder.keys()):
        return "somebody"
    return f"{holder['who']} since {holder['since']} (process {holder['pid']} there)"


def _start_ticks() -> int:
    """When this process started, in clock ticks since boot: with the pid it names one process for good."""
    with open("/proc/self/stat", "rb") as stream:
        return int(stream.read().rpartition(b")")[2].split()[19])
