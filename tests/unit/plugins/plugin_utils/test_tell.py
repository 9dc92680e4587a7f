# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A line every ten seconds, and no more."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils.tell import indent, progress_text, room, teller


def test_a_line_every_ten_seconds() -> None:
    times = iter([100.0, 104.0, 110.5, 111.0, 120.4, 121.0])
    shown: list[str] = []
    task_vars = {"inventory_hostname": "ct1", "ansible_play_hosts_all": ["ct1", "ct100"]}
    tell = teller(shown.append, task_vars, "check", lambda: next(times))
    for done in range(1, 6):
        tell({"done": done, "total": 9, "what": "files read"})
    assert shown == [
        "ct1    check    2 of 9 files read after 10 s",
        "ct1    check    5 of 9 files read after 21 s",
    ]


def test_whoever_keeps_a_step_waiting_is_named_at_once() -> None:
    shown: list[str] = []
    tell = teller(shown.append, {"inventory_hostname": "ct1"}, "release", lambda: 1.0)
    tell({"done": 0, "total": 0, "what": "seconds waited", "waits_for": "ann@desk\x1b since 09:12"})
    assert shown == ["ct1  release  waits for ann@desk\\x1b since 09:12"]


def test_a_run_that_was_asked_to_stop_is_named_at_once() -> None:
    shown: list[str] = []
    tell = teller(shown.append, {"inventory_hostname": "ct1"}, "run", lambda: 1.0)
    tell({"done": 0, "total": 60, "what": "seconds waited", "asked": "r3"})
    tell({"done": 0, "total": 60, "what": "seconds waited", "asked": "r3; echo"})
    assert shown == ["ct1  run      r3 was asked to stop, it has 60 s for that"]


def test_without_a_play() -> None:
    times = iter([0.0, 60.0])
    shown: list[str] = []
    teller(shown.append, {}, "check", lambda: next(times))({"done": 1, "total": 2, "what": "files read"})
    assert len(shown) == 1


@pytest.mark.parametrize(
    ("variables", "line"),
    [
        ({"inventory_hostname": "ct200"}, "ct200  check    "),
        ({"inventory_hostname": "a", "ansible_play_hosts_all": ["a", "longer"]}, "a       check    "),
    ],
)
def test_the_room_of_a_text(variables: dict[str, Any], line: str) -> None:
    assert room(variables, "check") == 80 - len(line)
    assert indent(variables) == line.index("check")


def test_progress() -> None:
    assert progress_text({"done": 5 * 10**7, "total": 3 * 10**8, "what": "bytes received"}, 10.2) == (
        "50 MB of 300 MB received after 10 s"
    )
    copied = {"done": 3, "total": 500, "what": "files compared"}
    assert progress_text(copied, 20) == "3 of 500 files compared after 20 s"
