# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a push would do, and what would keep it from that: computed before anything is written or sent."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct

from .channel import WorkerError
from .control import kind_of
from .modes import resolve
from .mounts import mount_points
from .owners import identity
from .push_place import Folders, Goal, explain
from .space import contrast
from .store import digest_at, lstat, together

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_GET_FLAGS = 0x80086601  # FS_IOC_GETFLAGS
_FIXED = 0x10 | 0x20  # immutable, append-only
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Wish:
    """Owner, group and modes that were asked for; None stands for what is there, or for the system's default."""

    def __init__(self, params: dict[str, Any]) -> None:
        self.uid = identity("owner", params["owner"])
        self.gid = identity("group", params["group"])
        self.mode: int | str | None = params["mode"]
        self.folder_mode: int | str | None = params["directory_mode"]
        self.umask = os.umask(0o077)
        os.umask(self.umask)

    def mode_of(self, row: dict[str, Any], was: dict[str, Any] | None) -> int:
        """The mode that the file or folder of a row gets; ``was`` is the one in its place."""
        is_folder = row["type"] == "dir"
        base = was["mode"] if was else (0o777 if is_folder else 0o666) & ~self.umask
        wanted = row.get("mode", self.folder_mode if is_folder else self.mode)
        return base if wanted is None else resolve(wanted, base, is_folder, self.umask)


class Item:
    """One file, folder or link: ``row`` is what is wanted, ``was`` what is in its place (None: nothing).

    ``action``: added, changed, mode (only mode or owner differ) or unchanged.
    """

    def __init__(self, row: dict[str, Any]) -> None:
        self.row = row
        self.path: str = row["path"]
        self.folder, _slash, self.name = self.path.rpartition("/")
        self.was: dict[str, Any] | None = None
        self.action = "added"
        self.mode: int = 0
        self.uid: int | None = None
        self.gid: int | None = None

    def travels(self) -> bool:
        """Whether its bytes are needed."""
        return self.row["type"] == "file" and self.action in ("added", "changed")

    def replaces(self) -> bool:
        """Whether a name that is there gets another file or link."""
        return self.action == "changed"


def look(folders: Folders, goal: Goal, params: dict[str, Any]) -> list[Item]:
    """Compare every row with what is there. Raises WorkerError naming all that is in the way."""
    wish = Wish(params)
    items, blocked, problems = list[Item](), set[str](), list[tuple[str, str]]()
    for row in goal.rows(params["rows"]):
        item = Item(row)
        if item.folder in blocked:
            blocked.add(item.path)
            continue
        problem = _compare(folders, item, wish, goal.shown(item.path))
        if problem:
            problems.append(problem)
            blocked.add(item.path)
        else:
            items.append(item)
    problems += _obstacles(folders, goal, items)
    if problems:
        raise WorkerError(problems[0][0], together([text for _code, text in problems]))
    return items


def _compare(folders: Folders, item: Item, wish: Wish, shown: str) -> tuple[str, str] | None:
    """Set the item's action and attributes; what is in its way instead, as code and sentence."""
    row = item.row
    try:
        fd = folders.open(item.folder)
        info = lstat(fd, item.name) if fd is not None else None
        if info is not None and fd is not None:
            problem = _in_the_way(fd, item.name, info, row["type"], shown)
            if problem:
                return problem
            item.was = _state(fd, item.name, info)
            item.action = "unchanged" if _same(fd, item, info) else "changed"
    except OSError as error:
        raise explain(error, shown) from error
    kept = item.was if item.was and item.was["type"] == row["type"] else None
    item.mode = wish.mode_of(row, kept)
    item.uid, item.gid = wish.uid, wish.gid
    if kept and row["type"] == "file":
        item.uid = kept["uid"] if wish.uid is None else wish.uid
        item.gid = kept["gid"] if wish.gid is None else wish.gid
    if kept and item.action == "unchanged" and row["type"] != "dir" and _differs(item, kept):
        item.action = "mode"
    return None


def _in_the_way(fd: int, name: str, info: os.stat_result, kind: str, shown: str) -> tuple[str, str] | None:
    if kind == "dir":
        if stat.S_ISDIR(info.st_mode):
            return None
        if stat.S_ISLNK(info.st_mode):
            where = os.readlink(name, dir_fd=fd)
            fix = "remove the link, or push to where it leads"
            return "outside", f"{shown} is a link to {where}, which is outside of what dest names: {fix}"
        return "not-folder", f"{shown} is {kind_of(info)} where a folder goes: remove it, or choose another dest"
    if stat.S_ISDIR(info.st_mode):
        return "is-folder", f"{shown} is a folder where a {kind} goes: remove it, or choose another dest"
    if not (stat.S_ISREG(info.st_mode) or stat.S_ISLNK(info.st_mode)):
        return "special", f"{shown} is {kind_of(info)} and is not replaced: remove it, or choose another dest"
    return None


def _state(fd: int, name: str, info: os.stat_result) -> dict[str, Any]:
    kind = "dir" if stat.S_ISDIR(info.st_mode) else "link" if stat.S_ISLNK(info.st_mode) else "file"
    state = {"type": kind, "mode": stat.S_IMODE(info.st_mode), "uid": info.st_uid, "gid": info.st_gid}
    state["size"] = info.st_size if kind == "file" else 0
    state["freed"] = info.st_blocks * 512 if kind == "file" and info.st_nlink == 1 else 0
    if kind == "link":
        state["target"] = os.readlink(name, dir_fd=fd)
    return state


def _same(fd: int, item: Item, info: os.stat_result) -> bool:
    row, was = item.row, item.was or {}
    if row["type"] == "dir":
        return True  # one that is there stays as it is
    if row["type"] != was["type"]:
        return False
    if row["type"] == "link":
        return bool(was["target"] == row["target"])
    return info.st_size == row["size"] and digest_at(fd, item.name) == (row["size"], row["sha256"])


def _differs(item: Item, was: dict[str, Any]) -> bool:
    owner = (item.uid in (None, was["uid"])) and item.gid in (None, was["gid"])
    return not owner or (was["type"] == "file" and item.mode != was["mode"])


def _obstacles(folders: Folders, goal: Goal, items: list[Item]) -> list[tuple[str, str]]:
    """What a run would meet on writing, as far as one can know before."""
    problems, seen = list[tuple[str, str]](), set[tuple[str, bool]]()
    mounts = set(mount_points()) if any(item.replaces() for item in items) else set()
    for item in items:
        shown = goal.shown(item.path)
        fd = folders.open(item.folder) if item.action != "unchanged" else None
        if fd is None:
            continue
        folder = (item.folder, item.action == "mode")
        code = _of_folder(fd, item.action) if folder not in seen else 0
        seen.add(folder)
        if code:
            error = explain(OSError(code, os.strerror(code)), goal.shown(item.folder))
            problems.append((error.code, error.message))
        elif os.path.join(folders.real, item.path) in mounts and item.replaces():
            error = explain(OSError(errno.EBUSY, "it is a mount point"), shown)
            problems.append((error.code, error.message))
        elif item.was and item.was["type"] == "file" and _is_fixed(fd, item.name):
            fix = f"chattr -ia {shown}"
            problems.append(("denied", f"{shown} has the attribute immutable or append-only: {fix}"))
        elif os.geteuid() and (text := _not_mine(item)):
            problems.append(("denied", f"{shown}: {text}"))
    return problems


def _of_folder(fd: int, action: str) -> int:
    """The number of the error that writing in a folder would end with, 0 when it can be written."""
    if os.fstatvfs(fd).f_flag & os.ST_RDONLY:
        return errno.EROFS
    if action == "mode" or os.access(".", os.W_OK | os.X_OK, dir_fd=fd):
        return 0
    return errno.EPERM if _is_fixed(fd, ".") else errno.EACCES


def _is_fixed(folder: int, name: str) -> bool:
    """Whether a file or folder is immutable or append-only; not every file system has these attributes."""
    try:
        fd = os.open(name, _READ, dir_fd=folder)
    except OSError:
        return False
    try:
        (flags,) = struct.unpack("I", fcntl.ioctl(fd, _GET_FLAGS, struct.pack("I", 0)))
        return bool(flags & _FIXED)
    except OSError:
        return False
    finally:
        os.close(fd)


def _not_mine(item: Item) -> str:
    """Why a user other than root cannot give the item what was asked for; empty when it can."""
    me, was = os.geteuid(), item.was or {}
    fix = "log in so that the worker runs as root"
    owner = was.get("uid", me) if item.action == "mode" else me
    keeps = item.action == "changed" and item.uid == was.get("uid")
    if item.uid not in (None, owner) and not keeps:
        return f"only root may give it to uid {item.uid}: {fix}"
    if item.action == "mode" and owner != me:
        return f"it belongs to uid {owner}, and only its owner or root may change its mode: {fix}"
    if item.gid not in (None, was.get("gid"), os.getegid(), *os.getgroups()):
        return f"only root may give it to gid {item.gid}: {fix}"
    return ""


def check_space(folders: Folders, goal: Goal, items: list[Item]) -> None:
    """Raise WorkerError("no-space") unless all that travels fits, each file beside the one that it replaces."""
    held: dict[int, int] = {}
    peaks: dict[int, int] = {}
    names: dict[int, int] = {}
    places: dict[int, tuple[str, Any]] = {}
    for item in items:
        if item.action not in ("added", "changed"):
            continue
        path, fd = _existing(folders, item.folder)
        device = os.fstat(fd).st_dev
        _shown, info = places.setdefault(device, (goal.shown(path), os.fstatvfs(fd)))
        need = _blocks(item.row.get("size", 0), info.f_frsize)
        freed = item.was["freed"] if item.was else 0  # less than its size where it has holes
        peaks[device] = max(peaks.get(device, 0), held.get(device, 0) + need)
        held[device] = held.get(device, 0) + need - freed
        names[device] = names.get(device, 1) + (item.action == "added")
    for device, (shown, info) in places.items():
        free = info.f_bavail * info.f_frsize
        if info.f_blocks and peaks[device] > free:
            has, needs = contrast(free, peaks[device])
            raise _no_space(f"{has} free, this push needs {needs}", shown, needed=peaks[device], free=free)
        if info.f_files and names[device] > info.f_favail:
            text = f"{info.f_favail} inodes free, this push needs {names[device]}"
            raise _no_space(text, shown, needed=names[device], free=info.f_favail)


def _no_space(what: str, shown: str, needed: int, free: int) -> WorkerError:
    text = f"the file system of {shown} in the container has {what}: free space there, or choose another dest"
    return WorkerError("no-space", text, needed=needed, free=free)


def _existing(folders: Folders, path: str) -> tuple[str, int]:
    """The nearest folder at or above ``path`` that is there."""
    fd = folders.open(path)
    while fd is None:
        path = path.rpartition("/")[0]
        fd = folders.open(path)
    return path, fd


def _blocks(size: int, block: int) -> int:
    return -(-size // block) * block
