# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs as they are told: the state of each, from what was read and never from a guess."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker import eject, runs
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.runs import Seen, state_of
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.store import open_store

from tests.unit.launching import Decider, ended, home, kill_all, read, says, script, stopped, supervisor_gone, until
from tests.unit.releasing import Controller, deploy, params, refusal, roll_back, visible

LOOP = "import time\nprint('on', flush=True)\ntime.sleep(600)"
RECORD = {"boot": "b:1", "created_s": 0.0}
STARTED = {"process": {"pid": 5, "start": 100}}
EXIT = {"how": "exited", "exit_code": 0}
RESTARTED = "the container was restarted while it ran: how it ended is not known"
CUT_OFF = "its launch was cut off before anything was started"
UNSEEN = "its supervisor was killed, and it ended later: its exit code is not known"


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A root with a project released; what still runs at the end is ended."""
    deploy(tmp_path, {"train.py": ""})
    yield tmp_path
    kill_all(tmp_path)


def listing(root: Path, **more: Any) -> dict[str, Any]:
    return runs.run(Decider(), {"root": str(root), "name": None, "logs": 0, **more})  # type: ignore[arg-type]


def ejected(root: Path, **more: Any) -> dict[str, Any]:
    return eject.run(Controller({}), {**params(root, {}), **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ((RECORD, STARTED, EXIT, True, False, 100, "b:1"), ("ended", "")),
        ((RECORD, STARTED, EXIT, False, False, None, "b:2"), ("ended", "")),  # what is written stays true
        ((RECORD, STARTED, None, True, False, 100, "b:1"), ("running", "")),
        ((RECORD, STARTED, None, False, False, 100, "b:1"), ("running", "")),
        ((RECORD, STARTED, None, True, False, None, "b:1"), ("running", "")),  # its end is just being written
        ((RECORD, STARTED, None, False, False, None, "b:1"), ("lost", UNSEEN)),
        ((RECORD, STARTED, None, False, False, 101, "b:1"), ("lost", UNSEEN)),  # the PID is another's now
        ((RECORD, STARTED, None, False, False, 100, "b:2"), ("lost", RESTARTED)),
        ((RECORD, STARTED, None, True, False, 100, "b:2"), ("lost", RESTARTED)),
        ((RECORD, None, None, True, False, None, "b:1"), ("starting", "")),
        ((RECORD, None, None, False, True, None, "b:1"), ("starting", "")),
        ((RECORD, None, None, False, False, None, "b:1"), ("lost", CUT_OFF)),
        ((None, None, None, False, False, None, "b:1"), ("lost", CUT_OFF)),
    ],
)
def test_the_state_follows_from_what_is_known(seen: tuple[Any, ...], expected: tuple[str, str]) -> None:
    record, started, end, locked, launching, start, boot = seen
    assert state_of(Seen(record, started, end, None, locked, launching, start, boot)) == expected


def test_a_killed_supervisor_never_makes_a_success(root: Path) -> None:
    script(root, "import time, os\nwhile not os.path.exists('go'): time.sleep(0.01)")
    run = read(root)
    os.kill(run.record["supervisor"]["pid"], signal.SIGKILL)
    until(lambda: not read(root).supervised)
    assert (read(root).state, read(root).unsupervised, read(root).view()["exit"]) == ("running", True, None)
    (root / "go").touch()
    until(lambda: not read(root).alive)
    assert (read(root).state, read(root).why, read(root).exit) == ("lost", UNSEEN, None)


def test_runs_are_listed_with_what_people_look_for(root: Path) -> None:
    script(root, "print('a'); print('b'); raise SystemExit(4)", env={"NCCL_DEBUG": "INFO"})
    ended(root)
    script(root, LOOP)
    says(root, "on", "r2")
    deploy(root, {"other.py": ""}, name="other")
    found = listing(root, logs=1)
    assert [(one["name"], len(one["activations"])) for one in found["projects"]] == [("demo", 1), ("other", 1)]
    first, second = found["runs"]
    assert (first["run"], first["project"], first["state"], first["exit"]["exit_code"]) == ("r1", "demo", "ended", 4)
    assert (first["tail"], first["log_bytes"], second["tail"]) == (["b"], 4, ["on"])
    assert (second["state"], second["exit"], second["release"]) == ("running", None, found["projects"][0]["live"])
    assert 0 <= second["log_age_s"] <= second["age_s"] < 60
    assert not {"environment", "distributions"} & first.keys()
    (one,) = listing(root, name="demo", run="r1")["runs"]
    assert one["environment"]["NCCL_DEBUG"] == "INFO"


def test_only_the_latest_are_listed_and_those_that_live(root: Path) -> None:
    script(root, LOOP)
    for number in range(2, 5):
        script(root, "")
        ended(root, f"r{number}")
        supervisor_gone(root, f"r{number}")
    assert [one["run"] for one in listing(root, most=1)["runs"]] == ["r1", "r4"]


def test_ids_count_as_numbers(root: Path) -> None:
    script(root, "")
    ended(root)
    supervisor_gone(root)
    for name in ("r2", "r10", "r9", "r0", "rx", "notes"):
        subprocess.run(["cp", "-r", home(root), home(root).parent / name], check=True)
    with open_store(str(root), "demo", create=False) as store:
        assert runs.run_ids(store) == ["r1", "r2", "r9", "r10"]
        assert runs.find_run(store, None).id == "r10"
        assert refusal(runs.find_run, store, "../r1").code == "no-run"
    assert script(root, "")["run"]["run"] == "r11"


def test_nothing_launched_is_nothing_listed(tmp_path: Path) -> None:
    assert listing(tmp_path) == {"projects": [], "runs": []}
    deploy(tmp_path, {"train.py": ""})
    assert listing(tmp_path)["runs"] == []


def test_a_folder_that_others_can_write_is_refused(root: Path) -> None:
    script(root, "")
    ended(root)
    supervisor_gone(root)
    home(root).chmod(0o777)
    assert refusal(listing, root).code == "planted"
    home(root).chmod(0o700)


def test_a_pipe_in_place_of_a_record_keeps_nobody_waiting(root: Path) -> None:
    script(root, "")
    ended(root)
    supervisor_gone(root)
    for name in ("exit.json", "run.json", "log", "lock"):
        (home(root) / name).unlink()
        os.mkfifo(home(root) / name)
    assert [one["state"] for one in listing(root, logs=5)["runs"]] == ["lost"]


def test_an_eject_waits_for_the_runs_and_keeps_their_records(root: Path) -> None:
    script(root, LOOP)
    says(root, "on")
    for check_mode in (True, False):
        error = refusal(ejected, root, check_mode=check_mode)
        assert (error.code, error.message.split(":")[0]) == ("run-alive", "a release of demo is in use by run r1")
    assert visible(root) == {"train.py": b""}
    stopped(root)
    supervisor_gone(root)
    kept = {path.name: path.read_bytes() for path in home(root).iterdir()}
    (root / ".trainops/demo/cache/triton/kernel").write_bytes(b"x")
    expected = {"count": 1, "path": f"{root}/.trainops/demo/runs"}
    assert ejected(root, check_mode=True)["runs"] == expected
    done = ejected(root)
    assert (done["runs"], done["stays"], done["changed"]) == (expected, [], True)
    assert {path.name: path.read_bytes() for path in home(root).iterdir()} == kept
    assert {path.name for path in (root / ".trainops/demo").iterdir()} == {"runs"}
    assert ejected(root)["changed"] is False
    assert read(root).state == "ended"
    deploy(root, {"train.py": ""})
    assert script(root, "")["run"]["run"] == "r2"


def test_an_eject_without_runs_leaves_no_folder_of_theirs(root: Path) -> None:
    script(root, "")
    ended(root)
    supervisor_gone(root)
    subprocess.run(["rm", "-r", home(root)], check=True)
    assert ejected(root)["runs"] is None
    assert not (root / ".trainops").exists()


def test_a_rollback_does_not_disturb_a_run(root: Path) -> None:
    script(root, LOOP)
    says(root, "on")
    before = read(root)
    deploy(root, {"train.py": "new = 1\n"})
    roll_back(root)
    after = read(root)
    assert (after.state, after.record, after.release) == ("running", before.record, before.release)
