# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Owners by name and number, and numbers that an unprivileged container does not have."""

from __future__ import annotations

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker import owners
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.channel import WorkerError


@pytest.fixture
def unprivileged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owners, "_spans", lambda kind: [(0, 65536)])


@pytest.mark.parametrize(
    ("option", "value", "number"),
    [("owner", None, None), ("owner", "root", 0), ("group", "root", 0), ("owner", "1234", 1234), ("group", "0", 0)],
)
def test_owners(unprivileged: None, option: str, value: str | None, number: int | None) -> None:
    assert owners.identity(option, value) == number


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("owner", "nobody-here", "option owner: the container has no user 'nobody-here': create the user"),
        ("group", "nobody-here", "option group: the container has no group 'nobody-here': create the group"),
        ("owner", "70000", "option owner: 70000 is no id of this container, which has 0 to 65535"),
        ("group", "-1", "option group: the container has no group '-1'"),
        ("owner", "", "option owner: the container has no user ''"),
    ],
)
def test_who_is_not_there(unprivileged: None, option: str, value: str, text: str) -> None:
    with pytest.raises(WorkerError) as caught:
        owners.identity(option, value)
    assert caught.value.code == "owner"
    assert caught.value.message.startswith(text)


def test_the_ids_of_this_machine() -> None:
    assert owners._spans("uid")[0][0] == 0
    with pytest.raises(WorkerError):
        owners.identity("owner", "4294967295")  # it would mean: leave the owner as it is
