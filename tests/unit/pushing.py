# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operation `push`, driven in a folder of this machine by a controller of a few lines."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ansible_collections.trainops.proxmox.plugins.plugin_utils import push
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker import push as worker
from ansible_collections.trainops.proxmox.plugins.plugin_utils.push_source import Source, read_source

from tests.unit.releasing import Controller

DEFAULTS: dict[str, Any] = {
    "owner": None,
    "group": None,
    "mode": None,
    "directory_mode": None,
    "timeout": 60.0,
}


class Pusher(Controller):
    """Answers the worker's `need` from a source, and notes what was asked for."""

    def __init__(self, source: Source, **more: Any) -> None:
        files = {piece.path: Path(piece.source).read_bytes() for piece in source.pieces if piece.type == "file"}
        super().__init__(files, chunk=1000, **more)


def params(source: Source, dest: str, check: bool = False, diff: bool = False, **options: Any) -> dict[str, Any]:
    return push.question({**DEFAULTS, "dest": dest, **options}, source, check, diff)


def run(
    src: Path | str, dest: Path | str, controller: Pusher | None = None, exclude: tuple[str, ...] = (), **more: Any
) -> dict[str, Any]:
    """Push and return the worker's result, and under `asked` the paths whose bytes were wanted."""
    source = read_source(str(src), exclude)
    controller = controller or Pusher(source)
    done = worker.run(controller, params(source, str(dest), **more))  # type: ignore[arg-type]
    return {**done, "asked": controller.asked}


def step(src: Path | str, dest: Path | str, check: bool = False, **more: Any) -> dict[str, Any]:
    """The step's result as the action returns it, but for the way into the container."""
    return push.pushed(read_source(str(src)), run(src, dest, check=check, **more), check)


def actions(done: dict[str, Any], top: Path) -> dict[str, str]:
    """What happened to each path below a folder; folders end with a slash."""
    return {
        os.path.relpath(file["path"], top) + "/" * (file["type"] == "dir"): file["action"] for file in done["files"]
    }


def tree(top: Path) -> dict[str, Any]:
    """Everything below a folder: bytes of files, targets of links, None for folders."""
    return {
        str(path.relative_to(top)): os.readlink(path)
        if path.is_symlink()
        else None
        if path.is_dir()
        else path.read_bytes()
        for path in sorted(top.rglob("*"))
    }
