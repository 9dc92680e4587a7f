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

_TICK = 0.2  # seconds between two looks


class TooMuch(BaseException):
    """No Exception, after which core would try again. The text is what was too much."""


def _peak() -> int:
    """The most memory that this process ever had, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


@contextlib.contextmanager
def bounded(seconds: float, growth: int) -> Iterator[None]:
    """Raise TooMuch in the block after so many seconds, or when the process has grown by more than ``growth`` bytes.

    Core's plugins read for as long as something comes and keep all of it; nothing but an alarm gets between. One that
    the task's ``timeout`` has set goes on, and where it is sooner, or this is no main thread, it is left alone.
    """
    others = signal.getitimer(signal.ITIMER_REAL)[0]
    if threading.current_thread() is not threading.main_thread() or 0 < others <= seconds:
        yield
        return

    begun, peak = time.monotonic(), _peak()

    def ring(_number: int, _frame: object) -> None:
        if _peak() - peak > growth:
            raise TooMuch("before it filled the memory")
        if time.monotonic() - begun >= seconds:
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
