# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Room for a release, before anything travels; where there is none, surplus releases go first."""

from __future__ import annotations

import os

from .channel import WorkerError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .store import Store

_SPARE = 16  # files and folders of our own beside those of a release
_UNITS = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3), ("B", 1))


def check_space(store: Store, size: int, count: int) -> None:
    """Raise WorkerError("no-space") unless ``count`` more files of ``size`` bytes in all fit where the releases are."""
    error = shortage(store, size, count)
    if error:
        raise error


def shortage(store: Store, size: int, count: int, surplus: tuple[str, ...] = ()) -> WorkerError | None:
    """What keeps ``count`` more files of ``size`` bytes in all from fitting; None when they do.

    What the releases ``surplus`` take counts as free.
    """
    info = os.fstatvfs(store.root_fd)
    freed, freed_count = _taken(store, surplus, info.f_frsize) if surplus else (0, 0)
    needed = size + (count + _SPARE) * info.f_frsize
    free = info.f_bavail * info.f_frsize + freed
    inodes = info.f_favail + freed_count
    if needed > free:
        has, needs = contrast(free, needed)
        return _no_space(store, f"{has} free, the release needs {needs}", needed=needed, free=free)
    if info.f_files and count + _SPARE > inodes:
        needs = f"{inodes} inodes free, the release needs {count + _SPARE}"
        return _no_space(store, needs, needed=count + _SPARE, free=inodes)
    return None


def _no_space(store: Store, what: str, needed: int, free: int) -> WorkerError:
    from .store import releases

    fix = "free space there"
    if store.exists() and len(releases(store)) > 1:
        fix += f", or lower training_keep_releases (old releases are in {store.path('releases')})"
    return WorkerError("no-space", f"{store.root} has {what}: {fix}", needed=needed, free=free)


def contrast(first: int, second: int) -> tuple[str, str]:
    """Two amounts of bytes in the largest unit in which they read differently."""
    for unit, factor in _UNITS:
        texts = [f"{count / factor:.1f} {unit}" if factor > 1 else f"{count} B" for count in (first, second)]
        if max(first, second) >= factor and texts[0] != texts[1]:
            return texts[0], texts[1]
    return f"{first} B", f"{second} B"


def _taken(store: Store, ids: tuple[str, ...], block: int) -> tuple[int, int]:
    """Bytes and inodes that releases take, each with its folder and manifest; what files share is not known."""
    from .store import manifest_of

    files = [entry for release in ids for entry in (manifest_of(store, release) or {"files": {}})["files"].values()]
    return sum(-(-int(entry.get("size", 0)) // block) * block for entry in files), len(files) + 2 * len(ids)


def make_room(store: Store, size: int, count: int, surplus: list[str]) -> tuple[list[str], list[str]]:
    """Remove surplus releases when there is no room. Returns their ids, and where files are now that nobody listed.

    Raises WorkerError("no-space") when that is not enough.
    """
    if not surplus or shortage(store, size, count) is None:
        check_space(store, size, count)
        return [], []
    from .scratch import remove_tree

    foreign = []
    for release in surplus:
        # Where it is: on a full disk there is no scratch folder to move it to.
        foreign += remove_tree(store, release, release, surplus)
        os.unlink(f"{release}.json", dir_fd=store.releases_fd)
    error = shortage(store, size, count)
    if error:
        raise WorkerError(error.code, f"{error.message}; {_removed(len(surplus))} removed already", **error.details)
    return surplus, foreign


def _removed(count: int) -> str:
    return f"{count} old releases were" if count != 1 else "1 old release was"
