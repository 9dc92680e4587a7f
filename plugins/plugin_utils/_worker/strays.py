# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files in a release's tree that no manifest lists: what runs wrote there, and what goes out of view with a switch."""

from __future__ import annotations

import os
import stat

from .look import Look
from .report import no_strays
from .scratch import (
    DISPLACED,
    KEPT,
    RETIRED,
    fresh,
    handed_over,
    is_bytecode,
    is_mark,
    not_ours,
    stages,
    walk,
)
from .store import Store, lstat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_NAMED = 100


def strays(store: Store, seen: Look, release: str) -> dict[str, Any]:
    """What lies in the live release unlisted, and so goes out of view when ``release`` is live instead.

    count; bytes; names: the top-level names that have some; paths: where the first hundred are. Bytecode does not
    count, and neither does what a release is about to keep.
    """
    if seen.live is None or seen.live == release or not store.has_tree(seen.live):
        return no_strays()
    drop = len(seen.live) + 1
    known = (seen.verdict.files, seen.verdict.drift)
    found = [
        (path[drop:], info.st_size)
        for path, info in walk(store.releases_fd, seen.live)
        if not (stat.S_ISDIR(info.st_mode) or is_bytecode(path) or any(path[drop:] in paths for paths in known))
        if not is_mark(store, path, info, path[drop:])
    ]
    return {
        "count": len(found),
        "bytes": sum(size for _path, size in found),
        "names": sorted({path.partition("/")[0] for path, _size in found}),
        "paths": sorted(store.path("releases", seen.live, path) for path, _size in found)[:_NAMED],
    }


def predicted_kept(store: Store, leaving: Sequence[str] = ()) -> tuple[list[str], set[str]]:
    """Where files will be that a run first keeps of those that did not end; and the names that ``kept`` then has.

    ``leaving`` are the releases to which nothing is handed over.
    """
    taken = set(os.listdir(store.path(KEPT))) if os.path.isdir(store.path(KEPT)) else set[str]()
    found: list[str] = []
    for stage in stages(store):
        retired = f"{stage}/{RETIRED}"
        trees = [path for path, _info in walk(store.releases_fd, retired) if path.count("/") == 2]
        for tree in trees:
            release = tree.rpartition("/")[2]
            ours = {path for path, _keeper in handed_over(store, tree, release, leaving)}
            left = [f"/{path}" for path in not_ours(store, tree, release) if path not in ours]
            found += _labelled(store, release, left, taken)
        if lstat(store.releases_fd, f"{stage}/{DISPLACED}"):
            from .hand_over import would_keep  # most runs displace nothing

            labels: dict[str, list[str]] = {}
            for name, path in would_keep(store, stage):
                labels.setdefault(name, []).append(path)
            for name, paths in labels.items():
                found += _labelled(store, name, paths, taken)
    return found, taken


def _labelled(store: Store, label: str, paths: list[str], taken: set[str]) -> list[str]:
    """Where paths, each empty or with its slash, are once they are kept under a fresh label."""
    if not paths:
        return []
    label = fresh(label, taken)
    taken.add(label)
    return [store.path(KEPT, label) + path for path in paths]


def predicted_foreign(
    store: Store,
    seen: Look,
    replaced: str | None,
    pruned: list[str],
    leaving: Sequence[str] = (),
    wanted: dict[str, dict[str, Any]] | None = None,
) -> list[str]:
    """Where files will be that are found in the tree of a release that is replaced, or pruned, and that are not ours.

    What was changed is not among them where a release keeps it, also one that is about to: that one takes it in.
    ``leaving`` is as for :func:`predicted_kept`; ``wanted`` are the files of the release that replaces one whose
    manifest is lost.
    """
    if not store.exists():
        return []
    found, taken = predicted_kept(store, leaving)
    visible = seen.visible() if seen.to_keep() else {}
    for release in [*([replaced] if replaced else []), *pruned]:
        listed = wanted if release == replaced else None
        kept = {path for path, _keeper in handed_over(store, release, release, pruned, listed)}
        if release == seen.live:
            kept |= {path for path, entry in seen.verdict.drift.items() if entry and visible.get(path) is entry}
        left = [path for path in not_ours(store, release, release, listed) if path not in kept]
        found += _labelled(store, release, [f"/{path}" for path in left], taken)
    return found
