# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Old releases go, but never what is live, what a rollback needs, and what a run may still read from."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker import supervise
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.prune import surplus
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.releasing import deploy, home, live


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Held as a supervisor, or a launch, holds it."""
    with open(path, "a") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def record(folder: Path, name: str, **values: Any) -> None:
    (folder / name).write_text(json.dumps({"format": supervise.FORMAT, **values}))


def me() -> dict[str, Any]:
    return {"pid": os.getpid(), "start": supervise.start_of(os.getpid())}


@contextlib.contextmanager
def launching(folder: Path, release: str) -> Iterator[None]:
    """The record is there, and nobody has heard of the supervisor yet."""
    record(folder, supervise.RECORD, boot=supervise.boot(), release=release)
    with locked(folder / supervise.RECORD):
        yield


@contextlib.contextmanager
def running(folder: Path, release: str) -> Iterator[None]:
    record(folder, supervise.RECORD, boot=supervise.boot(), release=release)
    record(folder, supervise.STARTED, process=me())
    with locked(folder / supervise.LOCK):
        yield


@contextlib.contextmanager
def unsupervised(folder: Path, release: str) -> Iterator[None]:
    record(folder, supervise.RECORD, boot=supervise.boot(), release=release)
    record(folder, supervise.STARTED, process=me())
    yield


@contextlib.contextmanager
def ended_with_processes_left(folder: Path, release: str) -> Iterator[None]:
    with running(folder, release):
        record(folder, supervise.EXIT, how="exited", exit_code=0, left_over=[{"pid": 1}])
        yield


@contextlib.contextmanager
def running_with_a_damaged_record(folder: Path, release: str) -> Iterator[None]:
    with running(folder, release):
        (folder / supervise.RECORD).write_text("{")
        yield


@contextlib.contextmanager
def ended(folder: Path, release: str) -> Iterator[None]:
    record(folder, supervise.RECORD, boot=supervise.boot(), release=release)
    record(folder, supervise.STARTED, process=me())
    record(folder, supervise.EXIT, how="exited", exit_code=0)
    yield


@contextlib.contextmanager
def of_an_earlier_boot(folder: Path, release: str) -> Iterator[None]:
    record(folder, supervise.RECORD, boot="another", release=release)
    record(folder, supervise.STARTED, process=me())
    yield


@pytest.mark.parametrize(
    ("state", "stays"),
    [
        (launching, True),
        (running, True),
        (unsupervised, True),
        (ended_with_processes_left, True),
        (running_with_a_damaged_record, True),
        (ended, False),
        (of_an_earlier_boot, False),
    ],
)
def test_what_a_run_uses_stays_for_as_long_as_it_does(
    tmp_path: Path, state: Callable[[Path, str], Any], stays: bool
) -> None:
    deploy(tmp_path, {"train.py": "0\n"})
    used = str(live(tmp_path))
    run = home(tmp_path, "runs", "r1")
    run.mkdir(parents=True)
    with state(run, used):
        for number in range(1, 5):
            files = {"train.py": f"{number}\n"}
            predicted = deploy(tmp_path, files, keep=2, check_mode=True)["pruned"]
            assert predicted == deploy(tmp_path, files, keep=2)["pruned"]
        assert home(tmp_path, "releases", used).exists() is stays
    (run / supervise.STARTED).unlink(missing_ok=True)
    deploy(tmp_path, {"train.py": "5\n"}, keep=2)
    assert not home(tmp_path, "releases", used).exists()


@pytest.mark.parametrize(
    ("argv", "environment"),
    [
        ([sys.executable, "{release}/train.py"], {}),
        ([sys.executable, "train.py"], {}),
        (["sleep", "600"], {"PYTHONPATH": "/usr/lib:{release}:/srv"}),
    ],
    ids=["by hand, from the release", "by hand, in its folder", "left by a run that is lost"],
)
def test_what_a_process_without_a_run_was_started_from_stays_too(
    tmp_path: Path, argv: list[str], environment: dict[str, str]
) -> None:
    deploy(tmp_path, {"train.py": "import time\n\nprint('there', flush=True)\ntime.sleep(600)\n"})
    used = str(live(tmp_path))
    names = {"release": str(home(tmp_path, "releases", used))}
    argv = [word.format(**names) for word in argv]
    environment = {name: value.format(**names) for name, value in environment.items()}
    with subprocess.Popen(argv, env=environment, cwd=home(tmp_path, "current"), stdout=subprocess.PIPE) as process:
        try:
            if process.stdout and argv[0] == sys.executable:
                assert process.stdout.readline() == b"there\n"
            for number in range(1, 4):
                files = {"train.py": f"{number}\n"}
                predicted = deploy(tmp_path, files, keep=2, check_mode=True)["pruned"]
                assert predicted == deploy(tmp_path, files, keep=2)["pruned"]
            assert home(tmp_path, "releases", used).exists()
        finally:
            process.kill()
    deploy(tmp_path, {"train.py": "4\n"}, keep=2)
    assert not home(tmp_path, "releases", used).exists()


def test_what_an_interrupted_deploy_left_surplus_goes_with_the_next_though_nothing_changed(tmp_path: Path) -> None:
    """It ended between its switch and its pruning."""
    for number in range(5):
        deploy(tmp_path, {"train.py": f"{number}\n"}, keep=9)
    again = {"train.py": "4\n"}
    predicted = deploy(tmp_path, again, keep=2, check_mode=True)
    done = deploy(tmp_path, again, keep=2)
    assert (done["pruned"], done["changed"], done["actions"]) == (predicted["pruned"], predicted["changed"], {})
    assert (len(done["pruned"]), done["changed"]) == (3, True)
    assert not deploy(tmp_path, again, keep=2)["changed"]


ids = st.sampled_from(("a", "b", "c", "d", "e", "adopted", "adopted-2", "edited"))


@given(st.lists(ids, min_size=1, max_size=12), st.integers(2, 5), st.sets(ids, max_size=3), st.sets(ids))
def test_what_goes(order: list[str], keep: int, used: set[str], more: set[str]) -> None:
    there = sorted({*order, *more})
    gone = surplus(there, [{"release": one} for one in order], order[-1], keep, used)
    stays = [one for one in there if one not in gone]
    latest = list(dict.fromkeys(reversed(order)))
    assert set(gone) <= set(there)
    assert {*latest[:2], *used}.isdisjoint(gone)  # what is live, what a rollback leads to, what runs use
    assert not any(one.startswith("adopted") for one in gone)
    ours = [one for one in latest if not one.startswith("adopted")]
    assert set(ours[:keep]) <= {*stays}
    assert set(stays) <= {*ours[:keep], *latest[:2], *used, *(one for one in there if one.startswith("adopted"))}
