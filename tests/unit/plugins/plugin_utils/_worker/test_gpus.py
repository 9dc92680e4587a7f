# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The GPUs as seen from inside: real processes, deadlines, and devices of a /dev of its own."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker import gpus

from tests.unit.devices import MINOR, beside_two_jobs, needs_root
from tests.unit.interpreters import interpreters

WORKER = Path(gpus.__file__).parent
Tool = Callable[[str], str]


@pytest.fixture
def tool(tmp_path: Path) -> Iterator[Tool]:
    """Makes an nvidia-smi of shell text, which may note processes to end afterwards in the file $PIDS."""
    pids = tmp_path / "pids"
    pids.touch()

    def make(body: str) -> str:
        path = tmp_path / "nvidia-smi"
        path.write_text(f"#!/bin/sh\nPIDS={pids}\n{body}\n")
        path.chmod(0o755)
        return str(path)

    yield make
    for pid in pids.read_text().split():
        os.kill(int(pid), 9)


def read(smi: str, timeout: float = 30.0) -> dict[str, Any]:
    return gpus.read({"nvidia_smi": smi, "timeout": timeout, "queries": ["--query-gpu=a", "--query-compute-apps=b"]})


def test_both_queries_are_asked_and_their_answers_kept_apart(tool: Tool) -> None:
    reading = read(tool('echo "$1 $2"; case $1 in *apps*) echo oops >&2; exit 3;; esac'))
    first, second = reading["answers"]
    assert (first["exit"], first["text"]) == (0, "--query-gpu=a --format=csv\n")
    assert (second["exit"], second["text"]) == (3, "--query-compute-apps=b --format=csv\noops\n")
    assert not first["timed_out"]
    assert json.loads(json.dumps(reading)) == reading


def test_both_queries_run_at_the_same_time(tool: Tool, tmp_path: Path) -> None:
    meet = tmp_path / "meet"
    body = f'echo x >> {meet}; while [ "$(wc -l < {meet})" -lt 2 ]; do sleep 0.01; done'
    assert [answer["exit"] for answer in read(tool(body))["answers"]] == [0, 0]


@pytest.mark.parametrize("body", ["exec sleep 1000", "trap '' TERM INT HUP; echo started; exec sleep 1000"])
def test_one_that_does_not_answer_is_killed_at_its_deadline(tool: Tool, body: str) -> None:
    for answer in read(tool(body), timeout=0.3)["answers"]:
        assert (answer["exit"], answer["timed_out"], answer["unkillable"]) == (None, True, False)


def test_one_that_cannot_be_killed_is_left_behind(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    smi = tool("echo $$ >> $PIDS; exec sleep 1000")
    monkeypatch.setattr(os, "kill", lambda pid, signal: None)
    answers = read(smi, timeout=0.3)["answers"]
    monkeypatch.undo()
    assert [(answer["timed_out"], answer["unkillable"]) for answer in answers] == [(True, True)] * 2


def test_an_output_that_a_child_keeps_open_does_not_hold_it(tool: Tool) -> None:
    smi = tool("sleep 1000 & echo $! >> $PIDS; echo answered")
    assert [(answer["exit"], answer["text"]) for answer in read(smi)["answers"]] == [(0, "answered\n")] * 2


def test_a_long_answer_is_read_whole(tool: Tool) -> None:
    answers = read(tool("dd if=/dev/zero bs=1000 count=500 2>/dev/null | tr '\\0' x"))["answers"]
    assert [len(answer["text"]) for answer in answers] == [500_000] * 2


def test_the_limit_of_open_files_is_sane_for_it_and_unchanged_here(tool: Tool) -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    answers = read(
        tool("ulimit -n; ls /proc/self/fd | wc -l; locale 2>/dev/null | grep LC_ALL; readlink /proc/self/fd/0")
    )
    assert int(answers["answers"][0]["text"].split()[0]) <= 1024
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before


def test_it_holds_no_descriptor_of_ours(tool: Tool) -> None:
    reading, writing = os.pipe()
    os.set_inheritable(reading, True)
    os.set_inheritable(writing, True)
    ours = os.readlink(f"/proc/self/fd/{reading}")
    links = read(tool("readlink /proc/$$/fd/*"))["answers"][0]["text"].split()
    os.close(reading)
    os.close(writing)
    assert links[0] == "/dev/null"
    assert ours not in links
    assert len({link for link in links if link.startswith("pipe:")}) == 1


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("/opt/no/nvidia-smi", "there is no /opt/no/nvidia-smi: set option nvidia_smi"),
        ("no-such-nvidia-smi", "there is no nvidia-smi on the PATH: set option nvidia_smi"),
    ],
)
def test_a_program_that_is_missing_is_named(name: str, said: str) -> None:
    answer = read(name)["answers"][0]
    assert answer["exit"] == 127
    assert answer["text"].startswith(said)


def test_a_name_is_looked_for_on_the_path_and_must_be_executable(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a/smi").write_text("")
    (tmp_path / "b/smi").write_text("")
    (tmp_path / "b/smi").chmod(0o755)
    path = f"{tmp_path}/a:{tmp_path}/b"
    assert gpus.find_tool("smi", path) == f"{tmp_path}/b/smi"
    assert gpus.find_tool(f"{tmp_path}/b/smi", "") == f"{tmp_path}/b/smi"
    assert gpus.find_tool(f"{tmp_path}/a/smi", path) is None


def frozen(pid: int) -> Callable[[], None]:
    """Put a process into a sleep that SIGKILL does not end, and give what thaws it. Skips where that cannot be had."""
    folder = Path(f"/sys/fs/cgroup/freezer/trainops-test-{pid}")
    try:
        folder.mkdir()
        (folder / "cgroup.procs").write_text(str(pid))
        (folder / "freezer.state").write_text("FROZEN")
    except OSError:
        pytest.skip("no cgroup v1 freezer to be had here")

    def thaw() -> None:
        (folder / "freezer.state").write_text("THAWED")
        os.kill(pid, 9)
        while (folder / "cgroup.procs").read_text():
            time.sleep(0.01)
        folder.rmdir()

    return thaw


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_no_second_one_is_started_beside_one_that_hangs(tool: Tool, tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    smi = tool(f'echo x >> {asked}; [ "$1" = hang ] && while :; do :; done')
    with subprocess.Popen([smi, "hang"]) as process:
        while not asked.exists():
            time.sleep(0.01)
        thaw = frozen(process.pid)
        try:
            while state_of(process.pid) != "D":
                time.sleep(0.01)
            while gpus.find_stuck("nvidia-smi", 0.2) != process.pid:
                time.sleep(0.01)
            asked.unlink()
            answers = read(smi, timeout=0.2)["answers"]
            young = gpus.find_stuck("nvidia-smi", 3600)
        finally:
            thaw()
    assert [(answer["exit"], answer["stuck"]) for answer in answers] == [(None, process.pid)] * 2
    assert not asked.exists()
    assert young is None


def test_processes_are_described_by_their_own_files(tool: Tool) -> None:
    smi = tool(f"echo 'GPU-1, {os.getpid()}, 10 MiB, python'; echo 'GPU-1, 4194303, 10 MiB, [Not Found]'")
    processes = read(smi)["processes"]
    assert list(processes) == [str(os.getpid())]
    assert processes[str(os.getpid())]["stat"].startswith(f"{os.getpid()} (")
    assert processes[str(os.getpid())]["cmdline"] == Path("/proc/self/cmdline").read_text()[:4096]
    assert processes[str(os.getpid())]["opened"] == []


LOOK = """
import json, sys
sys.path.insert(0, sys.argv[1].rpartition("/")[0])
from _worker import gpus
print(json.dumps([gpus.find_opened(set())[0], sorted(gpus.known_devices().values())]))
"""


@needs_root
@pytest.mark.parametrize("python", interpreters())
def test_who_maps_a_gpu_is_found_and_who_only_opens_it_is_not(tmp_path: Path, python: str) -> None:
    text, mapping, _opening = beside_two_jobs(tmp_path, [python, "-c", LOOK, str(WORKER)])
    assert json.loads(text) == [{str(mapping): [MINOR]}, [MINOR]]
