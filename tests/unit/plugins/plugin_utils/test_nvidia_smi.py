# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the answers of nvidia-smi mean, failures included."""

from __future__ import annotations

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils import nvidia_smi
from ansible_collections.trainops.proxmox.plugins.plugin_utils.nvidia_smi import Answer

GPU_HEADER = (
    "index, uuid, pci.bus_id, memory.total [MiB], memory.used [MiB], memory.free [MiB], utilization.gpu [%], "
    "temperature.gpu, mig.mode.current, persistence_mode, driver_version, name"
)
GPU_ROW = (
    "0, GPU-11111111-2222-3333-4444-555555555555, 00000000:00:06.0, 143771 MiB, 875 MiB, 142282 MiB, 4 %, 41, "
    "Disabled, Enabled, 580.159.04, NVIDIA H200"
)
APP_HEADER = "gpu_uuid, pid, used_gpu_memory [MiB], process_name"
KERNEL_MODULE = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (x@y)\n"


def test_a_gpu_row_is_read_with_its_units() -> None:
    rows, warnings = nvidia_smi.parse_gpus(f"{GPU_HEADER}\n{GPU_ROW}\n")
    assert not warnings
    row = rows[0]
    assert (row.index, row.uuid, row.name) == (0, "GPU-11111111-2222-3333-4444-555555555555", "NVIDIA H200")
    assert (row.memory_total, row.memory_used, row.memory_free) == (143771, 875, 142282)
    assert (row.utilization, row.temperature, row.mig, row.persistence) == (4, 41, False, True)
    assert row.odd == {}


@pytest.mark.parametrize(
    ("shown", "odd"),
    [
        ("[N/A]", "N/A"),
        ("[Insufficient Permissions]", "Insufficient Permissions"),
        ("[GPU requires reset]", "GPU requires reset"),
        ("ERR!", "ERR!"),
        ("875 GiB", "875 GiB"),
    ],
)
def test_memory_that_is_not_shown_is_no_number(shown: str, odd: str) -> None:
    rows, _warnings = nvidia_smi.parse_gpus(f"{GPU_HEADER}\n{GPU_ROW.replace('875 MiB', shown)}\n")
    assert rows[0].memory_used is None
    assert rows[0].odd == {"memory.used": odd}


def test_a_warning_between_the_rows_is_kept_apart() -> None:
    line = "WARNING: infoROM is corrupted at gpu 0000:01:00.0"
    rows, warnings = nvidia_smi.parse_gpus(f"{GPU_HEADER}\n{GPU_ROW}\n{line}\n")
    assert len(rows) == 1
    assert warnings == [line]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "its header is ''"),
        (GPU_ROW, "its header is '0, GPU-"),
        (f"{GPU_HEADER.replace('memory.used [MiB]', 'memory.used [KiB]')}\n{GPU_ROW}", "memory.used [KiB]"),
        (f"{GPU_HEADER}\n0, GPU-1, 00000000:00:06.0", "12 columns"),
        (f"{GPU_HEADER}\n{GPU_ROW.replace('0, GPU', 'zero, GPU', 1)}", "its index is 'zero'"),
    ],
)
def test_anything_but_the_asked_table_is_refused(text: str, said: str) -> None:
    with pytest.raises(nvidia_smi.FormatError) as caught:
        nvidia_smi.parse_gpus(text)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("GPU-1, 918, 866 MiB, /root/venv/bin/python", (918, 866, "/root/venv/bin/python")),
        ("GPU-1, 918, [N/A], python3 train.py, with, commas", (918, None, "python3 train.py, with, commas")),
        ("GPU-1, 918, 866 MiB, [Not Found]", (918, 866, "[Not Found]")),
    ],
)
def test_a_process_row(row: str, expected: tuple[int, int | None, str]) -> None:
    app = nvidia_smi.parse_apps(f"{APP_HEADER}\n{row}\n")[0]
    assert (app.pid, app.memory, app.name) == expected


def test_no_process_is_an_empty_table() -> None:
    assert nvidia_smi.parse_apps(APP_HEADER + "\n") == []


@pytest.mark.parametrize(
    ("answer", "code", "words", "lasting"),
    [
        (
            Answer(255, "Failed to initialize NVML: Unknown Error\n"),
            "nvml-unknown-error",
            ("device cgroup", "Restart the container"),
            True,
        ),
        (
            Answer(18, "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.126\n"),
            "version-mismatch",
            ("kernel module 580.159.04", "library 580.126"),
            True,
        ),
        (Answer(4, "Failed to initialize NVML: Insufficient Permissions\n"), "no-permission", ("/dev/nvidia*",), True),
        (Answer(6, "No devices were found\n"), "no-devices", ("/dev/nvidia-uvm",), True),
        (
            Answer(
                9,
                "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the "
                "latest NVIDIA driver is installed and running.\n",
            ),
            "driver-not-loaded",
            ("modprobe nvidia",),
            True,
        ),
        (
            Answer(255, "Unable to determine the device handle for GPU0000:01:00.0: Unknown Error\n"),
            "gpu-lost",
            ("GPU0000:01:00.0", "restart"),
            True,
        ),
        (
            Answer(2, 'Field "mig.mode.current" is not a valid field to query.\n\n'),
            "format",
            ("mig.mode.current",),
            True,
        ),
        (
            Answer(127, "there is no /opt/nvidia-smi: set option nvidia_smi to its path there"),
            "not-found",
            ("/opt/nvidia-smi", "set option nvidia_smi"),
            True,
        ),
        (Answer(1, "\nsomething new\n"), "failed", ("exit status 1", "something new"), False),
        (Answer(-11, ""), "failed", ("-11", "no message"), False),
        (Answer(None, "", timed_out=True), "timeout", ("30 s", "nvidia_smi_timeout"), False),
        (Answer(None, "", timed_out=True, unkillable=True), "timeout", ("cannot even be killed",), True),
        (Answer(None, "", stuck=4711), "timeout", ("process 4711", "no other was started"), True),
    ],
)
def test_a_failure_is_named_with_its_cause(answer: Answer, code: str, words: tuple[str, ...], lasting: bool) -> None:
    found = nvidia_smi.trouble(answer, "in the container", deadline=30, kernel_module=KERNEL_MODULE)
    assert found is not None
    assert (found.code, found.lasting) == (code, lasting)
    assert found.text.startswith("in the container: ")
    assert all(word in found.text for word in words), found.text


def test_a_good_answer_is_no_trouble() -> None:
    assert nvidia_smi.trouble(Answer(0, GPU_HEADER), "here", deadline=30) is None


def test_the_queries_are_of_fields_that_drivers_have_had_for_years() -> None:
    assert nvidia_smi.GPU_QUERY.startswith("--query-gpu=index,uuid,pci.bus_id,memory.total,")
    assert nvidia_smi.APP_QUERY == "--query-compute-apps=gpu_uuid,pid,used_gpu_memory,process_name"


def test_minor_numbers_by_pci_address() -> None:
    texts = {"0000:18:00.0": "Model: \t\t NVIDIA H200\nDevice Minor: \t 3\n", "0000:2A:00.0": "Model: x\n"}
    assert nvidia_smi.minors(texts) == {"0000:18:00.0": 3}
    assert nvidia_smi.bus_key("00000000:2A:00.0") == nvidia_smi.bus_key("0000:2a:00.0")
