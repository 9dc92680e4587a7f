# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every item once, whatever their number, and no exception of a thread is lost."""

from __future__ import annotations

import threading

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.many import each


@pytest.mark.parametrize("count", [0, 1, 15, 16, 500])
def test_every_item_once(count: int) -> None:
    done: list[int] = []
    each(range(count), done.append)
    assert sorted(done) == list(range(count))


def test_many_wait_at_once() -> None:
    together = threading.Barrier(8, timeout=30)
    each(range(16), lambda _item: together.wait())


@pytest.mark.parametrize("count", [3, 100])
@pytest.mark.parametrize("error", [OSError("full"), ValueError("a bug"), SystemExit(3)])
def test_an_exception_comes_out_and_the_rest_is_left(count: int, error: BaseException) -> None:
    done: list[int] = []

    def work(item: int) -> None:
        if item == 1:
            raise error
        done.append(item)

    with pytest.raises(type(error)):
        each(range(count), work)
    assert 1 not in done
