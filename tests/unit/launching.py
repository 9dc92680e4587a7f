# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operations `launch`, `runs` and `stop`, driven in a folder of this machine; what they start is real."""

from __future__ import annotations

import os
import secrets
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker import launch, members, runs, stop
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.runs import Run
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.store import open_store

ME = "tester@desk"
PATIENCE = 20.0
_Value = TypeVar("_Value")


class Decider:
    """The controller's side of a launch: answers `ready` with these frames, and notes what it was told."""

    def __init__(self, *answers: dict[str, Any], meddle: Callable[[], object] | None = None) -> None:
        self.answers = list(answers or ({"kind": "go", "gpus": []},))
        self.told: list[dict[str, Any]] = []
        self.waited_for: list[str] = []
        self.asked_to_stop: list[str] = []
        self.meddle = meddle

    def send(self, kind: str, body: dict[str, Any]) -> None:
        self.told.append({**body, "kind": kind})

    def receive(self, *kinds: str) -> dict[str, Any]:
        if self.meddle:
            self.meddle()
        answer = self.answers.pop(0)
        assert answer["kind"] in kinds
        return answer

    def progress(self, done: int, total: int, what: str) -> None:
        assert done <= total

    def waits(self, holder: str) -> None:
        self.waited_for.append(holder)

    def asked(self, run: str, seconds: int) -> None:
        assert seconds >= 0
        self.asked_to_stop.append(run)


def wish(root: Path, **more: Any) -> dict[str, Any]:
    """The parameters of a launch without GPUs."""
    return {
        "root": str(root),
        "name": "demo",
        "release": None,
        "token": secrets.token_hex(16),
        "command": None,
        "script": None,
        "args": None,
        "env": {},
        "env_file": None,
        "pythonpath": [],
        "like": None,
        "python": sys.executable,
        "systemd": "never",
        "gpus": None,
        "who": ME,
        "patience": 0.3,
        "check_mode": False,
        **more,
    }


def start(root: Path, decider: Decider | None = None, **more: Any) -> dict[str, Any]:
    return launch.run(decider or Decider(), wish(root, **more))  # type: ignore[arg-type]


def script(root: Path, text: str, *words: str, **more: Any) -> dict[str, Any]:
    """Start a run that executes a few lines of Python, which are no part of the release."""
    decider = more.pop("decider", None)
    return start(root, decider, command=["{python}", "-c", text, *words], **more)


def read(root: Path, run: str = "r1", name: str = "demo") -> Run:
    with open_store(str(root), name, create=False) as store:
        found = runs.read_run(store, run)
    assert found is not None
    return found


def until(condition: Callable[[], _Value], what: str = "it never came true") -> _Value:
    """The first true value of a condition that comes true sooner or later."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.005)
    raise AssertionError(what)


def ended(root: Path, run: str = "r1") -> Run:
    """A run as soon as it is over."""
    until(lambda: not read(root, run).alive, f"{run} did not end")
    return read(root, run)


def says(root: Path, text: str, run: str = "r1") -> str:
    """The log of a run as soon as a text is in it."""
    path = home(root, run) / "log"
    until(lambda: path.exists() and text in path.read_text(), f"{text!r} never came")
    return path.read_text()


def home(root: Path, run: str = "r1", name: str = "demo") -> Path:
    return root / ".trainops" / name / "runs" / run


def stopped(root: Path, run: str | None = "r1", **more: Any) -> dict[str, Any]:
    told = {"root": str(root), "name": "demo", "run": run, "signal": "TERM", "patience": PATIENCE, "who": ME}
    decider: Any = more.pop("decider", None) or Decider()
    return stop.run(decider, {**told, "check_mode": False, **more})


def supervisor_gone(root: Path, run: str = "r1") -> None:
    """Wait until nothing of a run is left, its supervisor included."""
    until(lambda: not read(root, run).supervised, f"the supervisor of {run} stays")
    supervisor = read(root, run).record["supervisor"]
    until(lambda: supervisor is None or runs.start_of(supervisor["pid"]) != supervisor["start"])


def kill_all(root: Path) -> None:
    """Whatever a test left running."""
    with open_store(str(root), "demo", create=False) as store:
        for run in runs.all_runs(store):
            supervisor = run.record["supervisor"]
            if supervisor and runs.start_of(supervisor["pid"]) == supervisor["start"]:
                os.kill(supervisor["pid"], signal.SIGKILL)
            until(lambda run=run: not members.kill(members.find(run), signal.SIGKILL))  # type: ignore[misc]
