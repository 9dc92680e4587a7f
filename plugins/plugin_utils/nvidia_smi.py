# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What nvidia-smi is asked, and what its answers mean, failures included. Pure: text in, values out.

The format of nvidia-smi is not promised across drivers, so the names and units in its header are compared before a
number is believed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.trainops.proxmox.plugins.plugin_utils.whole import DIGITS, whole

SLOW_SECONDS = 5.0

# Where an nvidia-smi was asked, for sentences.
IN_CONTAINER = "in the container"
ON_NODE = "on the node"

# Field and the unit that the header must show. The only text that may hold a comma stands last.
_GPU_COLUMNS = (
    ("index", ""),
    ("uuid", ""),
    ("pci.bus_id", ""),
    ("memory.total", " [MiB]"),
    ("memory.used", " [MiB]"),
    ("memory.free", " [MiB]"),
    ("utilization.gpu", " [%]"),
    ("temperature.gpu", ""),
    ("mig.mode.current", ""),
    ("persistence_mode", ""),
    ("driver_version", ""),
    ("name", ""),
)
_APP_COLUMNS = (("gpu_uuid", ""), ("pid", ""), ("used_gpu_memory", " [MiB]"), ("process_name", ""))

GPU_QUERY = "--query-gpu=" + ",".join(name for name, _unit in _GPU_COLUMNS)
APP_QUERY = "--query-compute-apps=" + ",".join(name for name, _unit in _APP_COLUMNS)


@dataclass(frozen=True)
class Answer:
    """One call of nvidia-smi.

    ``exit`` is None when it did not end: it hung until the deadline (``timed_out``), in the worst case beyond SIGKILL
    (``unkillable``), or was never started because an earlier one (``stuck``, its PID) still hangs.
    """

    exit: int | None
    text: str
    seconds: float = 0.0
    timed_out: bool = False
    unkillable: bool = False
    stuck: int | None = None


@dataclass(frozen=True)
class Trouble:
    """Why a reading cannot be believed: a short stable word, and a sentence with the fix.

    ``lasting``: asking again would change nothing, or would start one more nvidia-smi beside one that hangs.
    """

    code: str
    text: str
    lasting: bool = True


@dataclass(frozen=True)
class GpuRow:
    """One GPU as nvidia-smi shows it; memory in MiB, temperature in °C. None: not shown, ``odd`` holds what was."""

    index: int
    uuid: str
    bus_id: str
    name: str
    memory_total: int | None
    memory_used: int | None
    memory_free: int | None
    utilization: int | None
    temperature: int | None
    mig: bool
    persistence: bool | None
    driver_version: str
    odd: Mapping[str, str]


@dataclass(frozen=True)
class AppRow:
    """One compute process of one GPU; ``pid`` counts where nvidia-smi ran, memory in MiB."""

    uuid: str
    pid: int
    memory: int | None
    name: str


class FormatError(Exception):
    """nvidia-smi printed something else than what was asked for."""


@dataclass(frozen=True)
class _Failure:
    """A message of nvidia-smi and what it means at {place}; {said} is the group of the pattern.

    ``node`` is the sentence for a node, where that has another cause or another fix.
    """

    code: str
    pattern: str
    sentence: str
    node: str = ""


_FAILURES = (
    _Failure(
        "nvml-unknown-error",
        r"(Failed to initialize NVML: Unknown Error)",
        "{place}: nvidia-smi says '{said}': the right to open the GPUs was lost (a systemctl daemon-reload on the "
        "node rewrites the device cgroup rules of running containers). Restart the container",
        "{place}: nvidia-smi says '{said}': look at dmesg there, most likely the node needs a restart",
    ),
    _Failure(
        "version-mismatch",
        r"(Driver/library version mismatch)",
        "{place}: nvidia-smi says '{said}': {versions}. Install the driver version of the node's kernel module there, "
        "or restart the node after its driver was updated",
    ),
    _Failure(
        "no-permission",
        r"(Insufficient Permissions)",
        "{place}: nvidia-smi may not open the GPUs ({said}): allow /dev/nvidia* in the container's configuration",
        "{place}: nvidia-smi may not open the GPUs ({said}): log in as root, or make /dev/nvidia* readable",
    ),
    _Failure(
        "driver-not-loaded",
        r"(couldn't communicate with the NVIDIA driver|Driver Not Loaded)",
        "{place}: nvidia-smi {said}: load it on the node (modprobe nvidia) and pass /dev/nvidia* into the container",
        "{place}: nvidia-smi {said}: load it there (modprobe nvidia)",
    ),
    _Failure(
        "no-devices",
        r"(No devices were found)",
        "{place}: nvidia-smi finds no GPU that it may open: pass /dev/nvidia0 …, /dev/nvidiactl and /dev/nvidia-uvm "
        "into the container and allow them there",
        "{place}: nvidia-smi finds no GPU: is one built in, and bound to the NVIDIA driver (lspci -k)? One that is "
        "passed to a virtual machine belongs to that machine",
    ),
    _Failure(
        "gpu-lost",
        r"(GPU is lost|Unable to determine the device handle[^\n]*)",
        "{place}: a GPU no longer answers its driver ({said}): the node needs a restart",
    ),
    _Failure(
        "format",
        r'(Field "[^"]*" is not a valid field)',
        "{place}: this driver's nvidia-smi lacks what it was asked for: {said}",
    ),
)


def trouble(answer: Answer, place: str, *, deadline: float, kernel_module: str = "") -> Trouble | None:
    """Why ``answer`` of the nvidia-smi at ``place`` is no reading; None for a good one.

    ``kernel_module`` is the text of /proc/driver/nvidia/version, for the version mismatch.
    """
    if answer.stuck is not None:
        return Trouble(
            "timeout",
            f"{place}: an earlier nvidia-smi (process {answer.stuck}) still hangs in the driver, so no other was "
            "started; look at dmesg on the node, most likely it needs a restart",
        )
    if answer.timed_out or answer.exit is None:
        cannot = " and cannot even be killed" if answer.unkillable else ""
        return Trouble(
            "timeout",
            f"{place}: nvidia-smi did not answer within {deadline:g} s{cannot}; the driver may be stuck (look at dmesg "
            "on the node), or it needs longer: raise option nvidia_smi_timeout",
            lasting=answer.unkillable,
        )
    if answer.exit == 0 and not answer.text.startswith("Failed to initialize"):
        return None
    return _failure(answer, place, kernel_module)


def _failure(answer: Answer, place: str, kernel_module: str) -> Trouble:
    for failure in _FAILURES:
        match = re.search(failure.pattern, answer.text)
        if match:
            versions = _versions(answer.text, kernel_module)
            sentence = failure.node if failure.node and place == ON_NODE else failure.sentence
            return Trouble(failure.code, sentence.format(place=place, said=match.group(1), versions=versions))
    if answer.exit in (126, 127):
        return Trouble("not-found", f"{place}: {answer.text.strip() or 'nvidia-smi was not found'}")
    first = next((line.strip() for line in answer.text.splitlines() if line.strip()), "no message")
    return Trouble("failed", f"{place}: nvidia-smi failed with exit status {answer.exit}: {first}", lasting=False)


def _versions(text: str, kernel_module: str) -> str:
    library = re.search(r"NVML library version:\s*(\S+)", text)
    module = re.search(r"Kernel Module[^\n]*?\s(\d+\.\d+(?:\.\d+)?)", kernel_module)
    return (
        f"kernel module {module.group(1) if module else 'unknown'}, "
        f"library {library.group(1) if library else 'of another version'}"
    )


def parse_gpus(text: str) -> tuple[list[GpuRow], list[str]]:
    """The GPUs of an answer to GPU_QUERY, and the warnings printed with them. Raises FormatError."""
    rows, warnings = _table(text, _GPU_COLUMNS)
    return [_gpu(dict(zip((name for name, _unit in _GPU_COLUMNS), row, strict=True))) for row in rows], warnings


def parse_apps(text: str) -> list[AppRow]:
    """The compute processes of an answer to APP_QUERY. Raises FormatError."""
    rows, _warnings = _table(text, _APP_COLUMNS)
    return [AppRow(uuid, _number(pid, "pid"), _quantity(memory, "MiB"), name) for uuid, pid, memory, name in rows]


def _table(text: str, columns: tuple[tuple[str, str], ...]) -> tuple[list[list[str]], list[str]]:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # nvidia-smi mixes such a line into its answer when a card's InfoROM is damaged.
    warnings = [line for line in lines if line.startswith("WARNING:")]
    lines = [line for line in lines if not line.startswith("WARNING:")]
    expected = ", ".join(name + unit for name, unit in columns)
    if not lines or lines[0] != expected:
        raise FormatError(f"its header is {lines[0] if lines else ''!r} where {expected!r} was asked for")
    rows = [line.split(", ", len(columns) - 1) for line in lines[1:]]
    for row, line in zip(rows, lines[1:], strict=True):
        if len(row) != len(columns):
            raise FormatError(f"the row {line!r} has not the {len(columns)} columns that were asked for")
    return rows, warnings


def _gpu(row: dict[str, str]) -> GpuRow:
    used, total, free = (_quantity(row[f"memory.{what}"], "MiB") for what in ("used", "total", "free"))
    numbers = {"memory.used": used, "memory.total": total}
    return GpuRow(
        index=_number(row["index"], "index"),
        uuid=row["uuid"],
        bus_id=row["pci.bus_id"],
        name=row["name"],
        memory_total=total,
        memory_used=used,
        memory_free=free,
        utilization=_quantity(row["utilization.gpu"], "%"),
        temperature=_quantity(row["temperature.gpu"], ""),
        mig=row["mig.mode.current"] == "Enabled",
        persistence={"Enabled": True, "Disabled": False}.get(row["persistence_mode"]),
        driver_version=row["driver_version"],
        odd={name: row[name].strip("[]") for name, value in numbers.items() if value is None},
    )


def _number(text: str, what: str) -> int:
    number = whole(text)
    if number is None:
        raise FormatError(f"its {what} is {text[:80]!r}, which is no number")
    return number


def _quantity(text: str, unit: str) -> int | None:
    """A number with its unit; None for what nvidia-smi puts in brackets ([N/A], [Insufficient Permissions] …)."""
    number, _space, shown = text.partition(" ")
    return whole(number) if shown == unit else None


def bus_key(bus_id: str) -> str:
    """A PCI address in one spelling: nvidia-smi writes 00000000:18:00.0, the kernel 0000:18:00.0."""
    domain, _colon, rest = bus_id.strip().lower().partition(":")
    return f"{domain[-4:]}:{rest}"


def minors(information: Mapping[str, str]) -> dict[str, int]:
    """Minor number (the N of /dev/nvidiaN) by PCI address, from the texts of /proc/driver/nvidia/gpus/*/information."""
    found: dict[str, int] = {}
    for address, text in information.items():
        match = re.search(rf"^Device Minor:\s*({DIGITS})", text, re.MULTILINE)
        if match:
            found[bus_key(address)] = int(match.group(1))
    return found


def answer_of(raw: Mapping[str, Any]) -> Answer:
    """The Answer that the worker sent as JSON values."""
    return Answer(
        exit=raw["exit"],
        text=raw["text"],
        seconds=raw["seconds"],
        timed_out=raw["timed_out"],
        unkillable=raw["unkillable"],
        stuck=raw["stuck"],
    )
