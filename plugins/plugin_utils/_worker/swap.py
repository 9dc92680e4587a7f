# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two names change places in one step, so that a folder becomes a link without a moment in which neither is there."""

from __future__ import annotations

import errno
import os

_EXCHANGE = 2  # RENAME_EXCHANGE of renameat2(2)
_NUMBERS = {"x86_64": 316, "aarch64": 276, "riscv64": 276, "ppc64le": 357, "s390x": 347}
_UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.EPERM, errno.EOPNOTSUPP, errno.EXDEV)


def exchange(first_folder: int, first: str, second_folder: int, second: str) -> bool:
    """Exchange two names by renameat2. False when kernel or file system cannot; raises OSError for other failures."""
    import ctypes  # a third of a start-up that most runs do not need

    number = _NUMBERS.get(os.uname().machine)
    if number is None:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    done = libc.syscall(
        ctypes.c_long(number),
        ctypes.c_int(first_folder),
        ctypes.c_char_p(os.fsencode(first)),
        ctypes.c_int(second_folder),
        ctypes.c_char_p(os.fsencode(second)),
        ctypes.c_uint(_EXCHANGE),
    )
    if done == 0:
        return True
    code = ctypes.get_errno()
    if code in _UNSUPPORTED:
        return False
    raise OSError(code, os.strerror(code), second)
