# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The top-level names in the root: which are links of ours, which are plain files to adopt, which belong to others."""

from __future__ import annotations

import os
import stat

from .channel import WorkerError
from .lock import Lock, held_by
from .mounts import is_held, mount_points
from .store import HOME, Store, live_release, lstat, project_names, together, tops

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


_ROOT_LOCK_SECONDS = 60.0


class Names:
    """What the root holds for a set of top-level names."""

    def __init__(self) -> None:
        self.linked: set[str] = set()
        self.missing: list[str] = []
        self.plain: list[str] = []
        self.stale: list[str] = []

    def settled(self) -> bool:
        """Whether every name is its link and no other link of ours is there."""
        return not (self.missing or self.plain or self.stale)


def look_at_names(store: Store, wanted: set[str], shared: set[str]) -> Names:
    """Sort the names of a release. Raises WorkerError("conflict") naming every path that is not ours to take."""
    names = Names()
    links = our_links(store)
    names.stale = sorted(links - wanted)
    problems = [problem for name in sorted(shared) for problem in _why_not_shared(store, name, links)]
    for name in sorted(wanted):
        info = None if name in links else lstat(store.root_fd, name)
        if name in links:
            names.linked.add(name)
        elif info is None:
            names.missing.append(name)
        elif stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode):
            names.plain.append(name)
        else:
            problems.append(_refuse_kind(store, name, info))
    if names.plain:
        problems += _held(store, names.plain)
    if names.plain or names.missing:
        problems += _claimed(store, sorted([*names.plain, *names.missing]))
    if problems:
        raise WorkerError("conflict", together(problems))
    return names


def our_links(store: Store) -> set[str]:
    """The names in the root that are links of this project, those of what is live and others."""
    found = set()
    with os.scandir(store.root_fd) as entries:
        for entry in entries:
            if entry.is_symlink() and link_target(store, entry.name) == store.link(entry.name):
                found.add(entry.name)
    return found


def link_target(store: Store, name: str) -> str:
    """What the link ROOT/NAME says; empty when it is none."""
    try:
        return os.readlink(name, dir_fd=store.root_fd)
    except OSError:  # it went, or became something else, while we looked
        return ""


def owner_of(target: str) -> str:
    """The project whose link in the root says ``target``; empty when it is no project's."""
    return target.split("/")[1] if target.startswith(f"{HOME}/") and target.count("/") > 1 else ""


def _refuse_kind(store: Store, name: str, info: os.stat_result) -> str:
    path = os.path.join(store.root, name)
    if not stat.S_ISLNK(info.st_mode):
        return f"{path} is neither a file nor a folder: move it away, or leave {name} out with training_exclude"
    target = link_target(store, name)
    owner = owner_of(target)
    if owner and owner != store.name:
        return (
            f"{path} belongs to project {owner}, and this one is called {store.name}: if it is the same project, set "
            f"training_name: {owner}; if not, rename {name}, leave it out with training_exclude, or give one of the "
            "two another training_root"
        )
    return (
        f"{path} is a link of something else (to {target}): remove it, or leave {name} out with training_exclude; "
        "if it holds data, name it in training_shared"
    )


def _why_not_shared(store: Store, name: str, links: set[str]) -> list[str]:
    """Why a name cannot be shared: it leads into a release, and what is written there is out of view with the next."""
    path = os.path.join(store.root, name)
    if name in links:
        fix = f"deploy once with {name} in training_exclude instead, put its content where the link was, then share it"
        return [f"{path} was deployed as part of the project and is now named in training_shared: {fix}"]
    target = link_target(store, name)
    owner = owner_of(target)
    if target == f"{HOME}/{owner}/current/{name}":
        if owner not in project_names(store.root):
            return [f"{path} is a link of project {owner}, of which nothing is live in {store.root}: remove it"]
        what = (
            f"{path} belongs to project {owner}, and what this one writes there goes out of view with that one's next"
        )
        fix = f"give one of the two another training_root, or first deploy {owner} with {name} in training_exclude"
        return [f"{what} deploy: share another name, {fix}"]
    owner = _leads_into(store, target) if target else ""
    whose = "this project" if owner == store.name else f"project {owner}"
    into = f"{path} is a link (to {target}) into a release of {whose}, and what is written there goes out of view"
    return [f"{into} with its next deploy: put a folder in its place, or share another name"] if owner else []


def _leads_into(store: Store, target: str) -> str:
    """The project into whose releases a link in the root that says ``target`` leads; empty when into none.

    A link that leaves the root is not followed: what is there need not answer, as a share over the network.
    """
    root = _real_root(store)
    for base in (root, store.root):
        inside = os.path.relpath(os.path.join(root, target), base)
        if inside.partition("/")[0] != "..":
            return owner_of(os.path.relpath(os.path.realpath(os.path.join(root, inside)), root))
    return ""


def _real_root(store: Store) -> str:
    return os.path.realpath(f"/proc/self/fd/{store.root_fd}")


def _held(store: Store, plain: list[str]) -> list[str]:
    """Why plain names must not be adopted after all: something is mounted there, or an attribute holds them."""
    problems = []
    mounts = mount_points()
    real = _real_root(store)
    for name in plain:
        inside = os.path.join(real, name)
        mounted = sorted(mount for mount in mounts if mount == inside or mount.startswith(inside + "/"))
        if mounted:
            what = "is a mount point" if mounted[0] == inside else f"has a mount point in it ({mounted[0]})"
            problems.append(
                f"{os.path.join(store.root, name)} {what}: name it in training_shared to use it from every release, "
                "or leave it out with training_exclude"
            )
        elif is_held(store.root_fd, name, closely=True):
            path = os.path.join(store.root, name)
            problems.append(f"{path} is held by an attribute (lsattr shows it): {free_it(path, name)}")
    return problems


def _claimed(store: Store, names: list[str]) -> list[str]:
    """Which names that are no links yet must not become ones, since another project shares them."""
    problems = []
    for other in project_names(store.root):
        if other == store.name:
            continue
        manifest = (live_release(store.root, other) or ("", {"files": {}}))[1]
        problems += [
            f"{os.path.join(store.root, name)} is shared by project {other}: rename it, leave it out with "
            "training_exclude, or give one of the two another training_root"
            for name in names
            if manifest["files"].get(name, {}).get("type") == "shared"
        ]
    return problems


def refuse_mounts(store: Store) -> None:
    """Raise WorkerError("mount-point") when something is mounted over our folders, or on a file of a release."""
    home = os.path.join(_real_root(store), HOME)
    ours = os.path.join(home, store.name)
    mounted = sorted(one for one in mount_points() if one in (home, ours) or one.startswith(ours + "/"))
    if mounted:
        what = f"{mounted[0]} is a mount point, and releases move there by rename"
        raise WorkerError("mount-point", f"{what}: unmount it, then run again")


def free_it(path: str, name: str) -> str:
    """What to do about a file that an attribute holds, for a sentence."""
    return f"chattr -ia {path}, or leave {name} out with training_exclude"


def root_lock(store: Store, who: str) -> Lock:
    """The lock under which links in the root change, for all projects there."""
    return Lock(store.home_fd, "../.lock", os.path.join(store.root, HOME, ".lock"), who, _ROOT_LOCK_SECONDS)


def predicted_wait(store: Store) -> str | None:
    """Who holds the project's lock now, so that a run would wait for it; None when nobody does."""
    if store.home_fd < 0:
        return None
    held_by(store.home_fd, "../.lock", os.path.join(store.root, HOME, ".lock"))  # it is held for moments only
    return held_by(store.home_fd, "lock", store.path("lock"))


def add_links(store: Store, names: list[str]) -> None:
    """Make the links of names that are new in the root. Raises WorkerError when one appeared meanwhile."""
    for name in names:
        try:
            os.symlink(store.link(name), name, dir_fd=store.root_fd)
        except FileExistsError:
            path = os.path.join(store.root, name)
            raise WorkerError("conflict", f"{path} appeared during the deploy: look what it is, run again") from None


def remove_links(store: Store, names: list[str]) -> None:
    """Remove links of ours; a name that became something else meanwhile stays."""
    for name in names:
        if link_target(store, name) == store.link(name):
            os.unlink(name, dir_fd=store.root_fd)


def share(store: Store, files: dict[str, dict[str, Any]]) -> None:
    """Make the places of shared names that are not there yet, as empty folders in the root."""
    for name, entry in files.items():
        if entry["type"] == "shared" and lstat(store.root_fd, name) is None:
            os.mkdir(name, 0o755, dir_fd=store.root_fd)


def mend_links(store: Store, files: dict[str, dict[str, Any]], who: str) -> None:
    """Put the links in the root right for a release that is live already."""
    with root_lock(store, who):
        shared = {path for path, entry in files.items() if entry["type"] == "shared"}
        names = look_at_names(store, tops(files), shared)
        add_links(store, names.missing)
        share(store, files)
        remove_links(store, names.stale)
        os.fsync(store.root_fd)
