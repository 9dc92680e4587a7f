# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which cause comes first, from records, logs and kernel lines as they are found."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils import run_why
from ansible_collections.trainops.proxmox.plugins.plugin_utils.causes import RULES, Evidence, causes
from ansible_collections.trainops.proxmox.plugins.plugin_utils.kernel_log import parse_kernel_log

RELEASE = "7c1e09a0" * 8
GIB = 1 << 30
BEGUN = 1000.0
ENDED = 1231.0
FRAME = f'  File "/root/.trainops/demo/releases/{RELEASE}/train.py", line 9, in main'
TRACEBACK = ["Traceback (most recent call last):", FRAME, "    step()"]
XID = "{when} pve1 kernel: NVRM: Xid (PCI:0000:{bus}:00): {number}, pid=1, name=python3, text"
OOM = (
    "{when} pve1 kernel: oom-kill:constraint={constraint},nodemask=(null),cpuset=ns,mems_allowed=0,"
    "oom_memcg=/lxc/{vmid},task_memcg=/lxc/{vmid}/ns,task=python3,pid=4711,uid=0"
)


def room(path: str, free: int, total: int, inodes: int | None = 1000) -> dict[str, Any]:
    return {"path": path, "free": free, "total": total, "inodes": inodes}


def end(**known: Any) -> dict[str, Any]:
    usual = {"how": "exited", "exit_code": 1, "signal": None, "seconds": 231.0, "ended_s": ENDED, "stopped_by": None}
    return {**usual, "ended": "1970-01-01T00:20:31Z", "out_of_memory": False, "memory": None, "note": "", **known}


def known(record: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """The worker's answer about a run that died with exit code 1 and said nothing."""
    run = {
        "run": "r1",
        "project": "demo",
        "release": RELEASE,
        "state": "ended",
        "why": "",
        "exit": end(),
        "created": "1970-01-01T00:16:40Z",
        "created_s": BEGUN,
        "python": "/root/venv/bin/python",
        "log": "/root/.trainops/demo/runs/r1/log",
        "gpus": [{"index": 0, "uuid": "GPU-a"}],
        **(record or {}),
    }
    usual = {
        "record": run,
        "now": 5000.0,
        "memory": {"before": 0, "after": 0, "limit": 32 * GIB, "peak": None},
        "disks": [room("/root", 9 * GIB, 90 * GIB)],
        "shm": room("/dev/shm", 8 * GIB, 8 * GIB),
        "last_lines": [],
        "traceback": [],
        "tail": "",
        "buses": {"GPU-a": "00000000:18:00.0"},
        "log_bytes": 0,
        "log_age_s": 3770.0,
        "boot_age_s": 60.0,
    }
    printed = "\n".join(more.get("traceback", []))
    return {**usual, "tail": printed, **more}


def raised(text: str, **more: Any) -> dict[str, Any]:
    return known(traceback=[*TRACEBACK, text], **more)


def xid(number: int, when: float = ENDED - 1, bus: str = "18") -> str:
    return XID.format(number=number, when=when, bus=bus)


def oom(vmid: int = 200, when: float = ENDED - 1, constraint: str = "CONSTRAINT_MEMCG") -> str:
    return OOM.format(vmid=vmid, when=when, constraint=constraint)


def killed(number: int, **more: Any) -> dict[str, Any]:
    return {"exit": end(how="signaled", exit_code=None, signal=number, **more)}


CASES: list[tuple[str, dict[str, Any], str, str, str]] = [
    # what, the container's answer, the kernel's lines, the first cause's word, a part of its sentence
    ("running", known({"state": "running", "exit": None}), "", "alive", "r1 has not ended"),
    (
        "not started",
        known({"exit": end(how="not-started", exit_code=None, note="no such file")}),
        "",
        "not-started",
        "no such file",
    ),
    ("stopped", known(killed(15, stopped_by="me@here")), "", "stopped", "by me@here"),
    ("stopped, with the xid of its end", known(killed(9, stopped_by="me@here")), xid(45), "stopped", "me@here"),
    ("all well", known({"exit": end(exit_code=0)}), "", "ended-well", "did not die"),
    (
        "restarted",
        known({"state": "lost", "exit": None, "why": "the container was restarted while it ran"}),
        "",
        "restarted",
        "60 s ago",
    ),
    (
        "lost",
        known({"state": "lost", "exit": None, "why": "its supervisor was killed"}),
        "",
        "lost",
        "its supervisor was killed",
    ),
    (
        "limit, by the record",
        known(killed(9, out_of_memory=True, memory={"limit": 16 * 10**9, "peak": 1})),
        "",
        "out-of-memory",
        "limit of 16 GB was reached",
    ),
    ("limit, by the kernel", known(killed(9)), oom(), "out-of-memory", "the kernel killed python3"),
    (
        "the node's memory",
        known(killed(9)),
        oom(constraint="CONSTRAINT_NONE"),
        "out-of-memory",
        "the node had no memory left",
    ),
    ("a kill in another container", known(killed(9)), oom(vmid=201), "killed", "from outside, by SIGKILL"),
    ("a kill before the run", known(killed(9)), oom(when=BEGUN - 60), "killed", "SIGKILL"),
    (
        "off the bus",
        raised("RuntimeError: CUDA error: unknown error"),
        xid(79),
        "gpu-hardware",
        "Xid 79 on GPU 0000:18:00: the GPU has fallen off the bus",
    ),
    (
        "an error of another GPU",
        raised("RuntimeError: x"),
        xid(79, bus="3b"),
        "exception",
        "RuntimeError: x at train.py:9",
    ),
    ("an error before the run", raised("RuntimeError: x"), xid(79, when=BEGUN - 60), "exception", "RuntimeError: x"),
    ("an error after the run", raised("RuntimeError: x"), xid(79, when=ENDED + 60), "exception", "RuntimeError: x"),
    (
        "page fault",
        raised("RuntimeError: CUDA error: an illegal memory access was encountered"),
        f"{xid(45)}\n{xid(31)}",
        "gpu-program",
        "Xid 31",
    ),
    ("double bit", known(killed(6)), xid(48), "gpu-hardware", "double bit ECC"),
    (
        "contained",
        raised("RuntimeError: CUDA error: uncorrectable ECC error encountered"),
        xid(94),
        "gpu-hardware",
        "only this program",
    ),
    ("nvlink", raised("torch.distributed.DistBackendError: NCCL error"), xid(74), "gpu-hardware", "NVLink"),
    (
        "gpu memory",
        raised("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."),
        "",
        "gpu-memory",
        "used up at train.py:9",
    ),
    ("gpu memory of old", raised("RuntimeError: CUDA error: out of memory"), "", "gpu-memory", "smaller batch"),
    (
        "bus error, small shm",
        known(killed(7), shm=room("/dev/shm", 60 << 20, 64 << 20)),
        "",
        "shared-memory",
        "/dev/shm has 63 MB free of 67 MB",
    ),
    (
        "bus error of a worker",
        raised(
            "RuntimeError: DataLoader worker (pid 44) is killed by signal: Bus error.", shm=room("/dev/shm", 0, 8 * GIB)
        ),
        "",
        "shared-memory",
        "fewer workers",
    ),
    ("bus error, much shm", known(killed(7)), "", "shared-memory", "cut short"),
    (
        "disk full",
        raised("OSError: [Errno 28] No space left on device", disks=[room("/root", 0, GIB)]),
        "",
        "disk-full",
        "/root is full at train.py:9",
    ),
    (
        "inodes",
        raised("OSError: [Errno 28] No space left on device", disks=[room("/root", GIB, GIB, 0)]),
        "",
        "disk-full",
        "/root is full",
    ),
    (
        "disk that was full",
        raised("OSError: [Errno 28] No space left on device"),
        "",
        "disk-full",
        "a file system was full",
    ),
    (
        "import",
        raised("ModuleNotFoundError: No module named 'einops'"),
        "",
        "import",
        "with /root/venv/bin/python: ModuleNotFoundError: No module named 'einops' at train.py:9",
    ),
    (
        "nccl",
        known(tail="[rank0]:[E] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9)"),
        "",
        "nccl",
        "NCCL",
    ),
    ("exception", raised("ValueError: bad batch"), "", "exception", "ValueError: bad batch at train.py:9"),
    ("segmentation", known(killed(11)), "", "killed", "native code (SIGSEGV)"),
    ("terminated", known(killed(15)), "", "killed", "from outside, by SIGTERM"),
    ("a shell's code", known({"exit": end(exit_code=137)}), "", "killed", "SIGKILL"),
    ("a killed rank", known(tail="Signal 9 (SIGKILL) received by PID 77"), "", "killed", "one of its processes"),
    (
        "nothing known",
        known(last_lines=["bye"]),
        "",
        "unknown",
        'exit code 1 and left no traceback; the last it said: "bye"',
    ),
    ("nothing said", known(), "", "unknown", "it printed nothing"),
]


@pytest.mark.parametrize(
    ("answer", "kernel", "code", "text"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_the_most_likely_cause_comes_first(answer: dict[str, Any], kernel: str, code: str, text: str) -> None:
    evidence = Evidence(answer, parse_kernel_log(f"=== kernel journalctl\n{kernel}"), 200)
    first = causes(evidence)[0]
    assert (first.code, text in first.text) == (code, True), first
    assert "\n" not in first.text


def test_every_rule_is_tried() -> None:
    assert {case[3] for case in CASES} >= {rule.code for rule in RULES}


def test_what_was_stopped_or_is_well_has_no_other_cause() -> None:
    for record in (killed(15, stopped_by="me@here"), {"exit": end(exit_code=0)}):
        answer = known(record, traceback=[*TRACEBACK, "KeyboardInterrupt"])
        assert len(causes(Evidence(answer, parse_kernel_log(f"=== kernel dmesg\n{xid(31)}"), 200))) == 1


def test_a_kill_for_memory_is_not_said_to_have_no_reason_too() -> None:
    answer = known(killed(9))
    found = causes(Evidence(answer, parse_kernel_log(f"=== kernel journalctl\n{oom()}"), 200))
    assert [cause.code for cause in found] == ["out-of-memory"]


def test_where_nobody_knows_the_addresses_every_error_counts() -> None:
    answer = raised("RuntimeError: x", buses={})
    assert (
        causes(Evidence(answer, parse_kernel_log(f"=== kernel dmesg\n{xid(79, bus='3b')}"), 200))[0].code
        == "gpu-hardware"
    )


def test_a_run_without_gpus_has_no_errors_of_gpus() -> None:
    answer = known({"gpus": []}, traceback=[*TRACEBACK, "RuntimeError: x"])
    assert causes(Evidence(answer, parse_kernel_log(f"=== kernel dmesg\n{xid(79)}"), 200))[0].code == "exception"


def test_the_result_has_the_cause_then_the_evidence() -> None:
    answer = raised("RuntimeError: CUDA error: unknown error", log_bytes=12_000)
    done = run_why.explained(answer, f"=== kernel journalctl\n{xid(79)}\n=== clock 5000 1\n=== end", 200)
    assert done["summary"].startswith("r1: Xid 79 on GPU 0000:18:00: the GPU has fallen off the bus")
    lines = done["msg"].splitlines()
    assert lines[0] == done["summary"]
    assert lines[1] == "also: RuntimeError: CUDA error: unknown error at train.py:9"
    assert lines[2] == "r1 died after 231 s, exit 1: RuntimeError: CUDA error: unknown error train.py:9"
    assert "1970-01-01T00:20:30Z Xid 79 on 0000:18:00: pid=1, name=python3, text" in lines
    assert "free now: /root 9.7 GB of 97 GB, /dev/shm 8.6 GB of 8.6 GB" in lines
    assert "log: /root/.trainops/demo/runs/r1/log (12 kB, last written 1 s before its end)" in lines
    assert lines[-1] == "  RuntimeError: CUDA error: unknown error"
    assert [cause["code"] for cause in done["causes"]] == ["gpu-hardware", "exception"]
    assert done["xids"][0]["number"] == 79


def test_a_log_that_nobody_may_read_is_said_to_be_missing() -> None:
    for text in (None, "=== kernel none\n=== end"):
        done = run_why.explained(raised("ValueError: x"), text, 200)
        assert any("kernel log could not be read" in line for line in done["evidence"])


@pytest.mark.parametrize("over", ["\n", "\r", "\x85", "\u2028"])
def test_no_word_of_a_run_begins_a_line(over: str) -> None:
    text = f"x{over}ct201  run      r1 ended"
    for ending in ({"how": "not-started"}, {"stopped_by": text}, {"exit_code": 1}):
        answer = raised(f"ValueError: {text}", last_lines=[text])
        answer["record"]["exit"] = {**answer["record"]["exit"], "note": text, "ended": text, **ending}
        answer["record"].update(started=text, log=text)
        done = run_why.explained(answer, None, None)
        lines = [done["summary"], *done["msg"].split("\n"), *done["table"].split("\n")]
        assert all(line.isprintable() and not line.startswith("ct201") for line in lines)


def test_without_a_traceback_the_last_lines_are_shown() -> None:
    done = run_why.explained(known(last_lines=[f"line {number}" for number in range(40)]), None, None)
    assert done["msg"].splitlines()[-16:] == ["its last lines:", *(f"  line {number}" for number in range(25, 40))]
