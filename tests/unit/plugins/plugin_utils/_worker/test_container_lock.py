# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lock of a whole container: who holds it is named, and it goes with its holder."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.channel import WorkerError
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.container_lock import ContainerLock

HOLD = (
    "import fcntl, os, sys\n"
    "fcntl.flock(os.open('/', os.O_RDONLY), fcntl.LOCK_EX)\n"
    "print('held', flush=True)\n"
    "sys.stdin.read()\n"
)


@contextmanager
def held() -> Iterator[int]:
    """Somebody else's process holds the lock."""
    with subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout and process.stdout.readline() == b"held\n"
        try:
            yield process.pid
        finally:
            process.kill()


def test_whoever_holds_it_is_named_and_nobody_waits_for_ever() -> None:
    with held() as pid, pytest.raises(WorkerError) as caught, ContainerLock(lambda _holder: None, patience=0.2):
        pass
    assert caught.value.code == "locked"
    assert f"process {pid} there ({sys.executable} -c" in caught.value.message


def test_it_goes_with_its_holder_however_that_ends() -> None:
    with held():
        pass
    with ContainerLock(lambda _holder: None):  # waits for other launches on this machine, if there are any
        pass


def test_who_waits_says_for_whom() -> None:
    told: list[str] = []
    with held() as pid, pytest.raises(WorkerError), ContainerLock(told.append, patience=1.5):
        pass
    assert len(told) == 1 and f"process {pid} there" in told[0]
