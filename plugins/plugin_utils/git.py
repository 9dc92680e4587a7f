# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What git knows of a project's folder, by one `git status`: commit, local changes, ignored files."""

from __future__ import annotations

import os
import subprocess
import tempfile
from dataclasses import dataclass, field, replace

_STATUS = ("status", "--porcelain=v2", "--branch", "--untracked-files=normal", "--ignored=matching", "-z", "--", ".")
_SECONDS = 60


@dataclass(frozen=True)
class WorkTree:
    """A folder as git sees it; paths are relative to the folder.

    commit: the checked-out commit, None without one; changed: paths that differ from it; untracked: paths that it does
    not have; ignored: paths that .gitignore names; warning: what of that is not known, and why; outside: it is in no
    work tree, or in one that ignores all of it or that git cannot read, so that no .gitignore in it was looked at.
    """

    commit: str | None = None
    changed: frozenset[str] = field(default_factory=frozenset)
    untracked: frozenset[str] = field(default_factory=frozenset)
    ignored: frozenset[str] = field(default_factory=frozenset)
    warning: str = ""
    outside: bool = False


class _GitFailed(Exception):
    """Git gave no answer; the text says why."""


def read_work_tree(folder: str) -> WorkTree:
    """Ask git about ``folder``; outside of a work tree it is not asked. Nothing is written, not even an index."""
    place = os.path.realpath(folder)  # where git will find itself
    top = _top(place)
    if top is None:
        return WorkTree(outside=True)
    try:
        return _status(folder, os.path.relpath(place, top))
    except _GitFailed as error:
        if "not a git repository" in str(error):  # a .git that leads nowhere, as in the copy of a submodule
            warning = f"{error}: the commit of {folder} is not recorded, and no .gitignore above it applied"
            return WorkTree(warning=warning, outside=True)
        return WorkTree(warning=f"{error}: .gitignore of {folder} is not applied, its commit not recorded")


def read_ignored(folder: str) -> WorkTree:
    """What .gitignore files in ``folder``, which is in no work tree, name: as if a repository were made of it now.

    That repository is a temporary one elsewhere: nothing is written in the folder.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="trainops-git-") as repository:
            _git(folder, "init", "--quiet", "--bare", "--template=", repository)
            found = _status(folder, ".", f"--git-dir={repository}", f"--work-tree={folder}")
    except (_GitFailed, OSError) as error:
        return WorkTree(warning=f"{error}: .gitignore of {folder} is not applied")
    return WorkTree(ignored=found.ignored, warning=found.warning)


def _status(folder: str, prefix: str, *options: str) -> WorkTree:
    """Raises _GitFailed."""
    done = _git(folder, *options, *_STATUS)
    said = os.fsdecode(done.stderr).splitlines()
    # One that cannot be read, or is a link, counts for nothing: git says so and goes on.
    warning = next((line for line in said if "unable to access" in line and ".gitignore'" in line), "")
    warning = f"git in {folder}: {warning.removeprefix('warning: ')}: it is not applied" if warning else ""
    return replace(parse_status(os.fsdecode(done.stdout), prefix), warning=warning)


def _git(folder: str, *argv: str) -> subprocess.CompletedProcess[bytes]:
    """Raises _GitFailed."""
    # git's own variables would lead it to another repository; without optional locks it writes nothing.
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    env.update(GIT_OPTIONAL_LOCKS="0", LC_ALL="C")
    command = ["git", "-c", "core.fsmonitor=false", "-C", folder, *argv]
    try:
        done = subprocess.run(
            command, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False
        )
    except FileNotFoundError as error:
        raise _GitFailed("git is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise _GitFailed(f"git took more than {_SECONDS} s") from error
    if done.returncode:
        said = os.fsdecode(done.stderr).strip().splitlines() or ["no message"]
        raise _GitFailed(f"git failed ({said[0]})")
    return done


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
    the same: no commit describes it then, and it counts as outside.
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
                return WorkTree(outside=True)
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
