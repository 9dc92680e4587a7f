# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The end of a run's log: its last lines and its last traceback, out of the last part of a file of any size."""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_BYTES = 256 * 1024
_PIECE = 64 * 1024
_MOST_PIECES = 16
_MOST_LINES = 200
_MOST_TEXT = 16 * 1024
_HEAD = re.compile(r"(?P<prefix>.*?)(?P<group>Exception Group )?Traceback \(most recent call last\):\s*$")
_CHAINED = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
# Of a SyntaxError in the script itself Python prints no head.
_BARE = re.compile(r'  File "[^"]+", line \d+$')
_ERROR = re.compile(r"(?:[A-Za-z_][\w.]*(?:Error|Exception|Warning|Interrupt|Exit|Iteration))(?::|$)")
_MESSAGE_LINES = 12


def read_end(fd: int, most: int = MOST_BYTES) -> str:
    """The last ``most`` bytes of a file, from the beginning of a line unless the line is longer than that."""
    size = os.fstat(fd).st_size
    start = max(0, size - most)
    data = pread(fd, size - start, start)
    if start and b"\n" in data:
        data = data[data.index(b"\n") + 1 :]
    return data.decode("utf-8", "replace")


def pread(fd: int, count: int, offset: int) -> bytes:
    """So many bytes, fewer only at the end of the file."""
    found = bytearray()
    while len(found) < count:
        data = os.pread(fd, count - len(found), offset + len(found))
        if not data:
            break
        found += data
    return bytes(found)


def as_shown(line: str) -> str:
    """A line as a terminal shows it in the end: what stood before a carriage return is written over."""
    return line.rstrip("\r").rpartition("\r")[2]


def last_lines(text: str, lines: int, most: int) -> list[str]:
    """The last lines of a text, of at most ``most`` characters together."""
    found: list[str] = []
    for line in reversed(text.splitlines() if "\r" not in text else re.split("\r?\n", text.rstrip("\n"))):
        shown = as_shown(line)[:most]
        most -= len(shown) + 1
        if len(found) >= lines or most < 0:
            break
        found.append(shown)
    return found[::-1]


def offset_of_last(fd: int, lines: int) -> int:
    """The byte at which the last ``lines`` lines begin; what is more than a MiB before the end is left out.

    A line without an end is shown in pieces of 64 KiB, each a line of its own: so many of these at most.
    """
    size = os.fstat(fd).st_size
    least = max(0, size - min(lines, _MOST_PIECES) * _PIECE)
    if lines <= 0:
        return size
    start, data = size, b""
    while start > least:
        step = min(_PIECE, start)
        start -= step
        data = pread(fd, step, start) + data
        ends = data.count(b"\n", 0, max(len(data) - 1, 0))  # the last one ends the last line and begins none
        if ends >= lines:
            at = len(data) - 1
            for _line in range(lines):
                at = data.rindex(b"\n", 0, at)
            return start + at + 1
    return start


def last_traceback(text: str) -> list[str]:
    """The lines of the last traceback in a log, whole, with those that it was chained to; empty without one."""
    lines = text.splitlines()
    at = next((number for number in range(len(lines) - 1, -1, -1) if _HEAD.match(lines[number])), None)
    if at is None:
        return _bare(lines)
    head = _HEAD.match(lines[at])
    prefix = head["prefix"] if head else ""
    found = _body(lines, at, prefix, bool(head and head["group"]))
    while (earlier := _chained_to(lines, at, prefix)) is not None:
        found = [*lines[earlier:at], *found]
        at = earlier
    return _bounded(found)


def _body(lines: Sequence[str], at: int, prefix: str, group: bool) -> list[str]:
    """From the head of a traceback to the last line of the exception's message."""
    found, told = [lines[at]], 0
    for line in lines[at + 1 :]:
        if group:
            if not re.match(r"\s*[|+]", line):
                break
        elif prefix and not line.startswith(prefix.rstrip()):
            continue  # another rank's line in between
        elif told or not line.startswith(prefix + " "):
            told += 1
            if _HEAD.match(line) or not line[len(prefix) :].strip() or told > _MESSAGE_LINES:
                break
        found.append(line)
        if len(found) > _MOST_LINES:
            break
    return found


def _chained_to(lines: Sequence[str], at: int, prefix: str) -> int | None:
    """Where the traceback before the one at ``at`` begins, if that one goes on from it."""
    before = [number for number in range(at - 1, max(at - 4, -1), -1) if lines[number][len(prefix) :].strip()]
    if not before or lines[before[0]][len(prefix) :].strip() not in _CHAINED:
        return None
    return next((number for number in range(before[0], -1, -1) if _HEAD.match(lines[number])), None)


def _bare(lines: Sequence[str]) -> list[str]:
    ends = [number for number, line in enumerate(lines) if _ERROR.match(line)]
    for end in reversed(ends):
        for start in range(end - 1, max(end - 5, -1), -1):
            if _BARE.match(lines[start]):
                return list(lines[start : end + 1])
    return []


def _bounded(lines: list[str]) -> list[str]:
    """The end matters most: there is the exception."""
    while len(lines) > 1 and (len(lines) > _MOST_LINES or sum(map(len, lines)) > _MOST_TEXT):
        cut = max(len(lines) // 4, 1)
        lines = ["…", *lines[cut + 1 :]] if len(lines) > cut + 1 else lines[-1:]
    return lines
