# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What git knows of a project's folder, by one `git status`: commit, local changes, ignored files."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field

_ARGV = ("status", "--porcelain=v2", "--branch", "--untracked-files=normal", "--ignored=matching", "-z", "--", ".")
_SECONDS = 60


@dataclass(frozen=True)
class WorkTree:
    """A folder as git sees it; paths are relative to the folder.

    commit: the checked-out commit, None without one; changed: paths that differ from it; untracked: paths that it does
    not have; ignored: paths that .gitignore names; warning: why nothing of that is known although it is a work tree.
    """

    commit: str | None = None
    changed: frozenset[str] = field(default_factory=frozenset)
    untracked: frozenset[str] = field(default_factory=frozenset)
    ignored: frozenset[str] = field(default_factory=frozenset)
    warning: str = ""


def read_work_tree(folder: str) -> WorkTree:
    """Ask git about ``folder``; all stays empty where that is no work tree. Nothing is written, not even an index."""
    top = _top(folder)
    if top is None:
        return WorkTree()
    # git's own variables would lead it to another repository; without optional locks it writes nothing.
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    env.update(GIT_OPTIONAL_LOCKS="0", LC_ALL="C")
    argv = ["git", "-c", "core.fsmonitor=false", "-C", folder, *_ARGV]
    try:
        done = subprocess.run(
            argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False
        )
    except FileNotFoundError:
        return WorkTree(warning=f"git is not installed: .gitignore of {folder} is not applied, its commit not recorded")
    except subprocess.TimeoutExpired:
        return WorkTree(warning=f"git status in {folder} took more than {_SECONDS} s: .gitignore is not applied")
    if done.returncode:
        said = os.fsdecode(done.stderr).strip().splitlines() or ["no message"]
        return WorkTree(warning=f"git status in {folder} failed ({said[0]}): .gitignore is not applied")
    return parse_status(os.fsdecode(done.stdout), os.path.relpath(folder, top))


def _top(folder: str) -> str | None:
    while True:
        if os.path.lexists(os.path.join(folder, ".git")):
            return folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent


def parse_status(text: str, prefix: str) -> WorkTree:
    """Read the output of ``git status --porcelain=v2 --branch -z``, whose paths count from the top of the work tree.

    ``prefix`` is the folder's path from there. When the folder itself is ignored, it is what the user wants to ship all
    the same: nothing counts as ignored then, and no commit describes it.
    """
    commit: str | None = None
    found: dict[str, set[str]] = {"changed": set(), "untracked": set(), "ignored": set()}
    fields = iter(text.split("\0"))
    for entry in fields:
        kind, _space, rest = entry.partition(" ")
        if entry.startswith("# branch.oid "):
            oid = entry.rpartition(" ")[2]
            commit = None if oid == "(initial)" else oid
        elif kind in ("?", "!"):
            path = rest.rstrip("/")
            if kind == "!" and (path == prefix or prefix.startswith(path + "/")):
                return WorkTree()
            found["untracked" if kind == "?" else "ignored"].add(_inside(path, prefix))
        elif kind in ("1", "2", "u"):
            columns = {"1": 7, "2": 8, "u": 9}[kind]
            found["changed"].add(_inside(rest.split(" ", columns)[columns], prefix))
            if kind == "2":  # a rename: its old path is a field of its own
                found["changed"].add(_inside(next(fields, ""), prefix))
    changed, untracked, ignored = (frozenset(paths) for paths in found.values())
    return WorkTree(commit, changed, untracked, ignored)


def _inside(path: str, prefix: str) -> str:
    return path if prefix == "." else os.path.relpath(path, prefix)
