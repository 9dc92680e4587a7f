# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Results of the steps that look at GPUs."""

from __future__ import annotations

import json

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import OptionError, StepError
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_result import (
    check_wish,
    idle_result,
    info_result,
    select_in,
)
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_select import Selection, select
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_wait import Outcome
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpus import Snapshot, snapshot
from ansible_collections.trainops.proxmox.plugins.plugin_utils.nvidia_smi import Answer

from tests.unit.gpu_samples import VMID, eight, process, reading, uuid, view

BUSY = eight({3: 2057}, [process(841, 3, vmid=201, inside=212)], [f"{uuid(3)}, 841, 2048 MiB, python3"])
HELD = "7 of 8 idle; GPU 3 busy: 2048 MiB held by vmid 201 (train-b) pid 212 python3 train.py"
MISMATCH = Answer(18, "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.126\n")
UNKNOWN = snapshot(reading(MISMATCH, devices=[0]), None, vmid=VMID)
NOTHING = snapshot(reading(Answer(127, "there is no nvidia-smi on the PATH")), None, vmid=VMID)


def outcome(found: Snapshot, waited: float = 0.4, looks: int = 1) -> Outcome:
    selection = select(found.gpus) if found.gpus else Selection(())
    return Outcome(found, selection, selection.choose(lambda gpu: gpu.verdict == "idle"), waited, looks)


def test_idle() -> None:
    result = idle_result(outcome(eight()), require=True)
    assert (result["summary"], result["msg"]) == ("8 of 8 idle, 0 MiB each, no holder",) * 2
    assert (result["idle"], result["indexes"]) == (True, list(range(8)))
    assert result["uuids"] == [uuid(number) for number in range(8)]
    assert "failed" not in result
    assert json.loads(json.dumps(result)) == result


def test_busy_is_a_report_where_idle_is_not_required() -> None:
    result = idle_result(outcome(BUSY), require=False)
    assert (result["idle"], result["indexes"], result["uuids"]) == (False, [], [])
    assert (result["summary"], result["msg"]) == (HELD, HELD)
    assert len(result["gpus"]) == 8
    assert "failed" not in result


def test_busy_is_a_failure_with_a_table_and_the_fix_where_it_is() -> None:
    result = idle_result(outcome(BUSY, waited=12.3, looks=4), require=True, width=100)
    assert (result["failed"], result["code"]) == (True, "gpus-busy")
    assert result["summary"] == f"{HELD}; waited 12 s"
    lines = result["msg"].splitlines()
    assert lines[0] == result["summary"]
    assert lines[1:-1] == result["table"].splitlines()
    assert lines[5].endswith("vmid 201 (train-b) pid 212 python3 train.py, 2048 MiB, for 30 s")
    assert "option select" in lines[-1]
    assert "option timeout" in lines[-1]
    assert "{" not in result["msg"]


def test_runs_of_ours_are_named_and_so_is_how_to_stop_them() -> None:
    ours = eight({3: 2057}, [process(900, 3, vmid=VMID, inside=44)], [f"{uuid(3)}, 900, 2048 MiB, p"], {"44": "r1"})
    assert idle_result(outcome(ours), require=False)["held_by_runs"] == ["r1"]
    assert idle_result(outcome(BUSY), require=False)["held_by_runs"] == []
    assert idle_result(outcome(eight()), require=False)["held_by_runs"] == []
    refused = idle_result(outcome(ours), require=True)
    assert refused["code"] == "gpus-busy"
    assert refused["msg"].splitlines()[-1].startswith("Stop your run r1 (trainops stop r1), choose other GPUs")


def test_unknown_is_never_idle() -> None:
    result = idle_result(outcome(UNKNOWN), require=True)
    assert (result["failed"], result["code"], result["idle"]) == (True, "gpus-unknown", False)
    assert "kernel module 580.159.04, library 580.126" in result["msg"]
    assert "must be known" in result["msg"].splitlines()[-1]


@pytest.mark.parametrize("require", [True, False])
def test_no_gpu_to_be_seen_is_unknown(require: bool) -> None:
    result = idle_result(outcome(NOTHING), require)
    assert result["idle"] is False
    assert result["summary"] == "unknown: in the container: there is no nvidia-smi on the PATH"
    assert result.get("failed", False) is require
    assert result["gpus"] == []


def test_warnings_are_ansibles() -> None:
    slow = eight()
    result = info_result(Snapshot(**{**vars(slow), "warnings": ("nvidia-smi took 24.0 s",)}))
    assert result["warnings"] == ["nvidia-smi took 24.0 s"]
    assert "warnings" not in info_result(slow)


def test_info() -> None:
    result = info_result(BUSY)
    assert result["summary"] == HELD
    assert [gpu["verdict"] for gpu in result["gpus"]].count("idle") == 7
    assert (result["view"], result["view_reason"], result["driver_version"]) == ("node", "", "580.159.04")


def test_info_without_any_gpu_fails_with_the_cause() -> None:
    with pytest.raises(StepError) as caught:
        info_result(NOTHING)
    assert caught.value.code == "not-found"
    assert caught.value.details["gpus"] == []
    empty = snapshot(reading([]), view(), vmid=VMID)
    with pytest.raises(StepError, match="there is no GPU"):
        info_result(empty)


def test_an_expression_that_finds_nothing_because_nothing_was_read_says_so() -> None:
    with pytest.raises(OptionError, match=r"matches none.*version mismatch"):
        select_in(UNKNOWN, "[?memory_total_mib >= `80000`]", None)
    with pytest.raises(OptionError, match=r"matches none of the GPUs here: 0-7 NVIDIA H200$"):
        select_in(BUSY, "[?memory_total_mib >= `800000`]", None)
    assert select_in(NOTHING, [0], None).candidates == ()


def test_what_a_later_look_may_find_is_no_mistake() -> None:
    busy = eight(dict.fromkeys(range(8), 5000))
    with pytest.raises(OptionError):
        select_in(BUSY, "[?verdict == 'idle']", 8)
    assert check_wish(BUSY, "[?verdict == 'idle']", 8) is None
    assert check_wish(busy, "[?verdict == 'idle']", None) is None
    with pytest.raises(OptionError, match="9 GPUs are wanted"):
        check_wish(BUSY, "[?verdict == 'idle']", 9)
    with pytest.raises(OptionError, match="matches none"):
        check_wish(busy, "[?memory_total_mib > `999999`]", None)


def test_a_selection_that_matches_too_few_now_is_not_idle_and_says_so() -> None:
    for require in (True, False):
        result = idle_result(Outcome(BUSY, Selection((), 8), (), 0.1, 1), require)
        assert (result["idle"], result["indexes"], result.get("failed", False)) == (False, [], require)
        assert result["summary"] == f"too few GPUs match option select now; {HELD}"
