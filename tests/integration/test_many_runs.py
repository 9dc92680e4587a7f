# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fifty starts and stops in a row: beyond the kept records nothing is left of them, in the container or on the node."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.api import open_lab
from tests.integration.connections import inventory
from tests.integration.inside import inside, shell
from tests.integration.test_release import release
from tests.unit.trainops.folders import until

HOSTS = {"ct200": ("pve1", 200), "ct210": ("pve2", 210)}
ROUNDS = 50
BIN = Path(sys.executable).parent

# Prints what may be left behind: processes, who has a GPU open, open files of PID 1, folders and files where we write,
# control groups, units.
LOOK = r"""
import glob, json, os, subprocess, sys
processes, gpus = [], []
for folder in glob.glob("/proc/[0-9]*"):
    try:
        words = open(folder + "/cmdline", "rb").read().decode("utf-8", "replace").split("\0")
        links = [os.readlink(link) for link in glob.glob(folder + "/fd/*")]
        state = open(folder + "/stat").read().rpartition(")")[2].split()[0]
    except OSError:
        continue
    if folder != "/proc/%d" % os.getpid():
        processes.append(" ".join(words).strip() + (" (zombie)" if state == "Z" else ""))
        gpus += [words[0] for link in links if link.startswith("/dev/nvidia")]
places = []
for top in sys.argv[1:]:
    for folder, folders, names in os.walk(top):
        places += [os.path.join(folder, name) for name in folders + names]
places += [folder for folder, _folders, _names in os.walk("/sys/fs/cgroup") if "trainops" in folder]
units = subprocess.run(
    ["sh", "-c", "systemctl list-units --all --no-legend --plain 'trainops*' 2>/dev/null"], stdout=subprocess.PIPE
).stdout.decode()
handles = len(os.listdir("/proc/1/fd"))
print(json.dumps({"processes": processes, "gpus": gpus, "handles": handles, "places": places, "units": units}))
"""

# A run with children that hold its GPUs and do not end when it does.
COMMAND = [
    "bash",
    "-c",
    "for gpu in ${CUDA_VISIBLE_DEVICES//,/ }; do hold --gpu $gpu --mib 100 & done; exec sleep 100000",
]


@pytest.fixture
def root(tmp_path: Path) -> Iterator[str]:
    """A folder in both containers, gone afterwards."""
    folder = f"/srv/{tmp_path.name}"
    for _node, vmid in HOSTS.values():
        inside(vmid, "mkdir", folder)
    yield folder
    for _node, vmid in HOSTS.values():
        shell(vmid, 'rm -rf "$1"', folder)


def start_and_stop(folder: Path, root: str, times: int) -> None:
    """One playbook that starts and stops a run so many times on both hosts, and looks what each result says."""
    ours = {"root": root, "name": "demo"}
    cycle = [
        {
            "trainops.proxmox.training_run": {**ours, "command": COMMAND, "select": [0, 1]},
            "register": "started",
            "failed_when": "started is failed or started.state != 'running'",
        },
        {  # the others are stopped while their children still start
            "trainops.proxmox.training_run": {
                **ours,
                "state": "watched",
                "run": "{{ started.run }}",
                "until": {"log": "holding 100 MiB"},
            },
            "when": "round % 5 == 0",
        },
        {
            "trainops.proxmox.training_run": {**ours, "state": "stopped", "run": "{{ started.run }}"},
            "register": "stopped",
            "failed_when": "stopped is failed or stopped.state != 'ended' or stopped.exit.signal != 15",
        },
    ]
    (folder / "cycle.yml").write_text(yaml.safe_dump(cycle))
    again = {
        "ansible.builtin.include_tasks": "cycle.yml",
        "loop": list(range(times)),
        "loop_control": {"loop_var": "round"},
    }
    play = {"hosts": ",".join(HOSTS), "gather_facts": False, "any_errors_fatal": True, "tasks": [again]}
    (folder / "many.yml").write_text(yaml.safe_dump([play]))
    done = subprocess.run(
        [sys.executable, BIN / "ansible-playbook", "-i", inventory(), "many.yml"],
        cwd=folder,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def in_container(vmid: int, root: str) -> dict[str, Any]:
    """What is there, in the container."""
    found: dict[str, Any] = json.loads(
        inside(vmid, "python3", "-c", LOOK, root, "/tmp", "/run", "/dev/shm", "/var/tmp")
    )
    return found


def on_node(node: str) -> Counter[str]:
    """The processes of a node, containers' included, but for those of the connections that are kept open a while."""
    text = (
        open_lab()
        .node(node)
        .check(["sh", "-c", "for each in /proc/[0-9]*; do tr '\\0' ' ' <$each/cmdline; echo; done"])
    )
    lines = (line.strip() for line in text.decode("utf-8", "replace").splitlines())
    return Counter(line for line in lines if line and "sshd" not in line and "/proc/[0-9]*" not in line)


def records(places: list[str], root: str) -> tuple[dict[str, set[str]], set[str]]:
    """The files of each run's folder, and all the other places."""
    runs: dict[str, set[str]] = {}
    others = set()
    for place in places:
        before, found, after = place.partition(f"{root}/.trainops/demo/runs/r")
        number, _slash, name = after.partition("/")
        if found and not before and number.isdigit():
            runs.setdefault(f"r{number}", set()).update([name] if name else [])
        else:
            others.add(place)
    return runs, others


@pytest.mark.timeout(1800)
def test_fifty_starts_and_stops_leave_nothing_but_their_records(tmp_path: Path, root: str) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "train.py").write_text("print(1)\n")
    for result in release(tmp_path, root, ",".join(HOSTS)).values():
        assert not result["failed"], result
    start_and_stop(tmp_path, root, 1)  # what the first one makes for all, as the folder of the runs, is no leftover
    before = {vmid: in_container(vmid, root) for _node, vmid in HOSTS.values()}
    nodes = {node: on_node(node) for node, _vmid in HOSTS.values()}
    start_and_stop(tmp_path, root, ROUNDS)
    for node, vmid in HOSTS.values():
        after = in_container(vmid, root)
        kept, others = records(after["places"], root)
        first, were = records(before[vmid]["places"], root)
        assert Counter(after["processes"]) == Counter(before[vmid]["processes"])
        assert (after["gpus"], after["units"]) == ([], "")
        assert after["handles"] < before[vmid]["handles"] + ROUNDS // 5  # systemd opens and closes some of its own
        assert others == were
        assert sorted(kept) == sorted(f"r{number + 1}" for number in range(ROUNDS + 1))
        assert all(files == first["r1"] for files in kept.values()), kept
        assert until(lambda: on_node(node) == nodes[node]), on_node(node) - nodes[node]  # noqa: B023
