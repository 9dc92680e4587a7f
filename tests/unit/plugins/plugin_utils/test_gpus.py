# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Verdicts: what the container and its node see, joined."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils import gpus
from ansible_collections.trainops.proxmox.plugins.plugin_utils.node_view import parse_node_view
from ansible_collections.trainops.proxmox.plugins.plugin_utils.nvidia_smi import Answer

from tests.unit.gpu_samples import (
    APP_HEADER,
    FIXTURES,
    GPU_HEADER,
    VMID,
    answer,
    eight,
    gpu_row,
    process,
    reading,
    recorded,
    uuid,
    view,
)


def verdicts(found: gpus.Snapshot) -> list[tuple[str, str | None]]:
    return [(gpu.verdict, gpu.cause) for gpu in found.gpus]


def holders(gpu: gpus.Gpu) -> list[tuple[int, str, int | None]]:
    return [(holder.process.pid, holder.where, holder.memory) for holder in gpu.holders]


IDLE, OPENED, PROCESS = ("idle", None), ("busy", "opened"), ("busy", "process")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("idle", [IDLE, IDLE]),
        ("monitors", [IDLE, IDLE]),
        ("starting", [OPENED, OPENED]),
        ("busy", [PROCESS, PROCESS]),
        # The job is younger than two minutes and may still take the second GPU.
        ("fork", [PROCESS, OPENED]),
        ("orphan", [PROCESS, OPENED]),
    ],
)
@pytest.mark.parametrize("asked", [True, False], ids=["node", "inside"])
def test_recorded_on_two_h200(name: str, expected: list[tuple[str, str | None]], asked: bool) -> None:
    texts, node = recorded(name)
    found = gpus.snapshot(texts, node if asked else None, vmid=VMID)
    assert verdicts(found) == expected
    assert found.view == ("node" if asked else "inside")
    assert [gpu.minor for gpu in found.gpus] == [0, 1]
    assert found.driver_version == "580.159.04"


def test_a_forked_child_counts_once_its_parent_is_gone() -> None:
    texts, _node = recorded("fork")
    assert holders(gpus.snapshot(texts, None).gpus[0]) == [(918, "here", 866)]
    texts, _node = recorded("orphan")
    assert holders(gpus.snapshot(texts, None).gpus[0]) == [(959, "here", None), (918, "unknown", 866)]


def test_a_holder_in_another_container_is_named() -> None:
    holder = process(841, 5, vmid=201, inside=212)
    found = eight({5: 2057}, [holder], [f"{uuid(5)}, 841, 2048 MiB, python3"])
    assert verdicts(found) == [IDLE] * 5 + [PROCESS] + [IDLE] * 2
    assert found.gpus[5].as_result()["processes"] == [
        {
            "pid": 212,
            "node_pid": 841,
            "vmid": 201,
            "container": "train-b",
            "command": "python3 train.py",
            "age_seconds": 30,
            "memory_mib": 2048,
            "where": "other",
            "run": None,
        }
    ]
    assert "as seen from the node" in found.gpus[5].reasons[0]


def test_a_run_is_known_by_the_pid_in_this_container_alone() -> None:
    here, other = process(900, 3, vmid=VMID, inside=44), process(901, 4, vmid=201, inside=44)
    found = eight({}, [here, other], runs={"44": "r1", "901": "r2"})
    assert [gpu.runs for gpu in found.gpus[3:5]] == [("r1",), ()]
    assert found.gpus[3].as_result()["processes"][0]["run"] == "r1"
    # Beside somebody else it is not only ours.
    both = eight({}, [here, process(902, 3, vmid=201, inside=45)], runs={"44": "r1"})
    assert both.gpus[3].runs == ()


def test_a_job_that_owns_no_memory_yet_is_seen_on_the_node() -> None:
    found = eight({}, [process(841, 3, vmid=201, inside=212)])
    assert verdicts(found)[3] == OPENED
    assert holders(found.gpus[3]) == [(841, "other", None)]


def test_a_process_of_the_node_itself_is_a_holder() -> None:
    found = eight({0: 100}, [process(710, 0)], [f"{uuid(0)}, 710, 100 MiB, Xorg"])
    assert holders(found.gpus[0]) == [(710, "node", 100)]
    result = found.gpus[0].as_result()["processes"][0]
    assert (result["pid"], result["node_pid"], result["vmid"]) == (None, 710, None)


def test_own_processes_are_told_once_though_both_sides_list_them() -> None:
    rows = [gpu_row(0, 0, "500 MiB")]
    stat = "44 (python3) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 90000 0 0"
    inside = reading(
        rows,
        [f"{uuid(0)}, 44, 490 MiB, python3"],
        {"44": {"stat": stat, "cmdline": "python3\0train.py\0", "opened": [0]}},
        [0],
    )
    node = view(rows, [f"{uuid(0)}, 841, 490 MiB, python3"], [process(841, 0, vmid=VMID, inside=44)])
    assert holders(gpus.snapshot(inside, node, vmid=VMID).gpus[0]) == [(841, "here", 490)]
    alone = gpus.snapshot(inside, None)
    assert holders(alone.gpus[0]) == [(44, "here", 490)]
    result = alone.gpus[0].as_result()["processes"][0]
    assert (result["pid"], result["node_pid"], result["age_seconds"]) == (44, None, 100)


@pytest.mark.parametrize(
    ("age", "owns", "counts"),
    [
        (30, False, True),
        (3600, False, True),
        (30, True, True),
        (gpus.STARTING_SECONDS, True, False),
        (None, True, True),
    ],
)
def test_what_cuda_opened_counts_where_memory_may_follow(age: int | None, owns: bool, counts: bool) -> None:
    """CUDA opens all GPUs that it may see, and a job that computes on one of them keeps the others open."""
    apps = [f"{uuid(0)}, 841, 2048 MiB, python3"] if owns else []
    found = eight({0: 2057 if owns else 0}, [process(841, 0, 1, vmid=201, inside=9, age=age)], apps)
    assert (verdicts(found)[1] == OPENED) is counts


def test_a_container_with_some_of_the_gpus_is_matched_by_uuid() -> None:
    """Its index 1 is the node's GPU 5, and its device file is /dev/nvidia5."""
    node_rows = [gpu_row(number, number) for number in range(8)]
    inside = reading([gpu_row(index, 4 + index) for index in range(4)], devices=[4, 5, 6, 7])
    found = gpus.snapshot(inside, view(node_rows, [], [process(841, 5, vmid=201, inside=7)]), vmid=VMID)
    assert verdicts(found) == [IDLE, OPENED, IDLE, IDLE]
    assert [gpu.minor for gpu in found.gpus] == [4, 5, 6, 7]


def test_minor_numbers_come_from_the_driver_where_it_tells() -> None:
    rows = [gpu_row(0, 0), gpu_row(1, 1)]
    crossed = {"0000:00:00.0": 1, "0000:01:00.0": 0}
    found = gpus.snapshot(reading(rows, devices=[0, 1]), view(rows, [], [process(841, 0)], minors=crossed), vmid=VMID)
    assert verdicts(found) == [IDLE, OPENED]


def test_a_gpu_whose_device_file_cannot_be_told_is_judged_from_inside() -> None:
    rows = [gpu_row(0, 0)]
    found = gpus.snapshot(reading(rows, devices=[]), view(rows, devices=(0, 1)), vmid=VMID)
    assert verdicts(found) == [IDLE]
    assert "device file" in found.gpus[0].reasons[1]


@pytest.mark.parametrize(
    ("used", "allowed", "expected"), [(64, 64, IDLE), (65, 64, ("busy", "memory")), (615, 700, IDLE)]
)
def test_memory_up_to_the_threshold_is_idle(used: int, allowed: int, expected: tuple[str, str | None]) -> None:
    rows = [gpu_row(0, 0, f"{used} MiB")]
    found = gpus.snapshot(reading(rows, devices=[0]), view(rows), vmid=VMID, memory_mib=allowed)
    assert verdicts(found) == [expected]
    assert f"{used} MiB used, {allowed} MiB allowed by option memory_mib" in found.gpus[0].reasons


def test_memory_without_a_process_is_held_from_outside() -> None:
    rows = [gpu_row(0, 0, "1131 MiB")]
    inside = gpus.snapshot(reading(rows, devices=[0]), None, vmid=VMID)
    assert verdicts(inside) == [("busy", "memory")]
    assert "held from outside" in inside.gpus[0].reasons[1]
    node = gpus.snapshot(reading(rows, devices=[0]), view(rows), vmid=VMID)
    assert verdicts(node) == [("busy", "memory")]
    assert "no process of the node holds it" in node.gpus[0].reasons[1]


@pytest.mark.parametrize(
    ("asked", "persistence", "util", "expected"),
    [
        (False, "Enabled", "87 %", ("busy", "utilization")),
        (False, "Enabled", "4 %", IDLE),
        (False, "Disabled", "100 %", IDLE),
        (False, "Enabled", "[N/A]", IDLE),
        (True, "Enabled", "87 %", IDLE),
    ],
)
def test_utilisation_decides_only_without_the_node(
    asked: bool, persistence: str, util: str, expected: tuple[str, str | None]
) -> None:
    rows = [gpu_row(0, 0, persistence=persistence, util=util)]
    assert verdicts(gpus.snapshot(reading(rows, devices=[0]), view(rows) if asked else None, vmid=VMID)) == [expected]


def test_an_idle_verdict_from_inside_says_so() -> None:
    rows = [gpu_row(0, 0)]
    reason = "the login may not look at all processes there"
    found = gpus.snapshot(reading(rows, devices=[0]), view(rows, complete=False, reason=reason), vmid=VMID)
    assert (found.view, found.view_reason) == ("inside", reason)
    assert found.gpus[0].reasons[1] == f"no process holds it, as seen from inside ({reason})"


def test_without_root_on_the_node_a_holder_with_memory_is_still_named() -> None:
    rows = [gpu_row(0, 0, "500 MiB")]
    apps = [f"{uuid(0)}, 841, 490 MiB, python3"]
    node = view(rows, apps, [process(841, vmid=201, inside=9)], complete=False, reason="not root")
    found = gpus.snapshot(reading(rows, devices=[0]), node, vmid=VMID)
    assert holders(found.gpus[0]) == [(841, "other", 490)]


UNKNOWN_ERROR = Answer(255, "Failed to initialize NVML: Unknown Error\n")
HUNG = Answer(None, "", 30.0, timed_out=True)


@pytest.mark.parametrize(
    ("failed", "code"),
    [
        (UNKNOWN_ERROR, "nvml-unknown-error"),
        (Answer(18, "Failed to initialize NVML: Driver/library version mismatch\n"), "version-mismatch"),
        (HUNG, "timeout"),
        (Answer(0, "index, uuid\n0, GPU-1\n"), "format"),
        (Answer(127, "there is no nvidia-smi"), "not-found"),
    ],
)
def test_a_failed_reading_is_unknown_and_shows_what_the_node_reads(failed: Answer, code: str) -> None:
    rows = [gpu_row(number, number, f"{number * 1000} MiB") for number in range(3)]
    holder = process(841, 2, vmid=201, inside=9)
    node = view(rows, [f"{uuid(2)}, 841, 1990 MiB, python3"], [holder])
    found = gpus.snapshot(reading(failed, devices=[1, 2]), node, vmid=VMID)
    assert verdicts(found) == [("unknown", code)] * 2
    assert [(gpu.index, gpu.uuid, gpu.minor) for gpu in found.gpus] == [(0, uuid(1), 1), (1, uuid(2), 2)]
    assert found.gpus[0].reasons[1] == "the node reads 1000 MiB used, no holder"
    assert found.gpus[1].reasons[1] == "the node reads 2000 MiB used, 1 process holds it"
    assert found.trouble is not None


def test_a_failed_reading_without_the_node_still_lists_the_device_files() -> None:
    found = gpus.snapshot(reading(HUNG, devices=[0, 1]), None, vmid=VMID)
    assert verdicts(found) == [("unknown", "timeout")] * 2
    assert [gpu.key for gpu in found.gpus] == ["nvidia0", "nvidia1"]
    assert "the node was not asked" in found.gpus[0].reasons[1]


def test_a_failed_process_list_is_as_bad() -> None:
    rows = [gpu_row(0, 0)]
    texts = reading(rows, devices=[0])
    texts["answers"][1] = dict(texts["answers"][1], exit=None, timed_out=True)
    assert verdicts(gpus.snapshot(texts, view(rows), vmid=VMID)) == [("unknown", "timeout")]


@pytest.mark.parametrize(
    ("shown", "mig", "words"),
    [
        ("[Insufficient Permissions]", "Enabled", ("Insufficient Permissions", "MIG is on")),
        ("[GPU requires reset]", "Disabled", ("GPU requires reset",)),
    ],
)
def test_memory_that_is_not_shown_is_unknown(shown: str, mig: str, words: tuple[str, ...]) -> None:
    rows = [gpu_row(0, 0, shown, mig=mig, util="[N/A]")]
    found = gpus.snapshot(reading(rows, devices=[0]), view(rows), vmid=VMID)
    assert verdicts(found) == [("unknown", "memory-not-shown")]
    assert all(word in found.gpus[0].reasons[0] for word in words)


def test_a_process_on_a_mig_device_holds_its_gpu() -> None:
    rows = [gpu_row(0, 0, "10 MiB", mig="Enabled"), gpu_row(1, 1)]
    found = gpus.snapshot(
        reading(rows, devices=[0, 1]), view(rows, ["MIG-7, 841, [N/A], x"], [process(841)]), vmid=VMID
    )
    assert verdicts(found) == [PROCESS, IDLE]


@pytest.mark.parametrize(("persistence", "words"), [("Disabled", "off for GPU 0"), ("Enabled", "on here")])
def test_a_slow_answer_names_the_known_causes(persistence: str, words: str) -> None:
    rows = [gpu_row(0, 0, persistence=persistence)]
    slow = answer(GPU_HEADER, rows, seconds=24.0)
    found = gpus.snapshot(reading(slow, devices=[0]), view(rows), vmid=VMID)
    assert len(found.warnings) == 1
    assert "took 24.0 s" in found.warnings[0]
    assert words in found.warnings[0]
    assert "limit of open files" in found.warnings[0]
    assert verdicts(found) == [IDLE]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"gpus": HUNG}, "on the node: nvidia-smi did not answer"),
        ({"gpus": None, "apps": None, "tool": ""}, "on the node: there is no nvidia-smi"),
    ],
)
def test_holders_are_found_though_the_nodes_nvidia_smi_fails(values: dict[str, Any], words: str) -> None:
    rows = [gpu_row(0, 0), gpu_row(1, 1)]
    node = view(rows, [], [process(841, 1, vmid=201, inside=9)], **values)
    found = gpus.snapshot(reading(rows, devices=[0, 1]), node, vmid=VMID)
    assert verdicts(found) == [IDLE, OPENED]
    assert found.view == "node"
    assert words in found.warnings[0]


def test_processes_that_could_not_be_looked_at_are_told() -> None:
    texts = {**reading([gpu_row(0, 0)], devices=[0]), "hidden": 3}
    assert "3 processes in the container" in gpus.snapshot(texts, None).view_reason


def test_no_gpu_at_all_is_an_empty_list_with_its_reason() -> None:
    found = gpus.snapshot(reading(Answer(6, "No devices were found\n")), view(), vmid=VMID)
    assert found.gpus == ()
    assert found.trouble is not None
    assert found.trouble.code == "no-devices"


def test_the_worker_is_asked_what_the_parser_expects() -> None:
    asked = gpus.params("nvidia-smi", 30.0)
    for query, header in zip(asked["queries"], (GPU_HEADER, APP_HEADER), strict=True):
        names = [column.partition(" [")[0] for column in header.split(", ")]
        assert query.partition("=")[2].split(",") == names


def test_a_nodes_own_gpus_are_told_by_its_view_alone() -> None:
    rows = [gpu_row(1, 1, "2048 MiB"), gpu_row(0, 0)]
    listed = [f"{uuid(1)}, 841, 2040 MiB, python3"]
    jobs = [process(841, 0, 1, vmid=201, inside=9, age=900), process(900, 0, vmid=None)]
    found = gpus.node_snapshot(view(rows, listed, jobs))
    assert [gpu.index for gpu in found.gpus] == [0, 1]
    assert verdicts(found) == [OPENED, PROCESS]
    assert [holders(gpu) for gpu in found.gpus] == [[(900, "node", None)], [(841, "other", 2040)]]
    assert (found.view, found.view_reason, found.trouble, found.driver_version) == ("node", "", None, "580.159.04")
    assert found.gpus[0].reasons[0] == "1 process holds it without memory yet, as seen from the node"


@pytest.mark.parametrize("name", ["idle", "busy", "starting", "monitors", "fork", "orphan"])
def test_recorded_nodes_have_no_holder_twice(name: str) -> None:
    reading_, node = recorded(name)
    alone, joined = gpus.node_snapshot(node), gpus.snapshot(reading_, node)
    assert [gpu.verdict for gpu in alone.gpus] == [gpu.verdict for gpu in joined.gpus]
    for gpu in alone.gpus:
        pids = [holder.process.pid for holder in gpu.holders]
        assert len(pids) == len(set(pids))


def test_a_login_that_is_not_roots_sees_a_part() -> None:
    found = gpus.node_snapshot(parse_node_view((FIXTURES / "user.view").read_text()))
    assert found.view == "partial"
    assert "not root" in found.view_reason
    assert any("as far as this login sees" in reason for gpu in found.gpus for reason in gpu.reasons)


@pytest.mark.parametrize(
    ("values", "code", "words", "number"),
    [
        ({"gpus": None, "apps": None, "tool": "", "devices": ()}, "not-found", "install the NVIDIA driver there", 0),
        ({"gpus": None, "apps": None, "tool": "", "devices": (0, 1)}, "not-found", "no nvidia-smi on the PATH", 2),
        ({"gpus": HUNG, "apps": HUNG, "devices": (0,)}, "timeout", "on the node: nvidia-smi did not answer", 1),
        ({"gpus": Answer(6, "No devices were found\n"), "devices": ()}, "no-devices", "bound to the NVIDIA driver", 0),
        ({"gpus": answer(GPU_HEADER, []), "devices": ()}, "no-devices", "nvidia-smi lists no GPU", 0),
        (
            {"gpus": Answer(255, "Failed to initialize NVML: Unknown Error\n"), "devices": (0,)},
            "nvml-unknown-error",
            "the node needs a restart",
            1,
        ),
        (
            {
                "gpus": Answer(18, "Driver/library version mismatch\nNVML library version: 580.126\n"),
                "version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build",
            },
            "version-mismatch",
            "kernel module 580.159.04, library 580.126",
            0,
        ),
    ],
)
def test_a_node_that_cannot_be_read_has_its_own_sentence(
    values: dict[str, Any], code: str, words: str, number: int
) -> None:
    found = gpus.node_snapshot(view(**values))
    assert found.trouble is not None
    assert (found.trouble.code, len(found.gpus)) == (code, number)
    assert words in found.trouble.text
    assert "into the container" not in found.trouble.text
    assert {gpu.verdict for gpu in found.gpus} <= {"unknown"}


def test_holders_on_a_node_without_nvidia_smi_are_named() -> None:
    jobs = [process(841, 1, vmid=201, inside=9)]
    found = gpus.node_snapshot(view([], [], jobs, gpus=None, apps=None, tool="", devices=(0, 1)))
    assert verdicts(found) == [("unknown", "not-found"), ("unknown", "not-found")]
    assert [holders(gpu) for gpu in found.gpus] == [[], [(841, "other", None)]]
