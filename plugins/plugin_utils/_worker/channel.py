# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The conversation of an operation with the controller, over the two ends of a pipe.

A frame is one line of JSON with a ``kind``. After a frame of the controller raw bytes may follow: chunks of a 4-byte
big-endian length and that many bytes, ended by length 0, or by :data:`ABORT` when the controller cannot go on.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import importlib
import json
import os
import select
import struct
import termios
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import io
    from collections.abc import Iterator
    from typing import Any

ABORT = 0xFFFFFFFF
CHUNK = 256 * 1024
BEAT_SECONDS = 2.0
#: Seconds without a byte of the controller, which beats too, after which it counts as gone: a link can end without a
#: word to this end, and a worker that waited for it would hold its lock. Longer than the controller waits for us.
QUIET_SECONDS = 40.0
PROGRESS_SECONDS = 0.5
_MUCH = 32 * 1024
_GONE = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR


class WorkerError(Exception):
    """An expected failure of an operation.

    ``code`` is a short stable word for programs, ``message`` a sentence that names the file or path and the fix,
    ``details`` JSON values that go into the step's result.
    """

    def __init__(self, code: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details


class Channel:
    """What an operation sees of its controller."""

    def __init__(self, incoming: io.BufferedReader, outgoing: int) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._lock = threading.Lock()
        self._progress_at = 0.0
        self.quiet = QUIET_SECONDS
        self._unread = 0
        self._grew = time.monotonic()

    def send(self, kind: str, body: dict[str, Any]) -> None:
        """Send a frame; blocks while the controller is slow, ends the process when it is gone."""
        data = json.dumps(dict(body, kind=kind), separators=(",", ":")).encode("ascii") + b"\n"
        with self._lock:
            self._write(data)

    def send_if_free(self, kind: str, body: dict[str, Any], patience: float) -> None:
        """Like :meth:`send`, but give up after ``patience`` seconds when another frame is stuck on its way."""
        if self._lock.acquire(timeout=patience):
            try:
                self._write(json.dumps(dict(body, kind=kind)).encode("ascii") + b"\n")
            finally:
                self._lock.release()

    def receive(self, *kinds: str) -> dict[str, Any]:
        """The controller's next frame. Raises WorkerError("protocol") for a frame that is not one of ``kinds``."""
        frame: dict[str, Any] = {"kind": "beat"}
        while frame.get("kind") == "beat":
            line = self._incoming.readline()
            if not line.endswith(b"\n"):
                _leave()
            frame = json.loads(line)
        if frame.get("kind") not in kinds:
            raise WorkerError("protocol", f"expected one of {kinds}, got {frame.get('kind')!r}")
        return frame

    def read_blob(self) -> Iterator[bytes]:
        """The raw bytes that follow the frame just received, in chunks of at most 64 KiB.

        Raises WorkerError("source-changed") when the controller could not read its file to the end as announced.
        """
        while True:
            (size,) = struct.unpack(">I", self._read(4))
            if size == 0:
                return
            if size == ABORT:
                raise WorkerError("source-changed", "the controller could not finish sending a file")
            if size > CHUNK:
                raise WorkerError("protocol", f"a chunk of {size} bytes is larger than agreed")
            yield self._read(size)

    def progress(self, done: int, total: int, what: str) -> None:
        """Tell the controller how far a long step is; most calls are dropped, so call it freely."""
        now = time.monotonic()
        if now - self._progress_at >= PROGRESS_SECONDS:
            self._progress_at = now
            self.send("progress", {"done": done, "total": total, "what": what})

    def waits(self, holder: str) -> None:
        """Tell the controller who keeps this operation waiting."""
        self.send("progress", {"done": 0, "total": 0, "what": "seconds waited", "waits_for": holder})

    def asked(self, run: str, seconds: int) -> None:
        """Tell the controller that a run was asked to stop, and has so long for it."""
        self.send("progress", {"done": 0, "total": seconds, "what": "seconds waited", "asked": run})

    def at(self, what: str) -> None:
        """Tell the controller what is worked on, so that it can name it when this process is struck down there."""
        self.send("at", {"what": what})

    def watch(self, deadline: float) -> None:
        """Heartbeat: ends this process when the controller is gone or ``deadline`` seconds have passed."""
        poll = select.poll()
        poll.register(self._incoming.fileno(), _GONE)
        end = time.monotonic() + deadline
        while True:
            if any(event & _GONE for _fd, event in poll.poll(BEAT_SECONDS * 1000)):
                _leave()
            if self.quiet and time.monotonic() - self._heard() > self.quiet:
                _leave()
            if time.monotonic() > end:
                message = f"not finished within {deadline:g} s"
                self.send_if_free("error", {"code": "deadline", "message": message, "details": {}}, patience=1.0)
                _leave()
            self.send_if_free("beat", {}, patience=BEAT_SECONDS)

    def _heard(self) -> float:
        """When the controller was heard of last.

        An operation that is busy leaves what comes unread: then more of it than before is a sign, and so is much, since
        a pipe that is full takes no more.
        """
        waiting = array.array("i", [_MUCH])
        with contextlib.suppress(OSError):  # an end that cannot tell
            fcntl.ioctl(self._incoming.fileno(), termios.FIONREAD, waiting)
        if waiting[0] != self._unread or waiting[0] >= _MUCH:
            self._unread, self._grew = waiting[0], time.monotonic()
        return max(self._grew, float(getattr(self._incoming.raw, "heard", time.monotonic())))

    def _read(self, size: int) -> bytes:
        data = self._incoming.read(size)
        if len(data) < size:
            _leave()
        return data

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._outgoing, view) :]
        except OSError:
            _leave()


def _leave() -> None:
    """End at once: the controller is gone, so nobody could be told, and no code after this may touch anything."""
    os._exit(3)


def serve(incoming: io.BufferedReader, outgoing: int, nonce: str, deadline: float) -> None:
    """Say hello, run the one requested operation and send its result or error."""
    channel = Channel(incoming, outgoing)
    os.write(outgoing, f"{nonce}\n".encode("ascii"))
    threading.Thread(target=channel.watch, args=(deadline,), daemon=True).start()
    request = channel.receive("request")
    channel.quiet = request["quiet"]
    try:
        operation = importlib.import_module("." + request["operation"], __package__)
        channel.send("result", {"value": operation.run(channel, request["params"])})
    except WorkerError as error:
        channel.send("error", {"code": error.code, "message": error.message, "details": error.details})
    except Exception as error:
        import traceback

        text = f"{type(error).__name__}: {error}"
        channel.send("error", {"code": "crash", "message": text, "details": {"traceback": traceback.format_exc()}})
