# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operation `release`: stage what changed, prove it, make it live by one rename."""

from __future__ import annotations

import os

from .channel import WorkerError
from .lock import Lock
from .look import Look, look, verify
from .prune import prune
from .report import result, texts
from .scratch import Scratch, clean
from .stage import Tree, check_space, copier, write_manifest, writer
from .store import Store, activations, guarded, manifest_of, next_activation, open_store, release_id
from .switch import Switched, Target, go_live, mend_links, new_manifest, settle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .channel import Channel

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def run(channel: Channel, params: dict[str, Any]) -> dict[str, Any]:
    """Make the project's files live.

    params: root, name; manifest: {files: [{path, type, mode, size, sha256, target}]}; keep: how many releases stay;
    who: the controller's user; source: {commit, dirty}; checked: {python, facts} of a check, or null; check_mode;
    want_diff; patience: seconds to wait while another deploy runs.

    Conversation: `need` {base, files: [paths]}, answered by a `file` {path} frame with its bytes for each, in that
    order, and `end` {}. There is no `need` when everything is here already.

    Result: see :func:`.report.result`.
    """
    return guarded(lambda: _predict(params) if params["check_mode"] else _deploy(channel, params), params["root"])


class _Plan:
    """What is there, what is wanted, and whether the wanted release is live or in place already."""

    def __init__(self, store: Store, params: dict[str, Any], repair: bool) -> None:
        files = params["manifest"]["files"]
        self.wanted = {entry["path"]: {key: entry[key] for key in entry if key != "path"} for entry in files}
        self.release = release_id(files)
        self.seen: Look = look(store, self.wanted, repair)
        self.live = self.release == self.seen.live and self.seen.untouched()
        self.in_place = self.live or _is_intact(store, self.release)
        self.before = texts(store, self.seen, self.wanted) if params["want_diff"] else None
        if not self.live:
            _check_space(store, self)

    def to_send(self) -> list[str]:
        """The first path of each content that is not known to be here."""
        known, paths = set(self.seen.sources()), []
        for path, entry in self.wanted.items():
            if entry["type"] == "file" and entry["sha256"] not in known:
                known.add(entry["sha256"])
                paths.append(path)
        return paths


def _is_intact(store: Store, release: str) -> bool:
    return manifest_of(store, release) is not None and not verify(store, release).drift


def _check_space(store: Store, plan: _Plan) -> None:
    entries = [] if plan.in_place else list(plan.wanted.values())
    if plan.seen.to_keep():
        entries += plan.seen.visible().values()
    check_space(store, sum(entry.get("size", 0) for entry in entries), len(entries))


def _predict(params: dict[str, Any]) -> dict[str, Any]:
    """What a release would do; nothing is written and no lock is taken."""
    with open_store(params["root"], params["name"], create=False) as store:
        plan = _Plan(store, params, repair=False)
        switched = Switched()
        switched.activation = _live_activation(store)
        if not plan.live:
            switched.activation = next_activation(store) + plan.seen.to_keep()
            switched.adopted = _keeping_name(store, plan.seen)
            switched.received = 0 if plan.in_place else sum(plan.wanted[path]["size"] for path in plan.to_send())
        return result(params, plan.release, plan.wanted, plan.seen, switched, plan.before)


def _keeping_name(store: Store, seen: Look) -> str | None:
    if not seen.to_keep():
        return None
    from .adopt import new_name

    return new_name(store, seen)


def _live_activation(store: Store) -> int:
    records = activations(store)
    return int(records[-1]["activation"]) if records else 0


def _deploy(channel: Channel, params: dict[str, Any]) -> dict[str, Any]:
    with (
        open_store(params["root"], params["name"], create=True) as store,
        Lock(store.home_fd, "lock", store.path("lock"), params["who"], params["patience"]),
    ):
        clean(store)
        settle(store)
        plan = _Plan(store, params, repair=True)
        switched = _refresh(store, params, plan) if plan.live else _replace(channel, store, params, plan)
        return result(params, plan.release, plan.wanted, plan.seen, switched, plan.before)


def _refresh(store: Store, params: dict[str, Any], plan: _Plan) -> Switched:
    """The release is live: links in the root and what is noted about it may still be put right."""
    switched = Switched()
    switched.activation = _live_activation(store)
    if not plan.seen.names.settled():
        mend_links(store, plan.wanted, params["who"])
    _note(store, params, plan, plan.seen.verdict.files if plan.seen.verdict.refreshed else None)
    return switched


def _replace(channel: Channel, store: Store, params: dict[str, Any], plan: _Plan) -> Switched:
    received = 0
    with Scratch(store) as scratch:
        target = Target(plan.release, plan.wanted)
        if plan.in_place:
            _note(store, params, plan, None)
        else:
            target.tree = Tree(scratch, "tree")
            received = _fill(channel, store, target.tree, plan)
            target.manifest = new_manifest(
                plan.release,
                target.tree.files,
                source=params["source"],
                checked=_checked(params, plan, manifest_of(store, plan.seen.live or "")),
            )
        switched = go_live(scratch, target, dict(params["source"], who=params["who"], kind="deploy"))
        switched.received = received
        switched.pruned, foreign = prune(scratch, plan.release, params["keep"])
        switched.foreign += foreign
    return switched


def _fill(channel: Channel, store: Store, tree: Tree, plan: _Plan) -> int:
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
    tree.settle()
    return received


def _copy_known(channel: Channel, store: Store, tree: Tree, plan: _Plan, files: dict[str, dict[str, Any]]) -> list[str]:
    """Copy the files whose content is here; what is no longer what it was when we looked is lacking, too."""
    sources, lacking = plan.seen.sources(), []
    live = os.open(plan.seen.live, _FOLDER, dir_fd=store.releases_fd) if plan.seen.live and sources else -1
    try:
        for done, (path, entry) in enumerate(files.items()):
            in_release, origin = sources.get(entry["sha256"], (False, ""))
            fill = copier(live if in_release else store.root_fd, origin)
            if not origin or not tree.add_file(path, entry, fill):
                lacking.append(path)
            channel.progress(done, len(files), "files copied from the live release")
    finally:
        if live >= 0:
            os.close(live)
    return lacking


def _receive(channel: Channel, tree: Tree, plan: _Plan, paths: list[str]) -> int:
    channel.send("need", {"base": plan.seen.live, "files": paths})
    received, total = 0, sum(plan.wanted[path]["size"] for path in paths)

    def count(size: int) -> None:
        nonlocal received
        received += size
        channel.progress(received, total, "bytes received")

    for path in paths:
        frame = channel.receive("file")
        if frame["path"] != path:
            raise WorkerError("protocol", f"expected {path}, got {frame['path']}")
        if not tree.add_file(path, plan.wanted[path], writer(channel.read_blob(), count)):
            raise _damaged(path)
    channel.receive("end")
    return received


def _damaged(path: str) -> WorkerError:
    return WorkerError(
        "damaged",
        f"{path} did not arrive as it was sent: what was read back has another size or sha256. Nothing went live; "
        "look at the container's disk, then deploy again",
    )


def _checked(params: dict[str, Any], plan: _Plan, *manifests: dict[str, Any] | None) -> dict[str, dict[str, Any]]:
    """What each interpreter has passed of the wanted files: known before, and new from the check of this deploy."""
    found: dict[str, dict[str, Any]] = {}
    contents = {entry.get("sha256") for entry in plan.wanted.values()}
    known = [(manifest or {}).get("checked") or {} for manifest in manifests]
    if params.get("checked"):
        known.append({params["checked"]["python"]: _unpack(params["checked"]["facts"])})
    for facts in known:
        for python, by_content in facts.items():
            ours = {sha256: fact for sha256, fact in by_content.items() if sha256 in contents}
            for sha256, fact in ours.items():
                found.setdefault(python, {}).setdefault(sha256, {}).update(fact)
    return found


def _unpack(facts: str) -> dict[str, Any]:
    if not facts:
        return {}
    import base64
    import json
    import zlib

    unpacked: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(facts)))
    return unpacked


def _note(store: Store, params: dict[str, Any], plan: _Plan, files: dict[str, dict[str, Any]] | None) -> None:
    """Write the manifest of a release in place again when there is something new to note: facts, signatures."""
    manifest = manifest_of(store, plan.release)
    if manifest is None:
        return
    live = manifest_of(store, plan.seen.live) if plan.seen.live not in (None, plan.release) else None
    noted = dict(manifest, files=files or manifest["files"], checked=_checked(params, plan, live, manifest))
    if noted != manifest:
        with Scratch(store) as scratch:
            write_manifest(scratch, plan.release, noted)
