# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which files a project has, by their names alone: a walk, and whether all of it is still as the walk found it."""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import OptionError
from ansible_collections.trainops.proxmox.plugins.plugin_utils.git import WorkTree, read_ignored, read_work_tree
from ansible_collections.trainops.proxmox.plugins.plugin_utils.left_out import is_environment, is_package, left_out
from ansible_collections.trainops.proxmox.plugins.plugin_utils.visible import path_text

#: Bytes of a path in a release: Linux opens paths of 4095, and training_root and the release's folder come before it.
LONGEST_PATH = 3584

#: What changes whenever a file does: device, inode, mode, size, and the times of content and of attributes.
Signature = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """One file, folder, link or shared name of a release.

    path: where it goes, relative to the root, with slashes; source: the file on the controller; type: file, dir, link
    or shared; mode: permission bits; size: bytes; sha256: hex, of files only; target: what a link says; signature: of
    the file that was read.
    """

    path: str
    source: str
    type: str
    mode: int = 0
    size: int = 0
    sha256: str = ""
    target: str | None = None
    signature: Signature = field(default=(), compare=False, repr=False)

    def row(self) -> dict[str, Any]:
        """The entry as the worker and the release id know it."""
        if self.type == "file":
            return {"path": self.path, "type": "file", "mode": self.mode, "size": self.size, "sha256": self.sha256}
        if self.type == "link":
            return {"path": self.path, "type": "link", "target": self.target}
        return {"path": self.path, "type": self.type, **({"mode": self.mode} if self.type == "dir" else {})}


@dataclass(frozen=True)
class Part:
    """A folder or file of the project's option, and where it goes."""

    source: str
    dest: str


@dataclass
class Taken:
    """What a part brought: its paths in ``folder``, and what git knows of that."""

    folder: str
    tree: WorkTree
    paths: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Listed:
    """A folder that was listed: which of its names belong to the project."""

    folder: str
    inside: str
    dest: str
    tree: WorkTree
    signature: Signature
    names: frozenset[str]


def signature_of(info: os.stat_result) -> Signature:
    """What changes whenever a file does."""
    return (info.st_dev, info.st_ino, info.st_mode, info.st_size, info.st_mtime_ns, info.st_ctime_ns)


class Walk:
    """The entries found so far, by path, and what could not be taken.

    ``paths`` says where each path is in the folder that was named; ``whole`` is false once the walk gave up because
    more than ``most`` files were found. ``trees`` are the answers of git by folder, those of an earlier walk among
    them; ``unasked`` are folders outside of work trees that were left for a .gitignore of which git was not asked yet.
    """

    def __init__(
        self,
        exclude: Sequence[str],
        shared: frozenset[str],
        most: int | None = None,
        trees: dict[str, WorkTree] | None = None,
    ) -> None:
        self.exclude = exclude
        self.shared = shared
        self.entries: dict[str, Entry] = {}
        self.paths: dict[str, str] = {}
        self.ignored: list[tuple[str, str]] = []
        self.taken: list[Taken] = []
        self.problems: list[str] = []
        self.trees = dict(trees or {})
        self.unasked: list[str] = []
        self.whole = True
        self._most = most
        self._files = 0
        self._listed: list[_Listed] = []

    def add(self, part: Part) -> None:
        """Take in a folder's content, or a file. Raises OptionError when there is none."""
        try:
            info = os.stat(part.source)
        except OSError as error:
            raise OptionError(
                f"option project: {part.source}: {error.strerror}: correct it (relative paths count from the "
                "current folder)"
            ) from error
        if stat.S_ISDIR(info.st_mode):
            self._add_folder(part.source, part.dest.rstrip("/"), info)
            return
        folder, name = os.path.split(part.source)
        path = name if part.dest == "." else part.dest + name if part.dest.endswith("/") else part.dest
        # A file that is named counts even when .gitignore names it, too.
        if not self._why_left_out(folder, name, info, frozenset(), path):
            taken = Taken(folder, self._tree(folder))
            self.taken.append(taken)
            # Of a link that was named, what it leads to.
            source = os.path.realpath(part.source) if os.path.islink(part.source) else part.source
            if self._take(source, name, path, info, folder):
                taken.paths.add(name)

    def finish(self) -> None:
        """Make the folders above every entry, and note where one would be file and folder."""
        for path, entry in list(self.entries.items()):
            for parent in parents(path):
                above = self.entries.setdefault(parent, Entry(parent, "", "dir", 0o755))
                if above.type != "dir":
                    both = f"{path_text(entry.source)} and {path_text(above.source)}"
                    self.problems.append(f"{both} clash: {path_text(parent)} would be file and folder")

    def files(self) -> list[tuple[str, int]]:
        """The files by path, with their sizes."""
        return [(entry.path, entry.size) for entry in self.entries.values() if entry.type == "file"]

    def moved(self) -> list[str]:
        """The files, links and folders that are no longer what the walk found.

        Where there are none, there was a moment at which all of them were as they were found and read.
        """
        found = [
            entry.source
            for entry in self.entries.values()
            if entry.type in ("file", "link") and _signature_at(entry.source) != entry.signature
        ]
        for one in self._listed:
            place = os.path.join(one.folder, one.inside) if one.inside else one.folder
            # Names that are left out come and go in a folder, such as bytecode and logs.
            if _signature_at(place) != one.signature and frozenset(self._names(one)) != one.names:
                found.append(place)
        return found

    def _names(self, one: _Listed) -> Iterator[str]:
        try:
            with os.scandir(os.path.join(one.folder, one.inside)) as entries:
                for entry in entries:
                    path = f"{one.inside}/{entry.name}" if one.inside else entry.name
                    info = entry.stat(follow_symlinks=False)
                    if not self._reason(one.folder, path, info, one.tree.ignored, _goes_to(one.dest, path)):
                        yield entry.name
        except OSError:
            yield ""  # no folder has that name

    def _tree(self, folder: str) -> WorkTree:
        if folder not in self.trees:
            self.trees[folder] = read_work_tree(folder)
        return self.trees[folder]

    def _add_folder(self, folder: str, dest: str, info: os.stat_result) -> None:
        taken = Taken(folder, self._tree(folder))
        self.taken.append(taken)
        waiting = [("", info, taken.tree)]
        while waiting and self.whole:
            inside, info, tree = waiting.pop()
            found = self._list(os.path.join(folder, inside) if inside else folder)
            tree = self._tree_of(folder, inside, tree, found)
            if tree.outside and any(name == ".gitignore" and not stat.S_ISDIR(one.st_mode) for name, one in found):
                self.unasked.append(folder)
                return
            names = set()
            for name, below in found:
                path = f"{inside}/{name}" if inside else name
                target = _goes_to(dest, path)
                if self._why_left_out(folder, path, below, tree.ignored, target):
                    continue
                names.add(name)
                if not self._take(os.path.join(folder, path), path, target, below, folder):
                    continue
                taken.paths.add(path)
                if stat.S_ISDIR(below.st_mode):
                    waiting.append((path, below, tree))
            self._listed.append(_Listed(folder, inside, dest, tree, signature_of(info), frozenset(names)))

    def _tree_of(
        self, folder: str, inside: str, above: WorkTree, found: Sequence[tuple[str, os.stat_result]]
    ) -> WorkTree:
        """What git ignores in a folder: in a repository in the project, such as a submodule, by what that one says."""
        if not inside or all(name != ".git" for name, _info in found):
            return above
        place = os.path.join(folder, inside)
        own = self._tree(place)
        if own.outside:  # what git knows for no repository is a folder like others of what is above
            self.trees[place] = WorkTree(outside=True)
            return above
        return WorkTree(ignored=frozenset(f"{inside}/{path}" for path in own.ignored))

    def _list(self, folder: str) -> list[tuple[str, os.stat_result]]:
        found = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    with contextlib.suppress(FileNotFoundError):  # gone in between
                        found.append((entry.name, entry.stat(follow_symlinks=False)))
        except (FileNotFoundError, NotADirectoryError):
            pass  # the folder itself is gone: moved() finds that
        except OSError as error:
            self.problems.append(unreadable(folder, error))
        return found

    def _why_left_out(
        self, folder: str, path: str, info: os.stat_result, ignored: frozenset[str], goes_to: str
    ) -> bool:
        why = self._reason(folder, path, info, ignored, goes_to)
        if why:
            self.ignored.append((path, why))
        return bool(why)

    def _reason(
        self, folder: str, path: str, info: os.stat_result, ignored: frozenset[str], goes_to: str
    ) -> str | None:
        is_folder = stat.S_ISDIR(info.st_mode)
        why = left_out(path, info, self.exclude)
        if why == "inventory" and is_folder and is_package(os.path.join(folder, path)):
            why = None
        if why is None and goes_to in self.shared:
            why = "shared"
        if why is None and path in ignored:
            why = ".gitignore"
        if why is None and is_folder and is_environment(os.path.join(folder, path)):
            why = "virtual environment"
        return why

    def _take(self, source: str, path: str, goes_to: str, info: os.stat_result, folder: str) -> bool:
        """Make the entry of one file, folder or link; False when it is no part of a release."""
        length = len(os.fsencode(goes_to))
        if length > LONGEST_PATH:
            self.problems.append(
                f"{path_text(source)}: its path in the release has {length} bytes, and no more than {LONGEST_PATH} can "
                "be reached below training_root: shorten it, or leave it out with training_exclude"
            )
            return False
        self.paths[goes_to] = path
        if stat.S_ISDIR(info.st_mode):
            return self._put(Entry(goes_to, source, "dir", _mode(info)))
        if stat.S_ISLNK(info.st_mode):
            return self._take_link(source, path, goes_to, info, folder)
        if not stat.S_ISREG(info.st_mode):
            self.problems.append(
                f"{path_text(source)} is a {_kind(info)}: remove it, or leave it out with training_exclude"
            )
            return False
        self._files += 1
        self.whole = self._most is None or self._files <= self._most
        return self._put(Entry(goes_to, source, "file", _mode(info), info.st_size, signature=signature_of(info)))

    def _take_link(self, source: str, path: str, goes_to: str, info: os.stat_result, folder: str) -> bool:
        try:
            says = os.readlink(source)
        except OSError as error:
            self.problems.append(unreadable(source, error))
            return False
        aim = posixpath.normpath(posixpath.join(posixpath.dirname(path), says))
        outside = says.startswith("/") or aim == ".." or aim.startswith("../")
        if outside or not (aim.partition("/")[0] in self.shared or _is_below(source, folder)):
            self.problems.append(
                f"{path_text(source)} is a link out of the project (to {path_text(says)}): replace it by what it "
                "points to, leave it out with training_exclude, or name it in training_shared when the container has "
                "its own"
            )
            return False
        return self._put(Entry(goes_to, source, "link", target=says, signature=signature_of(info)))

    def _put(self, entry: Entry) -> bool:
        other = self.entries.setdefault(entry.path, entry)
        if other is not entry and not (other.type == entry.type == "dir"):
            self.problems.append(
                f"{path_text(other.source)} and {path_text(entry.source)} clash: both would be {path_text(entry.path)}"
            )
        return True


def walk_of(parts: Sequence[Part], exclude: Sequence[str], shared: frozenset[str], most: int | None = None) -> Walk:
    """All parts by their names; see :class:`Walk`. Raises OptionError for a part that is not there.

    That a folder outside of any work tree has a .gitignore shows on the way: git is asked then, and the walk begins
    anew with what it said. Without one git need not be there.
    """
    trees: dict[str, WorkTree] = {}
    while True:
        walk = Walk(exclude, shared, most, trees)
        for part in parts:
            walk.add(part)
        if not walk.unasked:
            return walk
        trees = dict(walk.trees)
        for folder in walk.unasked:
            found = read_ignored(folder)
            trees[folder] = replace(found, warning=found.warning or trees[folder].warning)


def unreadable(path: str, error: OSError) -> str:
    """A sentence about what cannot be read, and what to do about it."""
    fix = "shorten its path" if error.errno == errno.ENAMETOOLONG else "make it readable"
    return f"{path_text(path)}: {error.strerror}: {fix}, or leave it out with training_exclude"


def parents(path: str) -> Iterator[str]:
    """The folders above a path, the nearest first."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _goes_to(dest: str, path: str) -> str:
    return path if dest in ("", ".") else posixpath.normpath(posixpath.join(dest, path))


def _is_below(link: str, folder: str) -> bool:
    """Whether a link, followed through other links, stays in the folder: ``a/../x`` depends on where ``a`` leads."""
    top = os.path.realpath(folder)
    real = os.path.realpath(link)
    return real == top or real.startswith(top.rstrip("/") + "/")


def _signature_at(path: str) -> Signature:
    """The signature of what is at a path now; empty when there is nothing."""
    try:
        return signature_of(os.lstat(path))
    except OSError:
        return ()


def _mode(info: os.stat_result) -> int:
    """Private stays private and a program a program; nothing else of a mode means anything in a container."""
    runs = stat.S_ISDIR(info.st_mode) or bool(info.st_mode & stat.S_IXUSR)
    if info.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        return 0o755 if runs else 0o644
    return 0o700 if runs else 0o600


def _kind(info: os.stat_result) -> str:
    kinds = {stat.S_IFSOCK: "socket", stat.S_IFIFO: "named pipe", stat.S_IFCHR: "device", stat.S_IFBLK: "device"}
    return kinds.get(stat.S_IFMT(info.st_mode), "special file")
