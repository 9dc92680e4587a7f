# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names that no rename can replace: what is mounted where in the container, and files that an attribute holds."""

from __future__ import annotations

import fcntl
import os
import stat
import struct

from .store import lstat

_GET_ATTRIBUTES = 0x80086601  # FS_IOC_GETFLAGS of a system with 64 bits
_HELD = 0x10 | 0x20  # FS_IMMUTABLE_FL, FS_APPEND_FL


def mount_points() -> list[str]:
    """The real paths of all mount points."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
        fields = [line.split(" ")[4] for line in lines]
    return [_unescape(field) for field in fields]


def is_held(folder: int, path: str, closely: bool = False) -> bool:
    """Whether an attribute keeps the file or folder ``path`` below ``folder`` from being moved.

    That is chattr +i, and where it is looked at ``closely`` +a, too. Known to root alone, for whom nothing else forbids
    to write.
    """
    if os.geteuid():
        return False
    info = lstat(folder, path)
    if info is None or not (stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode)):
        return False
    return not os.access(path, os.W_OK, dir_fd=folder) or (closely and _attributes(folder, path) & _HELD != 0)


def _attributes(folder: int, path: str) -> int:
    """The attributes of a file or folder; 0 where its file system has none."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        return int(struct.unpack("l", fcntl.ioctl(fd, _GET_ATTRIBUTES, b"\0" * 8)[:8])[0])
    except OSError:
        return 0
    finally:
        os.close(fd)


def _unescape(field: str) -> str:
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        field = field.replace(code, char)
    return field
