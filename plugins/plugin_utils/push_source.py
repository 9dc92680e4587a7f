# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is pushed, on the controller: exactly what was named, read twice at most and never held in memory."""

from __future__ import annotations

import hashlib
import os
import posixpath
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.push_write import PREFIX
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.store import together
from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import OptionError, SourceChanged

_CHUNK = 256 * 1024
_TRIES = 3
_KINDS = {stat.S_IFSOCK: "socket", stat.S_IFIFO: "named pipe", stat.S_IFCHR: "device", stat.S_IFBLK: "device"}


@dataclass(frozen=True, slots=True)
class Piece:
    """One file, folder or link of a source.

    path: where it goes below the destination, empty for a single file; source: the path on the controller; type: file,
    dir or link; mode: its permission bits; size: bytes; sha256: hex, of files only; target: what a link says.
    """

    path: str
    source: str
    type: str
    mode: int
    size: int = 0
    sha256: str = ""
    target: str | None = None


@dataclass(frozen=True)
class Source:
    """What is pushed: ``kind`` is "file", "folder" (as itself) or "content" (what is in it), ``name`` its name."""

    kind: str
    name: str
    pieces: list[Piece]


def read_source(path: str, exclude: Sequence[str] = ()) -> Source:
    """Read a file or folder; of one whose path ends with a slash the content is meant.

    ``exclude`` are glob patterns as those of a project. Raises OptionError naming every path that cannot be pushed, and
    SourceChanged for a file that changes all the time.
    """
    real = path.rstrip("/") or "/"
    try:
        info = os.stat(real)
    except OSError as error:
        raise OptionError(f"option src: {path}: {error.strerror}: correct it, or make it readable") from error
    name = os.path.basename(os.path.abspath(real))
    if stat.S_ISDIR(info.st_mode):
        reading = _Reading(real, exclude)
        reading.walk()
        content = path.endswith("/") or not name
        top = [] if content else [Piece("", real, "dir", stat.S_IMODE(info.st_mode))]
        return Source("content" if content else "folder", name, [*top, *reading.pieces])
    if path.endswith("/"):
        raise OptionError(f"option src: {path}: it is no folder: leave the slash at its end out")
    if not stat.S_ISREG(info.st_mode):
        raise OptionError(f"option src: {path} is a {_kind(info)}: only files, folders and links can be pushed")
    try:
        return Source("file", name, [_file("", real)])
    except OSError as error:
        raise OptionError(f"option src: {path}: {error.strerror}: make it readable") from error


class _Reading:
    """The pieces of a folder found so far, folders before what is in them."""

    def __init__(self, top: str, exclude: Sequence[str]) -> None:
        self.top = top
        self.exclude = exclude
        self.pieces: list[Piece] = []
        self.problems: list[str] = []

    def walk(self) -> None:
        """Take in everything. Raises OptionError for all problems at once."""
        waiting = [""]
        while waiting:
            inside = waiting.pop()
            for name, info in self._list(inside):
                path = f"{inside}/{name}" if inside else name
                if any(_matches(path, stat.S_ISDIR(info.st_mode), pattern) for pattern in self.exclude):
                    continue
                self._take(path, info)
                if stat.S_ISDIR(info.st_mode):
                    waiting.append(path)
        self.pieces.sort(key=lambda piece: piece.path.split("/"))
        if self.problems:
            raise OptionError("option src: this cannot be pushed: " + together(sorted(self.problems)))

    def _list(self, inside: str) -> list[tuple[str, os.stat_result]]:
        folder = os.path.join(self.top, inside)
        try:
            with os.scandir(folder) as found:
                return [(entry.name, entry.stat(follow_symlinks=False)) for entry in found]
        except OSError as error:
            self.problems.append(f"{folder}: {error.strerror}: make it readable, or leave it out with option exclude")
            return []

    def _take(self, path: str, info: os.stat_result) -> None:
        source, fix = os.path.join(self.top, path), "leave it out with option exclude"
        if posixpath.basename(path).startswith(PREFIX):
            self.problems.append(f"{source} has the name of what a killed push leaves behind: remove it, or {fix}")
        elif stat.S_ISDIR(info.st_mode):
            self.pieces.append(Piece(path, source, "dir", stat.S_IMODE(info.st_mode)))
        elif stat.S_ISLNK(info.st_mode):
            self._take_link(path, source, fix)
        elif not stat.S_ISREG(info.st_mode):
            self.problems.append(f"{source} is a {_kind(info)}: remove it, or {fix}")
        else:
            try:
                self.pieces.append(_file(path, source))
            except OSError as error:
                self.problems.append(f"{source}: {error.strerror}: make it readable, or {fix}")

    def _take_link(self, path: str, source: str, fix: str) -> None:
        says = os.readlink(source)
        aim = posixpath.normpath(posixpath.join(posixpath.dirname(path), says))
        if says.startswith("/") or aim == ".." or aim.startswith("../"):
            self.problems.append(
                f"{source} is a link out of the folder (to {says}): replace it by what it points to, or {fix}"
            )
            return
        self.pieces.append(Piece(path, source, "link", 0o777, target=says))


def _matches(path: str, is_folder: bool, pattern: str) -> bool:
    """As in a project: a pattern without a slash matches names, one with a slash paths, one that ends so folders."""
    wanted = pattern.rstrip("/")
    if pattern.endswith("/") and not is_folder:
        return False
    subject = path if "/" in wanted else posixpath.basename(path)
    return fnmatchcase(subject, wanted.removeprefix("./").removeprefix("/"))


def _kind(info: os.stat_result) -> str:
    return _KINDS.get(stat.S_IFMT(info.st_mode), "special file")


def _open(source: str) -> Any:
    # A named pipe put in a file's place would let an ordinary open wait for ever.
    return open(os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb", buffering=0)


def _file(path: str, source: str) -> Piece:
    for _try in range(_TRIES):
        with _open(source) as stream:
            before, whole, size = os.fstat(stream.fileno()), hashlib.sha256(), 0
            while data := stream.read(_CHUNK):
                whole.update(data)
                size += len(data)
            after = os.fstat(stream.fileno())
        if (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns) and size == after.st_size:
            return Piece(path, source, "file", stat.S_IMODE(after.st_mode), size, whole.hexdigest())
    raise SourceChanged(f"{source} keeps changing while it is read: stop what writes it, then push again")


def read_piece(piece: Piece) -> Iterator[bytes]:
    """A file's bytes in chunks. Raises SourceChanged at the end when they are not those that the piece promises."""
    whole, size = hashlib.sha256(), 0
    try:
        with _open(piece.source) as stream:
            while data := stream.read(_CHUNK):
                size += len(data)
                if size > piece.size:
                    break
                whole.update(data)
                yield data
    except OSError as error:
        text = f"{piece.source}: {error.strerror}: it was there a moment ago; push again"
        raise SourceChanged(text) from error
    if (size, whole.hexdigest()) != (piece.size, piece.sha256):
        raise SourceChanged(
            f"{piece.source} changed while it was sent: what is in its place in the container is as it was; push again"
        )
