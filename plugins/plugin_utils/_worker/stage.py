# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Putting a release together: files are written, read back and compared, brought to the disk, then renamed into place.

A scratch folder beside the releases holds all that is unfinished: trees that become releases, what a link displaced in
the root, the tree of a release that was replaced, and single links and files on their way to a rename.
"""

from __future__ import annotations

import errno
import os
import stat
import threading

from .many import each
from .scratch import Scratch
from .store import content_mtime, digest, shared_target, signature, unheard, write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    #: Writes to a descriptor, and says each time that there is more to read.
    Fill = Callable[[int, Callable[[], None]], None]

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_SOURCE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PIECE = 1 << 20
_LARGE = 8 << 20  # from here on a thread pays
_FLUSHED = 16 << 20
_NO_RANGE_COPY = (errno.ENOSYS, errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF)


class Tree:
    """A release's tree while it is built in the folder ``name`` of the scratch folder, and its files as a manifest."""

    def __init__(self, scratch: Scratch, name: str) -> None:
        self.scratch = scratch
        self.name = name
        self.files: dict[str, dict[str, Any]] = {}
        os.mkdir(name, 0o755, dir_fd=scratch.fd)
        self.fd = os.open(name, _FOLDER, dir_fd=scratch.fd)
        os.fchmod(self.fd, 0o755)

    def add_folder(self, path: str, entry: dict[str, Any]) -> None:
        """Make a folder; its mode is set when everything is in it."""
        os.mkdir(path, 0o700, dir_fd=self.fd)
        self.files[path] = entry

    def add_link(self, path: str, entry: dict[str, Any]) -> None:
        """Make a link with the entry's target."""
        os.symlink(entry["target"], path, dir_fd=self.fd)
        self.files[path] = entry

    def add_shared(self, path: str, entry: dict[str, Any]) -> None:
        """Make the link of a shared name: to the place of that name in the root, outside of every release."""
        os.symlink(shared_target(path), path, dir_fd=self.fd)
        self.files[path] = entry

    def add_file(self, path: str, entry: dict[str, Any], fill: Fill, proven: Callable[[int], None] = unheard) -> bool:
        """Write a file by ``fill`` and read it back; ``proven`` gets the bytes of each piece of that.

        False, and no file, when what was read back has not the entry's size and sha256.
        """
        fd = os.open(path, _NEW, entry["mode"] & 0o777, dir_fd=self.fd)  # nobody else looks into the scratch folder
        try:
            proof = beside if entry["size"] >= _LARGE else after
            if proof(fd, fill, proven) != (entry["size"], entry["sha256"]):
                os.unlink(path, dir_fd=self.fd)
                return False
            self.finish(fd, path, entry)
        finally:
            os.close(fd)
        return True

    def finish(self, fd: int, path: str, entry: dict[str, Any]) -> None:
        """Give a written file its owner, mode and time, and take it into the manifest."""
        if "uid" in entry:
            _own(fd, entry)
        if stat.S_IMODE(os.fstat(fd).st_mode) != entry["mode"]:
            os.fchmod(fd, entry["mode"])
        mtime = entry.get("mtime_ns", content_mtime(entry["sha256"]) * 10**9)
        os.utime(fd, ns=(mtime, mtime))
        self.files[path] = dict(entry, signature=signature(os.fstat(fd)))

    def seal(self) -> None:
        """Set the folders' modes and bring everything to the disk; nothing can be added afterwards."""
        folders = sorted(path for path, entry in self.files.items() if entry["type"] == "dir")
        for path in reversed(folders):
            entry = self.files[path]
            fd = os.open(path, _FOLDER, dir_fd=self.fd)
            try:
                if "uid" in entry:
                    _own(fd, entry)
                os.fchmod(fd, entry["mode"])
            finally:
                os.close(fd)
        each((path for path, entry in self.files.items() if entry["type"] == "file"), self._sync)
        each([*folders, "."], self._sync)
        os.close(self.fd)

    def _sync(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.fd)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _own(fd: int, entry: dict[str, Any]) -> None:
    """Give an adopted file back its owner, where the worker may and the id exists in this container."""
    info = os.fstat(fd)
    owner = (entry.get("uid", info.st_uid), entry.get("gid", info.st_gid))
    if owner != (info.st_uid, info.st_gid):
        try:
            os.fchown(fd, *owner)
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.EINVAL):
                raise


def after(fd: int, fill: Fill, proven: Callable[[int], None]) -> tuple[int, str]:
    """Write a file, then read it: its size and sha256."""
    fill(fd, _nobody)
    return digest(fd, proven)


def beside(fd: int, fill: Fill, proven: Callable[[int], None]) -> tuple[int, str]:
    """The same for a large file, which is read while it is written, and is on the disk when this returns."""
    proof = _Proof(fd, proven)
    try:
        fill(fd, proof.more.set)
        os.fsync(fd)
    finally:
        found = proof.finish()
    return found


class _Proof(threading.Thread):
    """Reads a file while another thread writes it. ``more`` is set when there may be more to read."""

    def __init__(self, fd: int, proven: Callable[[int], None]) -> None:
        import hashlib

        super().__init__(daemon=True)
        self.more = threading.Event()
        self._fd = fd
        self._proven = proven
        self._whole = hashlib.sha256()
        self._size = self._flushed = 0
        self._error: OSError | None = None
        self._written = False
        self.start()

    def run(self) -> None:
        try:
            written = False
            while not written:
                self.more.wait()
                self.more.clear()
                written = self._written
                self._read()
        except OSError as error:
            self._error = error

    def _read(self) -> None:
        while data := os.pread(self._fd, _PIECE, self._size):
            self._whole.update(data)
            self._size += len(data)
            self._proven(len(data))
            if self._size - self._flushed >= _FLUSHED:  # has the disk write it meanwhile
                os.posix_fadvise(self._fd, self._flushed, self._size - self._flushed, os.POSIX_FADV_DONTNEED)
                self._flushed = self._size

    def finish(self) -> tuple[int, str]:
        """Size and sha256 of what is in the file once nobody writes to it any more. Raises OSError."""
        self._written = True
        self.more.set()
        self.join()
        if self._error:
            raise self._error
        return self._size, self._whole.hexdigest()


def _nobody() -> None:
    """Nobody reads what is written yet."""


def copier(folder: int, path: str) -> Fill:
    """A ``fill`` for :meth:`Tree.add_file` that copies ``path`` below ``folder`` (by reflink where that works)."""

    def fill(target: int, _more: Callable[[], None]) -> None:
        try:
            source = os.open(path, _SOURCE, dir_fd=folder)
        except FileNotFoundError:
            return  # gone in between: what is read back is then not what was wanted
        try:
            info = os.fstat(source)
            if stat.S_ISREG(info.st_mode):
                copy_bytes(source, target, info.st_size)
        finally:
            os.close(source)

    return fill


def writer(chunks: Iterable[bytes], seen: Callable[[int], None]) -> Fill:
    """A ``fill`` that writes the bytes as they arrive and reports the size of each piece."""

    def fill(target: int, more: Callable[[], None]) -> None:
        for chunk in chunks:
            write_all(target, chunk)
            more()
            seen(len(chunk))

    return fill


def copy_bytes(source: int, target: int, size: int) -> None:
    """Copy an open file of about that size to an empty one. Never by hard link: both must be able to change alone."""
    ranged = getattr(os, "copy_file_range", None)
    if ranged and size > _PIECE:
        try:
            while ranged(source, target, 1 << 30):
                pass
            return
        except OSError as error:
            if error.errno not in _NO_RANGE_COPY:
                raise
        os.lseek(source, 0, os.SEEK_SET)
        os.lseek(target, 0, os.SEEK_SET)
        os.ftruncate(target, 0)
    data = os.read(source, _PIECE)
    while data:
        write_all(target, data)
        data = os.read(source, _PIECE) if len(data) == _PIECE else b""
