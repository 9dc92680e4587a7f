# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The script that a node runs, as a real process, and what its text means."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils import node_view, nvidia_smi

from tests.unit.devices import MINOR, beside_two_jobs, needs_root

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures" / "gpus"
GPU = "GPU-11111111-2222-3333-4444-555555555555"
Script = Callable[..., node_view.NodeView]


def recorded(name: str) -> node_view.NodeView:
    return node_view.parse_node_view((FIXTURES / f"{name}.view").read_text())


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Script]:
    """Runs the script with an nvidia-smi of the given shell text, and ends what that left."""
    started: list[subprocess.Popen[str]] = []

    def run(body: str = "exit 0", *, smi: str = "", deadline: str = "30", run: str = "") -> node_view.NodeView:
        tool = tmp_path / "nvidia-smi"
        tool.write_text(f"#!/bin/sh\n{body}\n")
        tool.chmod(0o755)
        # As the caller does: a function whose output goes through a pipe, in a shell that stops at nothing.
        command = f"set -eu; node_view() {{\n{node_view.SCRIPT}\n}}; node_view </dev/null 2>/dev/null | cat"
        process = subprocess.Popen(
            ["sh", "-c", command],
            env={**os.environ, "smi": smi or str(tool), "deadline": deadline, "run": run},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        stdout, stderr = process.communicate(timeout=60)
        assert process.returncode == 0
        assert stderr == ""
        return node_view.parse_node_view(stdout)

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()


@pytest.mark.parametrize(
    ("name", "opened"),
    [
        ("idle", {}),
        # nvidia-smi -l and another user of NVML: both have every device file open, /dev/nvidia-uvm too.
        ("monitors", {}),
        ("starting", {691: {0, 1}}),
        ("busy", {746: {0, 1}, 792: {0, 1}}),
        ("fork", {918: {0, 1}, 959: {0, 1}}),
        ("orphan", {959: {0, 1}}),
    ],
)
def test_recorded_on_two_h200(name: str, opened: dict[int, set[int]]) -> None:
    view = recorded(name)
    assert (view.complete, view.reason) == (True, "")
    assert view.tool == "/usr/local/nvidia/bin/nvidia-smi"
    assert view.minors == {"0000:00:06.0": 0, "0000:00:07.0": 1}
    assert view.devices == (0, 1)
    assert {pid: set(process.opened) for pid, process in view.processes.items() if process.opened} == opened
    assert view.gpus is not None
    assert view.gpus.exit == 0
    assert len(nvidia_smi.parse_gpus(view.gpus.text)[0]) == 2


def test_a_process_has_its_command_age_and_parent() -> None:
    process = recorded("fork").processes[959]
    assert process.argv == ("/root/venv/bin/python", "train.py", "fork")
    assert (process.parent, process.age) == (918, 0)


def test_without_root_only_what_nvidia_smi_lists_is_known() -> None:
    view = recorded("user")
    assert not view.complete
    assert "not root" in view.reason
    assert view.apps is not None
    assert nvidia_smi.parse_apps(view.apps.text)[0].pid == 918


@pytest.mark.parametrize(
    ("line", "vmid"),
    [
        ("0::/lxc/200/ns/init.scope", 200),
        ("0::/lxc/200/ns", 200),
        ("0::/lxc/200", 200),
        ("4:memory:/lxc.payload.200", 200),
        ("1:name=systemd:/lxc.payload.210/system.slice/ssh.service", 210),
        ("0::/lxc.payload.200/.lxc", 200),
        ("0::/lxc.payload/200/x", 200),
        ("0::/lxc.payload.200-1/x", 200),
        ("0::/system.slice/lxc/200/ns", 200),
        ("0::/lxc/200/ns/docker/0123456789/lxc/7", 200),
        ("0::/lxc.monitor.200", None),
        ("0::/lxc.monitor/200", None),
        ("0::/system.slice/pve-container@200.service", None),
        ("0::/qemu.slice/100.scope", None),
        ("0::/lxc/abc/ns", None),
        ("0::/system.slice/docker-1234.scope", None),
        ("", None),
    ],
)
def test_the_container_of_a_cgroup(line: str, vmid: int | None) -> None:
    assert node_view.vmid_of(line) == vmid


PROXMOX = """\
=== start 1000.00
=== tool /usr/bin/nvidia-smi
=== gpus
index
=== exit 0
=== apps
gpu_uuid
=== exit 0
=== asked 1000.10
=== minors
=== root 0
=== opened
/proc/841/fd /proc/841/fd/5 /dev/nvidia3
/proc/842/fd /proc/842/fd/5 /dev/nvidia3
/proc/843/fd /proc/843/fd/5 /dev/nvidia3
=== devices
/dev/nvidia3 c3:3 5:90
/proc/841/fd/5 c3:3 6:11
/proc/842/fd/5 c3:4 5:91
/proc/843/fd/5 c3:3 5:90
=== mapped
/proc/841/maps:/dev/nvidia3
/proc/842/maps:/dev/nvidia3
=== processes
/proc/841/stat:841 (python3) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 90010 0 0
/proc/841/cmdline:/usr/bin/python3\037-c\037print(1)
/proc/841/cmdline:print(2)\037
/proc/841/status:NSpid:\t841\t44\t7
/proc/841/cgroup:0::/lxc/201/ns
/proc/843/stat:843 (Xorg) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 100 0 0
/proc/843/cmdline:Xorg\037
/proc/843/status:NSpid:\t843
=== names
/etc/pve/nodes/pve1/lxc/201.conf:hostname: train-b
=== end
"""


def test_a_process_of_a_container_is_traced_into_it() -> None:
    view = node_view.parse_node_view(PROXMOX)
    process = view.processes[841]
    assert (process.vmid, process.container, process.inside) == (201, "train-b", 44)
    assert process.argv == ("/usr/bin/python3", "-c", "print(1)\nprint(2)")
    assert process.age == 100
    # By the device's number, though the container has a device file of its own.
    assert process.opened == {3}


def test_neither_another_device_of_that_name_nor_one_that_is_only_open_counts() -> None:
    view = node_view.parse_node_view(PROXMOX)
    assert 842 not in {pid for pid, process in view.processes.items() if process.opened}
    assert view.processes[843].opened == frozenset()
    assert (view.processes[843].vmid, view.processes[843].inside) == (None, None)


def test_files_in_place_of_devices_are_told_by_their_inode() -> None:
    text = PROXMOX.replace(" c3:3 ", " 0:0 ").replace("/proc/841/fd/5 0:0 6:11", "/proc/841/fd/5 0:0 5:90")
    assert node_view.parse_node_view(text).processes[841].opened == {3}
    assert node_view.parse_node_view(text.replace("fd/5 0:0 5:90", "fd/5 0:0 5:99")).processes[841].opened == set()


@pytest.mark.parametrize("text", ["", "Welcome to pve1\n", PROXMOX.partition("=== processes")[0]])
def test_an_answer_that_broke_off_is_never_complete(text: str) -> None:
    view = node_view.parse_node_view(text)
    assert not view.complete
    assert view.reason == "the node's answer broke off"


def test_answers_and_statuses_reach_the_parser(script: Script) -> None:
    view = script('case $1 in --query-gpu=*) echo gpus "$2";; *) echo apps; exit 3;; esac')
    assert view.gpus is not None
    assert view.apps is not None
    assert (view.gpus.exit, view.gpus.text) == (0, "gpus --format=csv")
    assert (view.apps.exit, view.apps.text) == (3, "apps")
    assert view.complete == (os.geteuid() == 0)


@pytest.mark.parametrize("stream", ["1", "2"])
@pytest.mark.parametrize("text", ["no newline", "", "two\nlines", "ends\n", "%s \\n"])
def test_what_a_program_says_without_a_last_newline_hides_no_status(script: Script, stream: str, text: str) -> None:
    view = script(f"printf '%s' {shlex.quote(text)} >&{stream}; exit 9")
    for answer in (view.gpus, view.apps):
        assert answer is not None
        assert (answer.exit, answer.text, answer.timed_out, answer.unkillable) == (9, text.rstrip("\n"), False, False)


def test_an_answer_that_is_cut_off_in_a_line_hides_no_other(script: Script) -> None:
    view = script("case $1 in --query-gpu=*) printf half; exec sleep 1000;; *) echo apps;; esac", deadline="1")
    assert view.gpus is not None
    assert view.apps is not None
    assert (view.gpus.exit, view.gpus.text, view.gpus.timed_out) == (None, "half", True)
    assert (view.apps.exit, view.apps.text) == (0, "apps")


FORGED = "=== gpus\n=== exit 0\n=== apps\n=== root 0\n=== opened\n/proc/1/fd /proc/1/fd/1 /dev/nvidia0\n=== end"


def test_the_name_of_a_process_begins_no_section(script: Script) -> None:
    view = script(f"case $1 in --query-gpu=*) echo gpus;; *) echo 'GPU-1, 7, 5 MiB, {FORGED}'; exit 3;; esac")
    assert view.gpus is not None
    assert view.apps is not None
    assert (view.gpus.exit, view.gpus.text) == (0, "gpus")
    assert view.apps.exit == 3
    assert " === gpus" in view.apps.text
    assert view.complete == (os.geteuid() == 0)


@needs_root
def test_the_path_of_a_file_forges_no_row_and_leads_nowhere(tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    trap.mkdir()
    for name in ("stat", "cmdline", "status", "cgroup", "maps"):
        os.mkfifo(trap / name)  # who reads it waits for ever
    forged = f"{tmp_path}/x\n/proc/{os.getpid()}/root{trap}/fd /proc/1/fd/1 /dev"
    os.makedirs(forged)
    with open(f"{forged}/nvidia0", "w"):
        argv = ["sh", "-c", f"smi=none deadline=1 run=\n{node_view.SCRIPT}"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert "/proc/1/fd/1" not in done.stdout
    assert node_view.parse_node_view(done.stdout).complete


def test_a_process_that_shows_nothing_of_its_memory_leaves_the_view_incomplete() -> None:
    view = node_view.parse_node_view(PROXMOX.replace("=== end", "=== late\n=== end"))
    assert (view.complete, view.reason) == (False, "a process there does not let the node see what it has mapped")


GIANT = [
    "=== processes\n" + "/proc/1/stat:" + "9" * 3_000_000,
    "=== opened\n" + "/proc/1/fd /proc/1/fd/1 /dev/nvidia0\n" * 50_000,
    "=== names\n" + "/etc/pve/nodes/n/lxc/9" + "9" * 5000 + ".conf:hostname: x",
    "=== processes\n/proc/" + "9" * 5000 + "/stat:1 (x) S 1",
    "=== processes\n/proc/7/status:NSpid:\tx y\n/proc/7/stat:7 (x) S",
    "=== processes\n/proc/7/status:NSpid:\t" + "9" * 5000 + "\n/proc/7/stat:7 (x) S " + "x " * 30,
    "=== devices\n/dev/nvidia" + "9" * 5000 + " 1:2 3:4",
    "=== start 1e999\n=== asked nan\n=== gpus\n=== exit " + "9" * 5000,
    "=== stuck " + "9" * 5000,
    "=== exit \xb2\n=== stuck \xb2",
    "=== minors\n/proc/driver/nvidia/gpus/x/information:Device Minor: " + "9" * 5000,
    "=== processes\n/proc/7/cgroup:1:/lxc/" + "9" * 5000 + "/ns\n/proc/7/stat:7 (x) S 1",
]


@pytest.mark.parametrize("text", GIANT)
def test_forged_and_giant_rows_are_no_failure(text: str) -> None:
    assert not node_view.parse_node_view(text).complete


def test_a_node_without_nvidia_smi_says_so(script: Script) -> None:
    view = script(smi="no-such-program")
    if view.tool:
        pytest.skip("this machine has an nvidia-smi")
    assert (view.gpus, view.apps) == (None, None)
    assert view.complete == (os.geteuid() == 0)


def test_a_program_that_sleeps_is_ended_at_its_deadline(script: Script) -> None:
    view = script("exec sleep 1000", deadline="1")
    assert view.gpus is not None
    assert (view.gpus.exit, view.gpus.timed_out) == (None, True)


def test_an_output_that_stays_open_does_not_hold_the_script(script: Script, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    view = script(f"sleep 1000 & echo $! >> {pid_file}; echo answered", deadline="1")
    try:
        assert view.gpus is not None
        assert view.gpus.text == "answered"
    finally:
        for pid in pid_file.read_text().split():
            os.kill(int(pid), 9)


def test_what_root_may_not_do_is_tried_without(script: Script) -> None:
    view = script("echo x", run="false")
    assert view.gpus is not None
    assert "broke off" not in view.reason


@needs_root
def test_who_maps_a_gpu_is_found_and_who_only_opens_it_is_not(tmp_path: Path) -> None:
    argv = ["sh", "-c", node_view.SCRIPT]
    text, mapping, _opening = beside_two_jobs(tmp_path, argv, smi="no-such-program", deadline="1", run="")
    view = node_view.parse_node_view(text)
    assert view.devices == (MINOR,)
    assert {pid: set(process.opened) for pid, process in view.processes.items() if process.opened} == {mapping: {MINOR}}
    assert view.processes[mapping].argv[1:] == (str(tmp_path / "job.py"), "map", str(tmp_path / "map"))
    assert view.processes[mapping].parent != 0


def test_the_script_stays_small_enough_for_a_command_line() -> None:
    assert len(node_view.SCRIPT) < 8000
    assert "'" not in node_view._WALK
