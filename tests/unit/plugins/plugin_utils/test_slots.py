# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cap on sessions per node, over processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils import slots
from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import TrainopsError
from ansible_collections.trainops.proxmox.plugins.plugin_utils.slots import slot

HOLD = """
import sys
from ansible_collections.trainops.proxmox.plugins.plugin_utils.slots import slot
with slot(sys.argv[1], "node", 1, 0):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_no_more_than_the_limit_are_held_and_the_error_names_node_and_fix(tmp_path: Path) -> None:
    with slot(str(tmp_path), "root@n", 2, 0), slot(str(tmp_path), "root@n", 2, 0):
        with slot(str(tmp_path), "root@other", 2, 0):
            pass
        with pytest.raises(TrainopsError, match=r"root@n .*proxmox_sessions"), slot(str(tmp_path), "root@n", 2, 0):
            pass
    with slot(str(tmp_path), "root@n", 2, 0), slot(str(tmp_path), "root@n", 2, 0):
        pass


def test_a_killed_process_frees_its_place(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        if holder.stdout is None:
            pytest.fail("no pipe")
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(TrainopsError), slot(str(tmp_path), "node", 1, 0):
            pass
        holder.kill()
        with slot(str(tmp_path), "node", 1, 30):
            pass


def test_whoever_waits_is_told_for_what_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "TELL_SECONDS", 0.05)
    told: list[str] = []
    with slot(str(tmp_path), "root@n", 1, 0):
        with pytest.raises(TrainopsError), slot(str(tmp_path), "root@n", 1, 0.3, told.append):
            pass
        assert [text.partition(" (")[0] for text in told] == ["all 1 sessions to root@n are in use by this controller"]
        with pytest.raises(TrainopsError), slot(str(tmp_path), "root@n", 1, 0, told.append):
            pass
    with slot(str(tmp_path), "root@n", 1, 0.3, told.append):
        assert len(told) == 1


def test_whoever_waits_gets_the_place_that_becomes_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "TELL_SECONDS", 0.05)
    first = slot(str(tmp_path), "root@n", 1, 0)
    first.__enter__()

    def free(_text: str) -> None:
        first.__exit__(None, None, None)

    with slot(str(tmp_path), "root@n", 1, 30, free):
        pass
