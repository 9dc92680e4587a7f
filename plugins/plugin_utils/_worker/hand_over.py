# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What links displaced in the root takes the place of its copy in the release that keeps it.

A copy has the bytes of one moment, and a process that has the file open goes on writing to the file, not to the copy.
So the copy only bridges the time until names are links; what is kept in the end is the very file or folder that stood
in the root, and whoever has it open writes into the release that keeps it.
"""

from __future__ import annotations

import os
import stat

from .scratch import DISPLACED, as_listed, keep, remove, walk
from .store import ADOPTED, Store, lstat, manifest_of
from .swap import exchange

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_ASIDE = "aside"
_COPIES = "copies"


def hand_over(store: Store, scratch: str) -> list[str]:
    """Bring what was displaced, by release and name, into the releases that keep a copy of each.

    What cannot take its copy's place, because somebody changed the copy, moves to ``kept``. Returns where such files
    are now. May be called again after a run that ended at any point of it.
    """
    kept = []
    displaced, copies = f"{scratch}/{DISPLACED}", f"{scratch}/{_COPIES}"
    for release in _names(store, displaced):
        files = _adopted_files(store, release)
        for name in _names(store, f"{displaced}/{release}"):
            original = f"{displaced}/{release}/{name}"
            info = lstat(store.releases_fd, original)
            if info and stat.S_ISLNK(info.st_mode):  # our own link, that never came to displace anything
                os.unlink(original, dir_fd=store.releases_fd)
            elif _take_place(store, original, release, _below(files, name)):
                _make(store, copies, f"{copies}/{release}")
                # Out of the way as a whole: half a copy would look like an original.
                os.rename(original, f"{copies}/{release}/{name}", **_inside(store))
            else:
                kept.append(keep(store, original, name))
    for release in _names(store, copies):
        files = _adopted_files(store, release)
        for name in _names(store, f"{copies}/{release}"):
            kept += _drop_copy(store, f"{copies}/{release}/{name}", name, _below(files, name))
    return kept


def _adopted_files(store: Store, release: str) -> dict[str, dict[str, Any]]:
    manifest = manifest_of(store, release) if release.startswith(ADOPTED) else None
    files: dict[str, dict[str, Any]] = (manifest or {"files": {}})["files"]
    return files


def _below(files: dict[str, dict[str, Any]], name: str) -> dict[str, dict[str, Any]]:
    return {path: entry for path, entry in files.items() if path == name or path.startswith(name + "/")}


def _inside(store: Store) -> dict[str, int]:
    return {"src_dir_fd": store.releases_fd, "dst_dir_fd": store.releases_fd}


def _make(store: Store, *folders: str) -> None:
    for folder in folders:
        if lstat(store.releases_fd, folder) is None:
            os.mkdir(folder, 0o700, dir_fd=store.releases_fd)


def _names(store: Store, folder: str) -> list[str]:
    if lstat(store.releases_fd, folder) is None:
        return []
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=store.releases_fd)
    try:
        return sorted(os.listdir(fd))
    finally:
        os.close(fd)


def _take_place(store: Store, original: str, release: str, files: dict[str, dict[str, Any]]) -> bool:
    """Exchange a file or folder and its copy; False when the copy is gone or not what the manifest says any more."""
    name = original.rpartition("/")[2]
    if _is_copy(store, original, name, files):  # a run that then ended did it
        return True
    place = f"{release}/{name}"
    if not _is_whole(store, release, name, files):
        return False
    _lead_links(store, original, name, files)
    if not exchange(store.releases_fd, original, store.releases_fd, place):
        aside = _beside(original)
        os.rename(place, aside, **_inside(store))
        os.rename(original, place, **_inside(store))
        os.rename(aside, original, **_inside(store))
    return True


def _is_whole(store: Store, release: str, name: str, files: dict[str, dict[str, Any]]) -> bool:
    """Whether the copy in a release is what the manifest says."""
    there = {path[len(release) + 1 :]: info for path, info in walk(store.releases_fd, f"{release}/{name}")}
    if not there or there.keys() != files.keys():
        return False
    return all(as_listed(store, f"{release}/{path}", info, files[path]) for path, info in there.items())


def would_keep(store: Store, scratch: str) -> list[tuple[str, str]]:
    """What :func:`hand_over` would move to ``kept``, as (label there, path below it); nothing is written."""
    found = []
    displaced, copies = f"{scratch}/{DISPLACED}", f"{scratch}/{_COPIES}"
    for release in _names(store, displaced):
        files = _adopted_files(store, release)
        for name in _names(store, f"{displaced}/{release}"):
            original, below = f"{displaced}/{release}/{name}", _below(files, name)
            info = lstat(store.releases_fd, original)
            if info is None or stat.S_ISLNK(info.st_mode):
                continue
            if _is_copy(store, original, name, below):
                found += [(name, path) for path in _written_into(store, original, name, below)]
            elif not _is_whole(store, release, name, below):
                found.append((name, ""))
    for release in _names(store, copies):
        files = _adopted_files(store, release)
        for name in _names(store, f"{copies}/{release}"):
            below = _below(files, name)
            found += [(name, path) for path in _written_into(store, f"{copies}/{release}/{name}", name, below)]
    return found


def _written_into(store: Store, copy: str, name: str, files: dict[str, dict[str, Any]]) -> list[str]:
    """The paths in a copy, with their slash, that are no longer what the manifest says."""
    return sorted(
        path[len(copy) :]
        for path, info in walk(store.releases_fd, copy)
        if not (stat.S_ISDIR(info.st_mode) or _is_ours(store, copy, name, files, path, info))
    )


def _is_ours(
    store: Store, copy: str, name: str, files: dict[str, dict[str, Any]], path: str, info: os.stat_result
) -> bool:
    entry = files.get(name + path[len(copy) :])
    return entry is not None and as_listed(store, path, info, entry)


def _is_copy(store: Store, original: str, name: str, files: dict[str, dict[str, Any]]) -> bool:
    """Whether this is the copy: it has a file that the manifest knows by its inode."""
    found = ((lstat(store.releases_fd, original + path[len(name) :]), entry) for path, entry in files.items())
    return any(info and entry["type"] == "file" and info.st_ino == entry["signature"][3] for info, entry in found)


def _lead_links(store: Store, original: str, name: str, files: dict[str, dict[str, Any]]) -> None:
    """Let relative links that lead out of a folder lead from its new place to where they did."""
    for path, entry in files.items():
        link = original + path[len(name) :]
        if entry["type"] != "link" or entry["target"] == entry.get("original"):
            continue
        info = lstat(store.releases_fd, link)
        if info is None or not stat.S_ISLNK(info.st_mode):
            continue
        if os.readlink(link, dir_fd=store.releases_fd) == entry["original"]:
            aside = _beside(original)
            if lstat(store.releases_fd, aside):
                os.unlink(aside, dir_fd=store.releases_fd)
            os.symlink(entry["target"], aside, dir_fd=store.releases_fd)
            os.rename(aside, link, **_inside(store))


def _beside(original: str) -> str:
    """A path in the scratch folder itself, for what is on its way."""
    return f"{original.partition('/')[0]}/{_ASIDE}"


def _drop_copy(store: Store, copy: str, name: str, files: dict[str, dict[str, Any]]) -> list[str]:
    """Remove a copy whose original took its place, but for what somebody wrote into it meanwhile."""

    left = remove(store.releases_fd, copy, lambda path, info: _is_ours(store, copy, name, files, path, info))
    where = keep(store, copy, name) if left else ""
    return [where + path[len(copy) :] for path in left]
