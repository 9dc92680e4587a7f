# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Several at once in one container: who waits for whom, and says so; what goes on beside; a lock that is never stale.

A deploy is held in its middle, where it has asked for a file and the answer is not given yet.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import StepError
from ansible_collections.trainops.proxmox.plugins.plugin_utils.exchange import (
    ConnectionLost,
    Request,
    exchange,
    no_answer,
)
from ansible_collections.trainops.proxmox.plugins.plugin_utils.frames import Frame
from ansible_collections.trainops.proxmox.plugins.plugin_utils.project import read_project
from ansible_collections.trainops.proxmox.plugins.plugin_utils.release import sender

from tests.integration.connections import connect
from tests.integration.inside import folder_in, inside, shell
from tests.integration.runs import TRAIN, Place
from tests.unit.releasing import Files, params, write

ANN, BOB = "ann@desk", "bob@mac"
SECONDS = 120.0


@pytest.fixture
def root(tmp_path: Path) -> Iterator[str]:
    with folder_in([201], tmp_path.name) as folder:
        yield folder


class Work:
    """An operation in container 201, in a thread of its own."""

    def __init__(self, root: str, operation: str, who: str, files: Files | None = None, **more: Any) -> None:
        self.at_its_middle, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()
        self.waits_for: list[str] = []
        self.waiting = threading.Event()
        self.result: dict[str, Any] = {}
        self.error: Exception | None = None
        self._folder = more.pop("folder", None)
        self._asked = (operation, {**params(Path(root), files or {}), "who": who, "patience": SECONDS, **more})
        self._files = files
        self._thread = threading.Thread(target=self._run)

    def start(self, hold: bool = False) -> Work:
        if hold:
            self.go_on.clear()
        self._thread.start()
        if hold:
            assert self.at_its_middle.wait(SECONDS), self.error
        return self

    def end(self) -> dict[str, Any]:
        """Let it go on; its result."""
        self.go_on.set()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()
        return self.result

    def _run(self) -> None:
        operation, asked = self._asked
        answer: Any = no_answer
        if self._files is not None and self._folder:
            write(self._folder, self._files)
            project = read_project(str(self._folder), [], "/")
            asked = {**asked, "manifest": {"files": project.rows}}
            send = sender(project.files)

            def answer(frame: dict[str, Any]) -> Iterator[Frame]:
                self.at_its_middle.set()
                self.go_on.wait(SECONDS)
                yield from send(frame)

        def told(frame: dict[str, Any]) -> None:
            if frame.get("waits_for"):
                self.waits_for.append(frame["waits_for"])
                self.waiting.set()

        request = Request(operation, asked, "/usr/bin/python3", SECONDS + 60)
        try:
            self.result = exchange(connect("ct201"), request, answer, told).result
        except (StepError, ConnectionLost) as error:
            self.error = error


def deploy(root: str, folder: Path, who: str, text: str, **more: Any) -> Work:
    return Work(root, "release", who, {"train.py": TRAIN, "model.py": text}, folder=folder, **more)


def ask(root: str, operation: str, **more: Any) -> dict[str, Any]:
    """The result of an operation that waits for nobody."""
    work = Work(root, operation, BOB, **more).start()
    work.end()
    assert work.error is None, work.error
    assert work.waits_for == []
    return work.result


WAITERS: dict[str, Callable[[str, Path], Work]] = {
    "deploy": lambda root, folder: deploy(root, folder / "second", BOB, "V = 9\n"),
    "rollback": lambda root, _folder: Work(root, "rollback", BOB, to=None),
    "eject": lambda root, _folder: Work(root, "eject", BOB),
}


@pytest.mark.parametrize("waiter", WAITERS)
def test_whoever_comes_during_a_deploy_waits_for_it_and_is_told_whose_it_is(
    tmp_path: Path, root: str, waiter: str
) -> None:
    for number in (1, 2):
        deploy(root, tmp_path / "first", ANN, f"V = {number}\n").start().end()
    held = deploy(root, tmp_path / "first", ANN, "V = 3\n").start(hold=True)
    second = WAITERS[waiter](root, tmp_path).start()
    assert second.waiting.wait(SECONDS), second.error
    assert second.waits_for[0].startswith(f"{ANN} since ")
    # What only looks waits for nobody, and neither does another project in the same folder.
    assert inside(201, "cat", f"{root}/model.py") == "V = 2\n"
    assert ask(root, "compare", manifest=None)["by_hand"] == []
    assert ask(root, "rollback", to=None, check_mode=True)["waits_for"].startswith(f"{ANN} since ")
    other = Work(root, "release", BOB, {"other.py": "o\n"}, name="other", folder=tmp_path / "other").start()
    assert (other.end()["changed"], other.waits_for) == (True, []), other.error
    first, last = held.end(), second.end()
    assert (held.error, second.error) == (None, None)
    if waiter == "eject":
        assert last["release_id"] == first["release_id"]
        assert inside(201, "cat", f"{root}/model.py") == "V = 3\n"
        assert shell(201, 'ls -A "$1/.trainops"', root).split() == [".lock", "other"]
        return
    past = ask(root, "runs", logs=0)["projects"][0]["activations"]
    assert [(one["activation"], one["who"], one["kind"]) for one in past] == [
        (1, ANN, "deploy"),
        (2, ANN, "deploy"),
        (3, ANN, "deploy"),
        (4, BOB, waiter),
    ]
    assert (last["previous_release_id"], last["activation"]) == (first["release_id"], 4)
    assert inside(201, "cat", f"{root}/model.py") == ("V = 9\n" if waiter == "deploy" else "V = 2\n")


def test_a_killed_deploy_leaves_no_lock(tmp_path: Path, root: str) -> None:
    deploy(root, tmp_path / "first", ANN, "V = 1\n").start().end()
    held = deploy(root, tmp_path / "first", ANN, "V = 2\n").start(hold=True)
    second = WAITERS["deploy"](root, tmp_path).start()
    assert second.waiting.wait(SECONDS), second.error
    holder = second.waits_for[0].rpartition("(process ")[2].split()[0]
    inside(201, "kill", "-9", holder)
    assert second.end()["changed"], second.error
    held.end()
    assert isinstance(held.error, ConnectionLost)
    assert inside(201, "cat", f"{root}/model.py") == "V = 9\n"
    assert ".stage-" not in shell(201, 'ls -A "$1/.trainops/demo/releases"', root)


def test_a_run_keeps_its_release_through_deploys_and_a_launch_waits_for_one(tmp_path: Path, root: str) -> None:
    place = Place("ct201", root)
    first = deploy(root, tmp_path / "first", ANN, "V = 1\n").start().end()["release_id"]
    held = deploy(root, tmp_path / "first", ANN, "V = 2\n").start(hold=True)
    started: dict[str, Any] = {}
    launch = threading.Thread(target=lambda: started.update(place.start("loop")))
    launch.start()
    # It has looked at what is live, and goes on when the deploy is done.
    held.end()
    launch.join(SECONDS)
    assert not started.get("failed"), started
    used = started["release_id"]
    try:
        for number in range(3, 7):
            done = deploy(root, tmp_path / "first", ANN, f"V = {number}\n", keep=2).start().end()
            assert used not in done["pruned"]
        assert ask(root, "rollback", to=used[:9], check_mode=True)["release_id"] == used
        listed = place.step("listed", history=9)
        assert f"{used[:7]} {started['run']}" in listed["table"]
        assert f"{done['release_id'][:7]} live" in listed["table"]
        refused = Work(root, "eject", BOB).start()
        refused.end()
        assert isinstance(refused.error, StepError)
        assert (refused.error.code, started["run"] in refused.error.message) == ("run-alive", True)
    finally:
        place.stop(started["run"])
    gone = deploy(root, tmp_path / "first", ANN, "V = 7\n", keep=2).start().end()["pruned"]
    assert used in gone
    assert first not in shell(201, 'ls "$1/.trainops/demo/releases"', root)
