# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The line and the table that a person reads."""

from __future__ import annotations

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils import gpu_text
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_select import Selection, select
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpus import Snapshot, snapshot
from ansible_collections.trainops.proxmox.plugins.plugin_utils.nvidia_smi import Answer

from tests.unit.gpu_samples import VMID, eight, gpu_row, process, reading, recorded, uuid, view


def line(found: Snapshot) -> str:
    return gpu_text.summary(Selection(found.gpus), found.view)


def on(pid: int, *gpus: int, memory: int = 2048) -> list[str]:
    return [f"{uuid(gpu)}, {pid}, {memory} MiB, python3" for gpu in gpus]


OTHER = process(841, 3, 4, 5, vmid=201, inside=212)
HERE = process(900, 3, vmid=VMID, inside=44)
RANK = process(901, 4, vmid=VMID, inside=45)
NODE = process(710, 0, argv=("/usr/lib/xorg/Xorg", ":0"))


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (eight(), "8 of 8 idle, 0 MiB each, no holder"),
        (eight({0: 4, 3: 17}), "8 of 8 idle, 0 to 17 MiB each, no holder"),
        (
            eight({3: 2057}, [process(841, 3, vmid=201, inside=212)], on(841, 3)),
            "7 of 8 idle; GPU 3 busy: 2048 MiB held by vmid 201 (train-b) pid 212 python3 train.py",
        ),
        (
            eight({3: 2057, 4: 2057, 5: 2057}, [OTHER], on(841, 3, 4, 5)),
            "5 of 8 idle; GPUs 3-5 busy: 6144 MiB held by vmid 201 (train-b) pid 212 python3 train.py",
        ),
        (
            eight({}, [OTHER]),
            "5 of 8 idle; GPUs 3-5 busy: opened by vmid 201 (train-b) pid 212 python3 train.py, no memory yet",
        ),
        (
            eight({3: 2057}, [HERE], on(900, 3)),
            "7 of 8 idle; GPU 3 busy: 2048 MiB held by this container's pid 44 python3 train.py",
        ),
        (
            eight({3: 2057, 4: 2057, 5: 9}, [HERE, RANK], [*on(900, 3), *on(901, 4)], {"44": "r1", "45": "r1"}),
            "6 of 8 idle; GPUs 3-4 busy: 4096 MiB held by your run r1",
        ),
        (eight({}, [HERE], runs={"44": "r1"}), "7 of 8 idle; GPU 3 busy: opened by your run r1, no memory yet"),
        (eight(given={"r1": [0, 3]}), "6 of 8 idle; GPUs 0, 3 busy: given to your run r1, not opened yet"),
        (
            eight({3: 2057}, [HERE], runs={"44": "r1"}, given={"r1": [0, 3]}),
            "6 of 8 idle; GPUs 0, 3 busy: opened by your run r1, no memory yet",
        ),
        (
            eight({0: 100}, [NODE], on(710, 0, memory=100)),
            "7 of 8 idle; GPU 0 busy: 100 MiB held by the node's pid 710 Xorg",
        ),
        (
            eight({3: 2057}, [OTHER, HERE], on(900, 3)),
            (
                "5 of 8 idle; GPU 3 busy: 2048 MiB held by this container's pid 44 python3 train.py and 1 more; "
                "GPUs 4-5 busy: opened by vmid 201 (train-b) pid 212 python3 train.py, no memory yet"
            ),
        ),
        (eight({1: 500}), "7 of 8 idle; GPU 1 busy: 500 MiB held by no process"),
        (
            eight({0: 100, 3: 2057, 6: 500, 7: 500}, [NODE, HERE], [*on(710, 0, memory=100), *on(900, 3)]),
            (
                "4 of 8 idle; GPU 0 busy: 100 MiB held by the node's pid 710 Xorg; GPU 3 busy: 2048 MiB held by this "
                "container's pid 44 python3 train.py; 2 more not idle"
            ),
        ),
        (
            eight({3: 2057}, [process(841, 3, vmid=203, inside=9)], on(841, 3)),
            "7 of 8 idle; GPU 3 busy: 2048 MiB held by vmid 203 pid 9 python3 train.py",
        ),
        (
            eight(complete=False, reason="not root"),
            "8 of 8 idle, 0 MiB each, no holder, as seen from inside",
        ),
        (
            eight({1: 1131}, complete=False, reason="not root"),
            "7 of 8 idle; GPU 1 busy: 1131 MiB held from outside this container, as seen from inside",
        ),
    ],
)
def test_the_line(found: Snapshot, text: str) -> None:
    assert line(found) == text


def test_the_line_of_an_unknown_gpu_names_the_cause() -> None:
    rows = [gpu_row(0, 0)]
    hung = snapshot(reading(Answer(None, "", 30.0, timed_out=True), devices=[0]), view(rows), vmid=VMID)
    assert line(hung).startswith("0 of 1 idle; GPU 0 unknown: in the container: nvidia-smi did not answer within 30 s")


@pytest.mark.parametrize(
    ("busy", "text"),
    [
        ({}, "GPUs 0-1 of 8 chosen, idle, 0 MiB each, no holder"),
        ({0: 5000, 1: 5000}, "GPUs 2-3 of 8 chosen, idle, 0 MiB each, no holder"),
        (
            dict.fromkeys(range(7), 5000),
            "1 of 8 idle where 2 are wanted; GPUs 0-6 busy: 35000 MiB held by no process",
        ),
    ],
)
def test_the_line_of_a_count(busy: dict[int, int], text: str) -> None:
    found = eight(busy)
    selection = select(found.gpus, 2)
    assert gpu_text.summary(selection, found.view, selection.choose(lambda gpu: gpu.verdict == "idle")) == text


def test_the_table() -> None:
    holders = [process(pid, 3, vmid=201, inside=pid, age=pid * 60, parent=1) for pid in range(51, 56)]
    found = eight({0: 100, 1: 500, 3: 2057}, [NODE, *holders], [*on(710, 0, memory=100), *on(51, 3)])
    assert gpu_text.table(found, found.gpus[:4], 100) == "\n".join(
        [
            "GPU  verdict  used MiB  holder",
            "  0  busy          100  the node's pid 710 Xorg, 100 MiB, for 30 s",
            "  1  busy          500  500 MiB held by no process",
            "  2  idle            0  -",
            "  3  busy         2057  vmid 201 (train-b) pid 51 python3 train.py, 2048 MiB, for 51 min",
            "                        vmid 201 (train-b) pid 52 python3 train.py, no memory yet, for 52 min",
            "                        vmid 201 (train-b) pid 53 python3 train.py, no memory yet, for 53 min",
            "                        and 2 more",
        ]
    )


def test_the_table_names_a_run_of_ours_with_its_process() -> None:
    found = eight({3: 2057}, [HERE], on(900, 3), {"44": "r1"})
    assert "  3  busy         2057  your run r1, pid 44 python3 train.py, 2048 MiB, for 30 s" in gpu_text.table(
        found, found.gpus
    )


def test_no_line_of_the_table_is_wider_than_a_page() -> None:
    found = eight({3: 2057}, [process(841, 3, vmid=201, inside=212, argv=("/opt/" + "x" * 200,), container="c" * 60)])
    for width in (80, 72, 200):
        widths = [len(row) for row in gpu_text.table(found, found.gpus, width).splitlines()]
        assert max(widths) == min(width, 189)
    assert max(len(row) for row in gpu_text.table(found, found.gpus).splitlines()) == 80
    assert max(len(row) for row in gpu_text.table(found, found.gpus, 3).splitlines()) == 50


def test_the_table_explains_once_what_needs_a_sentence() -> None:
    hung = snapshot(reading(Answer(None, "", 30.0, timed_out=True), devices=[0, 1]), None, vmid=VMID)
    text = gpu_text.table(hung, hung.gpus).splitlines()
    assert text[1:3] == [
        "  0  unknown         -  timeout",
        "  1  unknown         -  timeout",
    ]
    assert len(text) == 5
    assert text[3].startswith("in the container: nvidia-smi did not answer")
    assert text[4] == "As seen from inside the container: the node was not asked."


def test_a_process_that_is_gone_is_told_after_who_can_be_stopped() -> None:
    texts, _node = recorded("orphan")
    found = snapshot(texts, None, vmid=VMID)
    rows = gpu_text.table(found, found.gpus).splitlines()
    assert rows[1].startswith("  0  busy          875  this container's pid 959 python train.py, no memory yet")
    assert rows[2].strip() == "process 918, which is gone, 866 MiB"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59, "59 s"), (60, "1 min"), (7500, "2 h 5 min"), (172_799, "47 h 59 min"), (273_600, "3 d 4 h")],
)
def test_a_span_of_time(seconds: int, text: str) -> None:
    assert gpu_text.age(seconds) == text
