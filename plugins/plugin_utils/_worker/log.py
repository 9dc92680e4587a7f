# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A growing log, read line by line from a byte on.

Offsets are what a reader goes by after a lost connection: each batch says where the next one begins, so no line is lost
and none comes twice. What the writer has not ended by a newline is waited for. A progress bar, which writes over its
line by carriage returns, and words that are left without an end are shown after a while.
"""

from __future__ import annotations

import os
from collections import deque

from .tail import as_shown, pread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PIECE = 64 * 1024
HOLD_SECONDS = 10.0
# A run that prints faster than anybody reads: what goes beyond this is left out, and said to be.
BURST_BYTES = 4 << 20
BYTES_A_SECOND = 256 << 10


class Batch:
    """Some lines of a log: ``lines`` as a terminal shows them, and the byte ``end`` behind them.

    ``skipped`` bytes before them were not read.
    """

    def __init__(self, lines: list[str], end: int, skipped: int = 0) -> None:
        self.lines = lines
        self.end = end
        self.skipped = skipped


class Held:
    """Lines that were read and are not shown yet, of a flood the last ones alone: they say how it went.

    ``size`` is about what they weigh in bytes, ``end`` the byte behind them, ``skipped`` what was left out before them.
    """

    def __init__(self) -> None:
        self.size = self.end = self.skipped = 0
        self._lines: deque[str] = deque()

    def add(self, batch: Batch) -> None:
        """Hold some more lines."""
        self._lines.extend(batch.lines)
        self.size += _weight(batch.lines)
        self.end = batch.end

    def leave_out(self, count: int, end: int) -> None:
        """``count`` bytes up to ``end`` are left out, and then the lines before them are too."""
        self.skipped += count + self.size
        self.end = end
        self._lines.clear()
        self.size = 0

    def shorten(self, most: int) -> None:
        """Leave out the first lines, until what is left weighs at most ``most`` or is one line."""
        while self.size > most and len(self._lines) > 1:
            weight = _weight([self._lines.popleft()])
            self.size -= weight
            self.skipped += weight

    def __bool__(self) -> bool:
        return bool(self._lines or self.skipped)

    def take(self) -> Batch:
        """All of it; nothing is held then."""
        batch = Batch(list(self._lines), self.end, self.skipped)
        self._lines.clear()
        self.size = self.skipped = 0
        return batch


def _weight(lines: list[str]) -> int:
    return sum(len(line) + 1 for line in lines)


class Log:
    """Reads whole lines of an open file from ``offset`` on; ``fresh`` are the unfinished words behind them."""

    def __init__(self, fd: int, offset: int, now: float) -> None:
        self.fd = fd
        self.offset = offset
        self.grown = now  # when there was something new
        self.fresh = ""
        self._waiting = b""
        self._shown = now

    def unread(self) -> int:
        """How many bytes are there that were not asked for yet; negative when the file was cut."""
        return os.fstat(self.fd).st_size - self.offset - len(self._waiting)

    def skip(self, keep: int) -> int:
        """Go on ``keep`` bytes before the end, at the beginning of a line; returns how many bytes are left out."""
        size = os.fstat(self.fd).st_size
        start = max(size - keep, self.offset)
        end = pread(self.fd, keep, start)
        start += end.find(b"\n") + 1
        skipped, self.offset, self._waiting = start - self.offset, start, b""
        return skipped

    def read(self, now: float, final: bool) -> Batch | None:
        """The next lines, at most PIECE bytes and what waited; None when there is nothing to show yet.

        ``final``: nobody writes any more, so the last words are a line too.
        """
        if self.unread() < 0:
            self.offset, self._waiting = 0, b""  # somebody emptied the file
        start = self.offset + len(self._waiting)
        data = pread(self.fd, PIECE, start)
        if data:
            self.grown = now
            self._waiting += data
        self.fresh = ""
        length = self._whole(now, final and self.unread() <= 0)
        if not length:
            self.fresh = as_shown(self._waiting.decode("utf-8", "replace")) if data else ""
            return None
        taken, self._waiting = self._waiting[:length], self._waiting[length:]
        self.offset += length
        self._shown = now
        text = taken.decode("utf-8", "replace")
        return Batch([as_shown(line) for line in text.removesuffix("\n").split("\n")], self.offset)

    def _whole(self, now: float, final: bool) -> int:
        """How many of the waiting bytes can be shown."""
        waiting = self._waiting
        length = waiting.rfind(b"\n") + 1
        if length or not waiting:
            return length
        if final or now - self.grown >= HOLD_SECONDS:
            return len(waiting)
        written_over = waiting.rstrip(b"\r").rfind(b"\r") + 1
        if written_over and now - self._shown >= HOLD_SECONDS:
            return written_over
        return _characters(waiting) if len(waiting) >= PIECE else 0


def _characters(data: bytes) -> int:
    """The length without a last character that is not whole yet."""
    for back in range(1, 5):
        byte = data[-back]
        if byte < 0x80:
            break
        if byte >= 0xC0:
            return len(data) - back
    return len(data)


class Budget:
    """How much may be shown: a burst, and then so many bytes a second."""

    def __init__(self, now: float) -> None:
        self._left = float(BURST_BYTES)
        self._at = now

    def spend(self, count: int, now: float) -> bool:
        """Whether ``count`` bytes may be shown now."""
        self._left = min(float(BURST_BYTES), self._left + (now - self._at) * BYTES_A_SECOND)
        self._at = now
        if self._left < count:
            return False
        self._left -= count
        return True


def body(batch: Batch) -> dict[str, Any]:
    """A batch as a frame."""
    return {"offset": batch.end, "lines": batch.lines, "skipped": batch.skipped}
