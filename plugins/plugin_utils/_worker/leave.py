# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Removing what is kept of a project beside its live files: all that a manifest lists, and nothing else."""

from __future__ import annotations

import os
import stat

from .caches import CACHE
from .mounts import is_held
from .names import root_lock
from .runs import KEY, LAST, RUNS, run_ids
from .scratch import KEPT, SCRATCH, as_listed, fresh, is_bytecode, is_mark, keep, remove, remove_empty, walk
from .store import ADOPTED, EDITED, HOME, Store, is_id, is_manifest, lstat, manifest_of, releases

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Listed = dict[str, list[dict[str, Any]]]

_OURS = ("activations", "current", "lock")  # beside the folders of the releases, caches and of what is kept


def trees(store: Store) -> list[str]:
    """The releases that are there, with a manifest or without.

    Last come those that keep what others made: while they are there, their manifests tell what else is a copy of it.
    """
    names = [name for name in os.listdir(store.releases_fd) if is_id(name)] if store.exists() else []
    return sorted(names, key=lambda name: (name.startswith((ADOPTED, EDITED)), name))


def sizes(store: Store, release: str) -> dict[str, Any]:
    """What a release is said to take: {release_id, files, bytes}."""
    entries = [one for one in (manifest_of(store, release) or {"files": {}})["files"].values() if "size" in one]
    return {"release_id": release, "files": len(entries), "bytes": sum(one["size"] for one in entries)}


def listed(store: Store) -> Listed:
    """What the manifests of all releases list, by path."""
    found: Listed = {}
    for release in releases(store) if store.exists() else []:
        for path, entry in (manifest_of(store, release) or {"files": {}})["files"].items():
            if entry not in found.setdefault(path, []):
                found[path].append(entry)
    return found


def not_listed(store: Store, release: str, known: Listed, moved: list[str]) -> list[str]:
    """The paths in a release, without folders, that no manifest lists; ``moved`` names are no longer there."""
    drop = len(release) + 1
    return [
        path[drop:]
        for path, info in walk(store.releases_fd, release)
        if not (stat.S_ISDIR(info.st_mode) or path[drop:].partition("/")[0] in moved)
        if not _is_listed(store, path, info, path[drop:], known)
    ]


def remove_releases(store: Store, known: Listed) -> None:
    """Remove all releases where they are, then their manifests. What no manifest lists moves to ``kept``."""
    for release in trees(store):
        drop = len(release) + 1

        def mine(path: str, info: os.stat_result, drop: int = drop) -> bool:
            return _is_listed(store, path, info, path[drop:], known)

        if remove(store.releases_fd, release, mine):
            keep(store, release, release)
    for name in os.listdir(store.releases_fd):
        if is_manifest(name):
            os.unlink(name, dir_fd=store.releases_fd)


def _is_listed(store: Store, path: str, info: os.stat_result, listed_as: str, known: Listed) -> bool:
    if is_held(store.releases_fd, path):
        return False
    if is_bytecode(path) or is_mark(store, path, info, listed_as):
        return True
    return any(as_listed(store, path, info, entry) for entry in known.get(listed_as, ()))


def others_files(store: Store) -> list[str]:
    """Where files below ROOT/.trainops/NAME are that are neither in a release nor ours."""
    found = [path for path, info in walk(store.home_fd, ".") if not stat.S_ISDIR(info.st_mode)]
    paths = [path[2:] for path in found]
    return [store.path(path) for path in paths if not (path in _OURS or _is_of_releases(path) or _is_of_runs(path))]


def _is_of_runs(path: str) -> bool:
    return path.partition("/")[0] in (CACHE, RUNS) and "/" in path


def kept_runs(store: Store) -> dict[str, Any] | None:
    """The records and logs of runs, which are the user's and stay: {count, path}; None without any."""
    count = len(run_ids(store))
    return {"count": count, "path": store.path(RUNS)} if count else None


def _is_of_releases(path: str) -> bool:
    folder, _slash, rest = path.partition("/")
    name = rest.partition("/")[0]
    return folder == "releases" and (is_id(name) or is_manifest(name) or name.startswith(SCRATCH))


def predicted(store: Store, known: Listed, live: str | None, moved: list[str]) -> list[str]:
    """Where files will be that stay, as :func:`others_files` finds them when everything else is gone."""
    from .strays import predicted_kept

    kept, taken = predicted_kept(store)
    stay = [*others_files(store), *kept]
    for release in trees(store):
        left = not_listed(store, release, known, moved if release == live else [])
        if left:
            label = fresh(release, taken)
            taken.add(label)
            stay += [store.path(KEPT, label, path) for path in left]
    return sorted(stay)


def has_ours(store: Store) -> bool:
    """Whether something of ours is there that an eject removes, beside releases."""
    names = set(os.listdir(store.home_fd))
    manifests = any(is_manifest(name) for name in os.listdir(store.releases_fd)) if store.exists() else False
    rest = bool(others_files(store) or run_ids(store))
    return manifests or bool(names & {"activations", "current", CACHE}) or not rest


def remove_folders(store: Store, who: str) -> None:
    """Remove what is left of ours: the history, the lock, which the caller holds, and the folders that are empty."""
    home = os.open(HOME, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=store.root_fd)
    try:
        with root_lock(store, who):
            _unlink(store.home_fd, "activations")
            if stat.S_ISDIR(getattr(lstat(store.home_fd, CACHE), "st_mode", 0)):
                remove(store.home_fd, CACHE, lambda _path, _info: True)
            if not run_ids(store):
                for name in (KEY, LAST):
                    _unlink(store.home_fd, f"{RUNS}/{name}")
            folders = [path for path, info in walk(store.home_fd, ".")[1:] if stat.S_ISDIR(info.st_mode)]
            for path in sorted(folders, reverse=True):
                remove_empty(store.home_fd, path)
            _unlink(store.home_fd, "lock")  # whoever waits for it finds it gone, and looks again at what is there
            remove_empty(home, store.name)
            remove_home(store.root_fd, home)
    finally:
        os.close(home)


def remove_home(root: int, home: int) -> bool:
    """Remove ROOT/.trainops, open as ``home``, when nothing is in it any more; whether it is gone."""
    if not any(lstat(home, f"{name}/lock") for name in os.listdir(home)):
        _unlink(home, ".lock")  # no project needs it
    gone = remove_empty(root, HOME)
    os.fsync(root)
    return gone


def unmake(store: Store, who: str) -> None:
    """Remove the folders that a deploy made which was refused, when nothing was ever released there.

    The caller holds the project's lock.
    """
    names = set(os.listdir(store.home_fd))
    if names <= {"lock", "releases"} and not os.listdir(store.releases_fd):
        remove_folders(store, who)


def _unlink(folder: int, name: str) -> None:
    info = lstat(folder, name)
    if info and stat.S_ISREG(info.st_mode):
        os.unlink(name, dir_fd=folder)
