# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The lab's nvidia-smi against recordings of the real one, and its numbers against real processes."""

from __future__ import annotations

import ast
import json
import os
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
SMI = ROOT / "lab/gpu/nvidia-smi"
HOLD = ROOT / "lab/gpu/hold"
FIXTURES = ROOT / "tests/fixtures/nvidia-smi"
RECORDED: dict[str, Any] = json.loads((FIXTURES / "h200-580-replies.json").read_text(encoding="utf-8"))
ALL_FIELDS = ",".join(name for names in RECORDED["query_gpu"] for name in names)
UUIDS = ["GPU-11111111-2222-3333-4444-555555555555", "GPU-22222222-3333-4444-5555-666666666666"]

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def table(count: int, **more: Any) -> list[dict[str, Any]]:
    """The GPUs of the machines that were recorded."""
    return [
        {
            "index": index,
            "uuid": UUIDS[index],
            "name": "NVIDIA H200",
            "memory_total_mib": 143771,
            "bus_id": f"00000000:00:0{6 + index}.0",
            "minor": index,
            **more,
        }
        for index in range(count)
    ]


class Machine:
    """A folder with a table and device files, and the processes that hold them."""

    def __init__(self, folder: Path, gpus: list[dict[str, Any]]) -> None:
        self.folder = folder
        self.holders: list[subprocess.Popen[str]] = []
        (folder / "dev").mkdir(exist_ok=True)
        for name in [*(str(gpu["minor"]) for gpu in gpus), "ctl", "-uvm"]:
            (folder / "dev" / f"nvidia{name}").touch()
        (folder / "gpus.json").write_text(json.dumps(gpus), encoding="utf-8")
        self.env = {
            **os.environ,
            "TRAINOPS_LAB_GPUS": str(folder / "gpus.json"),
            "TRAINOPS_LAB_DEV": str(folder / "dev"),
        }

    def smi(self, *argv: str, before: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*before, str(SMI), *argv], env=self.env, capture_output=True, text=True, check=False)

    def csv(self, fields: str) -> list[list[str]]:
        out = self.smi(f"--query-gpu={fields}", "--format=csv,noheader,nounits")
        assert out.returncode == 0, out.stdout
        return [line.split(", ") for line in out.stdout.splitlines()]

    def apps(self) -> list[list[str]]:
        out = self.smi("--query-compute-apps=gpu_uuid,pid,used_memory", "--format=csv,noheader,nounits")
        return [line.split(", ") for line in out.stdout.splitlines()]

    def hold(self, *argv: str, name: str = "python3", before: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        """Start a holder and return once it says that it holds."""
        command = [*before, name, "-IS", str(HOLD), *argv]
        program = None if before else sys.executable
        holder = subprocess.Popen(command, executable=program, env=self.env, stdout=subprocess.PIPE, text=True)
        self.holders.append(holder)
        assert holder.stdout is not None
        assert holder.stdout.readline().startswith("holding ")
        return holder

    def end(self) -> None:
        for holder in self.holders:
            holder.kill()
            holder.wait()
            if holder.stdout:
                holder.stdout.close()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Callable[[list[dict[str, Any]]], Machine]]:
    made: list[Machine] = []

    def make(gpus: list[dict[str, Any]]) -> Machine:
        made.append(Machine(tmp_path, gpus))
        return made[-1]

    yield make
    for one in made:
        one.end()


# --- recorded replies ---------------------------------------------------------------------------------------------

# what differs between two calls of the real one on an unchanged machine: only its form is compared
VOLATILE_FIELDS = re.compile(r"timestamp|temperature|power\.draw|clocks\.current")
READINGS = re.compile(r"\| N/A +\d+C +P0 +\d+W| \d%")  # in the table: temperature, power, a percent of utilisation
DATE = re.compile(r"\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}")
VOLATILE_TAGS = re.compile(
    r"timestamp|[tr]x_util|gpu_temp|gpu_temp_tlimit|memory_temp|.*power_draw|.*_clock|.*_power_cap"
)


def formed(text: str) -> str:
    """Numbers and dates as their form: a figure becomes #."""
    return re.sub(r"\d+(\.\d+)?", "#", DATE.sub("(date)", text))


def comparable(text: str, argv: list[str]) -> list[str]:
    """The lines of a reply with its readings as their form."""
    lines = text.splitlines(keepends=True)
    if argv and ("=ALL" in argv[0] or "timestamp" in argv[0]):
        titles = lines[0].split(", ")
        rows = [zip(titles, line.split(", "), strict=True) for line in lines[1:]]
        formed_rows = [", ".join(formed(v) if VOLATILE_FIELDS.match(t) else v for t, v in row) for row in rows]
        return [lines[0], *formed_rows]
    return [DATE.sub("(date)", READINGS.sub(lambda match: formed(" ".join(match[0].split())), line)) for line in lines]


@pytest.mark.parametrize(
    "reply", RECORDED["replies"], ids=lambda r: f"{r['gpus']}-{r['state']}-{' '.join(r['argv'])[:60] or 'table'}"
)
def test_replies_as_recorded(machine: Callable[..., Machine], reply: dict[str, Any]) -> None:
    rows = table(reply["gpus"], baseline_mib=9 if reply["state"] == "busy" else 0)
    for gpu, module in zip(rows, (2, 4), strict=False):
        gpu["values"] = {"platform.module_id": module}
    node = machine(rows)
    want = reply["stdout"]
    if reply["state"] == "busy":
        chosen = [argument for gpu in rows for argument in ("--gpu", str(gpu["index"]))]
        want = with_pid(want, node.hold(*chosen, "--mib", "1542", name="/root/venv/bin/python").pid)
    out = node.smi(*(argument.replace("ALL", ALL_FIELDS) for argument in reply["argv"]))
    got = comparable(out.stdout, reply["argv"])
    assert (out.returncode, got, out.stderr) == (reply["status"], comparable(want, reply["argv"]), "")


def with_pid(recorded: str, pid: int) -> str:
    """The recording with the PID of its process replaced, right-aligned where it is in a table."""

    def replace(match: re.Match[str]) -> str:
        spaces = match[1]
        return f"{pid:>{len(match[0])}}" if len(spaces) > 1 else f"{spaces}{pid}"

    return re.sub(r"( *)\b(524|656)\b", replace, recorded)


@pytest.mark.parametrize(
    ("switch", "recorded"),
    [("--help-query-gpu", "query_gpu"), ("--help-query-compute-apps", "query_compute_apps")],
)
def test_help_lists_the_fields_of_the_real_one(machine: Callable[..., Machine], switch: str, recorded: str) -> None:
    text = machine(table(1)).smi(switch).stdout
    assert [re.findall(r'"([^"]+)"', line) for line in text.splitlines()[2:] if line] == RECORDED[recorded]


def flat(element: ET.Element, path: str = "") -> Iterator[tuple[str, dict[str, str], str]]:
    text = (element.text or "").strip()
    yield f"{path}/{element.tag}", element.attrib, formed(text) if VOLATILE_TAGS.fullmatch(element.tag) else text
    for child in element:
        yield from flat(child, f"{path}/{element.tag}")


@pytest.mark.parametrize("state", ["idle", "busy"])
def test_xml_as_recorded(machine: Callable[..., Machine], state: str) -> None:
    values: dict[str, Any] = {"module_id": 6, "board_part_number": "000-00000-0000-000"}
    if state == "busy":
        # the recorded job computed; a holder only holds
        values |= {"gpu_util": "99 %", "memory_util": "23 %", "clocks_event_reason_sw_power_cap": "Active"}
        values |= {"clocks_event_reasons_counters_sw_power_cap": "6148636 us"}
    node = machine(table(1, values=values, baseline_mib=9 if state == "busy" else 0))
    recorded = (FIXTURES / f"h200-580-{state}.xml").read_text(encoding="utf-8")
    if state == "busy":
        recorded = recorded.replace("<pid>454<", f"<pid>{node.hold('--gpu', '0', '--mib', '1988').pid}<")
    out = node.smi("-q", "-x").stdout
    assert list(flat(ET.fromstring(out))) == list(flat(ET.fromstring(recorded)))
    # also the same lines: tabs, the empty line between GPUs, the document type
    assert [formed(line) for line in out.splitlines()] == [formed(line) for line in recorded.splitlines()]


def test_xml_of_several_gpus_and_of_one_of_them(machine: Callable[..., Machine]) -> None:
    node = machine(table(2))
    both = ET.fromstring(node.smi("-q", "-x").stdout)
    assert [gpu.findtext("uuid") for gpu in both.iter("gpu")] == UUIDS
    second = ET.fromstring(node.smi("-q", "-x", "-i", "1").stdout)
    assert [gpu.attrib["id"] for gpu in second.iter("gpu")] == ["00000000:00:07.0"]
    assert second.findtext("attached_gpus") == "2"


def test_no_driver(machine: Callable[..., Machine]) -> None:
    node = machine(table(1))
    (node.folder / "gpus.json").unlink()
    out = node.smi("-L")
    assert (out.returncode, out.stdout.partition(" because ")[0]) == (9, "NVIDIA-SMI has failed")


def test_a_gpu_without_its_device_file_is_not_there(machine: Callable[..., Machine]) -> None:
    node = machine(table(2))
    (node.folder / "dev/nvidia1").unlink()
    assert node.csv("index,count") == [["0", "1"]]


def test_log_file_and_loop(machine: Callable[..., Machine]) -> None:
    node = machine(table(1))
    log = node.folder / "log"
    out = node.smi("--query-gpu=index", "--format=csv", "-f", str(log))
    assert (out.returncode, out.stdout, log.read_text(encoding="utf-8")) == (0, "", "index\n0\n")
    argv = [str(SMI), "--query-gpu=index", "--format=csv", "-l", "0.01"]
    with subprocess.Popen(argv, env=node.env, stdout=subprocess.PIPE, text=True) as loop:
        assert loop.stdout is not None
        assert [loop.stdout.readline() for _ in range(3)] == ["index\n", "0\n", "0\n"]
        loop.kill()


# --- numbers that follow processes --------------------------------------------------------------------------------


def test_holders_add_up_and_vanish(machine: Callable[..., Machine]) -> None:
    node = machine(table(2))
    first = node.hold("--gpu", "0", "--mib", "1000")
    second = node.hold("--gpu", "0", "--gpu", "1", "--mib", "24")
    third = node.hold("--gpu", "0", "--mib", "500")
    assert node.csv("memory.used,memory.free") == [["1524", "141632"], ["24", "143132"]]
    second.send_signal(signal.SIGKILL)
    second.wait()
    fourth = node.hold("--gpu", "0", "--mib", "2000")  # larger than the hole that the second left
    fifth = node.hold("--gpu", "0", "--mib", "20")  # fits into it
    assert node.csv("memory.used") == [["3520"], ["0"]]
    held = [(first, 1000), (third, 500), (fourth, 2000), (fifth, 20)]
    assert sorted(node.apps()) == sorted([UUIDS[0], str(holder.pid), str(mib)] for holder, mib in held)
    for holder in (first, third, fourth, fifth):
        holder.kill()
        holder.wait()
    assert (node.csv("memory.used"), node.apps()) == ([["0"], ["0"]], [])


def test_a_job_in_its_first_seconds_holds_files_and_no_memory(machine: Callable[..., Machine]) -> None:
    node = machine(table(2))
    holder = node.hold("--gpu", "1", "--no-memory")
    assert (node.csv("memory.used"), node.apps()) == ([["0"], ["0"]], [])
    links = {os.path.basename(os.readlink(link)) for link in Path(f"/proc/{holder.pid}/fd").iterdir()}
    assert {"nvidiactl", "nvidia-uvm", "nvidia1"} <= links
    assert "nvidia0" not in links


def test_watching_opens_every_device_and_maps_none(machine: Callable[..., Machine]) -> None:
    """As the real one does, which so is no holder for having them open."""
    node = machine(table(2))
    holder = node.hold("--gpu", "1", "--no-memory")
    with subprocess.Popen([str(SMI), "-l", "60"], env=node.env, stdout=subprocess.PIPE, text=True) as watcher:
        assert watcher.stdout is not None
        watcher.stdout.readline()
        links = {os.path.basename(os.readlink(link)) for link in Path(f"/proc/{watcher.pid}/fd").iterdir()}
        maps = Path(f"/proc/{watcher.pid}/maps").read_text(encoding="utf-8")
        watcher.kill()
    assert {"nvidiactl", "nvidia-uvm", "nvidia0", "nvidia1"} <= links
    assert "/nvidia" not in maps.replace("/nvidia-smi", "")
    assert f"{node.folder}/dev/nvidia1\n" in Path(f"/proc/{holder.pid}/maps").read_text(encoding="utf-8")


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a PID namespace, which needs root")
def test_a_process_of_another_pid_namespace_counts_and_is_not_listed(machine: Callable[..., Machine]) -> None:
    node = machine(table(1))
    apart = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    outside = node.hold("--gpu", "0", "--mib", "100")
    node.hold("--gpu", "0", "--mib", "2048", before=apart)
    # from above all are visible
    assert node.csv("memory.used") == [["2148"]]
    listed = {row[1]: row[2] for row in node.apps()}
    assert sorted(listed.values()) == ["100", "2048"]
    assert listed.pop(str(outside.pid)) == "100"
    (inside,) = listed
    status = Path(f"/proc/{inside}/status").read_text(encoding="utf-8")
    assert re.search(rf"^NSpid:\s+{inside}\s+1$", status, re.MULTILINE)
    # from a third namespace only the memory is
    seen = node.smi("--query-gpu=memory.used", "--format=csv,noheader", before=apart)
    assert seen.stdout == "2148 MiB\n"
    assert node.smi("--query-compute-apps=pid", "--format=csv,noheader", before=apart).stdout == ""
    assert "No running processes found" in node.smi(before=apart).stdout


HOLD_REFUSALS = [
    (["--gpu", "0", "--mib", "143157"], 1, "hold: out of memory: GPU 0 has 143156 MiB left, 143157 MiB were asked for"),
    (["--gpu", "9", "--mib", "1"], 1, "hold: no GPU 9 here: "),
    (["--gpu", "0", "--mib", "0"], 2, "--mib must be 1 or more; for a job without memory say --no-memory"),
    (["--gpu", "0"], 2, "one of the arguments --mib --no-memory is required"),
    (["--mib", "5"], 2, "the following arguments are required: --gpu"),
]


@pytest.mark.parametrize(("argv", "status", "text"), HOLD_REFUSALS, ids=[" ".join(row[0]) for row in HOLD_REFUSALS])
def test_hold_refuses(machine: Callable[..., Machine], argv: list[str], status: int, text: str) -> None:
    node = machine(table(1))
    out = subprocess.run([str(HOLD), *argv], env=node.env, capture_output=True, text=True, check=False)
    assert out.returncode == status
    assert text in out.stderr
    assert node.csv("memory.used") == [["0"]]


def test_hold_takes_all_that_is_left_and_no_more(machine: Callable[..., Machine]) -> None:
    node = machine(table(1))
    node.hold("--gpu", "0", "--mib", "100000")
    node.hold("--gpu", "0", "--mib", "43156")
    assert node.csv("memory.used,memory.free") == [["143156", "0"]]
    out = subprocess.run(
        [str(HOLD), "--gpu", "0", "--mib", "1"], env=node.env, capture_output=True, text=True, check=False
    )
    assert out.stderr == "hold: out of memory: GPU 0 has 0 MiB left, 1 MiB were asked for\n"


# --- faults -------------------------------------------------------------------------------------------------------

MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.159\n"
FAULTS: list[tuple[Any, list[str], int, str]] = [
    ({"exit": 18, "stdout": MISMATCH}, ["-L"], 18, MISMATCH),
    ({"drop_field": "uuid"}, ["--query-gpu=gpu_uuid"], 2, 'Field "gpu_uuid" is not a valid field to query.\n\n'),
    ({"drop_field": "pid"}, ["--query-compute-apps=pid"], 2, 'Field "pid" is not a valid field to query.\n\n'),
    (
        {"values": {"memory.used": "[Unknown Error]"}},
        ["--query-gpu=memory.used"],
        0,
        "memory.used [MiB]\n[Unknown Error]\n",
    ),
    ({"truncate": 8}, ["--query-gpu=uuid,name"], 0, "uuid, na"),
    ({"match": "--query-gpu", "exit": 3}, ["-L"], 0, f"GPU 0: NVIDIA H200 (UUID: {UUIDS[0]})\n"),
    ([{"delay": 0.01}, {"match": "-L", "exit": 4}], ["-L"], 4, ""),
]


@pytest.mark.parametrize(("fault", "argv", "status", "text"), FAULTS, ids=[json.dumps(row[0])[:50] for row in FAULTS])
def test_faults(machine: Callable[..., Machine], fault: Any, argv: list[str], status: int, text: str) -> None:
    node = machine(table(1))
    (node.folder / "nvidia-smi.faults.json").write_text(json.dumps(fault), encoding="utf-8")
    out = node.smi(*argv)
    assert (out.returncode, out.stdout) == (status, text)


@pytest.mark.parametrize("left_out", ["fb_memory_usage", "used", "processes"])
def test_fault_drops_an_xml_element_with_all_below_it(machine: Callable[..., Machine], left_out: str) -> None:
    node = machine(table(1))
    whole = ET.fromstring(node.smi("-q", "-x").stdout)
    for parent in list(whole.iter()):
        for child in [child for child in parent if child.tag == left_out]:
            parent.remove(child)
    (node.folder / "nvidia-smi.faults.json").write_text(json.dumps({"drop_field": left_out}), encoding="utf-8")
    assert list(flat(ET.fromstring(node.smi("-q", "-x").stdout))) == list(flat(whole))


def status_of(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


@pytest.mark.parametrize(("hang", "end"), [(True, signal.SIGTERM), ("hard", signal.SIGKILL)])
def test_fault_hang(machine: Callable[..., Machine], hang: bool | str, end: signal.Signals) -> None:
    node = machine(table(1))
    (node.folder / "nvidia-smi.faults.json").write_text(json.dumps({"hang": hang}), encoding="utf-8")
    with subprocess.Popen([str(SMI), "-L"], env=node.env, stdout=subprocess.PIPE) as hung:
        deadline = time.monotonic() + 30
        ignored = 1 << (signal.SIGTERM - 1) if hang == "hard" else 0
        while True:
            status = status_of(hung.pid)
            if status["State"].startswith("S") and int(status["SigIgn"], 16) & ignored == ignored:
                break
            assert time.monotonic() < deadline, status
            time.sleep(0.01)
        hung.terminate()
        if end == signal.SIGKILL:
            hung.kill()
        assert (hung.wait(), hung.stdout and hung.stdout.read()) == (-end, b"")


@pytest.mark.parametrize("path", [SMI, HOLD], ids=["nvidia-smi", "hold"])
def test_runs_on_python_3_9_and_is_executable(path: Path) -> None:
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))
    assert os.access(path, os.X_OK)
    assert path.read_text(encoding="utf-8").startswith("#!/usr/bin/python3 -IS\n")
