# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Bounds for what core's connection plugins do, which read for as long as something comes and keep all of it."""

from __future__ import annotations

import contextlib
import resource
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType

_TICK = 0.2  # seconds between two looks


class TooMuch(BaseException):
    """No Exception, after which core would try again. The text is what was too much."""


def _size() -> int:
    """The memory that this process has in bytes, or where the system does not tell that, the most that it ever had."""
    with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/self/statm", encoding="ascii") as stream:
        return int(stream.read().split()[1]) * resource.getpagesize()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


@contextlib.contextmanager
def bounded(seconds: float, growth: int) -> Iterator[None]:
    """Raise TooMuch in the block after so many seconds, or when the process has grown by more than ``growth`` bytes.

    Core's plugins read for as long as something comes and keep all of it; nothing but an alarm gets between. One that
    the task's ``timeout`` has set goes off when it is due. Where this is no main thread nothing is bounded.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    others = signal.getitimer(signal.ITIMER_REAL)[0]
    begun, size = time.monotonic(), _size()

    def ring(number: int, frame: FrameType | None) -> None:
        nonlocal others
        passed = time.monotonic() - begun
        if 0 < others <= passed and callable(handler):
            others = 0
            handler(number, frame)
        if _size() - size > growth:
            raise TooMuch("before it filled the memory")
        if passed >= seconds:
            raise TooMuch(f"within {seconds:g} s")

    handler = signal.signal(signal.SIGALRM, ring)
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, _TICK, _TICK)
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, handler)
        if others:
            signal.setitimer(signal.ITIMER_REAL, max(others - (time.monotonic() - begun), 0.001))
