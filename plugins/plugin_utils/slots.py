# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A cap on the sessions that this controller holds open on one node at a time, over all its processes.

A stock sshd accepts 10 sessions on one connection and starts to drop connections in their first phase when 10 are
pending, so a play over 64 containers of one node must queue on the controller.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import random
import time
from collections.abc import Callable, Iterator

from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import TrainopsError

_POLL_SECONDS = 0.02
TELL_SECONDS = 5.0


@contextlib.contextmanager
def slot(
    directory: str, node: str, limit: int, patience: float, tell: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Hold one of ``limit`` places for ``node`` while the block runs. The kernel frees it with the process.

    ``tell`` gets one sentence when none was free for TELL_SECONDS: whoever waits should know for what.

    Raises TrainopsError when none got free within ``patience`` seconds.
    """
    if limit < 1:
        raise TrainopsError(f"proxmox_sessions is {limit}: at least 1 session to {node} is needed")
    os.makedirs(directory, mode=0o700, exist_ok=True)
    digest = hashlib.sha256(node.encode()).hexdigest()[:16]
    began = time.monotonic()
    handle = _take(directory, digest, limit, began + min(patience, TELL_SECONDS))
    if handle is None and patience > TELL_SECONDS:
        if tell:
            tell(
                f"all {limit} sessions to {node} are in use by this controller (other commands, followers of logs): "
                "waiting for one (proxmox_sessions says how many)"
            )
        handle = _take(directory, digest, limit, began + patience)
    if handle is None:
        raise TrainopsError(
            f"no free session to {node} within {patience:.0f} s: {limit} are in use by this controller. "
            "Lower forks, or raise proxmox_sessions together with MaxSessions of the node's sshd"
        )
    try:
        yield
    finally:
        os.close(handle)


def _take(directory: str, digest: str, limit: int, end: float) -> int | None:
    places = list(range(limit))
    random.shuffle(places)
    while True:
        for place in places:
            handle = os.open(os.path.join(directory, f"{digest}.{place}"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return handle
            except BlockingIOError:
                os.close(handle)
        if time.monotonic() >= end:
            return None
        time.sleep(_POLL_SECONDS)
