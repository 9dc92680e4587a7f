"""The processes of one run, found by a mark in their environment, and their end.

A run's worker processes have sessions of their own, so neither the process group nor the session of ansible-playbook
reaches them; the environment does.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path

MARK = "TRAINOPS_RUN"

_MASTER = re.compile(r"ssh: (?P<path>/.*) \[mux\]")
_POLL_SECONDS = 0.05


def marked(mark: str) -> set[int]:
    """The ids of the living processes that carry ``mark``."""
    needle = f"{MARK}={mark}".encode()
    return {pid for pid in _processes() if needle in _read(pid, "environ").split(b"\0")}


def masters() -> dict[int, str]:
    """This user's shared connections that ssh keeps in the background: process id and path of the control socket.

    ssh's title of them lies over their environment, so they carry no mark.
    """
    found = {}
    for pid in _processes():
        if _owner(pid) == os.getuid() and (
            match := _MASTER.match(_read(pid, "cmdline").replace(b"\0", b" ").decode("utf-8", "replace"))
        ):
            found[pid] = match["path"]
    return found


def end(mark: str, known_masters: Iterable[int], patience: float = 4.0) -> set[int]:
    """End every process of a run, gently first, and return the ids of those that remain (normally none).

    ansible-playbook passes SIGTERM on to its workers, which end what they started; what is left after ``patience``
    seconds gets SIGKILL. Shared connections that were opened since ``known_masters`` were counted are asked to go as
    soon as nobody uses them: another run may.
    """
    _signal(_own_children() & marked(mark), signal.SIGTERM)
    if not _until(lambda: not marked(mark), patience):
        _until(lambda: not _signal(marked(mark), signal.SIGKILL), patience)
    opened = set(masters()) - set(known_masters)
    for pid, path in masters().items():
        if pid in opened:
            _dismiss(path)
    _until(lambda: not opened & set(masters()), patience / 2)
    return marked(mark)


def _processes() -> list[int]:
    return [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()]


def _read(pid: int, what: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{what}").read_bytes()
    except OSError:
        return b""


def _owner(pid: int) -> int | None:
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None


def _own_children() -> set[int]:
    own = os.getpid()
    children = set()
    for pid in _processes():
        status = re.search(rb"^PPid:\s*(\d+)$", _read(pid, "status"), re.MULTILINE)
        if status and int(status[1]) == own:
            children.add(pid)
    return children


def _signal(pids: set[int], number: signal.Signals) -> set[int]:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
    return pids


def _until(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _dismiss(control_path: str) -> None:
    argv = ["ssh", "-O", "stop", "-S", control_path, "unused"]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=5)
