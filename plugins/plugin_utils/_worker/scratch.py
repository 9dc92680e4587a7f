# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The scratch folder of a run beside the releases, and how it goes: with what is ours in it and nothing else."""

from __future__ import annotations

import errno
import json
import os
import stat
import sys

from .channel import WorkerError
from .history import settled
from .many import each
from .mounts import is_held
from .store import (
    ADOPTED,
    EDITED,
    HOME,
    Store,
    digest_at,
    is_manifest,
    live_id,
    lstat,
    make_folder,
    manifest_of,
    open_folder,
    releases,
    sentence,
    shared_target,
    signature,
    write_all,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

SCRATCH = ".stage-"
DISPLACED = "displaced"
RETIRED = "retired"
KEPT = "kept"
_HELD = (errno.EPERM, errno.EBUSY)  # an attribute of it or its folder, or a mount
WAY_BACK = "/".join([".."] * 6)  # the root, from the folder of the link `way_back` in the folder of a release
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def walk(folder: int, top: str, most: int = sys.maxsize) -> list[tuple[str, os.stat_result]]:
    """Everything at and below ``top``: paths with their lstat, folders before what is in them; no link is followed.

    Ends early once more than ``most`` were found.
    """
    first = lstat(folder, top)
    if first is None:
        return []
    found, waiting = [(top, first)], [top] if stat.S_ISDIR(first.st_mode) else []
    while waiting and len(found) <= most:
        inside = waiting.pop()
        fd = os.open(inside, _FOLDER, dir_fd=folder)
        try:
            for name in sorted(os.listdir(fd)):
                info = lstat(fd, name)
                if info is None:
                    continue
                found.append((f"{inside}/{name}", info))
                if stat.S_ISDIR(info.st_mode):
                    waiting.append(found[-1][0])
        finally:
            os.close(fd)
    return found


def remove(folder: int, top: str, mine: Callable[[str, os.stat_result], bool]) -> list[str]:
    """Remove ``top`` and all below it for which ``mine(path, lstat)`` holds; return the paths of what is left.

    What an attribute or a mount holds is left, too.
    """
    left: list[str] = []
    found = walk(folder, top)

    def drop(item: tuple[str, os.stat_result]) -> None:
        path, info = item
        try:
            if mine(path, info):
                os.unlink(path, dir_fd=folder)
                return
        except OSError as error:
            if error.errno not in _HELD:
                raise
        left.append(path)

    each((item for item in found if not stat.S_ISDIR(item[1].st_mode)), drop)
    for path in sorted((path for path, info in found if stat.S_ISDIR(info.st_mode)), reverse=True):
        try:
            os.rmdir(path, dir_fd=folder)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, *_HELD):
                raise
    return sorted(left)


def remove_empty(folder: int, path: str) -> bool:
    """Remove a folder when it is there and nothing is in it; whether it was removed."""
    try:
        os.rmdir(path, dir_fd=folder)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise
        return False
    return True


class Scratch:
    """A fresh scratch folder of this run; removed when the ``with`` block ends, or by the next run.

    ``going``: the releases that this run removes, so that nothing is handed over to them; ``kept``: where files are,
    once it is removed, that were in it and could not go; ``trouble``: why it could not be removed, which is no failure
    of a run, since the next one does it.
    """

    def __init__(self, store: Store, going: Sequence[str] = ()) -> None:
        self.store = store
        self.going = going
        self.name = SCRATCH + os.urandom(4).hex()
        self.fd = -1
        self.kept: list[str] = []
        self.trouble = ""

    def __enter__(self) -> Scratch:
        os.mkdir(self.name, 0o700, dir_fd=self.store.releases_fd)
        self.fd = os.open(self.name, _FOLDER, dir_fd=self.store.releases_fd)
        return self

    def __exit__(self, *_exc: object) -> None:
        os.close(self.fd)
        try:
            self.kept = discard(self.store, self.name, self.going)
        except (OSError, WorkerError) as error:
            self.trouble = sentence(error, self.store.root)


def write_manifest(scratch: Scratch, release: str, manifest: dict[str, Any]) -> None:
    """Put a manifest beside the releases, whole or not at all, on disk when this returns."""
    temporary = f"{release}.json"
    fd = os.open(temporary, _NEW, 0o644, dir_fd=scratch.fd)
    try:
        os.fchmod(fd, 0o644)
        write_all(fd, json.dumps(manifest, separators=(",", ":")).encode("ascii"))
        os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(temporary, temporary, src_dir_fd=scratch.fd, dst_dir_fd=scratch.store.releases_fd)
    os.fsync(scratch.store.releases_fd)


def stages(store: Store) -> list[str]:
    """The scratch folders of runs that did not end."""
    return sorted(name for name in os.listdir(store.releases_fd) if name.startswith(SCRATCH)) if store.exists() else []


def clean(store: Store, going: Sequence[str] = ()) -> list[str]:
    """Remove what runs that did not end left behind; return where files are now that could not go.

    Nothing is handed over to releases that are ``going``. Call it under the project's lock.
    """
    kept = [path for name in stages(store) for path in discard(store, name, going)]
    present = set(os.listdir(store.releases_fd))
    stay, unused = standing(store), unused_copies(store)
    for release in unused:
        remove(store.releases_fd, release, lambda _path, _info: True)
    for name in present:
        if is_manifest(name) and name[:-5] not in stay:
            os.unlink(name, dir_fd=store.releases_fd)
    return kept


def standing(store: Store) -> list[str]:
    """The ids of the releases that :func:`clean` leaves: those with a tree and a manifest, and what is live."""
    unused, live = unused_copies(store), live_id(store)
    return [one for one in releases(store) if one == live or (one not in unused and lstat(store.releases_fd, one))]


def unused_copies(store: Store) -> set[str]:
    """The releases that a run which did not end made to keep what is still where it was."""
    copies = {one for one in releases(store) if one.startswith((ADOPTED, EDITED))} - {live_id(store)}
    if copies:
        copies -= {record["release"] for record in settled(store)[0]}
    return {release for release in copies if _is_unused_copy(store, release)}


def _is_unused_copy(store: Store, release: str) -> bool:
    """Whether a release that never was live, as far as is known, holds copies only of what is still in its place.

    The activations may have been lost. But what was adopted holds the files themselves, which no longer are the copies
    that the manifest knows.
    """
    files = (manifest_of(store, release) or {"files": {}})["files"]
    drop = len(release) + 1
    return all(
        stat.S_ISDIR(info.st_mode)
        or (path[drop:] in files and (stat.S_ISLNK(info.st_mode) or signature(info) == files[path[drop:]]["signature"]))
        for path, info in walk(store.releases_fd, release)
    )


def discard(store: Store, scratch: str, going: Sequence[str] = ()) -> list[str]:
    """Remove a scratch folder, but for bytes that are nowhere else; return where those are now.

    What links displaced goes into the release that keeps it, of a replaced tree goes what its manifest lists.
    """
    kept = []
    info = lstat(store.releases_fd, scratch)
    if info is None or not stat.S_ISDIR(info.st_mode):
        remove(store.releases_fd, scratch, lambda _path, _info: True)
        return []
    retired = f"{scratch}/{RETIRED}"
    if lstat(store.releases_fd, retired):
        kept += retire(store, retired, going)
    if lstat(store.releases_fd, f"{scratch}/{DISPLACED}"):
        from .hand_over import hand_over  # most runs displace nothing

        kept += hand_over(store, scratch)
    remove(store.releases_fd, scratch, lambda _path, _info: True)
    return kept


def retire(store: Store, folder: str, going: Sequence[str] = ()) -> list[str]:
    """Remove the trees in ``folder``, each named by its release; return where what stays of them is now.

    Nothing of them is handed over to releases that are ``going``, too.
    """
    left = []
    for path, info in walk(store.releases_fd, folder):
        if stat.S_ISDIR(info.st_mode) and path.count("/") == folder.count("/") + 1:
            left += remove_tree(store, path, path.rpartition("/")[2], going)
    return left


def as_listed(store: Store, path: str, info: os.stat_result, entry: dict[str, Any]) -> bool:
    """Whether ``path`` below the releases has the type and content of a manifest's entry."""
    if entry["type"] == "dir":
        return stat.S_ISDIR(info.st_mode)
    if entry["type"] == "file":
        if signature(info) == entry.get("signature"):
            return True
        right = stat.S_ISREG(info.st_mode) and info.st_size == entry["size"]
        return right and digest_at(store.releases_fd, path) == (entry["size"], entry["sha256"])
    wanted = entry["target"] if entry["type"] == "link" else shared_target(path.rpartition("/")[2])
    return stat.S_ISLNK(info.st_mode) and os.readlink(path, dir_fd=store.releases_fd) == wanted


def keep(store: Store, path: str, label: str) -> str:
    """Move ``path`` below the releases to a fresh name in ``kept``; return where it is now."""
    kept = make_folder(store.home_fd, KEPT, store.path(KEPT))
    try:
        name = fresh(label, set(os.listdir(kept)))
        os.rename(path, name, src_dir_fd=store.releases_fd, dst_dir_fd=kept)
        return store.path(KEPT, name)
    finally:
        os.close(kept)


def require_kept(store: Store) -> None:
    """Raise WorkerError where nothing could be kept because something else has that folder's name."""
    fd = open_folder(store.home_fd, KEPT, store.path(KEPT)) if store.home_fd >= 0 else None
    if fd is not None:
        os.close(fd)


def fresh(label: str, taken: set[str]) -> str:
    """``label``, or the first of ``label-2``, ``label-3`` … that is not taken."""
    names = [label, *(f"{label}-{number}" for number in range(2, len(taken) + 3))]
    return next(name for name in names if name not in taken)


def remove_tree(store: Store, tree: str, release: str, going: Sequence[str] = ()) -> list[str]:
    """Remove what a release's manifest lists, and bytecode; the rest moves to ``kept``, with its folders.

    The rest is what nobody listed, and what was changed since it was: whoever did may have the file open still. When
    another release keeps a copy of a change, the file itself takes the copy's place there, unless that one is among
    those that are ``going``, too.
    """
    listed = (manifest_of(store, release) or {"files": {}})["files"]
    drop = len(tree) + 1
    for path, keeper in handed_over(store, tree, release, going):
        os.rename(f"{tree}/{path}", f"{keeper}/{path}", src_dir_fd=store.releases_fd, dst_dir_fd=store.releases_fd)
    left = remove(store.releases_fd, tree, lambda path, info: _is_ours(store, path, info, path[drop:], listed))
    where = keep(store, tree, release) if left else ""
    return [where + path[len(tree) :] for path in left]


def handed_over(
    store: Store, tree: str, release: str, going: Sequence[str] = (), listed: dict[str, dict[str, Any]] | None = None
) -> list[tuple[str, str]]:
    """What was changed in a tree of a release and is kept as a copy by another one: (path, that one)."""
    found = []
    keepers = [one for one in _keepers(store, release) if one not in going]
    copies = [(one, (manifest_of(store, one) or {"files": {}})["files"]) for one in keepers]
    for path in not_ours(store, tree, release, listed) if copies else ():
        for keeper, files in copies:
            entry = files.get(path, {"type": ""})
            places = (f"{keeper}/{path}", f"{tree}/{path}")
            if entry["type"] in ("file", "link") and all(_is_as_listed(store, one, entry) for one in places):
                found.append((path, keeper))
                break
    return found


def _keepers(store: Store, release: str) -> list[str]:
    """The releases that may keep copies of what was changed in this one: what is live, and those made of it."""
    made = [record["release"] for record in reversed(settled(store)[0]) if record.get("from") == release]
    found = dict.fromkeys([live_id(store) or "", *made])
    return [one for one in found if one.startswith((ADOPTED, EDITED)) and one != release and store.has_tree(one)]


def not_ours(store: Store, tree: str, release: str, listed: dict[str, dict[str, Any]] | None = None) -> list[str]:
    """The paths in a tree of a release that no manifest lists or that were changed since; without folders.

    Where the release has no manifest, ``listed`` stands for it.
    """
    listed = (manifest_of(store, release) or {"files": listed or {}})["files"]
    drop = len(tree) + 1
    return sorted(
        path[drop:]
        for path, info in walk(store.releases_fd, tree)
        if not (stat.S_ISDIR(info.st_mode) or _is_ours(store, path, info, path[drop:], listed))
    )


def _is_ours(store: Store, path: str, info: os.stat_result, listed_as: str, listed: dict[str, dict[str, Any]]) -> bool:
    entry = listed.get(listed_as)
    if is_held(store.releases_fd, path):
        return False
    if is_bytecode(path) or is_mark(store, path, info, listed_as):
        return True
    return entry is not None and as_listed(store, path, info, entry)


def is_mark(store: Store, path: str, info: os.stat_result, listed_as: str) -> bool:
    """Whether a name in a release is a link that an eject left there: for a name that it moved, or its way back."""
    if not stat.S_ISLNK(info.st_mode):
        return False
    wanted = WAY_BACK if listed_as == way_back(store) else store.link(listed_as)
    return os.readlink(path, dir_fd=store.releases_fd) == wanted


def way_back(store: Store) -> str:
    """The path in a release of the link by which the marks that an eject leaves there lead to the root."""
    return f"{HOME}/{store.name}/current"


def _is_as_listed(store: Store, path: str, entry: dict[str, Any]) -> bool:
    info = lstat(store.releases_fd, path)
    return info is not None and as_listed(store, path, info, entry)


def is_bytecode(path: str) -> bool:
    """Whether a path is what Python itself writes beside its sources."""
    folder, _slash, name = path.rpartition("/")
    return folder.endswith("/__pycache__") and ".pyc" in name
