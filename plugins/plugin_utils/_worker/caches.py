# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The compile caches of a project's runs: beside the releases, so that no deploy wipes them."""

from __future__ import annotations

import os
import stat
import time

from .store import Store, lstat, make_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

CACHE = "cache"
# What each variable names, below the folder of the caches.
PLACES = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}
_MOST_SECONDS = 0.3


def make_caches(store: Store) -> dict[str, str]:
    """The folders of the caches, made where they are missing, by variable."""
    parent = make_folder(store.home_fd, CACHE, store.path(CACHE))
    try:
        for name in PLACES.values():
            os.close(make_folder(parent, name, store.path(CACHE, name)))
    finally:
        os.close(parent)
    return {variable: store.path(CACHE, name) for variable, name in PLACES.items()}


def size_of(store: Store) -> int | None:
    """Bytes on the disk in the caches; None when there are so many files that to count them would take long."""
    if store.home_fd < 0 or lstat(store.home_fd, CACHE) is None:
        return 0
    end = time.monotonic() + _MOST_SECONDS
    total = 0
    for size in _sizes(store.path(CACHE)):
        total += size
        if time.monotonic() > end:
            return None
    return total


def _sizes(folder: str) -> Iterator[int]:
    todo = [folder]
    while todo:
        try:
            with os.scandir(todo.pop()) as entries:
                for entry in entries:
                    try:
                        info = entry.stat(follow_symlinks=False)
                    except OSError:  # caches are written and cleared while we count
                        continue
                    if stat.S_ISDIR(info.st_mode):
                        todo.append(entry.path)
                    yield info.st_blocks * 512
        except OSError:
            continue
