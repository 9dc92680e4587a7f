# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Making a release live: keep what is in the way, put the tree in place, add links, the one rename, drop links."""

from __future__ import annotations

import contextlib
import os

from .adopt import copy_visible, displace, new_name
from .channel import WorkerError
from .history import append, record
from .look import Look, look, verify
from .names import add_links, remove_links, root_lock, share
from .report import Switched
from .scratch import RETIRED, Scratch, retire, write_manifest
from .stage import Tree
from .store import ADOPTED, EDITED, FORMAT, Store, live_id, lstat, now, short_id, some
from .strays import strays
from .swap import exchange

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Target:
    """A release that is to be live: its id and files and, when it is not in place yet, its tree and manifest."""

    def __init__(
        self,
        release: str,
        files: dict[str, dict[str, Any]],
        tree: Tree | None = None,
        manifest: dict[str, Any] | None = None,
    ) -> None:
        self.release = release
        self.files = files
        self.tree = tree
        self.manifest = manifest or {}


def go_live(scratch: Scratch, target: Target, who: dict[str, Any], adopt_folders: bool) -> Switched:
    """Make ``target`` live. At every instant readers see what was there or all of the new release, nothing else.

    ``who`` is what the activation records beside number, release and time. Raises WorkerError, as a look does, when the
    names in the root are not free.
    """
    store, switched = scratch.store, Switched()
    with root_lock(store, str(who["who"])):
        seen = look(store, target.files, repair=False, adopt_folders=adopt_folders)
        switched.strays = strays(store, seen, target.release)
        if seen.to_keep():
            switched.adopted = _adopt(scratch, seen, who)
        elif seen.names.plain:
            switched.adopted = seen.live
        if seen.names.plain:
            displace(scratch, seen.names.plain, switched.adopted or "")
            os.fsync(store.root_fd)
        if target.tree:
            switched.foreign = _publish(scratch, target)
        elif not target.release.startswith((ADOPTED, EDITED)):  # others may go on writing into those
            require_intact(store, target.release)
        add_links(store, seen.names.missing)
        share(store, target.files)
        switched.activation = _switch(scratch, target.release, who)
        with switched.putting_away(store):
            remove_links(store, seen.names.stale)
            os.fsync(store.root_fd)
    return switched


def require_intact(store: Store, release: str, content: bool = False) -> None:
    """Raise WorkerError("drifted") unless a release that is in place is what its manifest says."""
    drift = sorted(verify(store, release, content=content).drift)
    if drift:
        raise WorkerError(
            "drifted",
            f"release {short_id(release)} was changed since it was made "
            f"({some(drift)} in {store.path('releases', release)}): "
            "deploy its source again, or go back to another release",
            release_id=release,
            files=drift,
        )


def new_manifest(release: str, files: dict[str, dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A manifest as it lies beside a release."""
    return {"format": FORMAT, "id": release, "created": now(), "files": files, **more}


def _adopt(scratch: Scratch, seen: Look, who: dict[str, Any]) -> str:
    release = new_name(scratch.store, seen)
    tree = copy_visible(scratch, seen)
    _publish(scratch, Target(release, tree.files, tree, new_manifest(release, tree.files)))
    _switch(scratch, release, dict(who, kind="adopt", commit=None, dirty=None))
    return release


def _publish(scratch: Scratch, target: Target) -> list[str]:
    """Put a finished tree and its manifest in place; return what nobody listed in a tree that it replaces."""
    store, release = scratch.store, target.release
    if target.tree is None:
        return []
    write_manifest(scratch, release, target.manifest)
    left: list[str] = []
    if lstat(store.releases_fd, release):
        os.mkdir(RETIRED, 0o700, dir_fd=scratch.fd)
        old = f"{RETIRED}/{release}"
        os.rename(target.tree.name, old, src_dir_fd=scratch.fd, dst_dir_fd=scratch.fd)
        if not exchange(scratch.fd, old, store.releases_fd, release):
            os.rename(old, target.tree.name, src_dir_fd=scratch.fd, dst_dir_fd=scratch.fd)
            os.rename(release, old, src_dir_fd=store.releases_fd, dst_dir_fd=scratch.fd)
            os.rename(target.tree.name, release, src_dir_fd=scratch.fd, dst_dir_fd=store.releases_fd)
        left = retire(store, f"{scratch.name}/{RETIRED}", scratch.going)
    else:
        os.rename(target.tree.name, release, src_dir_fd=scratch.fd, dst_dir_fd=store.releases_fd)
    os.fsync(store.releases_fd)
    return left


def _switch(scratch: Scratch, release: str, who: dict[str, Any]) -> int:
    """Record the activation, then make it true by one rename; :func:`settle` strikes a record that never came true."""
    store = scratch.store
    number = record(store, release, live_id(store), who)
    os.symlink(f"releases/{release}", "current", dir_fd=scratch.fd)
    os.rename("current", "current", src_dir_fd=scratch.fd, dst_dir_fd=store.home_fd)
    os.fsync(store.home_fd)
    with contextlib.suppress(OSError):  # it is live, full disk or not
        append(store, {"proved": number}, lasting=False)
    return number
