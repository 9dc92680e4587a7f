# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs on every kind of container: what they outlive, how their ends are recorded, and what a stop leaves alone."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.trainops.proxmox.plugins.plugin_utils.exchange import ConnectionLost
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_look import look
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_result import info_result
from ansible_collections.trainops.proxmox.plugins.plugin_utils.run_launch import Conversation

from lab.api import open_lab
from tests.integration.connections import connect, inventory
from tests.integration.runs import PLACES, TRAIN, Place, first_line
from tests.integration.steps import run_step
from tests.unit.trainops.folders import until

HOSTS = tuple(PLACES)
PLAIN = "ct200"
BIN = Path(sys.executable).parent
ALIVE = ("starting", "running")


SESSIONS = """
for folder in /proc/[0-9]*; do
  tr '\\0' ' ' <$folder/cmdline 2>/dev/null | grep -q '^sshd: root' && echo ${folder#/proc/}
done
true
"""
LINKS = """
import os, sys
folder = f"/proc/{sys.argv[1]}/fd"
print([os.readlink(f"{folder}/{number}") for number in os.listdir(folder)])
"""
KILL = """
import os, sys
try:
    os.kill(int(sys.argv[1]), 9)
except ProcessLookupError:
    pass
"""


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The folder in every container where the project is live."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "project").mkdir()
    (folder / "project" / "train.py").write_text(TRAIN)
    root = f"/srv/{folder.name}"
    places = [Place(host, root) for host in HOSTS]
    for place in places:
        place.inside("mkdir", "-p", root)
    options = {"project": "project", "root": root, "name": "demo"}
    done = run_step(folder, "trainops.proxmox.training_release", options, inventory(), "training")
    assert not [result["msg"] for result in done.values() if result.get("failed")]
    yield root
    for place in places:
        place.stop("all", patience=0)
        place.inside("rm", "-rf", root)


@pytest.fixture(params=HOSTS)
def place(request: pytest.FixtureRequest, released: str) -> Iterator[Place]:
    """The project in each container in turn, with nothing alive afterwards."""
    here = Place(request.param, released)
    yield here
    here.stop("all", patience=0)


@pytest.fixture
def plain(released: str) -> Iterator[Place]:
    here = Place(PLAIN, released)
    yield here
    here.stop("all", patience=0)


def started(result: dict[str, Any]) -> dict[str, Any]:
    assert not result.get("failed"), result["msg"]
    assert result["state"] == "running"
    return result


def test_a_run_is_what_it_was_asked_to_be_and_holds_nothing_of_the_connection(place: Place) -> None:
    place.inside("sh", "-c", 'printf "SECRET_FILE=hidden\\nA=file\\n" >"$1/env"', "sh", place.root)
    result = started(
        place.start("run", "ä ö", "{release}", select=[0], env={"A": "b", "HF_TOKEN": "hidden"}, env_file="env")
    )
    run, pid, tree = result["run"], result["pid"], f"{place.root}/.trainops/demo/releases/{result['release_id']}"
    assert until(lambda: bool(place.look(run)["found"]))
    said = first_line(place.inside("head", "-n", "1", result["log"]))
    assert (said["cwd"], said["file"], said["path"]) == (place.root, f"{tree}/train.py", [tree])
    assert said["argv"] == ["run", "ä ö", tree]
    assert (said["pid"], said["sid"]) == (pid, pid)
    env = said["env"]
    assert (env["CUDA_VISIBLE_DEVICES"], env["CUDA_DEVICE_ORDER"]) == ("0", "PCI_BUS_ID")
    assert (env["A"], env["HF_TOKEN"], env["SECRET_FILE"]) == ("b", "hidden", "hidden")
    assert env["PATH"].startswith("/usr/bin:")
    assert (env["PYTHONUNBUFFERED"], env["TRAINOPS_RUN_ID"]) == ("1", run)
    assert {"SSH_CONNECTION", "SSH_TTY", "LC_ALL", "TERM"}.isdisjoint(env)
    assert result["environment"]["HF_TOKEN"] is None
    assert result["environment"]["SECRET_FILE"] is None
    assert "hidden" not in place.inside("cat", f"{os.path.dirname(result['log'])}/run.json")
    links = place.python(LINKS, str(pid))
    assert set(yaml.safe_load(links)) == {"/dev/null", result["log"]}
    # Nothing of the attach: neither its control group nor its session has anything of the run.
    own = place.python("print(open('/proc/self/cgroup').read())").strip()
    if place.vmid == 210:
        assert f"/{result['unit']}" in place.inside("cat", f"/proc/{pid}/cgroup")
        assert result["unit"] not in own
    else:
        assert result["unit"] is None
    stopped = place.stop(run)
    assert (stopped["changed"], stopped["exit"]["signal"]) == (True, signal.SIGTERM)
    assert place.members(run) == []


def sshd_sessions(node: str) -> list[int]:
    """The processes of the node's OpenSSH server that serve a login."""
    found = open_lab().node(node).check(["sh", "-c", SESSIONS])
    return [int(pid) for pid in found.split()]


def test_it_outlives_the_logins_sessions_on_the_node(place: Place) -> None:
    run = started(place.start("run"))["run"]
    node = PLACES[place.host][0]
    sessions = sshd_sessions(node)
    assert sessions  # the shared connection of this very test
    open_lab().node(node).check(["kill", "-9", *map(str, sessions)])
    assert until(lambda: not set(sessions) & set(sshd_sessions(node)))
    before = place.look(run)
    assert until(lambda: place.look(run)["found"]["step"] > before["found"].get("step", 0))
    assert place.look(run)["process"] == before["process"]


def test_it_outlives_the_end_of_ansible_by_sigkill(place: Place, tmp_path: Path) -> None:
    known = {run["run"] for run in place.runs()}
    options = {"root": place.root, "name": "demo", "script": "train.py", "args": "run", "select": 0}
    # Two tasks, so that the controller is still at work when the run is seen.
    watch = {"root": place.root, "name": "demo", "state": "watched", "until": {"log": "never"}}
    tasks = [{"trainops.proxmox.training_run": options}, {"trainops.proxmox.training_run": watch}]
    play = {"hosts": place.host, "gather_facts": False, "tasks": tasks}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    argv = [sys.executable, str(BIN / "ansible-playbook"), "-i", inventory(), str(tmp_path / "play.yml")]
    with subprocess.Popen(
        argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        try:
            assert until(lambda: any(run["run"] not in known for run in place.runs()), 60)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    (mine,) = [run for run in place.runs() if run["run"] not in known]
    assert until(lambda: place.look(mine["run"])["found"].get("step", 0) > mine["found"].get("step", 0))
    assert place.look(mine["run"])["state"] == "running"


@pytest.mark.parametrize("code", [0, 1, 2, 77, 255])
def test_exit_codes_come_through(place: Place, code: int) -> None:
    result = place.start("exit", str(code))
    end = place.ended(result["run"])["exit"]
    assert (end["how"], end["exit_code"], end["signal"], end["stopped_by"]) == ("exited", code, None, None)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, signal.SIGHUP])
def test_signals_come_through(place: Place, number: int) -> None:
    result = place.start("signal", str(int(number)))
    end = place.ended(result["run"])["exit"]
    assert (end["how"], end["exit_code"], end["signal"], end["stopped_by"]) == ("signaled", None, number, None)


def test_a_killed_supervisor_is_no_made_up_success(place: Place) -> None:
    run = started(place.start("save"))["run"]
    seen = place.look(run)
    place.inside("kill", "-9", str(seen["supervisor"]["pid"]))
    if (
        place.vmid != 210
    ):  # systemd ends what is left of a unit whose main process was killed, or leaves it: both are told
        assert until(lambda: place.look(run)["unsupervised"])
    place.python(KILL, str(seen["process"]["pid"]))
    after = place.ended(run)
    assert after["state"] == "lost"
    assert after["exit"] is None
    assert "not known" in after["why"]
    assert place.stop(run)["changed"] is False


def test_a_run_without_its_supervisor_can_be_stopped(plain: Place) -> None:
    run = started(plain.start("save"))["run"]
    plain.inside("kill", "-9", str(plain.look(run)["supervisor"]["pid"]))
    assert until(lambda: plain.look(run)["unsupervised"])
    result = plain.stop(run)
    assert result["changed"]
    assert plain.members(run) == []
    assert result["exit"]["exit_code"] is None
    assert "saved" in plain.inside("cat", result["log"])


def test_a_restart_of_the_container_is_told_and_never_a_success(place: Place) -> None:
    run = started(place.start("run"))["run"]
    container = open_lab().container(place.vmid)
    container.stop()
    container.start()
    after = place.look(run)
    assert (after["state"], after["exit"]) == ("lost", None)
    assert "restarted" in after["why"]
    assert place.stop(run)["changed"] is False
    again = started(place.start("run"))
    assert int(again["run"][1:]) > int(run[1:])


@pytest.fixture
def small(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str], Place]]:
    """Makes a project on a file system of a few megabytes."""
    with contextlib.ExitStack() as stack:

        def make(host: str) -> Place:
            root = f"/srv/small-{tmp_path.name}"
            here = Place(host, root)
            here.inside("sh", "-ec", 'mkdir "$1"; mount -t tmpfs -o size=4m,mode=755 small "$1"', "sh", root)
            stack.callback(here.inside, "sh", "-c", 'umount -l "$1"; rmdir "$1"', "sh", root)
            (tmp_path / "project").mkdir()
            (tmp_path / "project" / "train.py").write_text(TRAIN)
            options = {"project": "project", "root": root, "name": "demo"}
            done = run_step(tmp_path, "trainops.proxmox.training_release", options, inventory(), host)[host]
            assert not done.get("failed"), done["msg"]
            return here

        yield make


@pytest.mark.parametrize("host", HOSTS)
def test_a_full_disk_loses_no_exit_code(host: str, small: Callable[[str], Place]) -> None:
    place = small(host)
    result = place.start("fill")
    end = place.ended(result["run"])["exit"]
    assert (end["how"], end["exit_code"]) == ("exited", 3)
    free = int(place.python("import os, sys; print(os.statvfs(sys.argv[1]).f_bavail)", place.root))
    assert free == 0
    refused = place.start("run")
    assert (refused["failed"], refused["code"]) == (True, "no-space")
    assert [run["run"] for run in place.runs()] == [result["run"]]


def test_children_that_became_daemons_are_stopped_too(place: Place) -> None:
    result = started(place.start("daemon"))
    run = result["run"]
    assert until(lambda: "\ndaemon\n" in place.inside("cat", result["log"]))
    members = place.members(run)
    assert len(members) >= 2
    stopped = place.stop(run)
    assert stopped["changed"]
    assert place.members(run) == []


def test_a_run_that_ignores_being_asked_is_killed(place: Place) -> None:
    result = started(place.start("ignore"))
    assert until(lambda: bool(place.look(result["run"])["found"]))
    stopped = place.stop(patience=0.5)
    assert stopped["run"] == result["run"]
    assert stopped["exit"]["signal"] == signal.SIGKILL
    assert stopped["exit"]["stopped_by"]
    assert result["pid"] in [process["pid"] for process in stopped["processes_killed"]]
    assert place.members(result["run"]) == []


def test_one_of_two_runs_is_stopped_and_the_other_and_what_was_started_by_hand_go_on(place: Place) -> None:
    first, second = (started(place.start("save", select=[index])) for index in (0, 1))
    assert [gpu["index"] for gpu in second["gpus"]] == [1]
    by_hand = place.inside("sh", "-c", "setsid sleep 600 >/dev/null 2>&1 </dev/null & echo $!").strip()
    try:
        unnamed = place.stop()
        assert (unnamed["failed"], unnamed["code"]) == (True, "several")
        stopped = place.stop(first["run"])
        assert (stopped["exit"]["exit_code"], stopped["processes_killed"]) == (0, [])
        assert place.look(second["run"])["state"] == "running"
        assert place.look(second["run"])["process"]["pid"] == second["pid"]
        place.inside("kill", "-0", by_hand)
    finally:
        place.inside("kill", by_hand)


def test_busy_gpus_refuse_a_start_and_the_holder_is_named(released: str) -> None:
    lab, place = open_lab(), Place("ct200", released)
    known = [run["run"] for run in place.runs()]
    with lab.hold(201, gpu=1, mib=2048):
        refused = place.start("run", select=None)
    assert (refused["failed"], refused["code"]) == (True, "gpus-busy")
    assert "GPU 5 busy: 2048 MiB held by vmid 201 (train-b) pid " in refused["summary"]
    assert "Stop what holds them" in refused["msg"]
    assert [run["run"] for run in place.runs()] == known


def test_a_run_of_ours_that_trains_is_named_and_not_disturbed(place: Place, tmp_path: Path) -> None:
    hold = ["hold", "--gpu", "0", "--mib", "500"]
    run = started(place.step("started", command=hold, select=[0]))["run"]

    def info() -> dict[str, Any]:
        defaults = {"nvidia_smi": "nvidia-smi", "nvidia_smi_timeout": 30, "node_view": True, "memory_mib": 64}
        return info_result(look(connect(place.host), {**defaults, "python": None}))

    assert until(lambda: f"500 MiB held by your run {run}" in info()["summary"])
    refused = place.start("run", select=[0])
    assert (refused["code"], refused["gpus"][0]["processes"][0]["run"]) == ("gpus-busy", run)
    assert f"Stop your run {run} (trainops stop {run})" in refused["msg"]
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "train.py").write_text(TRAIN)
    checked = {"project": "project", "root": place.root, "name": "demo", "gpus": True, "select": [0]}
    told = run_step(tmp_path, "trainops.proxmox.syntax_check", checked, inventory(), place.host)[place.host]
    assert told.get("warnings", []) == []
    assert [row["run"] for row in told["gpus"][0]["processes"]] == [run]
    assert place.look(run)["state"] == "running"
    stopped = place.stop(run)
    assert stopped["changed"]
    assert info()["gpus"][0]["verdict"] == "idle"


def test_gpus_that_were_just_given_to_a_run_are_held_before_it_opens_them(plain: Place) -> None:
    run = started(plain.start("run", select=[2, 3]))["run"]
    refused = plain.start("run", select=[3, 4])
    assert (refused["code"], refused["failed"]) == ("gpus-busy", True)
    assert f"GPU 3 busy: given to your run {run}, not opened yet" in refused["summary"]
    other = started(plain.start("run", select=[2, 3, 4, 5], count=2))
    assert [gpu["index"] for gpu in other["gpus"]] == [4, 5]


def test_a_start_waits_for_gpus(plain: Place) -> None:
    run = started(plain.start("save", select=[2]))["run"]
    stopping = threading.Timer(2, lambda: plain.stop(run))
    stopping.start()
    try:
        result = started(plain.start("run", select=[2], idle_timeout=60, idle_interval=0.5))
    finally:
        stopping.join()
    assert [gpu["index"] for gpu in result["gpus"]] == [2]


def test_check_mode_starts_and_stops_nothing(plain: Place) -> None:
    before = [run["run"] for run in plain.runs()]
    told = plain.step("started", check_mode=True, script="train.py", select=2)
    assert (told["state"], told["run"], told["changed"]) == ("possible", None, True)
    assert told["summary"].endswith("on GPUs 0-1")
    assert [run["run"] for run in plain.runs()] == before
    run = started(plain.start("run"))["run"]
    assert plain.step("stopped", check_mode=True, run=run)["changed"] is True
    assert plain.look(run)["state"] == "running"


def test_the_only_project_needs_no_name(plain: Place) -> None:
    unnamed = Place(plain.host, plain.root, None)
    result = started(unnamed.start("run"))
    assert result["name"] == "demo"
    assert unnamed.stop()["run"] == result["run"]
    nothing = Place(plain.host, "/srv", None)
    refused = nothing.start("run")
    assert (refused["code"], "nothing was ever deployed below /srv" in refused["msg"]) == ("no-run", True)
    assert nothing.stop()["changed"] is False


def test_like_takes_command_and_environment_over(plain: Place) -> None:
    first = started(plain.start("run", "--lr", "1", env={"NCCL_DEBUG": "INFO"}))
    plain.stop(first["run"])
    again = started(plain.step("started", like=first["run"], select=0, env={"OMP_NUM_THREADS": "2"}))
    assert again["command"] == first["command"]
    assert (again["environment"]["NCCL_DEBUG"], again["environment"]["OMP_NUM_THREADS"]) == ("INFO", "2")


PID_AGAIN = r"""
import ctypes, os, sys, time
wanted = int(sys.argv[1])
class Args(ctypes.Structure):
    names = "flags pidfd child_tid parent_tid exit_signal stack stack_size tls set_tid set_tid_size cgroup"
    _fields_ = [(name, ctypes.c_uint64) for name in names.split()]
tid = (ctypes.c_int * 1)(wanted)
args = Args(exit_signal=17, set_tid=ctypes.addressof(tid), set_tid_size=1)
pid = ctypes.CDLL(None, use_errno=True).syscall(435, ctypes.byref(args), ctypes.c_size_t(ctypes.sizeof(args)))
if pid < 0:
    sys.exit("clone3: %s" % os.strerror(ctypes.get_errno()))
if pid == 0:
    os.setsid()
    null = os.open("/dev/null", os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    os.execv("/bin/sleep", ["sleep", "600"])
print(pid)
"""


def test_a_pid_that_another_process_has_now_is_not_the_run(place: Place) -> None:
    run = started(place.start("save"))["run"]
    seen = place.look(run)
    for who in ("supervisor", "process"):
        place.python(KILL, str(seen[who]["pid"]))
    assert place.ended(run)["state"] == "lost"
    pid = str(seen["process"]["pid"])
    assert until(lambda: place.inside("sh", "-c", '[ -e "/proc/$1" ] || echo gone', "sh", pid) == "gone\n")
    assert place.python(PID_AGAIN, pid).strip() == pid
    try:
        assert place.look(run)["state"] == "lost"
        assert place.stop(run)["changed"] is False
        assert place.stop("all")["changed"] is False
        place.inside("kill", "-0", pid)
    finally:
        place.inside("kill", pid)


def own_ssh() -> list[int]:
    """The ssh clients that this process has started and that have not ended."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            name, fields = stat.read_text().split("(", 1)[1].rsplit(")", 1)
            if name == "ssh" and int(fields.split()[1]) == os.getpid() and fields.split()[0] != "Z":
                found.append(int(stat.parent.name))
    return found


def kill_own_ssh() -> None:
    for pid in own_ssh():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def only_one_more(place: Place, before: list[dict[str, Any]], result: dict[str, Any]) -> None:
    """However often the connection was lost, one run was started, and it is the one that was told."""
    known = {run["run"] for run in before}
    fresh = [run for run in place.runs() if run["run"] not in known]
    alive = [run["run"] for run in fresh if run["state"] in ALIVE]
    assert alive == [started(result)["run"]]
    # A try that was cut off before anything ran may have left its record, which says so.
    assert all(run["state"] == "ended" or run["exit"] is None for run in fresh if run["run"] not in alive)
    assert len(place.members(result["run"])) == 1


@pytest.mark.parametrize("moment", ["before the answer", "after the answer"])
def test_a_connection_that_breaks_around_the_answer_starts_no_second_copy(
    place: Place, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = place.runs()
    answer = Conversation.answer
    lost: list[str] = []

    def breaking(self: Conversation, frame: dict[str, Any]) -> Any:
        if not lost and moment == "before the answer":
            lost.append(moment)
            kill_own_ssh()
        yield from answer(self, frame)
        if not lost:
            lost.append(moment)
            # The frame is on its way once this generator is asked for more, but for what a buffer keeps back.
            threading.Timer(0.01, kill_own_ssh).start()

    monkeypatch.setattr(Conversation, "answer", breaking)
    result = place.start("run")
    assert lost
    only_one_more(place, before, result)


@pytest.mark.parametrize("moment", [0.05 * number for number in range(12)])
def test_an_ssh_that_is_killed_at_any_moment_starts_no_second_copy(plain: Place, moment: float) -> None:
    before = plain.runs()
    begun = threading.Event()

    def strike() -> None:
        until(lambda: bool(own_ssh()), 10)
        begun.set()
        threading.Event().wait(moment)
        kill_own_ssh()

    striker = threading.Thread(target=strike)
    striker.start()
    result = None
    try:
        result = plain.start("run")
    except AnsibleConnectionFailure as error:
        # Before the hello nothing can have been started, so it is said at once and may be asked for anew.
        assert not isinstance(error, ConnectionLost)
    finally:
        striker.join()
    assert begun.is_set()
    if result is None:
        assert [run["run"] for run in plain.runs()] == [run["run"] for run in before]
    else:
        only_one_more(plain, before, result)
