# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The configuration lock of a container, which push and pull hold for the whole copy."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
import time

from .failure import Failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

FOLDER = "/run/lock/lxc"
TIMEOUT = 10.0


class _Late(Exception):
    pass


@contextlib.contextmanager
def config_lock(vmid: int, pretend: float = 0.0) -> Iterator[None]:
    """Hold the lock. The worker that is forked inside keeps it for as long as it lives.

    `pretend` is the lab's switch: for so many seconds the lock counts as taken by someone else.

    :raises Failure: status 4 when it is not free within ten seconds.
    """
    os.makedirs(FOLDER, exist_ok=True)
    path = f"{FOLDER}/pve-config-{vmid}.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        _take(descriptor, path, pretend)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, path: str, pretend: float) -> None:
    if not pretend:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
    sys.stderr.write("trying to acquire lock...\n")
    sys.stderr.flush()
    old = signal.signal(signal.SIGALRM, _late)
    signal.setitimer(signal.ITIMER_REAL, TIMEOUT)
    try:
        time.sleep(pretend)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except _Late:
        raise Failure(f"can't lock file '{path}' - got timeout\n", 4) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    sys.stderr.write(" OK\n")
    sys.stderr.flush()


def _late(number: int, frame: Any) -> None:
    raise _Late
