# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operation `compare`: what differs from the live release, by hand in the container and in the project. Reads only.

Both are told against the release as it was made, so that each difference has one cause: somebody's hand, or the work
on the project since.
"""

from __future__ import annotations

import os
import stat

from .channel import WorkerError
from .history import settled
from .look import describe
from .names import link_target, our_links, predicted_wait
from .report import ALL_TEXT_BYTES, public, read_text
from .scratch import is_bytecode, is_mark, walk
from .store import (
    HOME,
    Store,
    digest_at,
    guarded,
    live_id,
    lstat,
    manifest_of,
    only_project,
    open_store,
    release_id,
    releases,
    shared_target,
    tops,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .channel import Channel

    Entry = dict[str, Any]
    Files = dict[str, Entry]

_MOST = 20_000  # files that are looked at in a folder that stands where our link belongs
_TRIES = 3


def run(channel: Channel, params: dict[str, Any]) -> dict[str, Any]:
    """Compare what is live with what was released, and with a project.

    params: root; name, or null for the only project there; manifest: {files} of the project as for `release`, or null;
    want_diff.

    Result: release_id: what is live, or null; known: whether there is a manifest to compare with; activation: the
    record of what is live (see :mod:`.history`), or null; name, root; by_hand: [{path, at, action: added | changed |
    removed, before, after}] where ``at`` is the place in the container and before and after are entries (type, mode,
    size, sha256, target) or null; more: whether there are more that were not looked at; in_project: the same without
    ``at``, or null without a project; same: whether the project is what was released; texts: {sha256: text} of the
    release's contents, as far as they are here; found: {at: text or null} of what was changed by hand; waits_for: who
    holds the lock now, or null.

    Raises WorkerError("nothing-live") where nothing is live and there is no project to compare.
    """
    return guarded(lambda: _run(channel, params), params["root"])


def _run(channel: Channel, params: dict[str, Any]) -> dict[str, Any]:
    name = params["name"] or only_project(params["root"], "compare")
    for attempt in range(_TRIES):
        with open_store(params["root"], name, create=False) as store:
            try:
                done = _compared(channel, store, params)
            except FileNotFoundError:  # a deploy removed what was read
                if attempt == _TRIES - 1:
                    raise
                continue
            if live_id(store) == done["release_id"]:
                return done
    raise WorkerError("busy", f"what is live below {params['root']} keeps changing: run again when no deploy runs")


def _compared(channel: Channel, store: Store, params: dict[str, Any]) -> dict[str, Any]:
    live = live_id(store)
    if live is None and params["manifest"] is None:
        fix = "deploy first, or correct training_root and training_name"
        raise WorkerError("nothing-live", f"no release of {store.name} is live below {store.root}: {fix}")
    manifest = manifest_of(store, live) if live else None
    released = manifest["files"] if manifest else _as_it_is(store, live)
    hands = _Hands(channel, store, released)
    if live:
        hands.look(live)
    wanted = params["manifest"] and {one["path"]: _without_path(one) for one in params["manifest"]["files"]}
    in_project = None if wanted is None else differences(released, wanted)
    texts = _texts(store, released, [*hands.found, *(in_project or [])]) if params["want_diff"] else {}
    records, _number = settled(store)
    return {
        "root": params["root"],
        "name": store.name,
        "release_id": live,
        "known": manifest is not None,
        "activation": records[-1] if records and live else None,
        "by_hand": sorted(hands.found, key=lambda one: (one["path"], one["at"])),
        "more": hands.more,
        "in_project": in_project,
        "same": wanted is None or not (in_project or _other_id(live, params["manifest"]["files"])),
        "texts": texts,
        "found": hands.texts() if params["want_diff"] else {},
        "waits_for": predicted_wait(store),
    }


def _without_path(row: Entry) -> Entry:
    return {key: value for key, value in row.items() if key != "path"}


def _other_id(live: str | None, rows: list[Entry]) -> bool:
    """Whether a release made of a project would be another one; what was adopted has no id of its content."""
    return live is None or (len(live) == 64 and release_id(rows) != live)


def _as_it_is(store: Store, live: str | None) -> Files:
    """The files of a release whose manifest is lost, as they are."""
    tree = store.open_tree(live)
    if tree < 0:
        return {}
    try:
        found = {path[2:]: describe(tree, path, info) for path, info in walk(tree, ".")[1:]}
    finally:
        os.close(tree)
    return {path: entry for path, entry in found.items() if entry and path.partition("/")[0] != HOME}


def differences(before: Files, after: Files) -> list[dict[str, Any]]:
    """What makes the files ``after`` of those ``before``: [{path, action, before, after}], by path.

    A folder is told only where nothing in it is.
    """
    found = []
    for path in sorted({*before, *after}):
        old, new = before.get(path), after.get(path)
        if old and new and _same(old, new):
            continue
        action = "changed" if old and new else "added" if new else "removed"
        found.append({"path": path, "action": action, "before": old and public(old), "after": new and public(new)})
    return _without_full_folders(found)


def _without_full_folders(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    above = {one["path"][:at] for one in found for at, char in enumerate(one["path"]) if char == "/"}
    return [one for one in found if one["path"] not in above or not _is_folder(one["before"], one["after"])]


def _is_folder(*entries: Entry | None) -> bool:
    return all(entry is None or entry["type"] == "dir" for entry in entries)


def _same(old: Entry, new: Entry) -> bool:
    keys = {"file": ("type", "mode", "sha256"), "link": ("type", "target"), "dir": ("type", "mode")}
    return all(old.get(key) == new.get(key) for key in keys.get(new["type"], ("type",)))


class _Hands:
    """What was done by hand to a live release and to its names in the root."""

    def __init__(self, channel: Channel, store: Store, released: Files) -> None:
        self._channel = channel
        self._store = store
        self._released = released
        self._places: dict[str, tuple[int, str]] = {}
        self.found: list[dict[str, Any]] = []
        self.more = False

    def look(self, live: str) -> None:
        """Compare the release's folder, then each of its names in the root."""
        store = self._store
        drop = len(live) + 1
        there = [
            (path[drop:], info)
            for path, info in (walk(store.releases_fd, live)[1:] if store.has_tree(live) else [])
            if not is_mark(store, path, info, path[drop:])
        ]
        # An eject that did not end left a folder of ours there, and marks.
        there = [(path, info) for path, info in there if path.partition("/")[0] != HOME]
        self._compare(self._released, there, f"{live}/", store.releases_fd, store.path("releases", live))
        links = our_links(store)
        for name in sorted(tops(self._released) - links):
            self._name(name)
        self.found += [
            self._row(name, os.path.join(store.root, name), None, {"type": "link", "target": store.link(name)})
            for name in sorted(links - tops(self._released))
        ]

    def texts(self) -> dict[str, str | None]:
        """The text of each file that was changed or added, by its place."""
        budget, found = ALL_TEXT_BYTES, dict[str, "str | None"]()
        for one in self.found:
            if one["after"] and one["after"]["type"] == "file":
                found[one["at"]] = read_text(*self._places[one["at"]], budget)
                budget -= len(found[one["at"]] or "")
        return found

    def _name(self, name: str) -> None:
        """A name of the release in the root that is no longer our link."""
        store = self._store
        at = os.path.join(store.root, name)
        info = lstat(store.root_fd, name)
        link = {"type": "link", "target": store.link(name)}
        if info is None:
            self.found.append(self._row(name, at, link, None))
        elif stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode):
            below = {
                path: entry for path, entry in self._released.items() if path == name or path.startswith(name + "/")
            }
            there = walk(store.root_fd, name, _MOST)
            self.more |= len(there) > _MOST
            self._compare(below, there, "", store.root_fd, store.root)
        else:
            instead = {"type": "other"}
            if stat.S_ISLNK(info.st_mode):
                instead = {"type": "link", "target": link_target(store, name)}
            self.found.append(self._row(name, at, link, instead))

    def _compare(
        self, listed: Files, there: list[tuple[str, os.stat_result]], prefix: str, folder: int, place: str
    ) -> None:
        found, seen = [], {path for path, _info in there}
        for done, (path, info) in enumerate(there):
            entry = listed.get(path)
            after = _entry(folder, prefix + path, info, entry)
            at = os.path.join(place, path)
            self._places[at] = (folder, prefix + path)
            if entry is None and (is_bytecode(f"/{path}") or stat.S_ISDIR(info.st_mode)):
                continue
            if entry is None or not _same(_told(path, entry), after):
                found.append(self._row(path, at, entry and _told(path, entry), after))
            self._channel.progress(done, len(there), "files compared")
        found += [
            self._row(path, os.path.join(place, path), _told(path, entry), None)
            for path, entry in listed.items()
            if path not in seen and not self.more
        ]
        self.found += _without_full_folders(found)

    @staticmethod
    def _row(path: str, at: str, before: Entry | None, after: Entry | None) -> dict[str, Any]:
        action = "changed" if before and after else "added" if after else "removed"
        told = {"before": before and public(before), "after": after and public(after)}
        return {"path": path, "at": at, "action": action, **told}


def _told(path: str, entry: Entry) -> Entry:
    """An entry as it is found in a folder: there a shared name is a link."""
    return {"type": "link", "target": shared_target(path)} if entry["type"] == "shared" else entry


def _entry(folder: int, path: str, info: os.stat_result, listed: Entry | None) -> Entry:
    """What is at ``path``; its content is read only where it may be the listed one."""
    mode = stat.S_IMODE(info.st_mode)
    if stat.S_ISDIR(info.st_mode):
        return {"type": "dir", "mode": mode}
    if stat.S_ISLNK(info.st_mode):
        return {"type": "link", "target": os.readlink(path, dir_fd=folder)}
    if not stat.S_ISREG(info.st_mode):
        return {"type": "other"}
    size, sha256 = info.st_size, None
    if listed and listed.get("size") == size:
        size, sha256 = digest_at(folder, path) or (size, None)
    return {"type": "file", "mode": mode, "size": size, "sha256": sha256}


def _texts(store: Store, released: Files, found: list[dict[str, Any]]) -> dict[str, str]:
    """The texts that were released of what changed or went, wherever they still are here, by their sha256."""
    import hashlib

    wanted = {one["before"]["sha256"] for one in found if one["before"] and one["before"].get("sha256")}
    texts: dict[str, str] = {}
    budget = ALL_TEXT_BYTES
    for release, files in _all_files(store, released):
        for path, entry in files.items() if wanted - texts.keys() else ():
            if entry.get("sha256") not in wanted or entry["sha256"] in texts:
                continue
            text = read_text(store.releases_fd, f"{release}/{path}", budget)
            if text is not None and hashlib.sha256(text.encode()).hexdigest() == entry["sha256"]:
                texts[entry["sha256"]] = text
                budget -= len(text)
    return texts


def _all_files(store: Store, released: Files) -> Any:
    """The files of all releases, the live one's first; a manifest is read when it is needed."""
    live = live_id(store)
    if live:
        yield live, released
    for release in releases(store) if store.exists() else []:
        if release != live:
            yield release, (manifest_of(store, release) or {"files": {}})["files"]
