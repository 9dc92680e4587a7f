# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Operations that end at any step: by death, or by an error of the file system."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker import adopt, hand_over, plain, switch
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.channel import WorkerError

# Every call by which a run changes something on the disk, or makes it last.
STEPS = (
    "open",
    "mkdir",
    "rename",
    "symlink",
    "link",
    "unlink",
    "rmdir",
    "write",
    "fsync",
    "fchmod",
    "utime",
    "ftruncate",
)


class Counter:
    """Stands in for the calls that change something: the one with number ``at`` fails instead."""

    def __init__(self, at: int, fail: Callable[[], None]) -> None:
        self.count = 0
        self.at = at
        self.fail = fail

    def around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **more: Any) -> Any:
            self.count += 1
            if self.count == self.at:
                self.fail()
            return call(*args, **more)

        return counted

    def install(self, patch: pytest.MonkeyPatch) -> None:
        for name in STEPS:
            patch.setattr(os, name, self.around(getattr(os, name)))
        for module in (adopt, hand_over, plain, switch):
            patch.setattr(module, "exchange", self.around(module.exchange))


def run_and_die(work: Callable[[Path], Any], root: Path, at: int) -> bool:
    """Run ``work`` in a process that is gone before its step ``at``; False when it has fewer steps."""
    child = os.fork()
    if child == 0:
        with pytest.MonkeyPatch.context() as patch:
            Counter(at, lambda: os._exit(9)).install(patch)
            try:
                work(root)
            finally:
                os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def run_with_error(work: Callable[[Path], Any], root: Path, at: int) -> bool:
    """Run ``work`` with ENOSPC at its step ``at``; False when it has fewer steps."""

    def fail() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "somewhere")

    with pytest.MonkeyPatch.context() as patch:
        counter = Counter(at, fail)
        counter.install(patch)
        try:
            work(root)
        except WorkerError as error:
            assert error.code == "no-space", error.message
            assert "free space" in error.message
    return counter.count >= at


def files_below(root: Path, *without: str) -> Iterator[os.stat_result]:
    """What lstat says of all files below a folder, but for links."""
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in without]
        yield from (Path(folder, name).lstat() for name in names if not Path(folder, name).is_symlink())


@contextlib.contextmanager
def in_memory() -> Iterator[Path]:
    """A fresh folder, in memory where the machine has one: thousands of runs each wait for the disk several times."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="trainops-", dir=memory) as path:
        yield Path(path)
