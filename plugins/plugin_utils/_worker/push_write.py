# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Putting files, folders and links in their place: made beside it under a name of our own, then renamed.

The temporary names are random and a file's is locked while it is written, so that the next push can tell what a killed
one left from what another is writing just now. They are made to be new (O_EXCL), which follows no link that somebody
planted.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat

from .channel import WorkerError
from .push_plan import Item
from .store import digest, lstat, write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PREFIX = ".trainops-push-"
_OURS = re.compile(re.escape(PREFIX) + "[0-9a-f]{16}")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_TRIES = 8


def _name() -> str:
    return PREFIX + os.urandom(8).hex()


def sweep(folder: int) -> None:
    """Remove what killed pushes left in a folder, where we may; what another push is writing stays."""
    with contextlib.suppress(PermissionError):
        for name in os.listdir(folder):
            if _OURS.fullmatch(name):
                with contextlib.suppress(FileNotFoundError):
                    _discard(folder, name)


def _discard(folder: int, name: str) -> None:
    info = lstat(folder, name)
    if info is None:
        return
    if stat.S_ISDIR(info.st_mode):
        with contextlib.suppress(OSError):  # ours are empty
            os.rmdir(name, dir_fd=folder)
    elif stat.S_ISREG(info.st_mode):
        fd = os.open(name, _READ, dir_fd=folder)
        try:
            if _locked(fd, fcntl.LOCK_EX | fcntl.LOCK_NB):
                os.unlink(name, dir_fd=folder)
        finally:
            os.close(fd)
    elif stat.S_ISLNK(info.st_mode):
        os.unlink(name, dir_fd=folder)


def _locked(fd: int, how: int) -> bool:
    try:
        fcntl.flock(fd, how)
    except OSError:  # another push holds it, or the file system has no locks: then nothing is swept there
        return False
    return True


def write_file(folder: int, item: Item, chunks: Iterable[bytes], seen: Callable[[int], None]) -> None:
    """Put a file in its place from its bytes, once they were read back and are what was promised.

    Raises WorkerError("damaged") when they are not. The file that was there, if any, is then untouched.
    """
    name, fd = _create(folder)
    try:
        for chunk in chunks:
            write_all(fd, chunk)
            seen(len(chunk))
        if digest(fd) != (item.row["size"], item.row["sha256"]):
            fix = "look at the disk and memory of the node (dmesg), then push again"
            raise WorkerError("damaged", f"what was read back in the container is not what was sent: {fix}")
        _own(fd, item)
        os.fchmod(fd, item.mode)
        os.fsync(fd)
        os.rename(name, item.name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=folder)
        raise
    finally:
        os.close(fd)


def _create(folder: int) -> tuple[str, int]:
    """A new file of ours, empty, readable by nobody else, and locked."""
    for _try in range(_TRIES):
        name = _name()
        try:
            fd = os.open(name, _NEW, 0o600, dir_fd=folder)
        except FileExistsError:
            continue
        _locked(fd, fcntl.LOCK_EX)
        if os.fstat(fd).st_nlink:
            return name, fd
        os.close(fd)  # a sweep was faster than the lock
    raise OSError(errno.EEXIST, "no free temporary name")


def _own(fd: int, item: Item) -> None:
    """Give an open file its owner. To keep a stranger's is not possible for others than root, and is no failure."""
    info = os.fstat(fd)
    uid = info.st_uid if item.uid is None else item.uid
    gid = info.st_gid if item.gid is None else item.gid
    if (uid, gid) == (info.st_uid, info.st_gid):
        return
    try:
        os.fchown(fd, uid, gid)
    except OSError as error:
        was = item.was or {}
        if error.errno not in (errno.EPERM, errno.EINVAL) or (uid, gid) != (was.get("uid"), was.get("gid")):
            raise


def make_folder(folder: int, item: Item) -> None:
    """Make a folder with its owner and mode."""

    def make(name: str) -> None:
        os.mkdir(name, 0o700, dir_fd=folder)
        fd = os.open(name, _FOLDER, dir_fd=folder)
        try:
            _own(fd, item)
            inherited = stat.S_IMODE(os.fstat(fd).st_mode) & stat.S_ISGID
            os.fchmod(fd, item.mode | inherited)
        finally:
            os.close(fd)

    _put(folder, item.name, make)


def make_link(folder: int, item: Item) -> None:
    """Put a link in its place."""

    def make(name: str) -> None:
        os.symlink(item.row["target"], name, dir_fd=folder)
        own_link(folder, name, item)

    _put(folder, item.name, make)


def own_link(folder: int, name: str, item: Item) -> None:
    """Give the link ``name`` the item's owner."""
    if (item.uid, item.gid) != (None, None):
        uid, gid = (-1 if one is None else one for one in (item.uid, item.gid))
        os.chown(name, uid, gid, dir_fd=folder, follow_symlinks=False)


def _put(folder: int, final: str, make: Callable[[str], None]) -> None:
    """Make something under a temporary name and rename it; once more when a sweep of another push took it for left."""
    for left in range(_TRIES, 0, -1):
        name = _name()
        try:
            make(name)
            os.rename(name, final, src_dir_fd=folder, dst_dir_fd=folder)
            return
        except OSError as error:
            with contextlib.suppress(OSError):
                _discard(folder, name)
            info = lstat(folder, final)
            if error.errno in (errno.EEXIST, errno.ENOTEMPTY) and info and stat.S_ISDIR(info.st_mode):
                return  # another push made the folder, and something is in it already
            if error.errno != errno.ENOENT or left == 1:
                raise


def mend(folder: int, item: Item) -> None:
    """Give a file or link that is in its place already the owner and mode that it should have."""
    if item.row["type"] == "link":
        own_link(folder, item.name, item)
        return
    fd = os.open(item.name, _READ, dir_fd=folder)
    try:
        _own(fd, item)
        os.fchmod(fd, item.mode)
        os.fsync(fd)
    finally:
        os.close(fd)
