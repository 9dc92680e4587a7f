# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The files of pct push and pct pull: in place, never checked, as the real ones are copied."""

from __future__ import annotations

import contextlib
import os
import re
import time

from .failure import Failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

SMALLEST = 1024  # the buffer sizes of Perl's File::Copy
LARGEST = 2 * 1024 * 1024


class Wish:
    """What was asked for a destination: each text as it was given, None when it was not."""

    def __init__(self, options: dict[str, str]) -> None:
        self.perms = options.get("perms")
        self.user = options.get("user")
        self.group = options.get("group")


def parse_perms(text: str) -> int:
    """A mode in octal, or hexadecimal with 0x; the real one puts a 0 before anything that does not begin with one."""
    text = text if text.startswith("0") else f"0{text}"
    if re.fullmatch(r"0[0-7]*", text):
        return int(text, 8)
    if re.fullmatch(r"0[xX][0-9a-fA-F]+", text):
        return int(text, 16)
    raise Failure(f"invalid mode: '{text}'\n")


def find_id(text: str, database: str, what: str) -> int:
    """An id by number or by name from /etc/passwd or /etc/group; a number wraps at 32 bits as in the system call."""
    if re.fullmatch(r"[0-9]+", text):
        return int(text) & 0xFFFFFFFF
    with contextlib.suppress(FileNotFoundError), open(database, encoding="utf-8", errors="replace") as stream:
        for line in stream:
            name, _, rest = line.partition(":")
            if name == text:
                return int(rest.split(":")[1])
    raise Failure(f"failed to get {what} for: {text}\n")


def create(path: str, wish: Wish) -> int:
    """Open a destination for writing, emptied, with what was asked of it.

    :returns: its descriptor.
    :raises Failure: with the text of the real one. A file that it made or emptied stays as it is then.
    """
    uid = None if wish.user is None else find_id(wish.user, "/etc/passwd", "uid")
    gid = None if wish.group is None else find_id(wish.group, "/etc/group", "gid")
    mode = None if wish.perms is None else parse_perms(wish.perms)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0)
        mode = 0o666 & ~_umask() if mode is None else mode
    except OSError:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise Failure(f"failed to create file: {path}: {error.strerror}\n") from None
    if mode is not None:
        _change(lambda: os.fchmod(descriptor, mode & 0o7777), "permissions")
    if uid is not None or gid is not None:
        now = os.fstat(descriptor)
        owner = now.st_uid if uid is None else uid
        group = now.st_gid if gid is None else gid
        # -1 leaves an owner as it is; what was asked as 4294967295 arrives as that
        _change(lambda: os.fchown(descriptor, *(-1 if i == 0xFFFFFFFF else i for i in (owner, group))), "owner")
    return descriptor


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _change(change: Callable[[], None], what: str) -> None:
    try:
        change()
    except OSError as error:
        raise Failure(f"failed to change file {what}: {error.strerror}\n") from None


def copy(source: int, destination: int, fault: dict[str, Any]) -> None:
    """Copy to the end of the source, or until the first failure, of which nobody hears."""
    with contextlib.suppress(OSError):
        size = os.fstat(source).st_size
        size = min(size if size >= 512 else SMALLEST, LARGEST)
        left = int(fault.get("copy_bytes", -1))
        while left and (data := os.read(source, size if left < 0 else min(size, left))):
            left -= len(data) if left > 0 else 0
            write(destination, data)
            if "copy_rate" in fault:
                time.sleep(len(data) / float(fault["copy_rate"]))
    with contextlib.suppress(OSError):
        os.close(destination)


def write(descriptor: int, data: bytes) -> None:
    """Write all of the data.

    :raises OSError: when that fails.
    """
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def open_source(path: str) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        raise Failure(f"failed to open {path} for reading\n") from None


def open_inside(path: str) -> int:
    """The source of a pull, which has another text than that of a push."""
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise Failure(f"failed to open {path}: {error.strerror}\n") from None
