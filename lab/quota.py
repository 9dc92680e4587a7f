# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A folder in a container with a quota: a btrfs of the machine's, of which the container may use up only so much.

What is free there says nothing of it, as with the quotas that an admin sets.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from . import faults, processes, spec
from .containers import Container
from .errors import LabError
from .system import check

_DISK = 128 << 20  # about the smallest there is
# Moves a mount into another mount namespace: open_tree(2) and move_mount(2), for which libraries have no names yet.
_MOVE = """
import ctypes, os, sys
pid, source, target = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
def done(value):
    if value < 0:
        sys.exit(os.strerror(ctypes.get_errno()))
    return value
tree = done(libc.syscall(428, -100, os.fsencode(source), 1))
done(libc.setns(os.open("/proc/%s/ns/mnt" % pid, os.O_RDONLY), 0x20000))
done(libc.syscall(429, tree, b"", -100, os.fsencode(target), 4))
"""


@contextlib.contextmanager
def quota(container: Container, folder: str, size: int) -> Iterator[None]:
    """A disk with much room on a folder that is there, of which only so many bytes may be used."""
    init = processes.init(container)
    if init is None:
        raise LabError(f"container {container.vmid} does not run")
    with _disk(container.image.with_name(f"quota-{container.vmid}"), size) as mounted:
        first = spec.ID_BASE if container.spec.unprivileged else 0
        os.chown(mounted, first, first)
        check([sys.executable, "-c", _MOVE, str(init), str(mounted), folder])
        try:
            yield
        finally:
            faults.unmount(container, folder)


@contextlib.contextmanager
def _disk(folder: Path, size: int) -> Iterator[Path]:
    """A btrfs with a quota, mounted on a folder on this machine."""
    image = folder.with_suffix(".img")
    folder.mkdir(exist_ok=True)
    try:
        with image.open("wb") as stream:
            stream.truncate(_DISK)
        check(["mkfs.btrfs", "-q", str(image)])
        check(["mount", "-o", "loop", str(image), str(folder)])
        try:
            check(["btrfs", "quota", "enable", str(folder)])
            check(["btrfs", "qgroup", "limit", str(size), str(folder)])
            yield folder
        finally:
            check(["umount", str(folder)])
    finally:
        image.unlink(missing_ok=True)
        folder.rmdir()
