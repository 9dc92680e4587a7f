# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A project on the controller: which files it has, where each goes, and what is left out.

What is read is the working tree as it is now, committed or not. Modes are reduced to what matters (private or readable
by all, executable or not), so that the same files have the same release id from every checkout, whatever its umask.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.store import release_id, together
from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import OptionError, SourceChanged
from ansible_collections.trainops.proxmox.plugins.plugin_utils.git import WorkTree, read_work_tree
from ansible_collections.trainops.proxmox.plugins.plugin_utils.left_out import (
    is_environment,
    is_package,
    left_out,
    left_out_by_content,
)

_CHUNK = 256 * 1024
_TRIES = 3
_GENERIC = ("scripts", "src", "code")  # a folder's name that says nothing: its parent's is the project's
_NAME_CHARS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")


@dataclass(frozen=True, slots=True)
class Entry:
    """One file, folder, link or shared name of a release.

    path: where it goes, relative to the root, with slashes; source: the file on the controller; type: file, dir, link
    or shared; mode: permission bits; size: bytes; sha256: hex, of files only; target: what a link says.
    """

    path: str
    source: str
    type: str
    mode: int = 0
    size: int = 0
    sha256: str = ""
    target: str | None = None

    def row(self) -> dict[str, Any]:
        """The entry as the worker and the release id know it."""
        if self.type == "file":
            return {"path": self.path, "type": "file", "mode": self.mode, "size": self.size, "sha256": self.sha256}
        if self.type == "link":
            return {"path": self.path, "type": "link", "target": self.target}
        return {"path": self.path, "type": self.type, **({"mode": self.mode} if self.type == "dir" else {})}


@dataclass(frozen=True)
class Project:
    """What is to be released: files by path, and what was left out as (path, why).

    commit and dirty say which commit was checked out and whether what ships differs from it (None: not known); warnings
    are sentences for the user.
    """

    name: str
    files: list[Entry]
    ignored: list[tuple[str, str]]
    commit: str | None = None
    dirty: bool | None = None
    warnings: list[str] = field(default_factory=list)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The files as the worker knows them."""
        return [entry.row() for entry in self.files]

    @property
    def release_id(self) -> str:
        """The id of the release of these files."""
        return release_id(self.rows)


@dataclass(frozen=True)
class _Part:
    source: str
    dest: str


def read_project(spec: Any, exclude: Sequence[str], cwd: str, shared: Sequence[str] = (), name: str = "") -> Project:
    """Read a project.

    spec: a path, or a list of paths and of {src, dest}. A folder means what is in it, a file itself; ``dest`` is a
    folder for a folder's content, the new path (or a folder, with a slash at its end) for a file. Relative paths count
    from ``cwd``. ``exclude``: glob patterns. ``shared``: top-level names that live in the root, outside of every
    release.

    Raises OptionError naming every path that cannot be shipped, and SourceChanged for a file that changes all the time.
    """
    parts = _parts(spec, cwd)
    reading = _Reading(exclude, frozenset(_shared_name(one) for one in shared))
    for part in parts:
        reading.add(part)
    reading.finish()
    files = [*reading.entries.values(), *(Entry(one, "", "shared") for one in sorted(reading.shared))]
    return Project(
        name=_checked_name(name or _default_name(parts)),
        files=sorted(files, key=lambda entry: entry.path),
        ignored=sorted(reading.ignored),
        commit=next((tree.commit for tree in reading.trees if tree.commit), None),
        dirty=any(reading.dirty) if any(tree.commit for tree in reading.trees) else None,
        warnings=[tree.warning for tree in reading.trees if tree.warning],
    )


@dataclass(frozen=True)
class Measured:
    """A project of which the content was not read.

    ``files`` are (path, bytes) by where they go; ``paths`` says where each path, folders too, is in the folder that was
    named, which is what patterns to exclude are compared with; ``names`` are the top-level names; ``problems`` are
    sentences on what keeps it from being released; ``name`` is None where that is one of them.
    """

    name: str | None
    files: list[tuple[str, int]]
    paths: dict[str, str]
    names: list[str]
    ignored: list[tuple[str, str]]
    problems: list[str]


def measure_project(
    spec: Any, exclude: Sequence[str], cwd: str, shared: Sequence[str] = (), name: str = ""
) -> Measured:
    """What :func:`read_project` would release, by names and sizes alone: a huge project takes no longer than a walk.

    Files that are left out by their content, such as vaults, count. Raises OptionError for what is no project at all.
    """
    parts = _parts(spec, cwd)
    reading = _Measuring(exclude, frozenset(_shared_name(one) for one in shared))
    for part in parts:
        reading.add(part)
    problems = sorted(set(reading.problems))
    found: str | None = None
    try:
        found = _checked_name(name or _default_name(parts))
    except OptionError as error:
        problems.append(str(error))
    files = sorted((entry.path, entry.size) for entry in reading.entries.values() if entry.type == "file")
    return Measured(
        name=found,
        files=files,
        paths=reading.paths,
        names=sorted({path.partition("/")[0] for path in reading.entries}),
        ignored=sorted(reading.ignored),
        problems=problems,
    )


def project_name(spec: Any, cwd: str) -> str:
    """The default name of a project, without reading its files."""
    return _checked_name(_default_name(_parts(spec, cwd)))


def read_bytes(entry: Entry) -> Iterator[bytes]:
    """A file's bytes in chunks. Raises SourceChanged at the end when they are not those that the entry promises."""
    whole, size = hashlib.sha256(), 0
    try:
        with open(os.open(entry.source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb", buffering=0) as stream:
            while data := stream.read(_CHUNK):
                size += len(data)
                if size > entry.size:
                    break
                whole.update(data)
                yield data
    except OSError as error:
        raise SourceChanged(f"{entry.source}: {error.strerror}: it was there a moment ago; deploy again") from error
    if (size, whole.hexdigest()) != (entry.size, entry.sha256):
        raise SourceChanged(f"{entry.source} changed while it was sent: nothing went live; deploy again")


def _parts(spec: Any, cwd: str) -> list[_Part]:
    items = spec if isinstance(spec, list) else [spec]
    parts = []
    for item in items:
        if isinstance(item, dict):
            if not item.get("src") or not set(item) <= {"src", "dest"}:
                raise OptionError(f"option project: {item!r}: an entry has src and, if wanted, dest")
            source, dest = str(item["src"]), str(item.get("dest") or "")
        elif isinstance(item, str) and item:
            source, dest = item, ""
        else:
            raise OptionError(
                f"option project: {item!r} is no path: give a folder, or a list of paths and of src and dest"
            )
        parts.append(_Part(os.path.normpath(os.path.join(cwd, os.path.expanduser(source))), _dest(dest)))
    if not parts:
        raise OptionError("option project: it is empty: give a folder, or a list of folders and files")
    return parts


def _dest(dest: str) -> str:
    clean = posixpath.normpath(dest) if dest else "."
    if clean.startswith(("/", "../", ".trainops/")) or clean in ("..", ".trainops"):
        raise OptionError(f"option project: dest {dest!r} must be a relative path below training_root")
    return clean + "/" if dest.endswith("/") and clean != "." else clean


def _shared_name(name: str) -> str:
    clean = name.strip("/").removeprefix("./")
    if not clean or "/" in clean or clean in (".", "..", ".trainops"):
        raise OptionError(f"option shared: {name!r} must be a single name in training_root")
    return clean


def _default_name(parts: Sequence[_Part]) -> str:
    folder = parts[0].source if os.path.isdir(parts[0].source) else os.path.dirname(parts[0].source)
    if not os.path.exists(parts[0].source) and "." not in os.path.basename(parts[0].source):
        folder = parts[0].source  # for a rollback the folder need not be here
    name = os.path.basename(folder)
    return os.path.basename(os.path.dirname(folder)) if name in _GENERIC else name


def _checked_name(name: str) -> str:
    if not name or name.startswith(".") or not set(name) <= _NAME_CHARS:
        raise OptionError(
            f"{name!r} cannot be a project's name: set option name "
            "(letters, digits, '.', '_' and '-', not beginning with '.')"
        )
    return name


class _Reading:
    """The entries found so far, by path, and what could not be taken."""

    def __init__(self, exclude: Sequence[str], shared: frozenset[str]) -> None:
        self.exclude = exclude
        self.shared = shared
        self.entries: dict[str, Entry] = {}
        self.ignored: list[tuple[str, str]] = []
        self.trees: list[WorkTree] = []
        self.dirty: list[bool] = []
        self.problems: list[str] = []

    def add(self, part: _Part) -> None:
        """Take in a folder's content, or a file."""
        try:
            info = os.stat(part.source)
        except OSError as error:
            raise OptionError(
                f"option project: {part.source}: {error.strerror}: correct it (relative paths count from the "
                "current folder)"
            ) from error
        if stat.S_ISDIR(info.st_mode):
            self._add_folder(part.source, part.dest.rstrip("/"))
            return
        folder, name = os.path.split(part.source)
        path = name if part.dest == "." else part.dest + name if part.dest.endswith("/") else part.dest
        # A file that is named counts even when .gitignore names it, too.
        if not self._is_left_out(folder, name, info, frozenset(), path):
            self._take(folder, name, path, info)
            self._note(folder, {name})

    def finish(self) -> None:
        """Make the folders above every entry, and raise OptionError for all problems at once."""
        for path, entry in list(self.entries.items()):
            for parent in _parents(path):
                above = self.entries.setdefault(parent, Entry(parent, "", "dir", 0o755))
                if above.type != "dir":
                    self.problems.append(f"{entry.source} and {above.source} clash: {parent} would be file and folder")
        if self.problems:
            raise OptionError("this project cannot be released: " + together(sorted(set(self.problems))))
        if not any(entry.type == "file" for entry in self.entries.values()):
            why = "".join(f" ({len(self.ignored)} left out, e.g. {path}: {why})" for path, why in self.ignored[:1])
            raise OptionError(f"option project: there is no file to release{why}: correct it or option exclude")

    def _add_folder(self, folder: str, dest: str) -> None:
        tree = read_work_tree(folder)
        taken: set[str] = set()
        waiting = [""]
        while waiting:
            inside = waiting.pop()
            for name, info in self._list(os.path.join(folder, inside)):
                path = f"{inside}/{name}" if inside else name
                target = posixpath.normpath(posixpath.join(dest, path))
                if self._is_left_out(folder, path, info, tree.ignored, target):
                    continue
                if self._take(folder, path, target, info):
                    taken.add(path)
                if stat.S_ISDIR(info.st_mode):
                    waiting.append(path)
        self._note(folder, taken, tree)

    def _list(self, folder: str) -> list[tuple[str, os.stat_result]]:
        try:
            with os.scandir(folder) as found:
                return [(entry.name, entry.stat(follow_symlinks=False)) for entry in found]
        except OSError as error:
            self.problems.append(f"{folder}: {error.strerror}: make it readable, or leave it out with training_exclude")
            return []

    def _is_left_out(self, folder: str, path: str, info: os.stat_result, ignored: frozenset[str], target: str) -> bool:
        why = left_out(path, info, self.exclude)
        if why == "inventory" and stat.S_ISDIR(info.st_mode) and is_package(os.path.join(folder, path)):
            why = None
        if why is None and target in self.shared:
            why = "shared"
        if why is None and path in ignored:
            why = ".gitignore"
        if why is None and stat.S_ISDIR(info.st_mode) and is_environment(os.path.join(folder, path)):
            why = "virtual environment"
        if why:
            self.ignored.append((path, why))
        return bool(why)

    def _take(self, folder: str, path: str, target: str, info: os.stat_result) -> bool:
        """Make the entry of one file, folder or link; False when it is no file of a release."""
        source = os.path.join(folder, path)
        if stat.S_ISDIR(info.st_mode):
            return self._put(Entry(target, source, "dir", _mode(info)))
        if stat.S_ISLNK(info.st_mode):
            return self._take_link(source, path, target)
        if not stat.S_ISREG(info.st_mode):
            self.problems.append(f"{source} is a {_kind(info)}: remove it, or leave it out with training_exclude")
            return False
        try:
            info, sha256, why = self._content(source, info)
        except OSError as error:
            self.problems.append(f"{source}: {error.strerror}: make it readable, or leave it out with training_exclude")
            return False
        if why:
            self.ignored.append((path, why))
            return False
        return self._put(Entry(target, source, "file", _mode(info), info.st_size, sha256))

    def _content(self, source: str, info: os.stat_result) -> tuple[os.stat_result, str, str | None]:
        return _read(source)

    def _take_link(self, source: str, path: str, target: str) -> bool:
        says = os.readlink(source)
        aim = posixpath.normpath(posixpath.join(posixpath.dirname(path), says))
        if says.startswith("/") or aim == ".." or aim.startswith("../"):
            self.problems.append(
                f"{source} is a link out of the project (to {says}): replace it by what it points to, leave it out "
                "with training_exclude, or name it in training_shared when the container has its own"
            )
            return False
        return self._put(Entry(target, source, "link", target=says))

    def _put(self, entry: Entry) -> bool:
        other = self.entries.setdefault(entry.path, entry)
        if other is not entry and not (other.type == entry.type == "dir"):
            self.problems.append(f"{other.source} and {entry.source} clash: both would be {entry.path}")
        return True

    def _note(self, folder: str, taken: set[str], tree: WorkTree | None = None) -> None:
        """Keep what git knows: whether something that ships, or was deleted, differs from the commit."""
        tree = tree or read_work_tree(folder)
        self.trees.append(tree)
        above = {parent for path in taken for parent in _parents(path)}
        gone = {path for path in tree.changed if not os.path.lexists(os.path.join(folder, path))}
        if len(taken) == 1:  # a single file, not its folder
            gone = set()
        self.dirty.append(bool((taken | above) & tree.untracked or taken & tree.changed or gone))


class _Measuring(_Reading):
    """Reads no content; ``paths`` are those in the folders that were named, by where they go."""

    def __init__(self, exclude: Sequence[str], shared: frozenset[str]) -> None:
        super().__init__(exclude, shared)
        self.paths: dict[str, str] = {}

    def _take(self, folder: str, path: str, target: str, info: os.stat_result) -> bool:
        self.paths[target] = path
        return super()._take(folder, path, target, info)

    def _content(self, source: str, info: os.stat_result) -> tuple[os.stat_result, str, str | None]:
        return info, "", None


def _read(source: str) -> tuple[os.stat_result, str, str | None]:
    """Size and times, sha256, and why its content is not shipped. Raises SourceChanged when it never stands still."""
    for _try in range(_TRIES):
        with open(os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb", buffering=0) as stream:
            before, whole, size = os.fstat(stream.fileno()), hashlib.sha256(), 0
            why: str | None = None
            while data := stream.read(_CHUNK):
                why = why if size else left_out_by_content(data)
                size += len(data)
                whole.update(data)
            after = os.fstat(stream.fileno())
        if (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns) and size == after.st_size:
            return after, whole.hexdigest(), why
    raise SourceChanged(f"{source} keeps changing while it is read: stop what writes it, or leave it out")


def _mode(info: os.stat_result) -> int:
    """Private stays private and a program a program; nothing else of a mode means anything in a container."""
    runs = stat.S_ISDIR(info.st_mode) or bool(info.st_mode & stat.S_IXUSR)
    if info.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        return 0o755 if runs else 0o644
    return 0o700 if runs else 0o600


def _kind(info: os.stat_result) -> str:
    kinds = {stat.S_IFSOCK: "socket", stat.S_IFIFO: "named pipe", stat.S_IFCHR: "device", stat.S_IFBLK: "device"}
    return kinds.get(stat.S_IFMT(info.st_mode), "special file")


def _parents(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path
