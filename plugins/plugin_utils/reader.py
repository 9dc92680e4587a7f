# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading what a worker answers, beside the step that may be blocked in sending to it."""

from __future__ import annotations

import contextlib
import os
import queue
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

from ansible_collections.trainops.proxmox.plugins.plugin_utils.frames import read_frame

#: Seconds for all that comes before the worker's hello, whatever it is; and for silence after it.
HELLO_SECONDS = 60.0
SILENCE_SECONDS = 30.0
#: Seconds between two signs of life for the worker, which waits several times as long for one.
BEAT_SECONDS = 5.0
#: Bytes that a login shell, or what is in Python's place, may print on stdout before the worker's hello. On stderr as
#: many as are kept, since the node's view is among them.
MAX_BEFORE_HELLO = 1024 * 1024
_MAX_LINE = 32 * 1024 * 1024
_MAX_WAITING = 2 * _MAX_LINE
_MAX_STDERR = 8 * 1024 * 1024
NO_SIGN = f"no sign of life for {SILENCE_SECONDS:g} s"
ENDLESS = "output without end before the worker's first word"

Progress = Callable[[dict[str, Any]], None]


class Reader(threading.Thread):
    """Reads both outputs while the step may be blocked in sending; ends the command when it is silent or too late.

    Whoever is root in the container wrote what it reads: nothing of it may hang, crash or flood the controller.
    ``rest``: seconds that the command may take beyond the worker's result.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        mark: str,
        deadline: float,
        progress: Progress | None,
        beat: Callable[[], None] = lambda: None,
        rest: float = 0.0,
    ) -> None:
        super().__init__(daemon=True)
        self.frames: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.stderr = bytearray()
        self.hello = False
        self.broken = ""
        self.at = ""
        self._heard = threading.Condition()
        self._over = False
        self._process = process
        self._mark = mark.encode("ascii") + b"\n"
        self._progress = progress
        self._line = bytearray()
        self._waiting = 0
        self._before = 0
        self._parent = os.getppid()
        self._deadline = time.monotonic() + deadline
        self._silent_after = time.monotonic() + HELLO_SECONDS
        self._rest = rest
        self._beat = beat
        self._beat_at = time.monotonic() + BEAT_SECONDS

    def run(self) -> None:
        try:
            self._read_all()
        except Exception as error:  # whatever it was, the step that waits must hear of an end
            self._give_up(f"an answer that cannot be read ({type(error).__name__})")
        finally:
            with self._heard:
                self._over = True
                self._heard.notify_all()
            self.frames.put(None)

    def wait_for(self, words: bytes, seconds: float) -> bytes:
        """What was said on stderr so far, as soon as ``words`` are in it, ``seconds`` have passed or the end came."""
        with self._heard:
            self._heard.wait_for(lambda: self._over or words in self.stderr, seconds)
            return bytes(self.stderr)

    def _read_all(self) -> None:
        process = self._process
        with selectors.DefaultSelector() as selector:
            for stream in (process.stdout, process.stderr):
                if stream:
                    os.set_blocking(stream.fileno(), False)
                    selector.register(stream, selectors.EVENT_READ)
            # ssh's background master keeps stderr open: the end of stdout together with the process is the end.
            while selector.get_map():
                self._check_time()
                ready = selector.select(0.5 if process.stdout in selector.get_map() else 0.01)
                for key, _events in ready:
                    if not self._take(key.fd, key.fileobj is process.stdout):
                        selector.unregister(key.fileobj)
                if (not ready or self.broken) and process.poll() is not None:
                    break
        if self.broken:
            # A child of it may live on, print for ever and keep stdin open, to which the step may be sending: let it
            # have nobody to print to.
            for stream in (process.stdout, process.stderr):
                if stream:
                    stream.close()

    def _check_time(self) -> None:
        now = time.monotonic()
        if self.hello and now > self._beat_at:
            self._beat_at = now + BEAT_SECONDS
            self._beat()
        if now > self._deadline:
            self._give_up("no answer within its deadline")
        elif now > self._silent_after:
            self._give_up(NO_SIGN if self.hello else f"no word of the worker within {HELLO_SECONDS:g} s")
        elif os.getppid() != self._parent:
            # Ansible's main process was killed and left this one of its workers behind, alone and unseen.
            self._give_up("ansible-playbook is gone")

    def _give_up(self, why: str) -> None:
        if not self.broken:
            self.broken = why
        pid = self._process.pid
        with contextlib.suppress(ProcessLookupError):
            if self._process.poll() is None and os.getpgid(pid) == pid:
                os.killpg(pid, signal.SIGKILL)  # a worker on this machine, with what it started
        self._process.kill()

    def _take(self, fd: int, is_stdout: bool) -> bool:
        try:
            data = os.read(fd, 1 << 16)
        except BlockingIOError:
            return True
        if not data:
            return False
        if not is_stdout:
            with self._heard:
                if len(self.stderr) < _MAX_STDERR:
                    self.stderr += data
                elif not self.hello:
                    self._give_up(ENDLESS)
                self._heard.notify_all()
            return True
        if self.broken:
            return True
        if self.hello:
            self._silent_after = time.monotonic() + SILENCE_SECONDS
        else:
            self._before += len(data)
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._line += line + b"\n"
            self._whole(bytes(self._line))
            self._line.clear()
        self._line += rest
        if not self.hello and self._before > MAX_BEFORE_HELLO:
            self._give_up(ENDLESS)
        elif len(self._line) > _MAX_LINE:
            self._give_up("an answer without end")
        return True

    def _whole(self, line: bytes) -> None:
        if not self.hello:
            # A login shell may have printed anything before, even without an end of line.
            self.hello = line.endswith(self._mark)
            if self.hello:
                self._silent_after = time.monotonic() + SILENCE_SECONDS
            return
        frame = read_frame(line)
        if frame is None:
            self._give_up("an answer that is no frame")
        elif frame["kind"] == "progress":
            if self._progress:
                self._progress(frame)
        elif frame["kind"] == "at":
            self.at = frame["what"]
        elif frame["kind"] != "beat":
            self._waiting += len(line)
            if self._waiting > _MAX_WAITING:
                self._give_up("more answers than were asked for")
            self.frames.put(frame)
            if frame["kind"] in ("result", "error"):
                # The worker is done and beats no more; what runs on the node beside it may take longer.
                self._silent_after = time.monotonic() + self._rest + SILENCE_SECONDS
