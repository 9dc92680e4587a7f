# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where pushed files go: the folder that the destination means, and the way down from there.

Links in the destination itself are followed, since the user named them. Below it no link is: it would lead out of what
was named.
"""

from __future__ import annotations

import errno
import os
import stat

from .channel import WorkerError
from .store import HOME, is_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Goal:
    """``base``: the folder that is there, as the user named it; ``missing``: names of folders to be made below it, each
    in the one before; ``name``: what a single file is called there, empty for a folder's content.
    """

    def __init__(self, base: str, missing: list[str], name: str) -> None:
        self.base = base
        self.missing = missing
        self.name = name

    def rows(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The rows with ``path`` below the base, folders that are to be made among them; ``key`` is the path before.

        The row of the source folder itself (its path is empty) tells what that folder gets when it is made.
        """
        made: list[dict[str, Any]] = [
            {"path": "/".join(self.missing[: count + 1]), "key": None, "type": "dir"}
            for count in range(len(self.missing))
        ]
        top = [row for row in rows if row["type"] == "dir" and not row["path"]]
        if made and top:
            made[-1].update({key: top[0][key] for key in top[0] if key != "path"})
        below = [
            dict(row, key=row["path"], path="/".join([*self.missing, *filter(None, [self.name, row["path"]])]))
            for row in rows
            if row not in top
        ]
        return made + below

    def shown(self, path: str) -> str:
        """A path below the base, as the user would write it."""
        return os.path.join(self.base, path) if path else self.base


def locate(dest: str, kind: str, name: str) -> Goal:
    """What ``dest`` means for a ``kind`` of source: a "file" or a "folder" called ``name``, or a folder's "content".

    As ansible.builtin.copy has it: a file goes into a folder that is there or that ``dest`` ends with a slash for, else
    it becomes ``dest``, whose folder must exist. Folders are made. Raises WorkerError for a destination that cannot be.
    """
    wanted = os.path.expanduser(dest)
    if not os.path.isabs(wanted):
        raise WorkerError("option", f"option dest: {dest!r} must be an absolute path in the container")
    if kind == "content":
        base, missing = _nearest(wanted)
        return Goal(base, missing, "")
    if kind == "folder":
        base, missing = _nearest(os.path.join(wanted, name))
        return Goal(base, missing, "")
    if wanted.endswith(("/", "/.", "/..")) or os.path.isdir(wanted):
        base, missing = _nearest(wanted)
        return Goal(base, missing, name)
    folder, name = os.path.split(wanted)
    base, missing = _nearest(folder)
    if missing:
        fix = "create it first (ansible.builtin.file with state=directory), or end dest with a slash to have it made"
        raise WorkerError("no-parent", f"{wanted}: its folder {folder} does not exist in the container: {fix}")
    return Goal(base, [], name)


def _nearest(folder: str) -> tuple[str, list[str]]:
    """The nearest folder at or above ``folder`` that is there, and the names that are missing below it."""
    here, missing = folder.rstrip("/") or "/", list[str]()
    while True:
        try:
            info = os.stat(here)
        except (FileNotFoundError, NotADirectoryError):
            if os.path.islink(here):
                fix = "remove the link, or make the folder that it names"
                raise WorkerError("not-folder", f"{here} is a link to nothing, so {folder} cannot be: {fix}") from None
            here, name = os.path.split(here)
            here = here.rstrip("/") or "/"
            missing.insert(0, name)
            continue
        if not stat.S_ISDIR(info.st_mode):
            fix = "remove it, or correct option dest"
            raise WorkerError("not-folder", f"{here} is no folder in the container, so {folder} cannot be: {fix}")
        if ".." in missing:
            raise WorkerError("no-parent", f"{folder}: {os.path.join(here, missing[0])} does not exist: correct dest")
        return here, [name for name in missing if name not in ("", ".")]


class Folders:
    """Descriptors of folders below a base, opened name by name and never through a link; the last one stays open."""

    def __init__(self, base: str) -> None:
        self._base = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._path, self._fd = "", self._base
        self.real = os.path.realpath(f"/proc/self/fd/{self._base}")

    def __enter__(self) -> Folders:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._forget()
        os.close(self._base)

    def open(self, path: str) -> int | None:
        """The descriptor of the folder ``path``, valid until the next call; None when it is not there.

        Raises OSError (ENOTDIR or ELOOP) when a name of it is no folder, and FileNotFoundError never.
        """
        if path == self._path:
            return self._fd
        self._forget()
        fd = self._base
        for name in path.split("/") if path else []:
            try:
                inner = os.open(name, _FOLDER, dir_fd=fd)
            except FileNotFoundError:
                return None
            finally:
                if fd != self._base:
                    os.close(fd)
            fd = inner
        self._path, self._fd = path, fd
        return fd

    def _forget(self) -> None:
        if self._fd != self._base:
            os.close(self._fd)
        self._path, self._fd = "", self._base


def refuse_own(path: str, shown: str) -> None:
    """Raise WorkerError for a ``path``, links resolved, that is the tool's own: anything but what is in a release."""
    before, found, below = path.partition(f"/{HOME}/")
    parts = below.split("/")
    in_release = len(parts) > 3 and parts[1] == "releases" and is_id(parts[2])
    if (found and not in_release) or path.endswith(f"/{HOME}"):
        why = f"what is in {before or path.rpartition('/')[0]}/{HOME} is the tool's own (locks, records, releases)"
        raise WorkerError("tools-own", f"{shown}: {why}, and a push does not touch it: choose another dest")


def explain(error: OSError, path: str) -> WorkerError:
    """An error of the file system at ``path`` as a sentence with what to do about it."""
    may = f"the worker runs as uid {os.geteuid()}{_outside()}"
    fixes: dict[int | None, tuple[str, str]] = {
        errno.ENOSPC: ("no-space", "free space or inodes on its file system"),
        errno.EDQUOT: ("no-space", "the quota is used up: free space or raise it"),
        errno.EFBIG: ("no-space", "the file system takes no file of that size: choose another one"),
        errno.EROFS: ("read-only", "its file system is mounted read-only: remount it, or choose another dest"),
        errno.EACCES: ("denied", f"{may}: give it the right, or use another dest"),
        errno.EPERM: ("denied", f"{may} and may not: look at owner and attributes (lsattr)"),
        errno.EBUSY: ("mount-point", "something is mounted on that name: unmount it, or choose another dest"),
        errno.EISDIR: ("is-folder", "it is a folder: remove it, or choose another dest"),
        errno.ENOTDIR: ("not-folder", "a name in it is no folder, or a link: remove it, or choose another dest"),
        errno.ELOOP: ("not-folder", "links in it lead round: remove one, or choose another dest"),
        errno.ENAMETOOLONG: ("name", "its name is too long for the file system there"),
    }
    code, fix = fixes.get(error.errno, ("os", "look at the container's file system"))
    return WorkerError(code, f"{path}: {error.strerror}: {fix}")


def _outside() -> str:
    """What root of an unprivileged container must know: which ids are its own."""
    with open("/proc/self/uid_map", encoding="ascii") as lines:
        inside, outside, count = (int(word) for word in lines.readline().split())
    if os.geteuid() or (inside, outside) == (0, 0):
        return ""
    return (
        f" of an unprivileged container (on its node {outside} to {outside + count - 1}), and what belongs to others "
        "there is not its own"
    )
