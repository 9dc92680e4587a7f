# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names of runs, and their files, put in place whole; one that could not be leaves nothing."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re

from .store import write_all

_ID = re.compile(r"r[1-9][0-9]*")


def is_run_id(text: str) -> bool:
    """Whether a text can be the id of a run, as in r12."""
    return _ID.fullmatch(text) is not None


def write_whole(folder: int, name: str, data: bytes) -> None:
    """Put a file in place in one step, on the disk when this returns."""
    os.close(write_locked(folder, name, data))


def write_locked(folder: int, name: str, data: bytes) -> int:
    """The same; returns the descriptor, by which the file is locked from the moment that it is there."""
    fresh = f".{name}.new"
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        write_all(fd, data)
        os.fsync(fd)
        os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        os.close(fd)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(fresh, dir_fd=folder)
        raise
    return fd
