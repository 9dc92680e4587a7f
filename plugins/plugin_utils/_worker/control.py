# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Opening the files that we keep beside the releases: plain files of a sane size, whatever somebody put in their place.

A named pipe would let the worker wait for ever, a device might do anything, and a link would lead elsewhere.
"""

from __future__ import annotations

import errno
import os
import stat

from .channel import WorkerError

MOST_BYTES = 256 << 20  # more than the manifest of a million files
_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NOT_PLAIN = (errno.ELOOP, errno.ENXIO, errno.EISDIR, errno.ENODEV)
_KINDS = {
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a folder",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_control(folder: int, name: str, shown: str, flags: int = os.O_RDONLY) -> int:
    """A descriptor of our file ``name`` in ``folder``; ``shown`` is its path for messages.

    Raises FileNotFoundError when it is missing (unless the flags make it), WorkerError("planted") when it is no plain
    file or larger than what we write.
    """
    try:
        before = os.stat(name, dir_fd=folder, follow_symlinks=False)  # to open a device may do something
    except FileNotFoundError:
        before = None
    if before:
        _require_plain(before, shown)
    try:
        fd = os.open(name, flags | _FLAGS, 0o644, dir_fd=folder)
    except OSError as error:
        if error.errno in _NOT_PLAIN:
            raise _planted(shown, "no plain file") from None
        raise
    try:
        _require_plain(os.fstat(fd), shown)
    except WorkerError:
        os.close(fd)
        raise
    return fd


def _require_plain(info: os.stat_result, shown: str) -> None:
    if not stat.S_ISREG(info.st_mode):
        raise _planted(shown, kind_of(info))
    if info.st_size > MOST_BYTES:
        raise _planted(shown, f"a file of {info.st_size / 1e6:.0f} MB, more than is ever written there")


def kind_of(info: os.stat_result) -> str:
    """What something is, for a sentence."""
    return _KINDS.get(stat.S_IFMT(info.st_mode), "a file")


def _planted(shown: str, what: str) -> WorkerError:
    return WorkerError("planted", f"{shown} is {what}, where a plain file of ours belongs: remove it, then run again")
