# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A project on the controller: which files it has, where each goes, and what is left out.

What is read is the working tree as it is now, committed or not, and all of it as it was at one moment. Modes are
reduced to what matters (private or readable by others, executable or not), so that the same files have the same release
id from every checkout under a usual umask; under one like 077 they are private, and go live so.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import os
import posixpath
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.store import release_id, together
from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import OptionError, SourceChanged
from ansible_collections.trainops.proxmox.plugins.plugin_utils.left_out import left_out_by_content
from ansible_collections.trainops.proxmox.plugins.plugin_utils.project_limits import Limits, limits_of
from ansible_collections.trainops.proxmox.plugins.plugin_utils.project_walk import (
    Entry,
    Part,
    Signature,
    Taken,
    Walk,
    parents,
    signature_of,
    unreadable,
    walk_of,
)
from ansible_collections.trainops.proxmox.plugins.plugin_utils.visible import path_text

__all__ = [
    "Entry",
    "Measured",
    "Project",
    "measure_project",
    "project_name",
    "project_of",
    "read_bytes",
    "read_project",
]

_CHUNK = 256 * 1024
_HEAD = 4096  # bytes that tell what a file is
_TRIES = 3
_TICK_NS = 20_000_000  # file systems stamp by a clock that may stand still so long
_GENERIC = ("scripts", "src", "code")  # a folder's name that says nothing: its parent's is the project's
_NAME_CHARS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO)

#: Receives the bytes of files that were read, the bytes of all, and those of the file that is being read.
Reading = Callable[[int, int, int], None]
#: Whether the content of a file matters, from its entry and its first bytes.
Wanted = Callable[[Entry, bytes], bool]


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


def read_project(
    spec: Any,
    exclude: Sequence[str],
    cwd: str,
    shared: Sequence[str] = (),
    name: str = "",
    limits: Limits | None = None,
    wanted: Wanted | None = None,
    reading: Reading | None = None,
) -> Project:
    """Read a project as it was at one moment.

    spec: a path, or a list of paths and of {src, dest}. A folder means what is in it, a file itself; ``dest`` is a
    folder for a folder's content, the new path (or a folder, with a slash at its end) for a file. Relative paths count
    from ``cwd``. ``exclude``: glob patterns. ``shared``: top-level names that live in the root, outside of every
    release. ``limits``: what is more is refused before anything is read. With ``wanted`` only the files for which it
    holds are read, and all others have no sha256: there is no release id then.

    Raises OptionError naming every path that cannot be shipped, and SourceChanged for a project that changes all the
    time.
    """
    parts = _parts(spec, cwd)
    names = frozenset(_shared_name(one) for one in shared)
    found = _checked_name(name or _default_name(parts))
    contents: dict[tuple[str, Signature], _Content] = {}
    moved: list[str] = []
    for _try in range(_TRIES):
        walk = _walked(parts, exclude, names, limits or Limits())
        _let_the_clock_tick(walk)
        moved = _read_all(walk, contents, wanted, reading) or walk.moved()
        if not moved:
            return _project(found, walk, contents)
    first = path_text(moved[0]) + (f" (and {len(moved) - 1} more)" if len(moved) > 1 else "")
    raise SourceChanged(
        f"{first} keeps changing while it is read: stop what writes it, or leave it out with training_exclude"
    )


def project_of(options: Mapping[str, Any], cwd: str, **more: Any) -> Project:
    """The project that a step's options name; ``more`` as for :func:`read_project`, which says what is raised."""
    names = (options["project"], options["exclude"], cwd, options["shared"], options["name"] or "")
    return read_project(*names, limits_of(options), **more)


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
    walk = walk_of(parts, exclude, frozenset(_shared_name(one) for one in shared))
    problems = sorted({*walk.problems, *_unreadable_files(walk)})
    found: str | None = None
    try:
        found = _checked_name(name or _default_name(parts))
    except OptionError as error:
        problems.append(str(error))
    return Measured(
        name=found,
        files=sorted(walk.files()),
        paths=walk.paths,
        names=sorted({path.partition("/")[0] for path in walk.entries}),
        ignored=sorted(walk.ignored),
        problems=problems,
    )


def project_name(spec: Any, cwd: str) -> str:
    """The default name of a project, without reading its files."""
    return _checked_name(_default_name(_parts(spec, cwd)))


def read_bytes(entry: Entry) -> Iterator[bytes]:
    """A file's bytes in chunks. Raises SourceChanged when it is not, or does not stay, the file that was read.

    The bytes are not hashed again: whoever receives them compares them with the entry's sha256.
    """
    size = 0
    try:
        fd = _open(entry)
    except OSError as error:
        raise _changed(entry) from error
    with open(fd, "rb", buffering=0) as stream:
        while data := stream.read(_CHUNK):
            size += len(data)
            if size > entry.size:
                raise _changed(entry)
            yield data
        if size != entry.size or (entry.signature and signature_of(os.fstat(stream.fileno())) != entry.signature):
            raise _changed(entry)


def _changed(entry: Entry) -> SourceChanged:
    return SourceChanged(f"{path_text(entry.source)} changed after it was read: nothing went live; deploy again")


def _parts(spec: Any, cwd: str) -> list[Part]:
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
        parts.append(Part(os.path.normpath(os.path.join(cwd, os.path.expanduser(source))), _dest(dest)))
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


def _default_name(parts: Sequence[Part]) -> str:
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


@dataclass(frozen=True, slots=True)
class _Content:
    """What a file holds: its sha256 (empty where nobody wants it), and why it is not shipped, if so."""

    sha256: str
    why: str | None


def _walked(parts: Sequence[Part], exclude: Sequence[str], shared: frozenset[str], limits: Limits) -> Walk:
    """All parts by their names. Raises OptionError for too much, for what cannot be shipped, and for nothing."""
    walk = walk_of(parts, exclude, shared, limits.most)
    limits.refuse(walk.files(), walk.paths, walk.whole)
    walk.finish()
    _refuse([*walk.problems, *_unreadable_files(walk)])
    return walk


def _unreadable_files(walk: Walk) -> Iterator[str]:
    """A sentence on each file that cannot be read, of a project that is refused: without that, reading it tells."""
    for entry in walk.entries.values() if walk.problems else ():
        if entry.type == "file":
            try:
                os.close(_open(entry))
            except OSError as error:
                if error.errno not in _GONE:
                    yield unreadable(entry.source, error)


def _refuse(problems: Sequence[str]) -> None:
    if problems:
        raise OptionError("this project cannot be released: " + together(sorted(set(problems))))


def _read_all(
    walk: Walk, contents: dict[tuple[str, Signature], _Content], wanted: Wanted | None, reading: Reading | None
) -> list[str]:
    """Read what was not read yet; the sources that were no longer as the walk found them.

    Raises OptionError naming those that cannot be read.
    """
    lacking = [entry for entry in walk.entries.values() if entry.type == "file" and _key(entry) not in contents]
    total, done = sum(entry.size for entry in lacking), 0
    moved, problems = [], []
    for entry in lacking:
        try:
            content = _content(entry, wanted, functools.partial(reading or _unheard, done, total))
        except OSError as error:
            if error.errno in _GONE:
                moved.append(entry.source)
            else:
                problems.append(unreadable(entry.source, error))
            continue
        if content is None:
            moved.append(entry.source)
        else:
            contents[_key(entry)] = content
        done += entry.size
    _refuse(problems)
    return moved


def _let_the_clock_tick(walk: Walk) -> None:
    """Wait until a change would show in the times: right after a change, another one may get the same times."""
    newest = max((entry.signature[-1] for entry in walk.entries.values() if entry.signature), default=0)
    left = newest + _TICK_NS - time.time_ns()
    if 0 < left <= _TICK_NS:
        time.sleep(left / 1e9)


def _unheard(_done: int, _total: int, _more: int) -> None:
    """Nobody wants to know how far the reading is."""


def _key(entry: Entry) -> tuple[str, Signature]:
    return entry.path, entry.signature


def _open(entry: Entry) -> int:
    """A descriptor of the file that the walk found. Raises OSError, ENXIO when it is not that one any more."""
    # Neither a pipe that took the file's place must block, nor a link lead out of the project.
    fd = os.open(entry.source, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    info = os.fstat(fd)
    if not stat.S_ISREG(info.st_mode) or signature_of(info) != (entry.signature or signature_of(info)):
        os.close(fd)
        raise OSError(errno.ENXIO, "it is another one than before")
    return fd


def _content(entry: Entry, wanted: Wanted | None, reading: Callable[[int], None]) -> _Content | None:
    """What is in a file; None when it does not stay what the walk found. Raises OSError as :func:`_open` does."""
    with open(_open(entry), "rb", buffering=0) as stream:
        data = stream.read(_HEAD)
        why, whole, size = left_out_by_content(data), hashlib.sha256(), 0
        is_read = why is None and (wanted is None or wanted(entry, data))
        while data and is_read:
            whole.update(data)
            size += len(data)
            reading(size)
            data = stream.read(_CHUNK) if size <= entry.size else b""
        stays = signature_of(os.fstat(stream.fileno())) == entry.signature and (size == entry.size or not is_read)
    return _Content(whole.hexdigest() if is_read else "", why) if stays else None


def _project(name: str, walk: Walk, contents: dict[tuple[str, Signature], _Content]) -> Project:
    """The project of what was found and read. Raises OptionError when there is no file in it."""
    files = [Entry(one, "", "shared") for one in walk.shared]
    ignored, out = list(walk.ignored), set()
    for entry in walk.entries.values():
        content = contents[_key(entry)] if entry.type == "file" else None
        if content and content.why:
            ignored.append((walk.paths[entry.path], content.why))
            out.add(entry.source)
        else:
            files.append(replace(entry, sha256=content.sha256) if content else entry)
    if not any(entry.type == "file" for entry in files):
        why = "".join(f" ({len(ignored)} left out, e.g. {path_text(path)}: {why})" for path, why in ignored[:1])
        raise OptionError(f"option project: there is no file to release{why}: correct it or option exclude")
    trees = [one.tree for one in walk.taken]
    files.sort(key=lambda entry: entry.path)
    return Project(
        name=name,
        files=files,
        ignored=sorted(ignored),
        commit=next((tree.commit for tree in trees if tree.commit), None),
        dirty=any(_is_dirty(one, out) for one in walk.taken) if any(tree.commit for tree in trees) else None,
        warnings=[
            *(tree.warning for tree in walk.trees.values() if tree.warning),
            *_links_to_nothing(files, walk, ignored),
        ],
    )


def _links_to_nothing(files: Sequence[Entry], walk: Walk, ignored: Sequence[tuple[str, str]]) -> Iterator[str]:
    """A sentence on each link that ships but will lead nowhere; what shared names are in the container is not known."""
    reasons = {path: why for path, why in ignored if why != "shared"}
    types = {entry.path: entry.type for entry in files}
    for entry in files:
        if entry.type != "link" or types.get(_aim(entry.path, entry.target), "link") != "link":
            continue
        path = walk.paths[entry.path]
        aim = _aim(path, entry.target)
        gone = next((one for one in (aim, *parents(aim)) if one in reasons), None)
        if gone:
            yield (
                f"{path_text(entry.source)} will lead nowhere in the container: it is a link to {path_text(gone)}, "
                f"which is left out ({reasons[gone]})"
            )
        elif not os.path.exists(entry.source) and not _leads_to_shared(entry, path, walk.shared):
            yield (
                f"{path_text(entry.source)} is a link to {path_text(entry.target or '')} and leads nowhere, here as "
                "well: correct it, leave it out with training_exclude, or name in training_shared what the container "
                "has of its own"
            )


def _aim(path: str, target: str | None) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), target or ""))


def _leads_to_shared(entry: Entry, path: str, shared: frozenset[str]) -> bool:
    """Whether a link that leads nowhere here does so at a shared name, maybe through other links."""
    folder = os.path.realpath(entry.source.removesuffix(path))
    place = posixpath.relpath(os.path.realpath(entry.source), folder)
    if place.startswith("../"):  # only a shared name may itself be a link out of the project
        return True
    return posixpath.normpath(entry.path.removesuffix(path) + place).partition("/")[0] in shared


def _is_dirty(one: Taken, out: set[str]) -> bool:
    """Whether something that ships, or was deleted, differs from the commit; ``out`` are sources that do not ship."""
    taken = {path for path in one.paths if os.path.join(one.folder, path) not in out}
    above = {parent for path in taken for parent in parents(path)}
    gone = {path for path in one.tree.changed if not os.path.lexists(os.path.join(one.folder, path))}
    if len(taken) == 1:  # a single file, not its folder
        gone = set()
    return bool((taken | above) & one.tree.untracked or taken & one.tree.changed or gone)
