# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stopping: asked first, then ended with all that belongs to it, and never anything else."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker import members, stop, supervise

from tests.unit.launching import (
    ME,
    Decider,
    ended,
    home,
    kill_all,
    read,
    says,
    script,
    start,
    stopped,
    supervisor_gone,
    until,
)
from tests.unit.releasing import deploy, refusal

LOOP = "import time\nprint('on', flush=True)\ntime.sleep(600)"
STUBBORN = "import signal, time\nsignal.signal(15, 1)\nsignal.signal(2, 1)\n" + LOOP
# Each child leaves its session, is nobody's child any more, and has thrown the mark away.
DAEMONS = (
    "import os, sys, time\n"
    "for number in range(3):\n"
    "    if os.fork() == 0:\n"
    "        os.setsid()\n"
    "        if os.fork() == 0:\n"
    "            os.execve('/bin/sh', ['sh', '-c', \"trap '' TERM; sleep 600 & wait\"], {})\n"
    "        os._exit(0)\n"
    "    os.wait()\n"
)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A root with a project released; what still runs at the end is ended."""
    deploy(tmp_path, {"train.py": ""})
    yield tmp_path
    kill_all(tmp_path)


def of(root: Path, run: str = "r1") -> list[str]:
    """The commands of the processes that belong to a run."""
    return [one.command for one in members.find(read(root, run))]


def lives(pid: int) -> bool:
    return supervise.start_of(pid) is not None


def test_a_run_that_ends_when_it_is_asked(root: Path) -> None:
    code = "import signal, sys\nsignal.signal(15, lambda *_: (print('saved', flush=True), sys.exit(3)))\n" + LOOP
    script(root, code)
    says(root, "on")
    result = stopped(root)
    (one,) = result["stopped"]
    assert (result["changed"], one["killed"], one["run"]["state"]) == (True, [], "ended")
    record = one["run"]["exit"]
    assert (record["exit_code"], record["stopped_by"], record["last_lines"]) == (3, ME, ["on", "saved"])
    again = stopped(root)
    assert (again["changed"], again["stopped"][0]["run"]["exit"]) == (False, record)


@pytest.mark.parametrize(("name", "number"), [("TERM", 15), ("INT", 2)])
def test_the_signal_can_be_chosen(root: Path, name: str, number: int) -> None:
    script(root, LOOP)
    says(root, "on")
    record = stopped(root, signal=name)["stopped"][0]["run"]["exit"]
    assert record["signal"] == number


def test_a_run_that_does_not_listen_is_killed(root: Path) -> None:
    script(root, STUBBORN)
    says(root, "on")
    (one,) = stopped(root, patience=0.3)["stopped"]
    assert one["run"]["exit"]["signal"] == signal.SIGKILL
    assert one["run"]["exit"]["out_of_memory"] is False
    assert one["killed_count"] == 1 and sys.executable in one["killed"][0]["command"]
    assert one["seconds"] >= 0.3


class _Gone(Exception):
    """Whoever waited for a stop went."""


# Deaf to the stop, and ends as it likes when it is told so.
DEAF = (
    "import os, signal, sys, time\n"
    "signal.signal(15, 1)\n"
    "print('on', flush=True)\n"
    "while not os.path.exists('end'): time.sleep(0.01)\n"
    "code = int(open('end').read() or 0)\n"
    "if code < 0:\n"
    "    signal.signal(-code, 0)\n"
    "    os.kill(os.getpid(), -code)\n"
    "sys.exit(code)\n"
)


def end_with(root: Path, code: int) -> dict[str, Any]:
    """Let a deaf run end; its exit record."""
    (root / "new").write_text(str(code))
    (root / "new").rename(root / "end")
    record = ended(root).exit
    assert record is not None
    return record


def give_up(root: Path) -> None:
    """Ask the run to stop, and go when it was asked."""

    def gone(*_told: Any) -> None:
        assert read(root).view()["stopping_by"] == ME
        raise _Gone

    decider: Any = Decider()
    decider.asked = gone
    with pytest.raises(_Gone):
        stopped(root, decider=decider)
    assert (read(root).state, read(root).view()["stopping_by"]) == ("running", None)


@pytest.mark.parametrize(
    ("code", "by"), [(3, None), (1, None), (0, ME), (143, ME), (-15, ME), (-9, None), (-6, None), (-11, None)]
)
def test_what_a_run_does_after_a_stop_was_given_up_is_its_own(root: Path, code: int, by: str | None) -> None:
    script(root, DEAF)
    says(root, "on")
    give_up(root)
    record = end_with(root, code)
    assert (record["stopped_by"], ME in record["note"]) == (by, by is None)


def test_a_stop_that_waits_makes_whatever_comes_a_stop(root: Path) -> None:
    script(root, DEAF)
    says(root, "on")
    decider: Any = Decider()
    decider.asked = lambda *_told: end_with(root, 3)
    (one,) = stopped(root, decider=decider)["stopped"]
    assert (one["run"]["exit"]["exit_code"], one["run"]["exit"]["stopped_by"]) == (3, ME)


def test_a_second_stop_goes_on_where_the_first_was_given_up(root: Path) -> None:
    script(root, DEAF)
    says(root, "on")
    first: Any = Decider()
    second: Any = Decider()
    done: list[Any] = []
    also = threading.Thread(target=lambda: done.append(stopped(root, decider=second, who="you@there")))

    def hand_over(*_told: Any) -> None:
        also.start()
        until(lambda: second.asked_to_stop, "the second stop never asked")
        raise _Gone

    first.asked = hand_over
    with pytest.raises(_Gone):
        stopped(root, decider=first)
    until(lambda: read(root).view()["stopping_by"] == "you@there", "nobody says that the second one stops it")
    assert end_with(root, 3)["stopped_by"] == "you@there"
    also.join()
    assert done[0]["changed"]


@pytest.mark.parametrize("name", ["TERM", "INT"])
def test_what_a_shell_waits_for_is_asked_too_and_has_its_time(root: Path, name: str) -> None:
    code = (
        "import os, signal, sys, time\n"
        "def save(*_):\n"
        "    open('saving', 'w').close()\n"
        "    while not os.path.exists('slow disk'): time.sleep(0.01)\n"
        "    print('saved', flush=True)\n"
        "    os._exit(0)\n"
        f"signal.signal(signal.SIG{name}, save)\n" + LOOP
    )
    start(root, command=["/bin/sh", "-c", '"$0" -c "$1"; echo next; sleep 600', sys.executable, code])
    says(root, "on")
    stopping = threading.Thread(target=stopped, args=(root,), kwargs={"signal": name})
    stopping.start()
    until(lambda: (root / "saving").exists(), "it was never asked")
    (root / "slow disk").touch()
    stopping.join()
    assert says(root, "saved") == "on\nsaved\n"
    assert (ended(root).state, of(root)) == ("ended", [])


def test_everything_that_a_run_started_is_ended(root: Path) -> None:
    script(root, DAEMONS + "import subprocess\nsubprocess.Popen(['sleep', '601'])\n" + STUBBORN)
    says(root, "on")
    until(lambda: of(root).count("sleep 600") == 3)
    found = of(root)
    assert (len(found), found.count("sleep 601")) == (8, 1)
    (one,) = stopped(root, patience=0.2)["stopped"]
    assert (one["killed_count"], of(root)) == (8, [])
    supervisor_gone(root)


def test_what_a_run_left_behind_is_ended_too(root: Path) -> None:
    script(root, DAEMONS)
    left = ended(root).exit
    assert left and left["exit_code"] == 0 and left["left_over_count"] == 6
    assert read(root).view()["left_behind"] is True
    assert read(root).supervised
    result = stopped(root, None, patience=0.2)
    assert (result["changed"], result["stopped"][0]["killed_count"]) == (True, 6)
    assert result["stopped"][0]["run"]["exit"] == left  # it ended by itself
    assert result["stopped"][0]["left_behind"] is True
    supervisor_gone(root)
    assert stopped(root)["changed"] is False


def test_a_run_whose_supervisor_was_killed(root: Path) -> None:
    script(root, DAEMONS.replace(", {})", ", os.environ)") + LOOP)
    says(root, "on")
    os.kill(read(root).record["supervisor"]["pid"], signal.SIGKILL)
    until(lambda: not read(root).supervised)
    assert (read(root).state, read(root).unsupervised, len(of(root))) == ("running", True, 7)
    (one,) = stopped(root, patience=0.2)["stopped"]
    assert (one["killed_count"], of(root)) == (6, [])
    record = one["run"]["exit"]
    assert (record["how"], record["exit_code"], record["signal"]) == ("unknown", None, None)
    assert (record["stopped_by"], record["last_lines"]) == (ME, ["on"])
    assert record["note"] == "its supervisor was killed before, so its exit code is not known"


def test_one_of_two_is_stopped_and_what_runs_by_hand_stays(root: Path) -> None:
    script(root, STUBBORN)
    script(root, DAEMONS + STUBBORN)
    by_hand = subprocess.Popen([sys.executable, "-c", LOOP], cwd=root, stdout=subprocess.DEVNULL)
    try:
        says(root, "on")
        says(root, "on", "r2")
        error = refusal(stopped, root, None)
        assert (error.code, error.message) == ("several", "r1, r2 of demo are alive: say which one to stop, or all")
        until(lambda: len(of(root, "r2")) == 7)
        assert stopped(root, "r2", patience=0.2)["stopped"][0]["killed_count"] == 7
        assert (read(root).state, len(of(root)), by_hand.poll()) == ("running", 1, None)
        assert [one["run"]["run"] for one in stopped(root, "all", patience=0.2)["stopped"]] == ["r1"]
        assert by_hand.poll() is None
    finally:
        by_hand.kill()
        by_hand.wait()


def test_a_pid_that_another_process_has_now_is_not_touched(root: Path) -> None:
    script(root, LOOP)
    says(root, "on")
    run = read(root)
    for part in ("supervisor", "process"):
        os.kill(run.record[part]["pid"], signal.SIGKILL)
        until(lambda part=part: not lives(run.record[part]["pid"]))  # type: ignore[misc]
    other = subprocess.Popen(["sleep", "600"])
    try:
        # As if the kernel had given the PIDs of the run to another process.
        started = {
            "format": 1,
            **{key: run.record[key] for key in ("supervisor", "process", "unit", "started", "started_s")},
        }
        started["process"] = {**run.record["process"], "pid": other.pid}
        started["supervisor"] = {**run.record["supervisor"], "pid": other.pid}
        folder = os.open(home(root), os.O_RDONLY)
        supervise.write_record(folder, supervise.STARTED, started)
        os.close(folder)
        assert read(root).state == "lost"
        assert members.find(read(root)) == []
        assert stopped(root)["changed"] is False
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_after_a_restart_of_the_container_nothing_is_a_run_s(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker import runs

    script(root, LOOP)
    says(root, "on")
    for module in (members, runs):
        monkeypatch.setattr(module, "boot", lambda: "another:1")
    assert read(root).state == "lost"
    assert members.find(read(root)) == []
    assert stopped(root)["changed"] is False
    monkeypatch.undo()
    assert read(root).state == "running"


def test_check_mode_stops_nothing(root: Path) -> None:
    script(root, LOOP)
    says(root, "on")
    assert stopped(root, check_mode=True)["changed"] is True
    assert read(root).state == "running"


def test_a_run_that_is_not_there_is_refused_with_those_that_are(root: Path) -> None:
    assert refusal(stopped, root, "r1").message.startswith("nothing was ever launched for demo")
    script(root, "")
    ended(root)
    message = refusal(stopped, root, "r2").message
    assert message == f"there is no run r2 of demo below {root}: there are r1"


def test_members_are_found_by_each_tie_alone(root: Path) -> None:
    script(root, "import os, subprocess\nsubprocess.Popen(['sleep', '602'], env={}, start_new_session=True)\n" + LOOP)
    says(root, "on")
    run = read(root)
    marked = subprocess.Popen(["sleep", "603"], env={"TRAINOPS_RUN": run.record["token"]})
    other = subprocess.Popen(["sleep", "604"], env={"TRAINOPS_RUN": run.record["token"] + "0", "X": "TRAINOPS_RUN="})
    try:
        until(lambda: "604" in supervise.words_of(other.pid))
        assert of(root)[1:] == ["sleep 602", "sleep 603"]
    finally:
        for process in (marked, other):
            process.kill()
            process.wait()


def test_whoever_stops_a_run_from_within_it_is_not_killed_by_it(root: Path) -> None:
    code = (
        "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', sys.argv[1], sys.argv[2]], cwd=sys.argv[3],\n"
        "                 env={'PYTHONPATH': sys.argv[3], 'PATH': '/usr/bin:/bin'})\n" + LOOP
    )
    inside = (
        "import sys, pathlib\n"
        "from tests.unit.launching import stopped\n"
        "stopped(pathlib.Path(sys.argv[1]), 'r1', patience=5)\n"
        "pathlib.Path(sys.argv[1], 'done').touch()\n"
    )
    script(root, code, inside, os.fspath(root), os.getcwd())
    until(lambda: (root / "done").exists())
    assert ended(root).exit and read(root).exit["stopped_by"] == ME  # type: ignore[index]


def test_a_process_that_cannot_be_killed_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(root, LOOP)
    says(root, "on")
    monkeypatch.setattr(stop, "_KILL_SECONDS", 0.1)
    monkeypatch.setattr(members.Member, "send", lambda _self, _number: True)
    error = refusal(stopped, root, patience=0.1)
    assert error.code == "unkillable"
    assert f"process {read(root).record['process']['pid']} " in error.message


def handles() -> Counter[str]:
    """What the open descriptors of this process lead to, and how many each; pipes and sockets have numbers."""
    found: Counter[str] = Counter()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the one that lists the folder
            found[os.readlink(f"/proc/self/fd/{name}")] += 1
    return found


def test_fifty_starts_and_stops_leave_nothing_but_records(root: Path) -> None:
    before, open_before = set(os.listdir("/proc")), handles()
    told: list[dict[str, Any]] = []
    for _number in range(50):
        result = start(root, command="sleep 600")
        told.append(stopped(root, result["run"]["run"])["stopped"][0])
    supervisor_gone(root, "r50")
    assert {one["run"]["exit"]["signal"] for one in told} == {signal.SIGTERM}
    ours = {
        pid
        for pid in set(os.listdir("/proc")) - before
        if pid.isdigit() and os.fspath(root) in " ".join(supervise.words_of(int(pid)))
    }
    # What other tests left to be collected may go meanwhile; what is new here is a leak of ours.
    assert (ours, handles() - open_before, len(of(root, "r50"))) == (set(), Counter(), 0)
    assert len([path for path in home(root).parent.iterdir() if path.is_dir()]) == 50
    assert {path.name for path in home(root, "r50").iterdir()} == {path.name for path in home(root, "r1").iterdir()}
