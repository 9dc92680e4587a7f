# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A task: the worker process that does what a command was asked for, and the node's log of tasks.

As on Proxmox VE the worker has a session of its own, so it outlives a parent that is killed; whatever goes wrong in it
reaches the parent as a text, and only some commands turn that into an exit status.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import sys
import time

from . import transfer
from .containers import node_name
from .failure import Failure
from .locale_ import garbled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

LOG = "/var/log/pve/tasks"
INDEX_LIMIT = 50000  # bytes
FINISHED_KEPT = 25


class _Interrupted(Exception):
    """A signal came that ends the task; the text is the task's status."""


class Task:
    """A task by its id (UPID), which names node, worker, start and what it is about."""

    def __init__(self, upid: str) -> None:
        self.upid = upid

    @property
    def pid(self) -> int:
        return int(self.upid.split(":")[2], 16)

    @property
    def started(self) -> int:
        """When the worker started, in clock ticks since boot."""
        return int(self.upid.split(":")[3], 16)

    @property
    def file(self) -> str:
        return f"{LOG}/{self.upid.split(':')[4][-1]}/{self.upid}"

    def alive(self) -> bool:
        return start_ticks(self.pid) == self.started


def start_ticks(pid: int) -> int:
    """When a process started, in clock ticks since boot; -1 when it is not there."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stream:
            fields = stream.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return -1
    return -1 if fields[0] == "Z" else int(fields[19])


def run(kind: str, vmid: int, work: Callable[[], None]) -> str:
    """Do the work in a worker process and wait for it.

    What the worker writes goes by a pipe to this process, and from here to stdout and the task's file.

    :returns: "" or the text, with its newline, of what went wrong.
    """
    control, output, go = os.pipe(), os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        _worker(work, go[0], control[1], output[1])
    for descriptor in (control[1], output[1], go[0]):
        os.close(descriptor)
    words = (node_name(), f"{pid:08X}", f"{start_ticks(pid):08X}", f"{int(time.time()):08X}", kind, str(vmid))
    task = Task("UPID:" + ":".join((*words, "root@pam", "")))
    with _tasks() as known:
        known.begin(task)
    os.write(go[1], task.upid.encode())
    os.close(go[1])
    text = _watch(task, control[0], output[0])
    status = text.rstrip("\n") or "OK"
    _note(task, f"TASK ERROR: {status}\n".encode() if text else b"TASK OK\n")
    with _tasks() as known:
        known.end(task, status)
    return text


def _worker(work: Callable[[], None], go: int, control: int, output: int) -> None:
    """The life of a worker; it never returns."""
    text = b""
    try:
        os.setsid()
        os.dup2(output, 1)
        os.dup2(output, 2)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
            signal.signal(number, _interrupt)
        set_title(f"task {os.read(go, 4096).decode()}")
        work()
    except (Failure, _Interrupted) as failure:
        text = garbled(str(failure))
    except BaseException as error:  # whatever it is must not run on as a second pct
        text = f"{type(error).__name__}: {error}\n".encode("utf-8", "replace")
    with contextlib.suppress(OSError):
        os.write(control, b"E" + text if text else b"OK")
    os._exit(0)


def set_title(title: str) -> None:
    """Show as `title` in ps. The kernel reads a command line from the process's memory, on into the environment."""
    with open("/proc/self/stat", encoding="utf-8", errors="replace") as stream:
        fields = stream.read().rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[48])  # arg_start and env_end of proc(5)
    data = title.encode()[: end - start - 1]
    with contextlib.suppress(OSError), open("/proc/self/mem", "r+b", buffering=0) as memory:
        memory.seek(start)
        memory.write(data.ljust(end - start, b"\0"))


def _interrupt(number: int, frame: Any) -> None:
    raise _Interrupted("broken pipe \n" if number == signal.SIGPIPE else "received interrupt\n")


def _watch(task: Task, control: int, output: int) -> str:
    """Hand on what the worker writes, and wait for its word; a signal to this process ends the worker."""
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGPIPE)
    old = {number: signal.signal(number, _interrupt) for number in signals}
    said = b""
    try:
        unfinished = [control, output]
        while control in unfinished:
            for ready in select.select(unfinished, [], [])[0]:
                data = os.read(ready, 65536)
                if not data:
                    unfinished.remove(ready)
                elif ready == control:
                    said += data
                else:
                    _note(task, data)
                    transfer.write(1, data)
        text = said[1:].decode("utf-8", "replace") if said[:1] == b"E" else ""
        if not said:
            text = "got unexpected control message:  \n"
    except _Interrupted as interrupted:
        text = str(interrupted)
        os.kill(task.pid, signal.SIGKILL)
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
    os.waitpid(task.pid, 0)
    return text


def _note(task: Task, data: bytes) -> None:
    os.makedirs(os.path.dirname(task.file), exist_ok=True)
    with open(task.file, "ab") as stream:
        stream.write(data)


class _Known:
    """The running and the last finished tasks (file "active"), and the history (file "index")."""

    def __init__(self, lines: list[str]) -> None:
        self.running = [Task(line.split(" ")[0]) for line in lines if len(line.split(" ")) < 4]
        self.finished = [line for line in lines if len(line.split(" ")) >= 4]
        self.history: list[str] = []

    def begin(self, task: Task) -> None:
        _note(task, b"")
        for other in [other for other in self.running if not other.alive()]:
            self.end(other, "unexpected status")  # its parent was killed and could not say
        self.running.append(task)

    def end(self, task: Task, status: str) -> None:
        ended = f"{int(time.time()):08X}"
        self.running = [other for other in self.running if other.upid != task.upid]
        self.finished.insert(0, f"{task.upid} 1 {ended} {status}")
        self.history.append(f"{task.upid} {ended} {status}")

    def lines(self) -> list[str]:
        return [f"{task.upid} 0" for task in self.running] + self.finished[:FINISHED_KEPT]


@contextlib.contextmanager
def _tasks() -> Iterator[_Known]:
    """The node's tasks, read and written back under their lock."""
    os.makedirs(LOG, exist_ok=True)
    with open(f"{LOG}/.active.lock", "a", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        active = f"{LOG}/active"
        try:
            with open(active, encoding="utf-8") as stream:
                known = _Known(stream.read().splitlines())
        except FileNotFoundError:
            known = _Known([])
        yield known
        _replace(active, known.lines())
        if known.history:
            _append(f"{LOG}/index", known.history)


def _replace(path: str, lines: list[str]) -> None:
    with open(f"{path}.tmp", "w", encoding="utf-8") as stream:
        stream.write("".join(f"{line}\n" for line in lines))
    os.replace(f"{path}.tmp", path)


def _append(path: str, lines: list[str]) -> None:
    with open(path, "a", encoding="utf-8") as stream:
        stream.write("".join(f"{line}\n" for line in lines))
        full = stream.tell() > INDEX_LIMIT
    if full:
        os.replace(path, f"{path}.1")


def report(text: str) -> None:
    """What a command whose failures have no exit status does with the text of its task."""
    sys.stderr.buffer.write(text.encode("utf-8", "replace"))
