# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lock: whoever waits is told for whom, and it goes with its holder, however that ends."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker import lock as locks
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.lock import Lock, held_by

from tests.unit.releasing import ME, Controller, deploy, history, home, live, refusal, roll_back


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY)
    yield fd
    os.close(fd)


def held_elsewhere(folder: int, who: str) -> Callable[[], None]:
    """Have another process hold the lock; returns what kills that process and waits for its end."""
    ready, done = os.pipe()
    child = os.fork()
    if child == 0:
        with Lock(folder, "lock", "lock", who, 5):
            os.write(done, b"x")
            signal.pause()
    os.read(ready, 1)
    os.close(ready)
    os.close(done)

    def end() -> None:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)

    return end


def test_whoever_waits_is_told_for_whom_and_goes_on_when_that_one_is_killed(
    folder: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_TELL_SECONDS", 0)
    end = held_elsewhere(folder, "ann@desk")
    told: list[str] = []

    def tell(holder: str) -> None:
        told.append(holder)
        end()

    with Lock(folder, "lock", "lock", "bob@desk", 60, tell):
        assert str(held_by(folder, "lock", "lock")).startswith("bob@desk since ")
    assert len(told) == 1
    assert told[0].startswith("ann@desk since ")
    assert held_by(folder, "lock", "lock") is None


def test_each_holder_is_told_once(folder: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "_TELL_SECONDS", 0)
    monkeypatch.setattr(locks, "_POLL_SECONDS", 0.001)
    ends = [held_elsewhere(folder, "ann@desk")]
    looks = 0
    find = locks._holder

    def look(*place: Any) -> str:
        nonlocal looks
        looks += 1
        if looks == 5:
            ends.pop()()
            ends.append(held_elsewhere(folder, "cat@desk"))
        elif looks == 10:
            ends.pop()()
        return find(*place)

    monkeypatch.setattr(locks, "_holder", look)
    told: list[str] = []
    with Lock(folder, "lock", "lock", "bob@desk", 60, told.append):
        pass
    assert [holder.split()[0] for holder in told] == ["ann@desk", "cat@desk"]


def test_who_waits_no_longer_than_a_moment_is_told_nothing(folder: int) -> None:
    told: list[str] = []
    with Lock(folder, "lock", "lock", "ann@desk", 0):
        assert "ann@desk" in refusal(Lock(folder, "lock", "lock", "bob@desk", 0.2, told.append).__enter__).message
    assert told == []


@pytest.mark.parametrize("work", [deploy, roll_back], ids=["deploy", "rollback"])
def test_a_deploy_and_a_rollback_say_for_whom_they_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: Callable[..., Any]
) -> None:
    monkeypatch.setattr(locks, "_TELL_SECONDS", 0)
    deploy(tmp_path, {"a.py": "1"})
    deploy(tmp_path, {"a.py": "2"})
    fd = os.open(home(tmp_path), os.O_RDONLY)
    end = held_elsewhere(fd, "ann@desk")
    waited = threading.Event()

    class Told(Controller):
        def waits(self, holder: str) -> None:
            super().waits(holder)
            waited.set()

    def free() -> None:
        waited.wait(60)
        end()

    helper = threading.Thread(target=free)
    helper.start()
    controller = Told({"a.py": "3"})
    if work is deploy:
        deploy(tmp_path, {"a.py": "3"}, controller, patience=60)
    else:
        monkeypatch.setattr("tests.unit.releasing.Controller", lambda _files: controller)
        roll_back(tmp_path, patience=60)
    helper.join()
    os.close(fd)
    assert [holder.split()[0] for holder in controller.waited_for] == ["ann@desk"]
    assert (history(tmp_path)[-1]["activation"], history(tmp_path)[-1]["who"]) == (3, ME)
    assert history(tmp_path)[-1]["release"] == live(tmp_path)
