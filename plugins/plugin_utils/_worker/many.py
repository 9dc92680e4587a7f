# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Many calls that only wait for the file system, at once: a disk, and a busy node, answer eight nearly as fast as one.

Not for work that computes: Python runs one thread at a time, and they get in each other's way.
"""

from __future__ import annotations

import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

_THREADS = 8
_FEW = 16


def each(items: Iterable[Any], work: Callable[[Any], object]) -> None:
    """Call ``work`` for every item, in any order, from several threads when there are many.

    Raises the first exception of any call; those that are under way then still end.
    """
    waiting, errors = list(items), list[BaseException]()
    waiting.reverse()

    def go() -> None:
        while waiting and not errors:
            try:
                item = waiting.pop()
            except IndexError:
                return
            try:
                work(item)
            except BaseException as error:  # a thread must lose none: it goes on in the caller
                errors.append(error)

    helpers = [threading.Thread(target=go) for _number in range(_THREADS - 1 if len(waiting) >= _FEW else 0)]
    for helper in helpers:
        helper.start()
    go()
    for helper in helpers:
        helper.join()
    if errors:
        raise errors[0]
