# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sending to a worker: the frames of a step, and between them signs of life by which it knows that we are there."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import threading
from typing import Any

from ansible_collections.trainops.proxmox.plugins.plugin_utils.frames import Frame, write_frame

_BEAT = json.dumps({"kind": "beat"}).encode("ascii") + b"\n"


class Sender:
    """The way to a worker. Frames come from the step's thread, signs of life from another."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._stream: Any = process.stdin
        self._lock = threading.Lock()

    def begin(self, sources: bytes) -> None:
        """Send what the worker is made of. Raises BrokenPipeError when nobody takes it."""
        with self._lock:
            self._stream.write(sources)
            self._stream.flush()

    def send(self, frame: Frame) -> None:
        """Send a frame with what belongs to it; blocks while the worker is slow.

        Raises BrokenPipeError when it is gone, SourceChanged as :func:`write_frame` does.
        """
        with self._lock:
            write_frame(self._stream, frame)
            self._stream.flush()

    def beat(self) -> None:
        """Send a sign of life unless something is being sent already, or would have to wait."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            with contextlib.suppress(OSError, ValueError):  # the worker is gone, or the way was closed
                fd = self._stream.fileno()
                # Room for one byte in a pipe is room for a page, so that a line never waits.
                if select.select([], [fd], [], 0)[1]:
                    os.write(fd, _BEAT)
        finally:
            self._lock.release()

    def close(self) -> None:
        """Nothing more is sent."""
        with self._lock, contextlib.suppress(OSError):
            self._stream.close()
