# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operation `release`: stage what changed, prove it, make it live by one rename."""

from __future__ import annotations

import contextlib

from .channel import WorkerError
from .history import settle, settled
from .lock import Locked
from .look import Look, look, verify
from .names import mend_links, predicted_wait, refuse_mounts
from .notes import note
from .report import Switched, result, texts
from .scratch import clean, require_kept, stages
from .store import EDITED, Store, guarded, manifest_of, open_store, release_id, releases, require_writable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .channel import Channel


def run(channel: Channel, params: dict[str, Any]) -> dict[str, Any]:
    """Make the project's files live.

    params: root, name; manifest: {files: [{path, type, mode, size, sha256, target}]}; keep: how many releases stay;
    who: the controller's user; source: {commit, dirty}; checked: {python, facts} of a check, or null; check_mode;
    want_diff; adopt_folders: whether files that the project does not bring may go out of view with the folder that
    holds them; patience: seconds to wait while another deploy runs.

    Conversation: `need` {base, files: [paths]}, answered by a `file` {path} frame with its bytes for each, in that
    order, and `end` {}. There is no `need` when everything is here already.

    Result: see :func:`.report.result`.
    """
    return guarded(lambda: _run(channel, params), params["root"])


def _run(channel: Channel, params: dict[str, Any]) -> dict[str, Any]:
    with open_store(params["root"], params["name"], create=False) as store:
        refuse_mounts(store)
        require_writable(store)  # so that check mode meets what a run meets
        require_kept(store)
        if params["check_mode"]:
            return _predict(store, params)
    return _deploy(channel, params)


class Plan:
    """What is there, what is wanted, and whether the wanted release is live or in place already."""

    def __init__(self, store: Store, params: dict[str, Any], repair: bool) -> None:
        files = params["manifest"]["files"]
        self.wanted = {entry["path"]: {key: entry[key] for key in entry if key != "path"} for entry in files}
        self.release = release_id(files)
        self.seen: Look = look(store, self.wanted, repair, params["adopt_folders"])
        self.live = self.release == self.seen.live and self.seen.untouched()
        self.in_place = self.live or _is_intact(store, self.release)
        self.before = texts(store, self.seen, self.wanted) if params["want_diff"] else None
        self.keeper = _keeper(store, self.seen) if not self.live else None

    def to_send(self) -> list[str]:
        """The first path of each content that is not known to be here."""
        known, paths = set(self.seen.sources()), []
        for path, entry in self.wanted.items():
            if entry["type"] == "file" and entry["sha256"] not in known:
                known.add(entry["sha256"])
                paths.append(path)
        return paths

    def needs(self) -> tuple[int, int]:
        """Bytes and files that are written."""
        entries = [] if self.in_place else list(self.wanted.values())
        if self.seen.to_keep():
            entries += self.seen.visible().values()
        return sum(entry.get("size", 0) for entry in entries), len(entries)


def _is_intact(store: Store, release: str) -> bool:
    return manifest_of(store, release) is not None and not verify(store, release).drift


def _predict(store: Store, params: dict[str, Any]) -> dict[str, Any]:
    """What a release would do; nothing is written and no lock is taken."""
    switched = Switched()
    switched.waits_for = predicted_wait(store)
    plan = Plan(store, params, repair=False)
    switched.activation = _live_activation(store)
    if not plan.live:
        switched.activation = settled(store)[1] + plan.seen.to_keep()
        switched.adopted = plan.keeper
        switched.received = 0 if plan.in_place else sum(plan.wanted[path]["size"] for path in plan.to_send())
        _predict_rest(store, params, plan, switched)
    elif _may_be_surplus(store, params["keep"]):
        from .prune import to_prune
        from .strays import predicted_foreign

        switched.pruned = to_prune(store, plan.release, None, params["keep"])
        switched.foreign = predicted_foreign(store, plan.seen, None, switched.pruned, _leaving(store, params))
    else:
        from .strays import predicted_kept

        switched.foreign = predicted_kept(store, _leaving(store, params))[0]
    return result(params, plan.release, plan.wanted, plan.seen, switched, plan.before)


def _predict_rest(store: Store, params: dict[str, Any], plan: Plan, switched: Switched) -> None:
    """What will be pruned, what is found then, and what goes out of view."""
    from .prune import to_prune, to_prune_first
    from .space import shortage
    from .strays import predicted_foreign, strays

    switched.pruned = to_prune(store, plan.release, plan.keeper, params["keep"])
    if shortage(store, *plan.needs()):
        error = shortage(store, *plan.needs(), tuple(to_prune_first(store, switched.pruned)))
        if error:
            raise error
    replaced = plan.release if not plan.in_place and store.has_tree(plan.release) else None
    switched.foreign = predicted_foreign(
        store, plan.seen, replaced, switched.pruned, _leaving(store, params), plan.wanted
    )
    if plan.seen.live not in switched.pruned:
        switched.strays = strays(store, plan.seen, plan.release)


def _leaving(store: Store, params: dict[str, Any]) -> list[str]:
    """What this run may remove, whatever it comes to keep: nothing that another run left is handed over to it."""
    if not stages(store):
        return []
    from .prune import to_prune

    return to_prune(store, release_id(params["manifest"]["files"]), f"{EDITED}-0", params["keep"])


def _keeper(store: Store, seen: Look) -> str | None:
    """The release that keeps, or will keep, what is visible and no other release has."""
    if not seen.to_keep():
        return seen.live if seen.names.plain else None
    from .adopt import new_name

    return new_name(store, seen)


def _live_activation(store: Store) -> int:
    records, _next = settled(store)
    return int(records[-1]["activation"]) if records else 0


def _deploy(channel: Channel, params: dict[str, Any]) -> dict[str, Any]:
    with Locked(params["root"], params["name"], params["who"], params["patience"], True, channel.waits) as store:
        try:
            return _deploy_into(store, channel, params)
        except (OSError, WorkerError):
            from .leave import unmake  # only where something went wrong

            with contextlib.suppress(OSError):
                unmake(store, params["who"])
            raise


def _deploy_into(store: Store, channel: Channel, params: dict[str, Any]) -> dict[str, Any]:
    kept = clean(store, _leaving(store, params))
    settle(store)
    plan = Plan(store, params, repair=True)
    if plan.live:
        switched = _refresh(store, params, plan)
    else:
        from .build import replace  # only what is needed is compiled: most deploys change nothing
        from .prune import to_prune, to_prune_first
        from .space import make_room

        going = to_prune(store, plan.release, plan.keeper, params["keep"])
        pruned, foreign = make_room(store, *plan.needs(), to_prune_first(store, going))
        switched = replace(channel, store, params, plan, going)
        switched.pruned = sorted([*pruned, *switched.pruned])
        switched.foreign[:0] = foreign
    switched.foreign[:0] = kept
    return result(params, plan.release, plan.wanted, plan.seen, switched, plan.before)


def _may_be_surplus(store: Store, keep: int) -> bool:
    """Whether there are more releases than are kept: a deploy may have ended between its switch and their removal."""
    return store.exists() and len(releases(store)) > keep


def _refresh(store: Store, params: dict[str, Any], plan: Plan) -> Switched:
    """The release is live: links in the root and what is noted about it may still be put right, and surplus goes."""
    switched = Switched()
    switched.activation = _live_activation(store)
    if not plan.seen.names.settled():
        mend_links(store, plan.wanted, params["who"])
    note(store, params, plan, plan.seen.verdict.files if plan.seen.verdict.refreshed else None)
    if _may_be_surplus(store, params["keep"]):
        from .prune import prune
        from .scratch import Scratch

        with switched.putting_away(store):
            with Scratch(store) as scratch:
                switched.pruned, switched.foreign = prune(scratch, plan.release, params["keep"])
            switched.foreign += scratch.kept
            switched.troubles += filter(None, [scratch.trouble])
    return switched
