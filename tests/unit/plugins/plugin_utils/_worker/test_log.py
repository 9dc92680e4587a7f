# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A growing log, read on a clock of its own: every line once, whatever the batches."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker import log as logs
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.log import HOLD_SECONDS, PIECE, Budget, Log


class Writer:
    """A file that a run writes and a follower reads."""

    def __init__(self, path: Path) -> None:
        self.out = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.fd = os.open(path, os.O_RDONLY)

    def write(self, data: bytes) -> None:
        os.write(self.out, data)

    def close(self) -> None:
        os.close(self.out)
        os.close(self.fd)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Writer]:
    writer = Writer(tmp_path / "log")
    yield writer
    writer.close()


def everything(log: Log, now: float = 0.0, final: bool = True) -> list[str]:
    lines: list[str] = []
    while True:
        batch = log.read(now, final)
        if batch:
            lines += batch.lines
        elif log.unread() <= 0:
            return lines


def test_lines_come_when_they_are_whole(file: Writer) -> None:
    log = Log(file.fd, 0, 0.0)
    file.write(b"one\ntw")
    first = log.read(0.0, final=False)
    assert first is not None
    assert (first.lines, first.end) == (["one"], 4)
    assert log.read(0.1, final=False) is None
    file.write(b"o\n")
    second = log.read(0.2, final=False)
    assert second is not None
    assert (second.lines, second.end, second.skipped) == (["two"], 8, 0)


@pytest.mark.parametrize("seed", range(20))
def test_no_line_is_lost_or_doubled_wherever_it_is_taken_up_again(file: Writer, seed: int) -> None:
    chance = random.Random(seed)
    wanted, got, offset = [f"line {number} ü€" * chance.randint(0, 9) for number in range(200)], [], 0
    left = "".join(f"{line}\n" for line in wanted).encode()
    while left or offset < os.fstat(file.fd).st_size:
        log = Log(file.fd, offset, 0.0)  # a new follower, as after a lost connection
        for _read in range(chance.randint(1, 4)):
            count = chance.randint(0, 300)
            file.write(left[:count])
            left = left[count:]
            batch = log.read(0.0, final=False)
            if batch:
                got += batch.lines
                offset = batch.end
    assert got == wanted


def test_a_progress_bar_is_shown_now_and_then_as_it_stands(file: Writer) -> None:
    log = Log(file.fd, 0, 0.0)
    shown = []
    for tick in range(260):
        file.write(b"step %d loss 1\r" % tick)
        batch = log.read(tick / 10, final=False)
        assert batch is not None or log.fresh == "step %d loss 1" % tick
        shown += batch.lines if batch else []
    assert shown == ["step 99 loss 1", "step 199 loss 1"]
    file.write(b"\ndone\n")
    assert everything(log, 26.0) == ["step 259 loss 1", "done"]


def test_words_without_an_end_are_shown_when_nothing_follows(file: Writer) -> None:
    log = Log(file.fd, 0, 0.0)
    file.write(b"Loading ...")
    assert log.read(1.0, final=False) is None
    assert log.read(HOLD_SECONDS, final=False) is None
    batch = log.read(1.0 + HOLD_SECONDS, final=False)
    assert batch is not None
    assert batch.lines == ["Loading ..."]
    assert log.read(99.0, final=True) is None


def test_the_last_words_of_a_run_are_a_line(file: Writer) -> None:
    file.write(b"one\nlast words")
    assert everything(Log(file.fd, 0, 0.0)) == ["one", "last words"]


def test_a_line_without_end_comes_in_pieces_of_whole_characters(file: Writer) -> None:
    text = "€" * 100_000
    file.write(text.encode())
    log = Log(file.fd, 0, 0.0)
    pieces = []
    while batch := log.read(0.0, final=False):
        pieces += batch.lines
    assert all(len(piece.encode()) <= 2 * PIECE for piece in pieces)
    assert "".join([*pieces, *everything(log)]) == text


def test_a_log_that_was_emptied_is_read_from_its_beginning(file: Writer) -> None:
    file.write(b"one\ntwo\n")
    log = Log(file.fd, 0, 0.0)
    assert everything(log) == ["one", "two"]
    os.ftruncate(file.out, 0)
    file.write(b"new\n")
    assert everything(log) == ["new"]


@pytest.mark.parametrize("keep", [10, 11, 12, 13, 100])
def test_a_skip_goes_on_at_the_beginning_of_a_line(file: Writer, keep: int) -> None:
    file.write(b"".join(b"line %d\n" % number for number in range(10)))
    log = Log(file.fd, 7, 0.0)
    skipped = log.skip(keep)
    lines = everything(log)
    assert lines == ["line %d" % number for number in range(10 - len(lines), 10)]
    assert 7 + skipped + 7 * len(lines) == 70


def test_a_flood_is_held_to_its_budget() -> None:
    budget = Budget(0.0)
    burst = logs.BURST_BYTES // PIECE
    assert [budget.spend(PIECE, 0.0) for _piece in range(burst + 1)] == [True] * burst + [False]
    assert not budget.spend(PIECE, 0.1)
    assert budget.spend(PIECE, 0.5)
    assert [budget.spend(PIECE, 1e6) for _piece in range(burst + 1)] == [True] * burst + [False]
