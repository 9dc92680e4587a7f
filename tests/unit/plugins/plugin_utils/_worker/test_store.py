# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lock, and the store's small parts: names, ids, times, activations."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker import store
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.lock import Lock

from tests.unit.releasing import Files, deploy, history, home, live, refusal, roll_back, rows, visible

A, B = {"a.py": "1"}, {"a.py": "2"}

HOLDER = """
import os, sys, time
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.lock import Lock
folder = os.open(sys.argv[1], os.O_RDONLY)
with Lock(folder, "lock", "the lock", "alice@desk", 1.0):
    print("held", flush=True)
    time.sleep(60)
"""


def hold(folder: Path) -> subprocess.Popen[bytes]:
    """A process that holds the lock in ``folder``."""
    process = subprocess.Popen([sys.executable, "-c", HOLDER, folder], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    return process


def test_who_holds_the_lock_is_named_and_death_frees_it(tmp_path: Path) -> None:
    deploy(tmp_path, A)
    with hold(home(tmp_path)) as process:
        record = json.loads(home(tmp_path, "lock").read_text())
        with open(f"/proc/{process.pid}/stat") as stat:
            assert (record["pid"], str(record["started"])) == (process.pid, stat.read().rpartition(")")[2].split()[19])
        error = refusal(deploy, tmp_path, B)
        assert error.code == "locked"
        assert f"held by alice@desk since {record['since']} (process {process.pid} there)" in error.message
        assert refusal(roll_back, tmp_path, "1").code == "locked"
        assert not deploy(tmp_path, A, check_mode=True)["changed"]  # looking needs no lock
        process.send_signal(signal.SIGKILL)
    deploy(tmp_path, B)
    assert visible(tmp_path) == {"a.py": b"2"}


def test_a_waiting_deploy_goes_on_as_soon_as_the_lock_is_free(tmp_path: Path) -> None:
    deploy(tmp_path, A)
    with hold(home(tmp_path)) as process:
        release = subprocess.Popen(["sh", "-c", 'sleep 0.3; kill -9 "$1"', "sh", str(process.pid)])
        deploy(tmp_path, B, patience=30)
        release.wait()
    assert visible(tmp_path) == {"a.py": b"2"}


@pytest.mark.parametrize("text", [b"", b"{", b'"x"', b"{}", b'{"who": "x"}', b"\xff"])
def test_what_a_lock_file_says_does_not_matter_when_nobody_holds_it(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "lock").write_bytes(text)
    folder = os.open(tmp_path, os.O_RDONLY)
    with Lock(folder, "lock", "the lock", "me", 0):
        if text != b"\xff":
            (tmp_path / "lock").write_bytes(text)
            error = refusal(Lock(folder, "lock", "the lock", "you", 0).__enter__)
            assert "the lock is held by somebody" in error.message
    os.close(folder)


def test_a_removed_lock_file_is_no_lock(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    with Lock(folder, "lock", "the lock", "first", 0):
        (tmp_path / "lock").unlink()
        with Lock(folder, "lock", "the lock", "second", 0):
            assert refusal(Lock(folder, "lock", "the lock", "third", 0).__enter__).code == "locked"
    os.close(folder)


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a/b", "a b", "ü", "a\n"])
def test_names_that_are_no_folder_of_ours(tmp_path: Path, name: str) -> None:
    assert refusal(deploy, tmp_path, A, name=name).code == "name"


def test_the_id_follows_from_the_files_alone() -> None:
    files = rows({"b": "1", "a/c": "2"})
    assert store.release_id(files) == store.release_id(list(reversed(files)))
    others: list[Files] = [{"b": "1", "a/c": "3"}, {"b": "1", "a/d": "2"}, {"b": "1", "a/c": "2", "e/": b""}]
    for other in others:
        assert store.release_id(rows(other)) != store.release_id(files)
    assert store.release_id(rows({"b": "1"}, shared=("x",))) != store.release_id(rows({"b": "1"}))
    assert store.release_id(rows({"b": "1"}, links={"x": "b"})) != store.release_id(
        rows({"b": "1"}, links={"x": "./b"})
    )


def test_times_are_in_the_past_and_differ() -> None:
    times = [store.content_mtime(row["sha256"]) for row in rows({str(n): str(n) for n in range(2000)})]
    assert len(set(times)) == 2000
    assert time.gmtime(min(times)).tm_year >= 2001
    assert time.gmtime(max(times)).tm_year <= 2009


def test_a_torn_line_loses_nothing_else(tmp_path: Path) -> None:
    deploy(tmp_path, A)
    with home(tmp_path, "activations").open("a") as stream:
        stream.write('{"activation": 2, "rel')
    assert len(history(tmp_path)) == 1
    assert deploy(tmp_path, B)["activation"] == 2
    assert [record["activation"] for record in history(tmp_path)] == [1, 2]


def test_an_activation_that_never_came_true_is_struck(tmp_path: Path) -> None:
    deploy(tmp_path, A)
    first = live(tmp_path)
    with home(tmp_path, "activations").open("a") as stream:
        stream.write(json.dumps({"activation": 2, "release": "f" * 64, "from": first}) + "\n")
    deploy(tmp_path, A)
    assert [record["activation"] for record in history(tmp_path)] == [1]
    assert deploy(tmp_path, B)["activation"] == 3  # a number is never used twice
    assert roll_back(tmp_path)["release_id"] == first


def test_a_link_that_was_moved_by_hand_is_noticed(tmp_path: Path) -> None:
    deploy(tmp_path, A)
    first = live(tmp_path)
    deploy(tmp_path, B)
    home(tmp_path, "current").unlink()
    home(tmp_path, "current").symlink_to(f"releases/{first}")
    roll_back(tmp_path, "2")
    kinds: list[Any] = [(record["kind"], record["release"] == first) for record in history(tmp_path)]
    assert kinds == [("deploy", True), ("deploy", False), ("found", True), ("rollback", False)]
    deploy(tmp_path, A)
    home(tmp_path, "activations").write_text("")
    assert deploy(tmp_path, A)["activation"] == 1
    assert [record["kind"] for record in history(tmp_path)] == ["found"]


def test_live_release_for_the_check(tmp_path: Path) -> None:
    assert store.live_release(str(tmp_path), "demo") is None
    deploy(tmp_path, A)
    found = store.live_release(str(tmp_path), "demo")
    assert found is not None
    assert (found[0], set(found[1]["files"])) == (live(tmp_path), {"a.py"})
    assert store.project_names(str(tmp_path)) == ["demo"]
