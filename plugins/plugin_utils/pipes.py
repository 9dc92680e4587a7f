# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Processes whose pipes are ours: their error stream, and that nothing of them is left."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import threading
from collections.abc import Iterator
from typing import IO


@contextlib.contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Whatever happens in the block, neither the process nor a pipe to it is left after it."""
    try:
        yield
    finally:
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream:
                with contextlib.suppress(OSError):
                    stream.close()
        if process.poll() is None:
            process.kill()
        process.wait()


class Drain:
    """Collects a stream beside the work of a ``with`` block, at most ``limit`` bytes of it.

    The background master that ssh starts with ControlPersist keeps the stream open after the client's end, so waiting
    for its end of file would last as long as the master lives: the end of the block takes what is there and stops.
    However the block ends, nothing reads from the stream after it, so that it can be closed.
    """

    def __init__(self, stream: IO[bytes], limit: int = 1 << 20) -> None:
        self._stream = stream
        self._limit = limit
        self._data = bytearray()

    def __enter__(self) -> Drain:
        self._stop_reader, self._stop_writer = os.pipe()
        os.set_blocking(self._stream.fileno(), False)
        self._thread = threading.Thread(target=self._collect, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        os.close(self._stop_writer)
        self._thread.join()
        os.close(self._stop_reader)

    @property
    def data(self) -> bytes:
        """What came so far: after the block, all that the ended process wrote."""
        return bytes(self._data)

    def _collect(self) -> None:
        handles = [self._stream.fileno(), self._stop_reader]
        while True:
            ready, _write, _error = select.select(handles, [], [])
            if handles[0] in ready:
                if not self._take():
                    return
            elif self._stop_reader in ready:
                return

    def _take(self) -> bool:
        try:
            data = os.read(self._stream.fileno(), 1 << 16)
        except BlockingIOError:
            return True
        room = self._limit - len(self._data)
        self._data += data[: max(room, 0)]
        return bool(data)
