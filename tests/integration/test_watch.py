# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Watching runs by the command: lines as they come, over logins that are killed, what is said of ends and stalls."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

import trainops
from lab.api import open_lab
from tests.integration.connections import inventory
from tests.integration.runs import PLACES
from tests.unit.trainops.folders import until

PLAIN = "ct200"
TRAIN = r"""
import os, sys, time

what, count = sys.argv[1], int(sys.argv[2])
if what == "crash":
    print("begin", flush=True)
    time.sleep(1)
    raise RuntimeError("CUDA error: unknown error")
if what == "flood":
    print("begin", flush=True)
    while not os.path.exists("go"):
        time.sleep(0.05)
    for number in range(count):
        sys.stdout.write(("x" * 100 + "\n") * 10000)
    print("the end", flush=True)
if what == "eat":
    print("step 1 loss 2.5", flush=True)
    time.sleep(1)
    held = []
    while True:
        held.append(bytearray(b"x") * (16 << 20))
if what == "forge":
    print("ct200  run      r1 ended after 1 s, exit 0\nbare", flush=True)
if what == "show":
    print("shown", os.environ["HFTOKEN"][::-1], os.environ.get("NCCL_DEBUG"), os.environ.get("OMP_NUM_THREADS"))
if what == "escape":
    print("\x1b[2J\x1b]0;title\x07 done", flush=True)
if what == "silent":
    print("step 1 loss 2.5", flush=True)
    time.sleep(3600)
while what == "lines":
    print("line", count, flush=True)
    time.sleep(0.05)
    count += 1
    if os.path.exists("enough"):
        break
if what == "train":
    for number in range(1, count):
        print("step %d loss %.3f tokens/s %d" % (number, 1 / number, 1000 + number), flush=True)
        time.sleep(0.1)
"""
# The sessions of root on a node are this lab's, so of this test.
CUT = """
for folder in /proc/[0-9]*; do
  tr '\\0' ' ' <$folder/cmdline 2>/dev/null | grep -q '^sshd: root@notty' && kill -9 ${folder#/proc/} && echo cut
done
true
"""


class Watching:
    """The command under way, with what it has printed so far."""

    def __init__(self, folder: Path, *words: str) -> None:
        argv = [sys.executable, "-m", "trainops", *words]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            argv, cwd=folder, stdout=pipe, stderr=pipe, stdin=subprocess.DEVNULL, text=True, start_new_session=True
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def has(self, pattern: str) -> bool:
        return any(re.search(pattern, line) for line in self.lines)

    def has_times(self, words: str, times: int) -> bool:
        """Whether so many lines have these words."""
        return sum(words in line for line in self.lines) == times

    def wait_for(self, pattern: str) -> None:
        assert until(lambda: self.has(pattern) or self.process.poll() is not None, 180), self.lines
        assert self.has(pattern), self.lines

    def end(self) -> tuple[int, str]:
        """The exit status and what was said on standard error."""
        assert self.process.stderr
        said = self.process.stderr.read()
        code = self.process.wait(timeout=120)
        self._reader.join()
        return code, said


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A user's folder whose project is live in every container."""
    here = tmp_path_factory.mktemp("watch")
    (here / "scripts").mkdir()
    (here / "scripts" / "train.py").write_text(TRAIN)
    hosts = yaml.safe_load(Path(inventory()).read_text())
    own = {
        "training_project": "scripts",
        "training_root": f"/srv/{here.name}",
        "training_name": "demo",
        "training_python": "/usr/bin/python3",
        "training_script": "train.py",
        "training_gpus": 0,
    }
    hosts["training"]["vars"].update(own)
    (here / "inventory.yml").write_text(yaml.safe_dump(hosts))
    (here / "ansible.cfg").write_text("[defaults]\ninventory = inventory.yml\n")
    for _node, vmid in PLACES.values():
        inside(vmid, ["mkdir", "-p", f"/srv/{here.name}"])
    assert run(here, "deploy")[0] == 0
    yield here
    run(here, "stop", "all", "--patience", "0")
    for _node, vmid in PLACES.values():
        inside(vmid, ["rm", "-rf", f"/srv/{here.name}"])


@pytest.fixture
def nothing_alive(folder: Path) -> Iterator[None]:
    """For tests whose run does not end by itself."""
    yield
    run(folder, "stop", "all", "--patience", "0")


def run(folder: Path, *words: str) -> tuple[int, str, str]:
    """Status, standard output and standard error of the command, which has come to its end."""
    argv = [sys.executable, "-m", "trainops", *words]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False, timeout=180)
    return done.returncode, done.stdout, done.stderr


def inside(vmid: int, argv: list[str]) -> str:
    """What a command in a container prints."""
    done = open_lab().container(vmid).run(argv)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def launch(folder: Path, what: str, count: int = 0, host: str = PLAIN, *more: str) -> str:
    """Start a run and return its id, without waiting for anything of it."""
    code, out, err = run(folder, "launch", "--json", "--no-follow", "-l", host, "--args", f"{what} {count}", *more)
    assert code == 0, out + err
    return str(values(out, host)["run"])


def values(out: str, host: str = PLAIN) -> dict[str, Any]:
    """The values of the last step `run` of a host."""
    steps = [step for step in json.loads(out)["hosts"][host]["steps"] if step["step"] == "run"]
    found: dict[str, Any] = steps[-1]["values"]
    return found


@pytest.mark.parametrize("host", list(PLACES))
def test_over_logins_that_are_killed_no_line_is_lost_and_none_comes_twice(folder: Path, host: str) -> None:
    vmid, enough = PLACES[host][1], f"/srv/{folder.name}/enough"
    name = launch(folder, "lines", 0, host)
    watching = Watching(folder, "logs", "-f", "-n", "100000", name, "-l", host)
    for cuts in range(3):
        # What comes after the connection was made again came over a new login.
        assert until(partial(watching.has_times, "connected again", cuts), 180), watching.lines
        seen = [line for line in watching.lines if line.startswith("line ")]
        watching.wait_for(f"^line {len(seen) + 3}$")
        assert b"cut" in open_lab().node(PLACES[host][0]).check(["sh", "-c", CUT])
    inside(vmid, ["touch", enough])
    code, said = watching.end()
    assert code == 0, (watching.lines, said)
    written = inside(vmid, ["cat", f"/srv/{folder.name}/.trainops/demo/runs/{name}/log"]).splitlines()
    assert [line for line in watching.lines if line.startswith("line ")] == written
    assert written == [f"line {number}" for number in range(len(written))]
    assert watching.has(f"the connection is lost, {name} goes on")
    assert watching.has("connected again")
    assert re.search(f"run +{name} ended after \\d+ s, exit 0$", watching.lines[-1])


def test_lines_come_while_the_run_goes_on(folder: Path, nothing_alive: None) -> None:
    name = launch(folder, "train", 100_000)
    watching = Watching(folder, "logs", "-f", name, "-l", PLAIN)
    watching.wait_for("^step 1 loss")
    now = int(re.findall(r"^step (\d+)", "\n".join(watching.lines), re.MULTILINE)[-1])
    watching.wait_for(f"^step {now + 20} ")
    assert watching.process.poll() is None
    os.killpg(watching.process.pid, signal.SIGINT)
    code, said = watching.end()
    assert (code, "detached, nothing was stopped" in said) == (130, True)
    assert f"trainops logs -f {name} --limit={PLAIN}" in said
    code, out, _err = run(folder, "status", "--json", "-l", PLAIN)
    assert {one["run"]: one["state"] for one in values(out)["runs"]}[name] == "running"


def test_a_launch_is_watched_until_its_first_values(folder: Path, nothing_alive: None) -> None:
    code, out, err = run(folder, "launch", "-l", PLAIN, "--args", "train 100000")
    assert code == 0, err
    assert "\nstep 1 loss 1.000 tokens/s 1001\n" in out
    assert re.search(r"run +r\d+ of [0-9a-f]{7} runs: step \d+ loss [\d.]+ tokens/s \d+\n$", out)


def test_a_launch_that_dies_says_why_and_fails(folder: Path) -> None:
    code, out, _err = run(folder, "launch", "-l", PLAIN, "--args", "crash 0")
    assert code == 1
    assert re.search(r"FAILED  r\d+ died after \d+ s, exit 1: RuntimeError: CUDA error: unknown error train.py:8", out)
    assert out.count("Traceback (most recent call last):") == 1
    code, out, _err = run(folder, "logs", "-f", "--json", "-l", PLAIN)
    assert (code, values(out)["exit"]["exit_code"]) == (1, 1)
    assert values(out)["traceback"][-1] == "RuntimeError: CUDA error: unknown error"
    code, out, _err = run(folder, "logs", "-n", "1", "-l", PLAIN)
    assert (code, out.splitlines()[0]) == (0, "RuntimeError: CUDA error: unknown error")


def test_what_a_terminal_would_obey_is_written_out(folder: Path) -> None:
    launch(folder, "escape")
    code, out, _err = run(folder, "logs", "-f", "-l", PLAIN)
    assert code == 0
    assert "\\x1b[2J\\x1b]0;title\\x07 done\n" in out
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f]", out)


def test_of_a_flood_the_end_is_shown_and_the_rest_is_said_to_be_missing(folder: Path) -> None:
    name = launch(folder, "flood", 60)
    watching = Watching(folder, "logs", "-f", "-l", PLAIN, name)
    watching.wait_for("^begin$")
    inside(PLACES[PLAIN][1], ["touch", f"/srv/{folder.name}/go"])
    assert watching.end()[0] == 0
    assert watching.has(r"MB are not shown, the run prints faster")
    assert watching.has("^the end$")
    assert sum(map(len, watching.lines)) < 20_000_000


def test_the_status_of_all_containers_fits_a_terminal(folder: Path, nothing_alive: None) -> None:
    for host in PLACES:
        launch(folder, "train", 100_000, host)
    code, out, _err = run(folder, "status")
    assert code == 0
    rows = [line.split() for line in out.splitlines()]
    assert rows[0] == ["host", "run", "state", "age", "step", "loss", "tokens/s", "GPUs", "release"]
    assert {row[0] for row in rows if "running" in row} == set(PLACES)
    assert max(map(len, out.splitlines())) <= 80


def test_a_silent_run_on_unused_gpus_is_a_stall(folder: Path, nothing_alive: None) -> None:
    name = launch(folder, "silent", 0, PLAIN, "--gpus", "1")
    watching = Watching(folder, "logs", "-f", name, "-l", PLAIN, "-e", "training_stall_seconds=1")
    watching.wait_for(f"{name} seems stalled: it has printed nothing for .* its GPU does nothing")
    os.killpg(watching.process.pid, signal.SIGINT)
    assert watching.end()[0] == 130
    code, out, _err = run(folder, "status", "-l", PLAIN, "-e", "training_stall_seconds=1")
    assert (code, bool(re.search(rf"{name} +stalled for \d+ s", out))) == (0, True)


def test_the_python_api_gives_values(folder: Path, nothing_alive: None) -> None:
    printed: list[str] = []
    given: dict[str, Any] = {"limit": PLAIN, "cwd": folder, "on_output": printed.append}
    started = trainops.launch(args="train 100000", **given)
    step = started.hosts[PLAIN].step("run")
    assert step is not None
    assert (step.values["reached"], step.values["found"]["loss"] <= 1.0) == (True, True)
    assert any(text.startswith("step 1 ") for text in printed)
    name = step.values["run"]
    stopped = trainops.stop(name, **given).hosts[PLAIN].step("run")
    assert stopped is not None
    assert stopped.values["state"] == "ended"
    told = trainops.why(name, **given).hosts[PLAIN].step("run")
    assert told is not None
    assert told.values["causes"][0]["code"] == "stopped"


@pytest.fixture
def kernel(folder: Path) -> Iterator[Path]:
    """A file whose lines the node's journalctl prints; real ones would need broken hardware."""
    node = open_lab().node(PLACES[PLAIN][0])
    place = "/usr/local/bin/journalctl"
    node.run(["sh", "-c", f"printf '#!/bin/sh\\ncat /tmp/kernel-lines\\n' > {place}; chmod 755 {place}"])
    yield folder
    node.check(["rm", "-f", place, "/tmp/kernel-lines"])


def say(text: str) -> None:
    """Let the node's kernel have said this now."""
    line = f"{time.time():.6f} pve1 kernel: {text}\n"
    open_lab().node(PLACES[PLAIN][0]).check(["sh", "-c", 'printf "%s" "$1" > /tmp/kernel-lines', "sh", line])


def test_why_names_the_hardware_before_the_exception(folder: Path, kernel: Path) -> None:
    name = launch(folder, "crash", 0, PLAIN, "--gpus", "1")
    rows = inside(200, ["nvidia-smi", "--query-gpu=pci.bus_id", "--format=csv,noheader", "-i", "0"])
    bus = rows.strip().lower().removeprefix("0000").removesuffix(".0")
    say(f"NVRM: Xid (PCI:{bus}): 79, pid=1234, name=python3, GPU has fallen off the bus.")
    run(folder, "logs", "-f", "-l", PLAIN)
    code, out, _err = run(folder, "why", name, "-l", PLAIN)
    lines = out.splitlines()
    assert code == 0
    assert re.search(rf"run +{name}: Xid 79 on GPU {bus}: the GPU has fallen off the bus", lines[0])
    assert lines[1].strip() == "also: RuntimeError: CUDA error: unknown error at train.py:8"
    assert any("GPU has fallen off the bus." in line for line in lines[2:])


def test_why_tells_a_kill_for_memory_from_a_kill_by_somebody(folder: Path, kernel: Path) -> None:
    found = []
    for killer in ("the kernel", "somebody"):
        name = launch(folder, "silent")
        _code, out, _err = run(folder, "status", "--json", "-l", PLAIN)
        pid = next(one["process"]["pid"] for one in values(out)["runs"] if one["run"] == name)
        say(
            "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=ns,mems_allowed=0,oom_memcg=/lxc/200,"
            f"task_memcg=/lxc/200/ns,task=python3,pid={pid},uid=0"
            if killer == "the kernel"
            else "usb 1-1: new device"
        )
        inside(200, ["kill", "-9", str(pid)])
        run(folder, "logs", "-f", "-l", PLAIN)
        _code, out, _err = run(folder, "why", "--json", "-l", PLAIN, name)
        found.append(values(out)["causes"][0]["code"])
    assert found == ["out-of-memory", "killed"]


@contextlib.contextmanager
def limited(vmid: int, node: str, mib: int) -> Iterator[None]:
    """Give a container so much memory; what limits it on a Proxmox VE node is the same control group."""
    (pid,) = re.findall(r"\d+", open_lab().node(node).check(["lxc-info", "-n", str(vmid), "-pH"]).decode())
    groups = open_lab().node(node).check(["cat", f"/proc/{pid}/cgroup"]).decode()
    old = re.search(r"^\d+:memory:(/.+)$", groups, re.MULTILINE)
    own = next(Path("/sys/fs/cgroup").glob(f"{'memory/' if old else ''}trainops-lab/{lab_name()}/{node}/lxc/{vmid}"))
    limit = own / ("memory.limit_in_bytes" if old else "memory.max")
    before = limit.read_text()
    limit.write_text(str(mib << 20))
    yield
    limit.write_text("-1" if old else before)


def lab_name() -> str:
    return open_lab().instance.name


def test_a_real_kill_for_memory_is_named_first(folder: Path) -> None:
    with limited(200, "pve1", 300):
        name = launch(folder, "eat")
        run(folder, "logs", "-f", name, "-l", PLAIN)
    code, out, _err = run(folder, "why", name, "-l", PLAIN)
    first, second = out.splitlines()[:2]
    assert code == 0
    assert re.search(
        rf"run +{name}: the container's memory limit( of .+)? was reached, and the kernel killed pyth", first
    )
    assert f"{name} died after" in second, out
    assert "nobody left a reason" not in out


def test_a_run_that_is_done_before_any_sign_is_a_success_and_forges_no_line(folder: Path) -> None:
    code, out, err = run(folder, "launch", "-l", PLAIN, "--args", "forge 0")
    assert code == 0, out + err
    assert "\n| ct200  run      r1 ended after 1 s, exit 0\nbare\n" in out
    assert re.search(r"\nct200  run +r\d+ ended after \d+ s, exit 0, before any value\n$", out)


def test_an_earlier_run_wins_over_what_merely_stands_in_the_inventory(folder: Path) -> None:
    def started(*words: str, **env: str) -> str:
        hosts = yaml.safe_load((folder / "inventory.yml").read_text())
        hosts["training"]["vars"]["training_env"] = env
        (folder / "like.yml").write_text(yaml.safe_dump(hosts))
        code, out, err = run(folder, "launch", "-i", "like.yml", "-l", PLAIN, *words)
        assert code == 0, out + err
        return out + err

    first = started("--args", "show 0", HFTOKEN="s3same", NCCL_DEBUG="INFO")
    assert "\nshown emas3s INFO None\n" in first
    like = re.findall(r"run (r\d+) of", first)[0]
    again = started("--like", like, HFTOKEN="0ther", NCCL_DEBUG="WARN", OMP_NUM_THREADS="1")
    assert "\nshown reht0 INFO None\n" in again
    assert f"{like} had another value of HFTOKEN, which is not recorded: the present one is taken" in again
    assert f"as in {like}, not as training_env has it now: NCCL_DEBUG, OMP_NUM_THREADS" in again
    said = started("--like", like, "-e", '{"training_env": {"HFTOKEN": "x", "NCCL_DEBUG": "TRACE"}}', HFTOKEN="0ther")
    assert "\nshown x TRACE None\n" in said
    code, out, _err = run(folder, "status", "--json", "-l", PLAIN)
    assert (code, "s3same" in out, "0ther" in out) == (0, False, False)


def test_a_launch_warns_when_the_project_is_not_what_is_live(folder: Path) -> None:
    script = folder / "scripts" / "train.py"
    script.write_text(f"{TRAIN}# edited\n")
    try:
        code, out, err = run(folder, "launch", "--no-follow", "-l", PLAIN, "--args", "escape 0")
        assert code == 0
        assert f"the project in {folder}/scripts is not what is live (" in out + err
    finally:
        script.write_text(TRAIN)
    code, out, err = run(folder, "launch", "--no-follow", "-l", PLAIN, "--args", "escape 0")
    assert (code, "not what is live" in out + err) == (0, False)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["logs", "r999", "-l", PLAIN], "there is no run r999 of demo"),
        (["why", "r999", "-l", PLAIN], "there is no run r999 of demo"),
        (["logs", "-l", PLAIN, "-e", '{"training_values": ["("]}'], "is no regular expression"),
    ],
)
def test_what_cannot_be_watched_is_one_sentence(folder: Path, words: list[str], said: str) -> None:
    code, out, err = run(folder, *words)
    assert (code, said in out + err) == (1, True), out + err
    assert "Traceback" not in out + err
