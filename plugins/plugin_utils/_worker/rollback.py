# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operation `rollback`: make an earlier release live again, after it was proved to be what it was."""

from __future__ import annotations

import os

from .adopt import new_name
from .channel import WorkerError
from .history import settle, settled
from .lock import Locked
from .look import Verdict, look, verify
from .names import mend_links, predicted_wait, refuse_mounts
from .report import Switched, read_text, result, texts
from .scratch import Scratch, clean, require_kept, standing, write_manifest
from .store import (
    ADOPTED,
    EDITED,
    Store,
    guarded,
    live_id,
    manifest_of,
    only_project,
    open_store,
    require_writable,
    short_id,
)
from .strays import predicted_kept, strays
from .switch import Target, go_live, require_intact

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .channel import Channel

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def run(channel: Channel, params: dict[str, Any]) -> dict[str, Any]:
    """Go back to an earlier release.

    params: root; name, or null for the only project there; to: null for what was live before, an activation's number,
    or an id or its beginning; who, check_mode, want_diff, adopt_folders, patience as for `release`.

    Result: as `release`, with `files` {path: entry} of what is live then, and with a diff `after` {path: text or null}.
    """
    return guarded(lambda: _run(channel, params), params["root"])


def _run(channel: Channel, params: dict[str, Any]) -> dict[str, Any]:
    params = dict(params, name=params["name"] or only_project(params["root"], "roll back"))
    with open_store(params["root"], params["name"], create=False) as store:
        refuse_mounts(store)
        require_writable(store)
        require_kept(store)
        _require_live(store)
        if params["check_mode"]:
            waits_for = predicted_wait(store)
            done = _to(store, params)
            return {**done, "waits_for": waits_for, "foreign": [*predicted_kept(store)[0], *done["foreign"]]}
    with Locked(params["root"], params["name"], params["who"], params["patience"], False, channel.waits) as store:
        _require_live(store)
        kept = clean(store)
        settle(store)
        done = _to(store, params)
        return {**done, "foreign": [*kept, *done["foreign"]]}


def _require_live(store: Store) -> None:
    if not live_id(store):
        fix = "deploy first, or correct training_root and training_name"
        raise WorkerError("nothing-live", f"no release of {store.name} is live below {store.root}: {fix}")
    if not store.exists():
        raise WorkerError("unknown-release", f"{store.path('releases')} is gone, with every release: deploy again")


def _to(store: Store, params: dict[str, Any]) -> dict[str, Any]:
    records, number = settled(store)
    there = standing(store)
    release = choose(params["to"], records, there, live_id(store) or "", store.root)
    manifest = manifest_of(store, release)
    if manifest is None or release not in there:
        gone = f"release {short_id(release)} is no longer in {store.path('releases')}"
        raise WorkerError("unknown-release", f"{gone}; the last activations: {_history(records, there)}")
    files = _as_found(store, release, manifest, params["check_mode"])
    seen = look(store, files, repair=not params["check_mode"], adopt_folders=params["adopt_folders"])
    if release == seen.live and files is not manifest["files"]:
        seen.verdict = Verdict(files)  # in check mode the manifest does not say so yet
    before = texts(store, seen, files) if params["want_diff"] else None
    source = _source(records, release)
    switched = Switched()
    if release == seen.live and seen.untouched():
        switched.activation = records[-1]["activation"]
        if not (params["check_mode"] or seen.names.settled()):
            mend_links(store, files, params["who"])
    else:
        if not release.startswith((ADOPTED, EDITED)):
            require_intact(store, release, content=True)
        switched.activation = number + seen.to_keep()
        switched.adopted = new_name(store, seen) if seen.to_keep() else None
        switched.strays = strays(store, seen, release)
        if not params["check_mode"]:
            with Scratch(store) as scratch:
                who = dict(source, who=params["who"], kind="rollback")
                switched = go_live(scratch, Target(release, files), who, params["adopt_folders"])
            switched.foreign += scratch.kept
            switched.troubles += filter(None, [scratch.trouble])
    done = result(params, release, files, seen, switched, before)
    done["source"] = source
    done["files"] = {path: {key: entry[key] for key in entry if key != "signature"} for path, entry in files.items()}
    done["after"] = _after(store, release, done["actions"]) if params["want_diff"] else None
    return done


def _as_found(store: Store, release: str, manifest: dict[str, Any], check_mode: bool) -> dict[str, dict[str, Any]]:
    """The files of a release. One that keeps what others made is what is in it now: they may go on writing there.

    Raises WorkerError("drifted") when nothing of it is left.
    """
    files: dict[str, dict[str, Any]] = manifest["files"]
    if not release.startswith((ADOPTED, EDITED)):
        return files
    verdict = verify(store, release, content=True)
    if not verdict.drift:
        return files
    found = {path: entry for path, entry in {**verdict.files, **verdict.drift}.items() if entry}
    if not found:
        require_intact(store, release)
    if not check_mode:
        with Scratch(store) as scratch:
            write_manifest(scratch, release, dict(manifest, files=found))
    return found


def _source(records: list[dict[str, Any]], release: str) -> dict[str, Any]:
    """The commit that a release was made from, as its last activation has it."""
    nothing: dict[str, Any] = {}
    last = next((record for record in reversed(records) if record["release"] == release), nothing)
    return {"commit": last.get("commit"), "dirty": last.get("dirty")}


def choose(to: str | None, records: list[dict[str, Any]], ids: list[str], live: str, root: str) -> str:
    """The release that ``to`` means: None for the last one live before ``live``, an activation's number, or an id.

    Raises WorkerError naming what there is.
    """
    history = _history(records, ids)
    if to is None:
        for record in reversed(records[:-1]):
            if record["release"] != live:
                return str(record["release"])
        raise WorkerError("no-earlier", f"nothing was live below {root} before {short_id(live)}: deploy what you want")
    for record in records:
        if str(record["activation"]) == to:
            return str(record["release"])
    matches = [release for release in ids if release == to] or [release for release in ids if release.startswith(to)]
    if len(matches) == 1 and (len(to) >= 4 or matches[0] == to):
        return matches[0]
    if to == ADOPTED:
        raise WorkerError(
            "unknown-release",
            f"nothing was there before the first deploy below {root}; the last activations: {history}",
        )
    what = f"means {len(matches)} releases" if len(matches) > 1 else "is no activation and no release"
    raise WorkerError("unknown-release", f"{to} {what} below {root}; the last activations: {history}")


def _history(records: list[dict[str, Any]], there: list[str]) -> str:
    """The last activations by number, for a sentence about what can be gone back to."""
    told = [
        f"{record['activation']} is {short_id(record['release'])}" + " (removed)" * (record["release"] not in there)
        for record in records[-8:]
    ]
    return "; ".join(told) or "none"


def _after(store: Store, release: str, actions: dict[str, str]) -> dict[str, str | None]:
    tree = os.open(release, _FOLDER, dir_fd=store.releases_fd)
    try:
        paths = [path for path, action in actions.items() if action in ("changed", "added")]
        return {path: read_text(tree, path, 1 << 22) for path in paths}
    finally:
        os.close(tree)
