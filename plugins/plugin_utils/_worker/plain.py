# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A project's links in the root become the files and folders that they lead to.

Each name and what it leads to change places in one step, so a reader never misses a name, nothing is copied, and
whoever has a file open has the very file that is in the root afterwards. In the release our link stays behind as a
mark: the name was moved, by an eject that perhaps did not end.

A program that was started through a link looks for all else in the release. So before the first name moves, the
release gets a .trainops/NAME/current of its own, which leads to the root: there, the text of such a link leads to the
name in the root, as in the root it leads to the name in the release. It goes with the release.
"""

from __future__ import annotations

import errno
import os
import posixpath
import stat

from .names import add_links, link_target, remove_links
from .scratch import WAY_BACK, Scratch, is_bytecode, remove_empty, walk, way_back
from .store import HOME, Store, lstat
from .swap import exchange

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Files = dict[str, dict[str, Any]]

_TO_ROOT = "../" * 4  # from the folder of a release
_FULL = (errno.ENOSPC, errno.EDQUOT)
_NO_LINKS = (*_FULL, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS)


class Aside:
    """A scratch folder that is made when it is first needed: on a full disk none could be."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._scratch: Scratch | None = None
        self._count = 0

    def __enter__(self) -> Aside:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._scratch:
            self._scratch.__exit__(*exc)

    def fd(self) -> int:
        """A descriptor of the scratch folder."""
        if self._scratch is None:
            self._scratch = Scratch(self._store).__enter__()
        return self._scratch.fd

    def fresh(self) -> str:
        """A name that is not taken in the scratch folder."""
        self._count += 1
        return f"at-{self._count}"


def lay_way_back(store: Store, live: str) -> None:
    """Let the marks in a release lead to the root, also those that are there already.

    A full disk is no reason to keep the names from moving.
    """
    try:
        for folder in (f"{live}/{HOME}", f"{live}/{HOME}/{store.name}"):
            info = lstat(store.releases_fd, folder)
            if info is None:
                os.mkdir(folder, 0o755, dir_fd=store.releases_fd)
            elif not stat.S_ISDIR(info.st_mode):  # somebody's, and it stays so
                return
        if lstat(store.releases_fd, f"{live}/{way_back(store)}") is None:
            os.symlink(WAY_BACK, f"{live}/{way_back(store)}", dir_fd=store.releases_fd)
    except OSError as error:
        if error.errno not in _FULL:
            raise


def make_plain(store: Store, live: str, files: Files, names: list[str], missing: list[str]) -> list[str]:
    """Move ``names`` of the live release, whose manifest has ``files``, into the root, in place of their links.

    Those that are ``missing`` in the root get their links first. Returns the names in whose place in the root there is
    something else by now; they stay as they are. Needs the root's lock.
    """
    add_links(store, missing)
    with Aside(store) as aside:
        others = [name for name in names if not _move(store, aside, live, name, files)]
    for folder in (live, "."):
        _sync(store.releases_fd, folder)
    os.fsync(store.root_fd)
    return others


def drop_links(store: Store, names: list[str]) -> None:
    """Remove links of ours that lead nowhere."""
    remove_links(store, names)
    os.fsync(store.root_fd)


def finish_links(store: Store, live: str, files: Files, names: list[str]) -> None:
    """Give links in names that a run moved which then ended the targets that they have in the root."""
    for name in names:
        if is_in_both(store, live, name):
            with Aside(store) as aside:
                _replace_link(aside, store.releases_fd, f"{live}/{name}", store.link(name))
    texts = {path: _text(store.root_fd, path) for path in files if path.partition("/")[0] in names}
    with Aside(store) as aside:
        for path, text in texts.items():
            if is_bridge(store, path, files[path], text):
                _replace_link(aside, store.root_fd, path, files[path]["original"])


def is_in_both(store: Store, live: str, name: str) -> bool:
    """Whether a file is in the root and still in the release: the moment between two steps of a move, see `_link`."""
    here, there = lstat(store.root_fd, name), lstat(store.releases_fd, f"{live}/{name}")
    return bool(here and there and not stat.S_ISDIR(here.st_mode) and os.path.samestat(here, there))


def is_bridge(store: Store, path: str, entry: dict[str, Any], text: str) -> bool:
    """Whether a link says what an eject lets it say while it moves, when it leads out of its folder."""
    original = entry.get("original", entry.get("target", ""))
    return entry.get("target", original) != original and text == _bridge(store, path, original)


def _move(store: Store, aside: Aside, live: str, name: str, files: Files) -> bool:
    place = f"{live}/{name}"
    found = [(path[len(live) + 1 :], info) for path, info in walk(store.releases_fd, place)]
    _drop_bytecode(store, live, [path for path, _info in found], files)
    links = [path for path, info in found if stat.S_ISLNK(info.st_mode)]
    lead = {path: _in_root(store, path, _text(store.releases_fd, f"{live}/{path}"), files) for path in links}
    for path, target in lead.items():
        if target:  # until it is there the link leads by the whole path, which is right in both places
            _replace_link(aside, store.releases_fd, f"{live}/{path}", _bridge(store, path, target))
    if not _swap(store, aside, place, name):
        return False
    for path, target in lead.items():
        if target:
            _replace_link(aside, store.root_fd, path, target)
    return True


def _swap(store: Store, aside: Aside, place: str, name: str) -> bool:
    """Let a name in the release and our link in the root change places; False when that is no longer our link."""
    if exchange(store.releases_fd, place, store.root_fd, name):
        if _text(store.releases_fd, place) == store.link(name):
            return True
        exchange(store.releases_fd, place, store.root_fd, name)
        return False
    return link_target(store, name) == store.link(name) and _swap_in_steps(store, aside, place, name)


def _swap_in_steps(store: Store, aside: Aside, place: str, name: str) -> bool:
    """Without exchange a file still replaces the link in one step; for a folder there is a moment without the name."""
    info = lstat(store.releases_fd, place)
    if info and not stat.S_ISDIR(info.st_mode):
        if not _link(store, aside, place, name):
            os.rename(place, name, src_dir_fd=store.releases_fd, dst_dir_fd=store.root_fd)
            os.symlink(store.link(name), place, dir_fd=store.releases_fd)
        return True
    os.rename(name, "link", src_dir_fd=store.root_fd, dst_dir_fd=aside.fd())
    try:
        os.rename(place, name, src_dir_fd=store.releases_fd, dst_dir_fd=store.root_fd)
    except OSError:
        os.rename("link", name, src_dir_fd=aside.fd(), dst_dir_fd=store.root_fd)
        raise
    os.rename("link", place, src_dir_fd=aside.fd(), dst_dir_fd=store.releases_fd)
    return True


def _link(store: Store, aside: Aside, place: str, name: str) -> bool:
    """Move a file so that it is in both places for a moment; False where that cannot be, with nothing done."""
    mark, file = aside.fresh(), aside.fresh()
    try:
        folder = aside.fd()
        os.symlink(store.link(name), mark, dir_fd=folder)
        os.link(place, file, src_dir_fd=store.releases_fd, dst_dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return False
    os.rename(file, name, src_dir_fd=folder, dst_dir_fd=store.root_fd)
    os.rename(mark, place, src_dir_fd=folder, dst_dir_fd=store.releases_fd)
    return True


def _drop_bytecode(store: Store, live: str, paths: list[str], files: Files) -> None:
    """Remove what Python wrote beside the sources while they lay in the release; what was adopted stays."""
    unlisted = [path for path in paths if path not in files]
    for path in unlisted:
        if is_bytecode(path):
            os.unlink(f"{live}/{path}", dir_fd=store.releases_fd)
    for path in unlisted:
        if posixpath.basename(path) == "__pycache__":
            remove_empty(store.releases_fd, f"{live}/{path}")


def _in_root(store: Store, path: str, target: str, files: Files) -> str:
    """What a link must say in the root to lead where it leads from the release; empty when it may stay as it is."""
    entry = files.get(path, {})
    original = str(entry.get("original", target))
    if is_bridge(store, path, entry, target) or (entry.get("target") == target and original != target):
        return original
    aim = posixpath.normpath(posixpath.join(posixpath.dirname(path), target)) + "/"
    if target.startswith("/") or not aim.startswith(_TO_ROOT):
        return ""
    return "../" * path.count("/") + (aim[len(_TO_ROOT) : -1] or ".")


def _bridge(store: Store, path: str, target: str) -> str:
    return posixpath.normpath(posixpath.join(store.root, posixpath.dirname(path), target))


def _text(folder: int, path: str) -> str:
    try:
        return os.readlink(path, dir_fd=folder)
    except OSError:
        return ""


def _replace_link(aside: Aside, folder: int, path: str, target: str) -> None:
    os.symlink(target, "lead", dir_fd=aside.fd())
    os.rename("lead", path, src_dir_fd=aside.fd(), dst_dir_fd=folder)


def _sync(parent: int, folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
