# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operation `push`: files to exact paths, each whole or not at all, only those that differ."""

from __future__ import annotations

import os

from .channel import WorkerError
from .push_place import Folders, Goal, explain, locate, refuse_own
from .push_plan import Item, check_space, look

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .channel import Channel

_ALL_TEXT_BYTES = 4 * 1024 * 1024


def run(channel: Channel, params: dict[str, Any]) -> dict[str, Any]:
    """Put the files in their places.

    params: dest; kind: file, folder or content, and name: what the source is called; rows: [{path, type: file | dir |
    link, size, sha256, target, mode (bits, where those of the source are to be kept)}], folders before what is in them,
    a single file's path is empty; owner, group: name or number, or null; mode, directory_mode: bits, a symbolic mode or
    null; check_mode; want_diff.

    Conversation: `need` {files: [paths]}, answered by a `file` {path} frame with its bytes for each, in that order, and
    `end` {}. There is no `need` when nothing differs.

    Result: dest: the path that was meant, real: the same with links resolved; files: [{path, type, action, size,
    sha256, target, mode, was}]; changed; bytes_sent; before: {path: text or null} where a diff was asked for.
    """
    try:
        goal = locate(params["dest"], params["kind"], params["name"])
        with Folders(goal.base) as folders:
            return _push(channel, folders, goal, params)
    except OSError as error:
        raise explain(error, params["dest"]) from error


def _push(channel: Channel, folders: Folders, goal: Goal, params: dict[str, Any]) -> dict[str, Any]:
    for row in goal.rows(params["rows"]):
        refuse_own(os.path.join(folders.real, row["path"]), goal.shown(row["path"]))
    items = look(folders, goal, params)
    before = _texts(folders, goal, items) if params["want_diff"] else None
    if params["check_mode"]:
        check_space(folders, goal, items)
    else:
        _carry_out(channel, folders, goal, items)
    top = "/".join([*goal.missing, *filter(None, [goal.name])])
    return {
        "dest": goal.shown(top),
        "real": os.path.join(folders.real, top) if top else folders.real,
        "files": [_entry(goal, item) for item in items],
        "changed": any(item.action != "unchanged" for item in items),
        "bytes_sent": sum(item.row["size"] for item in items if item.travels()),
        "before": before,
    }


def _entry(goal: Goal, item: Item) -> dict[str, Any]:
    row = item.row
    return {
        "path": goal.shown(item.path),
        "key": row["key"],
        "type": row["type"],
        "action": item.action,
        "size": row.get("size", 0),
        "sha256": row.get("sha256"),
        "target": row.get("target"),
        "mode": item.mode if row["type"] == "file" else None,
        "owner": [item.uid, item.gid],
        "was": item.was,
    }


def _texts(folders: Folders, goal: Goal, items: list[Item]) -> dict[str, str | None]:
    """The text of each file that is replaced, as it is now; None for what is no text or too large to show."""
    from .report import read_text

    found: dict[str, str | None] = {}
    budget = _ALL_TEXT_BYTES
    for item in items:
        fd = folders.open(item.folder) if item.replaces() else None
        if fd is not None:
            text = read_text(fd, item.name, budget)
            budget -= len(text or "")
            found[goal.shown(item.path)] = text
    return found


class _Run:
    """A push under way: what it works on, for messages, and what is done."""

    def __init__(self, channel: Channel, folders: Folders, goal: Goal, items: list[Item]) -> None:
        self.channel = channel
        self.folders = folders
        self.goal = goal
        self.items = items
        self.at = goal.base
        self.done: list[Item] = []
        self.received = 0
        self.total = sum(item.row["size"] for item in items if item.travels())

    def place(self, item: Item) -> int:
        """The descriptor of the item's folder, made before it."""
        self.at = self.goal.shown(item.path)
        fd = self.folders.open(item.folder)
        if fd is None:
            raise FileNotFoundError(2, "its folder was removed meanwhile")
        return fd

    def seen(self, count: int) -> None:
        self.received += count
        self.channel.progress(self.received, self.total, "bytes received")

    def fail(self, error: WorkerError) -> WorkerError:
        """The error with what was done before it."""
        if not self.done:
            return error
        paths = [self.goal.shown(item.path) for item in self.done]
        text = f"{error.message} ({len(paths)} of {_count(self.items)} done before, each whole)"
        return WorkerError(error.code, text, **{**error.details, "changed": True, "done": paths})


def _count(items: list[Item]) -> int:
    return sum(item.action != "unchanged" for item in items)


def _carry_out(channel: Channel, folders: Folders, goal: Goal, items: list[Item]) -> None:
    run = _Run(channel, folders, goal, items)
    try:
        _write(run)
    except OSError as error:
        raise run.fail(explain(error, run.at)) from error
    except WorkerError as error:
        raise run.fail(error) from error


def _write(run: _Run) -> None:
    from .push_write import make_folder, make_link, mend, sweep

    for folder in sorted({item.folder for item in run.items}):
        fd = run.folders.open(folder)
        if fd is not None and not os.fstatvfs(fd).f_flag & os.ST_RDONLY:
            run.at = run.goal.shown(folder)
            sweep(fd)
    check_space(run.folders, run.goal, run.items)
    for item in run.items:
        if item.row["type"] == "dir" and item.action == "added":
            make_folder(run.place(item), item)
            run.done.append(item)
    _receive(run)
    for item in run.items:
        if item.action == "mode":
            mend(run.place(item), item)
            run.done.append(item)
        elif item.row["type"] == "link" and item.action != "unchanged":
            make_link(run.place(item), item)
            run.done.append(item)
    _sync(run)


def _receive(run: _Run) -> None:
    from .push_write import write_file

    wanted = [item for item in run.items if item.travels()]
    if not wanted:
        return
    run.channel.send("need", {"files": [item.row["key"] for item in wanted]})
    for item in wanted:
        frame = run.channel.receive("file")
        if frame["path"] != item.row["key"]:
            raise WorkerError("protocol", f"expected the file {item.row['key']!r}, got {frame['path']!r}")
        try:
            write_file(run.place(item), item, run.channel.read_blob(), run.seen)
        except WorkerError as error:
            text = f"{run.at} is as it was: {error.message}"
            raise WorkerError(error.code, text, **error.details) from error
        run.done.append(item)
    run.channel.receive("end")


def _sync(run: _Run) -> None:
    """Bring the names to the disk, too."""
    for folder in sorted({item.folder for item in run.done}):
        fd = run.folders.open(folder)
        if fd is not None:
            run.at = run.goal.shown(folder)
            os.fsync(fd)
