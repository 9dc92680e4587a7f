# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operation `eject`: what is live becomes plain files, and nothing of ours is left below the root.

The records and logs of runs are the user's, who may need them long after: they stay where they are, and are told.
"""

from __future__ import annotations

import os
import stat

from .caches import size_of
from .channel import WorkerError
from .leave import (
    has_ours,
    kept_runs,
    listed,
    others_files,
    predicted,
    remove_folders,
    remove_home,
    remove_releases,
    sizes,
    trees,
)
from .lock import Locked
from .look import Verdict, verify
from .mounts import is_held, mount_points
from .names import link_target, our_links, owner_of, predicted_wait, root_lock
from .plain import drop_links, finish_links, is_bridge, is_in_both, lay_way_back, make_plain
from .running import running
from .runs import busy
from .scratch import clean, is_mark, unused_copies
from .store import (
    HOME,
    Store,
    check_name,
    explain,
    guarded,
    live_id,
    lstat,
    open_folder,
    open_root,
    open_store,
    require_writable,
    some,
    tops,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .channel import Channel

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_KINDS = {stat.S_IFDIR: "folder", stat.S_IFLNK: "link", stat.S_IFREG: "file"}


def run(channel: Channel, params: dict[str, Any]) -> dict[str, Any]:
    """Turn the links of a project into plain files, then remove everything that was kept for it.

    params: root; name, or null for the only project there; who, check_mode, patience as for `release`.

    Result: name, root; others: the other projects there; release_id: what was live, or null; changed; names: [{path,
    type: file | folder | link | other}] that became plain; files: {path: entry} that were verified in them; altered:
    paths that somebody had changed in the live release, they stay as they are; known: whether there was a manifest to
    tell; lost: names of links of ours that led nowhere and are removed; left: [{path, why}] in the root that is not
    ours; removed: [{release_id, files, bytes}]; stays: paths below
    .trainops/NAME that no manifest lists; running: [{pid, command}] of programs that were started from a release;
    runs: {count, path} of the records that stay, or null; cache_bytes: of the caches that go, or null where they are
    many; waits_for: in check mode, who holds the lock now, or null.

    Raises WorkerError("run-alive") while a process of a run of ours is left.
    """
    return guarded(lambda: _run(channel, params), params["root"])


def _run(channel: Channel, params: dict[str, Any]) -> dict[str, Any]:
    name = params["name"] or _only_project(params["root"])
    if name is None:
        return _result(params, None, None)
    params = dict(params, name=name)
    with open_store(params["root"], name, create=False) as store:
        require_writable(store)
        lost = _lost(store)
        if lost and params["check_mode"]:
            return {**_result(params, store, None), "changed": True, "lost": lost}
        if store.home_fd >= 0 and (params["check_mode"] or not lstat(store.home_fd, "lock")):
            waits_for = predicted_wait(store)
            plan = Plan(store)
            if params["check_mode"] or not plan.changes():  # no lock is made where there is nothing to do
                if not params["check_mode"]:
                    _tidy(store, False)
                plan.stays = predicted(store, listed(store), plan.live, plan.names)
                return {**_result(params, store, plan), "waits_for": waits_for}
    with Locked(params["root"], name, params["who"], params["patience"], bool(lost), channel.waits) as store:
        if store.home_fd < 0:
            return {**_result(params, store, None), "changed": _tidy(store, params["check_mode"])}
        return _eject(store, params)


def _lost(store: Store) -> list[str]:
    """The links of ours in the root of a project that has nothing else any more: all lead nowhere.

    Raises WorkerError("mount-point") where it is only hidden, since then they are needed.
    """
    lost = sorted(our_links(store)) if store.home_fd < 0 else []
    home = os.path.join(os.path.realpath(f"/proc/self/fd/{store.root_fd}"), HOME)
    hidden = [mount for mount in mount_points() if mount == home or mount.startswith(home + "/")] if lost else []
    if hidden:
        what = f"{hidden[0]} is a mount point and hides what was deployed for {store.name}"
        raise WorkerError("mount-point", f"{what}: unmount it, run again")
    return lost


def _eject(store: Store, params: dict[str, Any]) -> dict[str, Any]:
    try:
        return _carry_out(store, params)
    except OSError as error:
        known = explain(error, store.root)
        end = "until then all paths keep working; running eject again, or a deploy, finishes what was begun"
        raise WorkerError(known.code, f"{known.message}; {end}", **known.details) from error


def _carry_out(store: Store, params: dict[str, Any]) -> dict[str, Any]:
    if store.exists():
        clean(store)
    with root_lock(store, params["who"]):
        plan = Plan(store)
        if plan.live and (plan.names or plan.moved):
            lay_way_back(store, plan.live)
        if plan.names:
            others = make_plain(store, plan.live or "", plan.verdict.files, plan.names, plan.missing)
            plan.take_back(store, others)
        finish_links(store, plan.live or "", plan.verdict.files, plan.moved)
        if plan.stale:
            drop_links(store, plan.stale)
    if plan.live:
        os.unlink("current", dir_fd=store.home_fd)
        os.fsync(store.home_fd)
    if store.exists():
        remove_releases(store, listed(store))
    plan.stays = sorted(others_files(store))
    remove_folders(store, params["who"])
    return _result(params, store, plan)


class Plan:
    """What an eject does with what is there now.

    live: the release that becomes plain files; names: those in the root that it does so for, ``missing`` ones among
    them, which have lost their link; moved: those that a run moved which then ended; stale: links of ours that lead
    nowhere; left: what stays in the root since it is not ours; removed: the releases that go; ours: whether there is
    anything else of ours; running: the programs that were started from a release; runs: what is kept of runs; stays:
    the paths below .trainops/NAME that are not ours.
    """

    def __init__(self, store: Store) -> None:
        _refuse_mounts(store)
        _refuse_runs(store)
        self.runs = kept_runs(store)
        self.cache_bytes = size_of(store)
        self.live = live_id(store)
        self.verdict = _verified(store, self.live)
        in_tree, self.moved = _in_tree(store, self.live)
        links, wanted = our_links(store), tops(self.verdict.files)
        self.missing = sorted(name for name in (wanted & in_tree) - links if lstat(store.root_fd, name) is None)
        self.names = sorted((links & in_tree) | set(self.missing))
        _refuse_held(store, self.live, self.names)
        self.kinds = {name: _kind(lstat(store.releases_fd, f"{self.live}/{name}")) for name in self.names}
        self.stale = sorted(links - in_tree)
        self.left = [_not_ours(store, name) for name in sorted((wanted & in_tree) - set(self.names))]
        self.left += _into_home(store, links)
        unused = unused_copies(store) if store.exists() else set[str]()  # a run that did not end made them
        self.removed = [sizes(store, one) for one in trees(store) if one != self.live and one not in unused]
        self.ours = has_ours(store)
        self.running = running(store)
        self.stays: list[str] = []

    def take_back(self, store: Store, others: list[str]) -> None:
        """Note that in place of these names somebody put something else while we looked."""
        self.names = [name for name in self.names if name not in others]
        self.left += [_not_ours(store, name) for name in others]

    def files(self) -> dict[str, dict[str, Any]]:
        """What was verified of the names that become plain, as it is; see :meth:`.look.Look.visible`."""
        found = {**self.verdict.files, **{path: entry or {} for path, entry in self.verdict.drift.items()}}
        return {path: entry for path, entry in found.items() if entry and path.partition("/")[0] in self.names}

    def altered(self) -> list[str]:
        """What somebody changed in the live release, or removed from it."""
        seen = {*self.names, *self.stale}
        return sorted(path for path in self.verdict.drift if path.partition("/")[0] in seen)

    def changes(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.live or self.names or self.stale or self.removed or self.ours)


def _verified(store: Store, live: str | None) -> Verdict:
    verdict = verify(store, live, content=True) if live else Verdict({})
    for path, instead in list(verdict.drift.items()):
        if instead and is_bridge(store, path, verdict.files.get(path, {}), instead.get("target", "")):
            del verdict.drift[path]
    return verdict


def _in_tree(store: Store, live: str | None) -> tuple[set[str], list[str]]:
    """The names in the live release, and those that an eject which did not end moved: there is only a mark there."""
    tree = store.open_tree(live)
    if tree < 0:
        return set(), []
    try:
        names = set(os.listdir(tree)) - {HOME}
    finally:
        os.close(tree)
    infos = {name: lstat(store.releases_fd, f"{live}/{name}") for name in names}
    moved = [name for name, info in infos.items() if info and is_mark(store, f"{live}/{name}", info, name)]
    moved += [name for name in names if live and is_in_both(store, live, name)]
    return names - set(moved), moved


def _kind(info: os.stat_result | None) -> str:
    return _KINDS.get(stat.S_IFMT(info.st_mode), "other") if info else "other"


def _not_ours(store: Store, name: str) -> dict[str, str]:
    """Why a name of the project stays in the root as it is."""
    target = link_target(store, name)
    owner = owner_of(target)
    if owner and owner != store.name:
        why = f"a link of project {owner}"
    elif target:
        why = f"a link of something else, to {target}"
    else:
        why = f"not the project's link but a {_kind(lstat(store.root_fd, name))}"
    return {"path": os.path.join(store.root, name), "why": why}


def _into_home(store: Store, ours: set[str]) -> list[dict[str, str]]:
    """Links that somebody made in the root to what goes: they lead nowhere afterwards."""
    inside = (f"{HOME}/{store.name}/", f"./{HOME}/{store.name}/", store.path(""))
    found = {name: link_target(store, name) for name in sorted(set(os.listdir(store.root_fd)) - ours)}
    return [
        {"path": os.path.join(store.root, name), "why": f"a link of somebody into what is removed, to {target}"}
        for name, target in found.items()
        if target.startswith(inside)
    ]


def _refuse_mounts(store: Store) -> None:
    home = os.path.realpath(f"/proc/self/fd/{store.home_fd}")
    mounted = sorted(mount for mount in mount_points() if mount.startswith(home + "/"))
    if mounted:
        raise WorkerError("mount-point", f"{mounted[0]} is a mount point, and it cannot move: unmount it, run again")


def _refuse_held(store: Store, live: str | None, names: list[str]) -> None:
    held = [name for name in names if is_held(store.releases_fd, f"{live}/{name}", closely=True)]
    if held:
        paths = some([store.path("releases", live or "", name) for name in held])
        raise WorkerError("denied", f"an attribute (lsattr shows it) holds {paths}: chattr -ia there, then eject")


def _refuse_runs(store: Store) -> None:
    alive = busy(store)
    if alive:
        names = ", ".join(one.id if one.alive else f"{one.id} (it ended and left processes behind)" for one in alive)
        which = alive[0].id if len(alive) == 1 else "all"
        fix = f"stop {'it' if len(alive) == 1 else 'them'} first (trainops stop {which}), then eject"
        raise WorkerError("run-alive", f"a release of {store.name} is in use by run {names}: {fix}")


def _only_project(root: str) -> str | None:
    """The only project below ``root``, None when there is none. Raises WorkerError when there are several."""
    names = _projects(root) or _linked(root)
    if len(names) > 1:
        raise WorkerError(
            "name", f"say which project below {root} to eject, by option name (there: {', '.join(names)})"
        )
    return names[0] if names else None


def _projects(root: str) -> list[str]:
    """The projects that have a folder below ``root``, also those of which an eject left only that."""
    root_fd = open_root(root)
    try:
        home = open_folder(root_fd, HOME, os.path.join(root, HOME))
        if home is None:
            return []
        try:
            found = [name for name in os.listdir(home) if _is_project(home, name)]
        finally:
            os.close(home)
    finally:
        os.close(root_fd)
    return sorted(found)


def _linked(root: str) -> list[str]:
    """The projects of which there are only links left in the root."""
    root_fd = open_root(root)
    try:
        with os.scandir(root_fd) as entries:
            links = [(one.name, os.readlink(one.name, dir_fd=root_fd)) for one in entries if one.is_symlink()]
    finally:
        os.close(root_fd)
    found = {owner_of(text) for name, text in links if text == f"{HOME}/{owner_of(text)}/current/{name}"}
    return sorted(found - {""})


def _is_project(home: int, name: str) -> bool:
    info = lstat(home, name)
    try:
        check_name(name)
    except WorkerError:
        return False
    return info is not None and stat.S_ISDIR(info.st_mode)


def _tidy(store: Store, check_mode: bool) -> bool:
    """Remove ROOT/.trainops when a run ended just before it did; whether that is so."""
    home = open_folder(store.root_fd, HOME, os.path.join(store.root, HOME))
    if home is None:
        return False
    try:
        if check_mode:
            return not set(os.listdir(home)) - {".lock"}
        return remove_home(store.root_fd, home)
    finally:
        os.close(home)


def _result(params: dict[str, Any], store: Store | None, plan: Plan | None) -> dict[str, Any]:
    found = {
        "name": params["name"],
        "root": params["root"],
        "others": [name for name in _projects(params["root"]) if name != params["name"]],
        "waits_for": None,
    }
    if plan is None:
        empty: dict[str, Any] = {
            "names": [],
            "altered": [],
            "lost": [],
            "left": [],
            "removed": [],
            "stays": [],
            "files": {},
            "running": [],
            "runs": None,
            "cache_bytes": 0,
        }
        return {**found, **empty, "changed": False, "release_id": None, "known": True}
    return {
        **found,
        "changed": plan.changes(),
        "release_id": plan.live,
        "names": [{"path": name, "type": plan.kinds[name]} for name in plan.names],
        "files": {path: _public(entry) for path, entry in plan.files().items()},
        "altered": plan.altered(),
        "lost": plan.stale,
        "known": plan.verdict.known,
        "left": plan.left,
        "removed": plan.removed,
        "stays": plan.stays,
        "running": plan.running,
        "runs": plan.runs,
        "cache_bytes": plan.cache_bytes,
    }


def _public(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: entry[key] for key in ("type", "mode", "size", "sha256", "target") if key in entry}
