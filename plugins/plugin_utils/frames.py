# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Frames: what controller and worker say to each other, a line of JSON each. Bytes may follow the controller's."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import IO, Any

from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import SourceChanged

_ABORT = struct.pack(">I", 0xFFFFFFFF)
_END = struct.pack(">I", 0)
_CHUNK = 256 * 1024
#: Levels of lists and objects in a frame of a worker; ours need less than half of them. Ansible's callbacks go into a
#: result by recursion, and one that is some hundreds of levels deep would end them before they say what failed.
MOST_LEVELS = 40

# What a frame of a kind must hold; kinds of the operations themselves are theirs to check.
_FORMS: dict[str, dict[str, type | tuple[type, ...]]] = {
    "progress": {"done": (int, float), "total": (int, float), "what": str},
    "at": {"what": str},
    "result": {"value": dict},
    "error": {"code": str, "message": str, "details": dict},
}


def read_frame(line: bytes) -> dict[str, Any] | None:
    """The frame in a line, None for anything else and for one that is nested deeper than any of ours."""
    try:
        frame = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(frame, dict) or not isinstance(frame.get("kind"), str) or _is_deep(frame, line):
        return None
    form = _FORMS.get(frame["kind"], {})
    return frame if all(isinstance(frame.get(name), kind) for name, kind in form.items()) else None


def _is_deep(frame: dict[str, Any], line: bytes) -> bool:
    """Whether there are more levels in a frame than are allowed; ``line`` is its text."""
    if line.count(b"[") + line.count(b"{") <= MOST_LEVELS:  # most are as short as that
        return False
    level: list[Any] = [frame]
    for _number in range(MOST_LEVELS):
        inner = [value for one in level for value in (one.values() if isinstance(one, dict) else one)]
        level = [value for value in inner if isinstance(value, (dict, list))]
    return bool(level)


@dataclass(frozen=True)
class Frame:
    """What a step sends: a kind, JSON values and, optionally, bytes that are read lazily while they are sent.

    An iterator that raises SourceChanged aborts the blob and ends the exchange with that error.
    """

    kind: str
    body: dict[str, Any] = field(default_factory=dict)
    blob: Iterable[bytes] | None = None


def write_frame(stream: IO[bytes], frame: Frame) -> None:
    """Write a frame and the bytes that belong to it, in bounded memory. Raises SourceChanged, once the worker knows."""
    body = dict(frame.body, kind=frame.kind)
    stream.write(json.dumps(body, separators=(",", ":")).encode("ascii") + b"\n")
    if frame.blob is not None:
        try:
            for data in frame.blob:
                view = memoryview(data)
                for start in range(0, len(view), _CHUNK):
                    piece = view[start : start + _CHUNK]
                    stream.write(struct.pack(">I", len(piece)))
                    stream.write(piece)
        except SourceChanged:
            stream.write(_ABORT)
            stream.flush()
            raise
        stream.write(_END)
