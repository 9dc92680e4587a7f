# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Moments of a deploy: after a time, after so many bytes one way, or before so many changes of the worker."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from pathlib import Path
from typing import Protocol

from lab import processes
from lab.containers import Container
from lab.link import Link, Way


class Moment(Protocol):
    """A moment of a command that begins when it is made."""

    def reached(self) -> bool:
        """Whether it has come; what made it come stands still from then on, where that is possible."""

    def go_on(self) -> None:
        """Let what stands still go on."""


class AfterTime:
    """So many seconds after the command's start."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def reached(self) -> bool:
        return time.monotonic() >= self._end

    def go_on(self) -> None:
        pass


class AfterBytes:
    """When so many bytes have gone one way over the link; no more go there until it goes on."""

    def __init__(self, link: Link, way: Way, count: int) -> None:
        self._link = link
        self._come, self._on = threading.Event(), threading.Event()
        link.arm(way, count, self._wait)

    def _wait(self) -> None:
        self._come.set()
        self._on.wait()

    def reached(self) -> bool:
        return self._come.is_set()

    def go_on(self) -> None:
        self._link.disarm()
        self._on.set()


class BeforeStep:
    """When a worker in the container is about to change something for the so manieth time; it is held until then."""

    def __init__(self, container: Container, folder: Path, count: int) -> None:
        self._container = container
        self._folder = folder
        self._held: list[int] = []
        self._forget("steps", "held")
        (folder / "point").write_text(str(count))

    def reached(self) -> bool:
        if (self._folder / "held").exists():
            self._held = [pid for pid in processes.workers(self._container) if processes.is_stopped(pid)]
        return bool(self._held)

    def _forget(self, *names: str) -> None:
        for name in names:
            with contextlib.suppress(OSError):  # with the container the way to its files may be gone
                (self._folder / name).unlink()

    def go_on(self) -> None:
        self._forget("point", "held")
        processes.kill(self._held, signal.SIGCONT)  # of a frozen container too, where it counts later
