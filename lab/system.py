# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Running commands, taking locks and writing files on this machine: the lab's edge."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from .errors import LabError


def run(argv: Sequence[str], *, stdin: bytes | None = None, timeout: float = 120) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end, whatever its status; output as bytes. LabError when it cannot run or hangs."""
    try:
        return subprocess.run(list(argv), input=stdin or b"", capture_output=True, timeout=timeout, check=False)
    except FileNotFoundError as exc:
        raise LabError(f"{argv[0]} is not installed") from exc
    except subprocess.TimeoutExpired as exc:
        raise LabError(f"no end after {timeout:g} s: {shlex.join(argv)}") from exc


def check(argv: Sequence[str], *, stdin: bytes | None = None, timeout: float = 120) -> bytes:
    """Run a command that must succeed; its stdout. LabError with its stderr otherwise."""
    done = run(argv, stdin=stdin, timeout=timeout)
    if done.returncode:
        said = (done.stderr or done.stdout).decode(errors="replace").strip()
        raise LabError(f"exit {done.returncode} of: {shlex.join(argv)}\n{said}")
    return done.stdout


def wait_for(condition: Callable[[], bool], what: str, timeout: float) -> None:
    """Return as soon as the condition holds; LabError naming `what` after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    pause = 0.002
    while not condition():
        if time.monotonic() > deadline:
            raise LabError(f"{what}: not within {timeout:g} s")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)


@contextlib.contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, which is made if need be. The folder itself is locked: nothing is left behind."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if _same(handle, folder):  # else: removed by whoever held it before
                yield
                return
        finally:
            os.close(handle)


def _same(handle: int, folder: Path) -> bool:
    try:
        there = folder.stat()
    except FileNotFoundError:
        return False
    here = os.fstat(handle)
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)


def write(path: Path, content: bytes | str, mode: int = 0o644) -> bool:
    """Make the file hold this content and mode, by rename, only if it does not; True when it was written."""
    data = content.encode() if isinstance(content, str) else content
    try:
        if path.read_bytes() == data and path.stat().st_mode & 0o7777 == mode:
            return False
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as stream:
        stream.write(data)
        os.fchmod(stream.fileno(), mode)
    fresh.rename(path)
    return True
