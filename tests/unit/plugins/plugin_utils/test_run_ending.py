# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How ends of runs are told, and what is read out of tracebacks."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils import run_ending

RELEASE = "7c1e" * 16
FRAMES = [
    "Traceback (most recent call last):",
    f'  File "/root/.trainops/dflash/releases/{RELEASE}/train.py", line 9, in main',
    "    step()",
    f'  File "/root/.trainops/dflash/releases/{RELEASE}/lib/model.py", line 212, in forward',
    "    return a @ b",
    "           ~~^~~",
]
MISMATCH = [*FRAMES, "RuntimeError: mat1 and mat2 shapes cannot be multiplied"]


def end(**known: Any) -> dict[str, Any]:
    return {"how": "exited", "exit_code": None, "signal": None, "seconds": 231.4, "stopped_by": None, **known}


@pytest.mark.parametrize(
    ("state", "record", "traceback", "line"),
    [
        ("running", None, [], "r1 is running"),
        ("ended", end(exit_code=0), [], "r1 ended after 231 s, exit 0"),
        ("ended", end(exit_code=3), [], "r1 died after 231 s, exit 3"),
        (
            "ended",
            end(exit_code=1),
            MISMATCH,
            "r1 died after 231 s, exit 1: RuntimeError: mat1 and mat2 shapes cannot be multiplied lib/model.py:212",
        ),
        ("ended", end(signal=9, how="signaled"), [], "r1 died after 231 s, killed by SIGKILL"),
        ("ended", end(signal=9, out_of_memory=True), [], "r1 died after 231 s, killed by SIGKILL, out of memory"),
        ("ended", end(signal=77), [], "r1 died after 231 s, killed by signal 77"),
        ("ended", end(exit_code=0, stopped_by="me@here"), [], "r1 was stopped after 231 s, by me@here, exit 0"),
        (
            "ended",
            end(signal=15, stopped_by="me@here"),
            [],
            "r1 was stopped after 231 s, by me@here, killed by SIGTERM",
        ),
        ("ended", end(how="not-started", note="no such file"), [], "r1 did not start: no such file"),
        ("ended", end(seconds=None, how="unknown"), [], "r1 died, exit status unknown"),
        ("ended", end(exit_code=1, seconds=7300), [], "r1 died after 2 h 1 min, exit 1"),
        ("lost", None, [], "r1 is lost: the container was restarted"),
    ],
)
def test_an_end_is_one_line(state: str, record: dict[str, Any] | None, traceback: list[str], line: str) -> None:
    assert run_ending.ending("r1", state, record, traceback, RELEASE, "the container was restarted") == line


@pytest.mark.parametrize(
    ("lines", "text", "name"),
    [
        (MISMATCH, "RuntimeError: mat1 and mat2 shapes cannot be multiplied", "RuntimeError"),
        (
            [*FRAMES, "torch.OutOfMemoryError: CUDA out of memory.", "Tried to"],
            "torch.OutOfMemoryError: CUDA out of memory.",
            "OutOfMemoryError",
        ),
        ([*FRAMES, "KeyboardInterrupt"], "KeyboardInterrupt", "KeyboardInterrupt"),
        (
            [f"[rank0]: {line}" for line in MISMATCH],
            "RuntimeError: mat1 and mat2 shapes cannot be multiplied",
            "RuntimeError",
        ),
        (
            [
                *MISMATCH,
                "",
                "During handling of the above exception, another exception occurred:",
                "",
                *FRAMES,
                "KeyError: 2",
            ],
            "KeyError: 2",
            "KeyError",
        ),
        (
            ['  File "/a.py", line 1', "    x = (", "        ^", "SyntaxError: '(' was never closed"],
            "SyntaxError: '(' was never closed",
            "SyntaxError",
        ),
        ([*FRAMES, "ValueError: " + "x" * 500], "ValueError: " + "x" * 147 + "…", "ValueError"),
        ([], "", ""),
    ],
)
def test_the_exception_of_a_traceback(lines: list[str], text: str, name: str) -> None:
    assert (run_ending.last_exception(lines), run_ending.exception_name(lines)) == (text, name)


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        (MISMATCH, "lib/model.py:212"),
        ([*FRAMES, '  File "/venv/torch/nn.py", line 3, in f', "RuntimeError"], "lib/model.py:212"),
        (['  File "/venv/torch/nn.py", line 3, in f', "RuntimeError"], "/venv/torch/nn.py:3"),
        (["RuntimeError"], ""),
    ],
)
def test_the_place_is_the_last_one_in_the_release(lines: list[str], place: str) -> None:
    assert run_ending.place(lines, RELEASE) == place


@pytest.mark.parametrize(
    ("record", "number"),
    [
        (None, None),
        (end(signal=11), 11),
        (end(exit_code=137), 9),
        (end(exit_code=1), None),
        (end(exit_code=255), None),
        (end(exit_code=128), None),
    ],
)
def test_a_shells_code_for_a_signal_is_that_signal(record: dict[str, Any] | None, number: int | None) -> None:
    assert run_ending.signal_of(record) == number


@pytest.mark.parametrize(
    ("state", "record", "well"),
    [
        ("ended", end(exit_code=0), True),
        ("ended", end(exit_code=1), False),
        ("ended", end(signal=15, stopped_by="me"), True),
        ("ended", end(how="unknown"), False),
        ("ended", None, False),
        ("lost", None, False),
        ("lost", end(exit_code=0), False),
    ],
)
def test_only_what_is_known_to_be_good_is_good(state: str, record: dict[str, Any] | None, well: bool) -> None:
    assert run_ending.ended_well(state, record) is well


@pytest.mark.parametrize(
    ("text", "seconds"), [("1970-01-01T00:01:00Z", 60.0), ("1970-01-01T00:01:00", 60.0), ("soon", None), (None, None)]
)
def test_times_of_records(text: str | None, seconds: float | None) -> None:
    assert run_ending.seconds_of(text) == seconds
