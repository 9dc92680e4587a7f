# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which GPUs a step means."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import OptionError
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_select import (
    ranges,
    select,
    understood,
    without_gpus,
)

from tests.unit.gpu_samples import eight, process, uuid

GPUS = eight({2: 5000}, [process(841, 6, vmid=201, inside=9)]).gpus


def indexes(wanted: Any, count: int | None = None) -> list[int]:
    return [gpu.index for gpu in select(GPUS, wanted, count).candidates]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (None, list(range(8))),
        ("", list(range(8))),
        ("all", list(range(8))),
        ([0, 3], [0, 3]),
        ("0-2", [0, 1, 2]),
        ("[0-1, 5]", [0, 1, 5]),
        (["3", 0, 3], [0, 3]),
        ([uuid(5), uuid(1).lower()], [1, 5]),
        ("0,2", [0, 2]),
        ("2,", [2]),
        ("[0, 2]", [0, 2]),
        (uuid(3).lower(), [3]),
        ("[-1]", [7]),
        (f"{uuid(4)} {uuid(2)}", [2, 4]),
        ("[?memory_total_mib >= `80000`]", list(range(8))),
        ("[?verdict == 'idle']", [0, 1, 3, 4, 5, 7]),
        ("[?verdict == 'idle'] | [-2:]", [5, 7]),
        ("[?index > `5`].uuid", [6, 7]),
        ("[*].index", list(range(8))),
        ("[3]", [3]),
        ("max_by(@, &index)", [7]),
        ("[].{index: index, uuid: uuid}", list(range(8))),
    ],
)
def test_what_is_selected(wanted: Any, expected: list[int]) -> None:
    assert indexes(wanted) == expected


@pytest.mark.parametrize("wanted", [2, "2"])
def test_a_number_is_a_count(wanted: Any) -> None:
    selection = select(GPUS, wanted)
    assert (len(selection.candidates), selection.wanted) == (8, 2)
    assert [gpu.index for gpu in selection.choose(lambda gpu: gpu.verdict == "idle")] == [0, 1]


def test_a_count_takes_the_lowest_idle_ones_of_a_selection() -> None:
    selection = select(GPUS, [1, 2, 5, 6, 7], 3)
    assert [gpu.index for gpu in selection.choose(lambda gpu: gpu.verdict == "idle")] == [1, 5, 7]
    assert select(GPUS, [1, 2, 6], 2).choose(lambda gpu: gpu.verdict == "idle") == ()


def test_without_a_count_every_one_must_be_idle() -> None:
    assert select(GPUS, [0, 2]).choose(lambda gpu: gpu.verdict == "idle") == ()
    assert len(select(GPUS, [0, 1]).choose(lambda gpu: gpu.verdict == "idle")) == 2


@pytest.mark.parametrize(
    ("wanted", "count", "words"),
    [
        ("[?x", None, ("option select", "no valid JMESPath")),
        ("foo(@)", None, ("option select", "Unknown function")),
        ("length()", None, ("option select", "no valid JMESPath")),
        ([0, 1.5], None, ("option select", "1.5 is no GPU")),
        ([True], None, ("option select", "True is no GPU")),
        ([{}], None, ("option select", "is no GPU")),
        (["-1"], None, ("option select", "'-1' is no GPU")),
        ([], None, ("option select", "empty")),
        (1.5, None, ("option select", "1.5 is neither")),
        (0, None, ("option select", "at least 1")),
        ("0", None, ("option select", "at least 1")),
        (-2, None, ("option select", "at least 1")),
        ("-1", None, ("option select: -1 GPUs are wanted", "at least 1")),
        (None, 0, ("option count", "at least 1")),
        ([0], -1, ("option count", "at least 1")),
        (2, 3, ("option select", "option count")),
        ("1" * 60 + "x", None, ("option select",)),
    ],
)
def test_what_is_wrong_whatever_gpus_there_are(wanted: Any, count: int | None, words: tuple[str, ...]) -> None:
    with pytest.raises(OptionError) as caught:
        understood(wanted, count)
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize("wanted", ["starts_with([0].name, 'NVIDIA') && [0]", "[?memory_total_mib >= `1`]", [77], 99])
def test_what_only_the_gpus_can_tell(wanted: Any) -> None:
    understood(wanted)


@pytest.mark.parametrize(
    ("wanted", "count", "words"),
    [
        ([9], None, ("select", "no GPU 9", "0-7 NVIDIA H200")),
        (["GPU-1"], None, ("no GPU GPU-1",)),
        ([], None, ("list is empty",)),
        ({"a": 1}, None, ("neither a count, a list",)),
        (True, None, ("True",)),
        (9, None, ("9 GPUs are wanted", "there are 8")),
        (0, None, ("0 GPUs are wanted",)),
        ([0], 2, ("2 GPUs are wanted", "there is 1")),
        (2, 3, ("2 is a count", "count: 3")),
        ("[?memory_total_mib >== `1`]", None, ("no valid JMESPath", ">==")),
        ("[?memory_total_mib >= `800000`]", None, ("matches none", "0-7")),
        ("nonsense", None, ("matches none",)),
        ("[*].memory_total_mib", None, ("no GPU 143771",)),
        ("[*].reasons", None, ("which is no GPU", "[?memory_total_mib")),
        ("[*].mig", None, ("which is no GPU",)),
        ("length(@) && foo(", None, ("no valid JMESPath",)),
        ("sum(@)", None, ("no valid JMESPath",)),
        ("[0, 77]", None, ("no GPU 77",)),
    ],
)
def test_a_selection_that_cannot_be_used_is_one_clear_error(
    wanted: Any, count: int | None, words: tuple[str, ...]
) -> None:
    with pytest.raises(OptionError) as caught:
        select(GPUS, wanted, count)
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert "\n" not in message


def test_the_same_gpus_are_meant_in_a_later_look() -> None:
    selection = select(GPUS, "[?verdict != 'idle']")
    later = selection.again(eight().gpus)
    assert [(gpu.index, gpu.verdict) for gpu in later.candidates] == [(2, "idle"), (6, "idle")]
    gone = selection.again(eight().gpus[:3])
    assert [(gpu.index, gpu.verdict, gpu.cause) for gpu in gone.candidates] == [
        (2, "idle", None),
        (6, "unknown", "gone"),
    ]


@pytest.mark.parametrize(
    ("numbers", "text"), [([], ""), ([3], "3"), ([0, 1, 2], "0-2"), ([7, 0, 2, 1, 5], "0-2, 5, 7"), ([1, 2], "1-2")]
)
def test_numbers_as_a_person_writes_them(numbers: list[int], text: str) -> None:
    assert ranges(numbers) == text


@pytest.mark.parametrize(
    ("wanted", "without"),
    [(0, True), ("0", True), ([], True), (" [] ", True), (None, False), ("", False), (1, False), ([0], False)],
)
def test_a_run_without_gpus(wanted: Any, without: bool) -> None:
    assert without_gpus(wanted) is without
