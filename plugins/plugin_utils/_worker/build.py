# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Building a release's tree from what is here and what is asked for, and making it live."""

from __future__ import annotations

import os

from .channel import WorkerError
from .notes import checked, note
from .prune import prune
from .report import Switched, no_strays
from .scratch import Scratch
from .stage import Tree, copier, writer
from .store import Store, manifest_of
from .switch import Target, go_live, new_manifest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .channel import Channel
    from .release import Plan


def replace(channel: Channel, store: Store, params: dict[str, Any], plan: Plan, going: list[str]) -> Switched:
    """Make the wanted release live, building it when it is not in place; then remove what is surplus: ``going``."""
    received = 0
    with Scratch(store, going) as scratch:
        target = Target(plan.release, plan.wanted)
        if plan.in_place:
            note(store, params, plan, None)
        else:
            target.tree = Tree(scratch, "tree")
            received = _fill(channel, store, target.tree, plan)
            target.manifest = new_manifest(
                plan.release,
                target.tree.files,
                source=params["source"],
                checked=checked(params, plan, manifest_of(store, plan.seen.live or "")),
            )
        who = dict(params["source"], who=params["who"], kind="deploy")
        switched = go_live(scratch, target, who, params["adopt_folders"])
        switched.received = received
        with switched.putting_away(store):
            switched.pruned, foreign = prune(scratch, plan.release, params["keep"])
            switched.foreign += foreign
        if plan.seen.live in switched.pruned:  # they are among the foreign now
            switched.strays = no_strays()
    switched.foreign += scratch.kept
    switched.troubles += filter(None, [scratch.trouble])
    return switched


def _fill(channel: Channel, store: Store, tree: Tree, plan: Plan) -> int:
    """Build the tree: copy what is here, ask for the rest. Returns the bytes that were received."""
    files = {path: entry for path, entry in sorted(plan.wanted.items()) if entry["type"] == "file"}
    for path, entry in sorted(plan.wanted.items()):
        if entry["type"] == "dir":
            tree.add_folder(path, entry)
    lacking = _copy_known(channel, store, tree, plan, files)
    first: dict[str, str] = {}
    for path in lacking:
        first.setdefault(files[path]["sha256"], path)
    received = _receive(channel, tree, plan, list(first.values())) if first else 0
    for path in lacking:
        origin = first[files[path]["sha256"]]
        if path != origin and not tree.add_file(path, files[path], copier(tree.fd, origin)):
            raise _damaged(path)
    for path, entry in plan.wanted.items():
        if entry["type"] == "link":
            tree.add_link(path, entry)
        elif entry["type"] == "shared":
            tree.add_shared(path, entry)
    tree.seal()
    return received


def _copy_known(channel: Channel, store: Store, tree: Tree, plan: Plan, files: dict[str, dict[str, Any]]) -> list[str]:
    """Copy the files whose content is here; what is no longer what it was when we looked is lacking, too."""
    sources, lacking = plan.seen.sources(), []
    proven, total = 0, sum(entry["size"] for entry in files.values() if entry["sha256"] in sources)

    def prove(size: int) -> None:
        nonlocal proven
        proven += size
        channel.progress(min(proven, total), total, "bytes copied from the live release")  # one may have grown

    live = store.open_tree(plan.seen.live)
    try:
        for path, entry in files.items():
            in_release, origin = sources.get(entry["sha256"], (False, ""))
            fill = copier(live if in_release else store.root_fd, origin)
            if not origin or not tree.add_file(path, entry, fill, prove):
                lacking.append(path)
    finally:
        if live >= 0:
            os.close(live)
    return lacking


def _receive(channel: Channel, tree: Tree, plan: Plan, paths: list[str]) -> int:
    channel.send("need", {"base": plan.seen.live, "files": paths})
    received, proven, total = 0, 0, sum(plan.wanted[path]["size"] for path in paths)

    def count(size: int) -> None:
        nonlocal received
        received += size
        channel.progress(received, total, "bytes received")

    def prove(size: int) -> None:
        nonlocal proven
        proven += size
        channel.progress(proven, total, "bytes proven")

    for path in paths:
        frame = channel.receive("file")
        if frame["path"] != path:
            raise WorkerError("protocol", f"expected {path}, got {frame['path']}")
        if not tree.add_file(path, plan.wanted[path], writer(channel.read_blob(), count), prove):
            raise _damaged(path)
    channel.receive("end")
    return received


def _damaged(path: str) -> WorkerError:
    return WorkerError(
        "damaged",
        f"{path} did not arrive as it was read on the controller: what was read back has another size or sha256. "
        "Nothing went live; deploy again, and look at the container's disk when that ends so, too",
    )
