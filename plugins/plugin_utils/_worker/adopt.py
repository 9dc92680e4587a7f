# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keeping what is visible before a deploy replaces it, as a release of its own: nobody's bytes are ever lost.

``adopted`` holds plain files and folders that stood under the project's names, ``edited`` a live release that somebody
wrote into. Both become live, as copies, before anything else does: what a reader sees stays the same, by other means.
In the end the files themselves take the place of the copies, see :mod:`.hand_over`.
"""

from __future__ import annotations

import os
import posixpath

from .channel import WorkerError
from .history import settled
from .look import Look, describe
from .scratch import DISPLACED, Scratch, fresh, unused_copies
from .space import check_space
from .stage import Tree, copier
from .store import ADOPTED, EDITED, Store, lstat
from .swap import exchange

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_TRIES = 3


def new_name(store: Store, seen: Look) -> str:
    """The id of the release that keeps what is visible: ``adopted``, ``adopted-2`` …, or ``edited`` …"""
    taken = {name.partition(".")[0] for name in os.listdir(store.releases_fd)} - unused_copies(store)
    taken |= {record["release"] for record in settled(store)[0]}
    return fresh(ADOPTED if seen.plain else EDITED, taken)


def copy_visible(scratch: Scratch, seen: Look) -> Tree:
    """Copy all that is visible under the project's names into a tree, with mode, owner and time as they are.

    Raises WorkerError: "no-space" before anything is copied, "busy" for a file that is written faster than copied.
    """
    visible = seen.visible()
    check_space(scratch.store, sum(entry.get("size", 0) for entry in visible.values()), len(visible))
    tree = Tree(scratch, "visible")
    live = scratch.store.open_tree(seen.live)
    try:
        for path in sorted(visible):
            folder = scratch.store.root_fd if path in seen.plain else live
            _copy(tree, path, visible[path], folder, path in seen.plain)
    finally:
        if live >= 0:
            os.close(live)
    tree.seal()
    return tree


def _copy(tree: Tree, path: str, entry: dict[str, Any], folder: int, plain: bool) -> None:
    if entry["type"] == "dir":
        tree.add_folder(path, entry)
    elif entry["type"] == "shared":
        tree.add_shared(path, entry)
    elif entry["type"] == "link":
        tree.add_link(path, dict(entry, target=_retarget(path, entry["target"])) if plain else entry)
    else:
        _copy_file(tree, path, entry, folder)


def _copy_file(tree: Tree, path: str, entry: dict[str, Any], folder: int) -> None:
    for _attempt in range(_TRIES):
        if tree.add_file(path, entry, copier(folder, path)):
            return
        info = lstat(folder, path)
        again = describe(folder, path, info) if info else None
        if again is None or again["type"] != "file":
            break
        entry = again
    where = os.path.join(tree.scratch.store.root, path)
    raise WorkerError("busy", f"{where} keeps changing while it is copied: stop what writes it, run again")


def _retarget(path: str, target: str) -> str:
    """A relative link out of a folder that moves from the root into a release, so that it still leads where it did."""
    if target.startswith("/"):
        return target
    folder = posixpath.dirname(path)
    aim = posixpath.normpath(posixpath.join(folder, target))
    if aim.partition("/")[0] == path.partition("/")[0]:
        return target
    return "../" * folder.count("/") + "../" * bool(folder) + "../../../../" + aim


def displace(scratch: Scratch, names: list[str], keeper: str) -> None:
    """Put our links where plain files and folders stood; those move into the scratch folder.

    When that goes, they take the place of their copies in the release ``keeper``.
    """
    store = scratch.store
    os.mkdir(DISPLACED, 0o700, dir_fd=scratch.fd)
    os.mkdir(f"{DISPLACED}/{keeper}", 0o700, dir_fd=scratch.fd)
    for name in names:
        aside = f"{DISPLACED}/{keeper}/{name}"
        os.symlink(store.link(name), aside, dir_fd=scratch.fd)
        if not exchange(scratch.fd, aside, store.root_fd, name):
            _displace_in_steps(scratch, aside, name)


def _displace_in_steps(scratch: Scratch, aside: str, name: str) -> None:
    """Without exchange a file can still be replaced in one step; for a folder there is a moment without the name."""
    os.rename(aside, "link", src_dir_fd=scratch.fd, dst_dir_fd=scratch.fd)
    root = scratch.store.root_fd
    try:
        os.link(name, aside, src_dir_fd=root, dst_dir_fd=scratch.fd, follow_symlinks=False)
    except OSError:  # a folder, or a file system without hard links
        os.rename(name, aside, src_dir_fd=root, dst_dir_fd=scratch.fd)
    os.rename("link", name, src_dir_fd=scratch.fd, dst_dir_fd=root)
