# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The end of a log: last lines, and tracebacks as Python and torchrun print them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker import tail
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.log import Log


@pytest.fixture
def log(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path / "log", os.O_RDWR | os.O_CREAT)
    yield fd
    os.close(fd)


def crash(source: str) -> str:
    """What a real Python prints when this program dies."""
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    return done.stderr


@pytest.mark.parametrize(
    ("text", "lines", "begin"),
    [
        ("", 3, 0),
        ("a\nb\nc\n", 1, 4),
        ("a\nb\nc\n", 2, 2),
        ("a\nb\nc\n", 3, 0),
        ("a\nb\nc\n", 9, 0),
        ("a\nb\nc", 1, 4),
        ("a\nb\nc", 0, 5),
        ("a", 1, 0),
        ("x" * 70_000 + "\nb\nc\n", 2, 70_001),
        ("x\n" * 100_000, 50_000, 100_000),
    ],
)
def test_where_the_last_lines_begin(log: int, text: str, lines: int, begin: int) -> None:
    os.write(log, text.encode())
    assert tail.offset_of_last(log, lines) == begin


@pytest.mark.parametrize(("lines", "pieces"), [(1, 1), (3, 3), (100, 16)])
def test_of_a_line_without_an_end_no_more_pieces_than_lines_are_shown(log: int, lines: int, pieces: int) -> None:
    os.write(log, b"x" * (3 << 20))
    begin = tail.offset_of_last(log, lines)
    assert begin == (3 << 20) - pieces * 65536
    read = Log(log, begin, 0.0)
    shown = 0
    while batch := read.read(0.0, True):
        shown += len(batch.lines)
    assert shown == pieces


@pytest.mark.parametrize(
    ("text", "lines", "most", "found"),
    [
        ("a\nb\nc\n", 2, 100, ["b", "c"]),
        ("a\n10 %\r20 %\r30 %", 2, 100, ["a", "30 %"]),
        ("a\r\nb\r\n", 2, 100, ["a", "b"]),
        ("aaaa\nbbbb\ncccc\n", 3, 10, ["bbbb", "cccc"]),
        ("", 2, 100, []),
    ],
)
def test_last_lines_are_those_of_a_terminal(text: str, lines: int, most: int, found: list[str]) -> None:
    assert [line for line in tail.last_lines(text, lines, most) if line] == found


def test_a_plain_traceback_is_whole() -> None:
    printed = "step 1\n" + crash("def f(): raise RuntimeError('shape\\nmismatch')\nf()") + "\ntorchrun: bye\n"
    found = tail.last_traceback(printed)
    assert (found[0], found[-2:]) == ("Traceback (most recent call last):", ["RuntimeError: shape", "mismatch"])


@pytest.mark.parametrize("how", ["raise KeyError(2)", "raise KeyError(2) from error"])
def test_chained_ones_belong_to_it(how: str) -> None:
    printed = "before\n" + crash(f"try: 1/0\nexcept ZeroDivisionError as error: {how}")
    assert tail.last_traceback(printed) == printed.splitlines()[1:]


def test_the_last_one_counts() -> None:
    printed = crash("raise ValueError('first')") + "went on\n" + crash("raise ValueError('second')")
    assert tail.last_traceback(printed)[-1] == "ValueError: second"
    assert "first" not in "".join(tail.last_traceback(printed))


def test_of_several_ranks_that_print_at_once_it_is_one_ranks() -> None:
    printed = "\n".join(
        [
            "[rank1]: Traceback (most recent call last):",
            '[rank1]:   File "/a.py", line 3, in f',
            "[rank0]: Traceback (most recent call last):",
            "[rank1]: ValueError: one",
            '[rank0]:   File "/a.py", line 2, in f',
            "other words",
            "[rank0]:     boom()",
            "[rank0]: ValueError: zero",
        ]
    )
    assert tail.last_traceback(printed) == [
        "[rank0]: Traceback (most recent call last):",
        '[rank0]:   File "/a.py", line 2, in f',
        "[rank0]:     boom()",
        "[rank0]: ValueError: zero",
    ]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exception groups came with Python 3.11")
def test_a_group_is_whole() -> None:
    printed = crash("raise ExceptionGroup('both', [ValueError(1), KeyError(2)])")
    assert tail.last_traceback(printed) == printed.splitlines()


def test_a_script_that_does_not_compile_has_no_head(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = (\n")
    done = subprocess.run([sys.executable, tmp_path / "a.py"], capture_output=True, text=True, check=False)
    found = tail.last_traceback("words\n" + done.stderr)
    assert found[0].startswith('  File "')
    assert found[-1].startswith("SyntaxError:")


@pytest.mark.parametrize("printed", ["", "step 1\nstep 2\n", "SomeError: but no place\n", "\n\n\n", "\x00\xff\n"])
def test_without_one_there_is_none(printed: str) -> None:
    assert tail.last_traceback(printed) == []


def test_an_endless_one_is_cut_in_front() -> None:
    frames = [f'  File "/a.py", line {number}, in f' for number in range(5000)]
    found = tail.last_traceback("\n".join(["Traceback (most recent call last):", *frames, "ValueError: x"]))
    assert len("\n".join(found)) <= 17 * 1024


def test_the_end_of_a_file_begins_with_a_line(log: int) -> None:
    os.write(log, b"a" * 100 + b"\nline\nlast")
    assert tail.read_end(log, 12) == "line\nlast"
    assert tail.read_end(log, 1000).startswith("aaa")
