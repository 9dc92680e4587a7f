# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Making a release live: keep what is in the way, put the tree in place, add links, the one rename, drop links."""

from __future__ import annotations

import os

from .adopt import copy_visible, displace, new_name
from .channel import WorkerError
from .lock import Lock
from .look import Look, look, verify
from .names import add_links, look_at_names, remove_links, share
from .scratch import RETIRED, Scratch, retire
from .stage import Tree, write_manifest
from .store import (
    FORMAT,
    Store,
    activations,
    append_activation,
    live_id,
    lstat,
    next_activation,
    now,
    short_id,
    tops,
)
from .swap import exchange

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ROOT_LOCK_SECONDS = 60.0


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


class Switched:
    """What a deploy or rollback did.

    activation: the number of what is live now; adopted: the release that keeps what was there; received: bytes from the
    controller; pruned: ids of removed releases; foreign: paths in removed trees that nobody listed.
    """

    def __init__(self) -> None:
        self.activation = 0
        self.adopted: str | None = None
        self.received = 0
        self.pruned: list[str] = []
        self.foreign: list[str] = []


def settle(store: Store) -> None:
    """Bring the activations in line with what is live, after a run that ended between the two. Needs the lock."""
    records = activations(store)
    live = live_id(store)
    if not records and live:
        _record(store, live, None, {"kind": "found"})
    elif records and live != records[-1]["release"]:
        last = records[-1]
        if last.get("from") == live and not last["proved"]:
            append_activation(store, {"void": last["activation"], "time": now()})
        elif live:
            _record(store, live, last["release"], {"kind": "found"})


def go_live(scratch: Scratch, target: Target, who: dict[str, Any]) -> Switched:
    """Make ``target`` live. At every instant readers see what was there or all of the new release, nothing else.

    ``who`` is what the activation records beside number, release and time. Raises WorkerError, as a look does, when the
    names in the root are not free.
    """
    store, switched = scratch.store, Switched()
    with Lock(store.home_fd, "../.lock", f"{store.root}/.trainops/.lock", str(who.get("who")), ROOT_LOCK_SECONDS):
        seen = look(store, target.files, repair=False)
        if seen.to_keep():
            switched.adopted = _adopt(scratch, seen, who)
        if target.tree:
            switched.foreign = _publish(scratch, target)
        else:
            require_intact(store, target.release)
        add_links(store, seen.names.missing)
        share(store, target.files)
        switched.activation = _switch(scratch, target.release, who)
        remove_links(store, seen.names.stale)
        os.fsync(store.root_fd)
    return switched


def require_intact(store: Store, release: str, content: bool = False) -> None:
    """Raise WorkerError("drifted") unless a release that is in place is what its manifest says."""
    drift = sorted(verify(store, release, content=content).drift)
    if drift:
        some = ", ".join(drift[:5]) + (f" and {len(drift) - 5} more" if len(drift) > 5 else "")
        raise WorkerError(
            "drifted",
            f"release {short_id(release)} was changed since it was made ({some} in {store.path('releases', release)}): "
            "deploy its source again, or go back to another release",
            release_id=release,
            files=drift,
        )


def mend_links(store: Store, files: dict[str, dict[str, Any]], who: str) -> None:
    """Put the links in the root right for a release that is live already."""
    with Lock(store.home_fd, "../.lock", f"{store.root}/.trainops/.lock", who, ROOT_LOCK_SECONDS):
        shared = {path for path, entry in files.items() if entry["type"] == "shared"}
        names = look_at_names(store, tops(files), shared)
        add_links(store, names.missing)
        share(store, files)
        remove_links(store, names.stale)
        os.fsync(store.root_fd)


def new_manifest(release: str, files: dict[str, dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A manifest as it lies beside a release."""
    return {"format": FORMAT, "id": release, "created": now(), "files": files, **more}


def _adopt(scratch: Scratch, seen: Look, who: dict[str, Any]) -> str:
    release = new_name(scratch.store, seen)
    tree = copy_visible(scratch, seen)
    _publish(scratch, Target(release, tree.files, tree, new_manifest(release, tree.files)))
    _switch(scratch, release, dict(who, kind="adopt", commit=None, dirty=None))
    if seen.names.plain:
        displace(scratch, seen.names.plain)
        os.fsync(scratch.store.root_fd)
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
        left = retire(store, f"{scratch.name}/{RETIRED}")
    else:
        os.rename(target.tree.name, release, src_dir_fd=scratch.fd, dst_dir_fd=store.releases_fd)
    os.fsync(store.releases_fd)
    return left


def _switch(scratch: Scratch, release: str, who: dict[str, Any]) -> int:
    """Record the activation, then make it true by one rename; :func:`settle` strikes a record that never came true."""
    store = scratch.store
    number = _record(store, release, live_id(store), who)
    os.symlink(f"releases/{release}", "current", dir_fd=scratch.fd)
    os.rename("current", "current", src_dir_fd=scratch.fd, dst_dir_fd=store.home_fd)
    os.fsync(store.home_fd)
    append_activation(store, {"proved": number}, lasting=False)
    return number


def _record(store: Store, release: str, before: str | None, who: dict[str, Any]) -> int:
    number = next_activation(store)
    append_activation(store, {"activation": number, "release": release, "from": before, "time": now(), **who})
    return number
