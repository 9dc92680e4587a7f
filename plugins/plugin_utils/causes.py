# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Why a run ended: a table of rules over all that is known, the most telling one first. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.trainops.proxmox.plugins.plugin_utils.kernel_log import KernelLog, OomKill, Xid, normal_bus
from ansible_collections.trainops.proxmox.plugins.plugin_utils.lines import size
from ansible_collections.trainops.proxmox.plugins.plugin_utils.run_ending import (
    exception_name,
    last_exception,
    place,
    seconds_of,
    signal_name,
    signal_of,
    span,
)
from ansible_collections.trainops.proxmox.plugins.plugin_utils.xids import meaning

# Clocks and logs are a moment late; a driver reports while the process is still being torn down.
_BEFORE_SECONDS, _AFTER_SECONDS = 2.0, 15.0
_SMALL_SHM = 80 << 20  # what a container has without a setting of its own is 64 MiB, or half of the memory
_FULL_BYTES = 1 << 20
_KILL = 9
_OUTSIDE = (1, 2, 3, _KILL, 15)  # HUP, INT, QUIT, KILL, TERM: no fault of the program itself
_NO_GPU_MEMORY = re.compile(
    r"CUDA out of memory|torch\.OutOfMemoryError|cuda\.OutOfMemoryError|CUDA error: out of memory"
    r"|CUDA_ERROR_OUT_OF_MEMORY|CUBLAS_STATUS_ALLOC_FAILED|RESOURCE_EXHAUSTED: Out of memory"
)
_BUS_ERROR = re.compile(r"\bBus error\b|\bSIGBUS\b|unable to (?:write to|mmap|open) (?:file|shared memory)")
_DISK_FULL = re.compile(r"No space left on device|Errno 28\b|Disk quota exceeded|Errno 122\b")
_NCCL = re.compile(
    r"Watchdog caught collective operation timeout|NCCL (?:communicator )?.{0,40}timeout|DistBackendError"
    r"|nccl(?:System|Remote|Internal|UnhandledCuda)Error|Timeout waiting for .{0,60}(?:rank|store)"
)
_CHILD_KILLED = re.compile(r"Signal 9 \(SIGKILL\) received|exitcode\s*: -9\b|is killed by signal: Killed")
_ALIVE = ("starting", "running")


@dataclass(frozen=True)
class Evidence:
    """What is known: the worker's answer (see the operation ``why``), and the node's kernel log."""

    known: Mapping[str, Any]
    kernel: KernelLog
    vmid: int | None

    @property
    def record(self) -> Mapping[str, Any]:
        """The run as the worker tells it."""
        found: Mapping[str, Any] = self.known["record"]
        return found

    @property
    def end(self) -> Mapping[str, Any]:
        """The exit record, empty without one."""
        return self.record["exit"] or {}

    @property
    def traceback(self) -> list[str]:
        """The lines of its last traceback."""
        return [str(line) for line in self.known["traceback"]]

    @property
    def printed(self) -> str:
        """The end of its log."""
        return str(self.known["tail"])

    @property
    def release(self) -> str:
        """The release that it was started from."""
        return str(self.record.get("release"))

    def during(self, when: float) -> bool:
        """Whether that was within the run's time."""
        begun = float(self.record.get("created_s") or 0)
        ended = self.end.get("ended_s") or seconds_of(self.end.get("ended")) or float(self.known["now"])
        return begun - _BEFORE_SECONDS <= when <= float(ended) + _AFTER_SECONDS

    def xids(self) -> list[Xid]:
        """The errors of the run's GPUs in its time; of all GPUs where nobody says which are its own."""
        gpus = {gpu.get("uuid") for gpu in self.record.get("gpus") or []}
        own = {normal_bus(bus) for uuid, bus in self.known["buses"].items() if uuid in gpus}
        return [one for one in self.kernel.xids if gpus and self.during(one.when) and (not own or one.bus in own)]

    def ooms(self) -> list[OomKill]:
        """The processes of this container that the kernel killed in the run's time."""
        own = [one for one in self.kernel.ooms if one.vmid is not None and one.vmid == self.vmid]
        return [one for one in own if self.during(one.when)]


@dataclass(frozen=True)
class Rule:
    """``say`` returns the sentence when the rule holds, otherwise "". Beside one that is ``whole`` no other counts."""

    code: str
    say: Callable[[Evidence], str]
    whole: bool = False


@dataclass(frozen=True)
class Cause:
    """A reason, by a short stable word and in a sentence."""

    code: str
    text: str


def causes(evidence: Evidence) -> list[Cause]:
    """Every rule that holds, the most likely first."""
    found = []
    for rule in RULES:
        if text := rule.say(evidence):
            found.append(Cause(rule.code, text))
            if rule.whole:
                break
    return found or [Cause("unknown", _unknown(evidence))]


def _alive(evidence: Evidence) -> str:
    if evidence.record["state"] not in _ALIVE:
        return ""
    return f"{evidence.record['run']} has not ended: it is {evidence.record['state']}"


def _not_started(evidence: Evidence) -> str:
    if evidence.end.get("how") != "not-started":
        return ""
    return f"it never started: {evidence.end.get('note') or 'its program could not be run'}"


def _stopped(evidence: Evidence) -> str:
    who = evidence.end.get("stopped_by")
    return f"it was asked to stop, by {who}" if who else ""


def _ended_well(evidence: Evidence) -> str:
    return "it did not die: it ended by itself with exit code 0" if evidence.end.get("exit_code") == 0 else ""


def _restarted(evidence: Evidence) -> str:
    if evidence.record["state"] != "lost" or "restarted" not in str(evidence.record.get("why")):
        return ""
    age = evidence.known["boot_age_s"]
    since = f", {span(age)} ago" if age is not None else ""
    return f"the container was restarted while it ran{since}"


def _memory_kill(evidence: Evidence) -> str:
    kills = evidence.ooms()
    if not kills and not evidence.end.get("out_of_memory"):
        return ""
    if kills and not kills[-1].limit:
        what = "the node had no memory left"
    else:
        limit = (evidence.end.get("memory") or evidence.known["memory"] or {}).get("limit")
        what = "the container's memory limit" + (f" of {size(limit)}" if limit else "") + " was reached"
    task = f" {kills[-1].task}" if kills else " a process"
    return f"{what}, and the kernel killed{task}: give the container more memory, or load less at once"


def _xid(evidence: Evidence, *, hardware: bool) -> str:
    for one in evidence.xids():
        means = meaning(one.number)
        if means.hardware is hardware and not means.effect:
            return f"Xid {one.number} on GPU {one.bus}: {means.text}" + (f": {means.fix}" if means.fix else "")
    return ""


def _hardware(evidence: Evidence) -> str:
    return _xid(evidence, hardware=True)


def _gpu_memory(evidence: Evidence) -> str:
    if not (_NO_GPU_MEMORY.search(evidence.printed) or exception_name(evidence.traceback) == "OutOfMemoryError"):
        return ""
    return f"the GPU's memory was used up{_where(evidence)}: take a smaller batch or sequence, or more GPUs"


def _shared_memory(evidence: Evidence) -> str:
    if signal_of(evidence.end) != 7 and not _BUS_ERROR.search(evidence.printed):
        return ""
    shm = evidence.known["shm"]
    if shm is None or not (shm["free"] < max(shm["total"] // 20, _FULL_BYTES) or shm["total"] <= _SMALL_SHM):
        return "a bus error: a file that it had mapped into memory was cut short or could not grow"
    return (
        f"a bus error, and /dev/shm has {size(shm['free'])} free of {size(shm['total'])}: give the container a larger "
        "/dev/shm (lxc.mount.entry: tmpfs dev/shm tmpfs size=16G), or the DataLoader fewer workers"
    )


def _disk(evidence: Evidence) -> str:
    full = [row for row in evidence.known["disks"] if row["free"] < _FULL_BYTES or row["inodes"] == 0]
    if not _DISK_FULL.search(evidence.printed):
        return ""
    what = f"{full[0]['path']} is full" if full else "a file system was full"
    return f"{what}{_where(evidence)}: free space, then start it again"


def _nccl(evidence: Evidence) -> str:
    if not _NCCL.search(evidence.printed):
        return ""
    return "the GPUs lost each other (NCCL): one rank died, hung or was too slow; look for the first error of any rank"


def _imports(evidence: Evidence) -> str:
    if exception_name(evidence.traceback) not in ("ImportError", "ModuleNotFoundError"):
        return ""
    python = evidence.record.get("python")
    by = f" with {python}" if python else ""
    return f"an import failed{by}: {last_exception(evidence.traceback)}{_where(evidence)}"


def _program_on_gpu(evidence: Evidence) -> str:
    return _xid(evidence, hardware=False)


def _exception(evidence: Evidence) -> str:
    text = last_exception(evidence.traceback)
    return f"{text}{_where(evidence)}" if text and evidence.end.get("exit_code") != 0 else ""


def _killed(evidence: Evidence) -> str:
    number = signal_of(evidence.end)
    if number is None:
        if _CHILD_KILLED.search(evidence.printed):
            return "one of its processes was killed by SIGKILL from outside (the kernel's memory killer, or somebody)"
        return ""
    if number == _KILL and (evidence.ooms() or evidence.end.get("out_of_memory")):
        return ""  # that is known
    if number not in _OUTSIDE:
        return (
            f"it crashed in native code ({signal_name(number)}): look at the last lines, or use python -X faulthandler"
        )
    return f"it was killed from outside, by {signal_name(number)}: not by trainops, and nobody left a reason"


def _lost(evidence: Evidence) -> str:
    if evidence.record["state"] != "lost":
        return ""
    return f"nobody saw it end: {evidence.record.get('why') or 'its process is gone'}"


def _where(evidence: Evidence) -> str:
    found = place(evidence.traceback, evidence.release)
    return f" at {found}" if found else ""


def _unknown(evidence: Evidence) -> str:
    code = evidence.end.get("exit_code")
    lines = evidence.known["last_lines"]
    said = f'; the last it said: "{str(lines[-1])[:160]}"' if lines else "; it printed nothing"
    return f"it ended with exit code {code} and left no traceback{said}"


# What a person sees first is the first that holds. A cause in the machine explains the exception that it led to, so it
# comes before; what holds for any end comes last.
RULES = (
    Rule("alive", _alive, whole=True),
    Rule("not-started", _not_started, whole=True),
    Rule("stopped", _stopped, whole=True),
    Rule("ended-well", _ended_well, whole=True),
    Rule("restarted", _restarted),
    Rule("out-of-memory", _memory_kill),
    Rule("gpu-hardware", _hardware),
    Rule("gpu-memory", _gpu_memory),
    Rule("shared-memory", _shared_memory),
    Rule("disk-full", _disk),
    Rule("nccl", _nccl),
    Rule("import", _imports),
    Rule("gpu-program", _program_on_gpu),
    Rule("killed", _killed),
    Rule("exception", _exception),
    Rule("lost", _lost),
)
