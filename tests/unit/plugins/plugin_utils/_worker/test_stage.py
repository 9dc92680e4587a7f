# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A file counts as written when what was read back is what was wanted, read beside the writing or after it."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker import stage
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.scratch import Scratch
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.store import open_store
from hypothesis import given
from hypothesis import strategies as st

DATA = os.urandom(1 << 20) * 20 + b"the end"


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[stage.Tree]:
    with open_store(str(tmp_path), "demo", create=True) as store, Scratch(store) as scratch:
        made = stage.Tree(scratch, "tree")
        yield made
        os.close(made.fd)


def wanted(data: bytes) -> dict[str, Any]:
    return {"type": "file", "mode": 0o644, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def pieces(data: bytes, size: int = 300_000) -> Iterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


def test_a_large_file_is_proven_piece_by_piece(tree: stage.Tree) -> None:
    received: list[int] = []
    proven: list[int] = []
    assert tree.add_file("a", wanted(DATA), stage.writer(pieces(DATA), received.append), proven.append)
    assert sum(received) == sum(proven) == len(DATA)
    with open(os.open("a", os.O_RDONLY, dir_fd=tree.fd), "rb") as stream:
        assert stream.read() == DATA
    copied: list[int] = []
    assert tree.add_file("b", wanted(DATA), stage.copier(tree.fd, "a"), copied.append)
    assert sum(copied) == len(DATA)


@pytest.mark.parametrize(
    "data",
    [DATA[:-1], DATA + b"more", DATA[:9_000_000] + b"x" + DATA[9_000_001:], b""],
    ids=["less", "more", "another byte", "nothing"],
)
def test_a_large_file_that_is_another_one_does_not_stay(tree: stage.Tree, data: bytes) -> None:
    assert not tree.add_file("a", wanted(DATA), stage.writer(pieces(data), stage.unheard))
    assert os.listdir(tree.fd) == []


@pytest.mark.parametrize("at", [0, 5])
def test_nobody_reads_on_when_writing_fails(tree: stage.Tree, at: int) -> None:
    def broken() -> Iterator[bytes]:
        for number, piece in enumerate(pieces(DATA)):
            if number == at:
                raise OSError(28, "No space left on device")
            yield piece

    threads = threading.active_count()
    with pytest.raises(OSError, match="No space left"):
        tree.add_file("a", wanted(DATA), stage.writer(broken(), stage.unheard))
    assert threading.active_count() <= threads


def test_what_keeps_it_from_being_read_is_the_error(tree: stage.Tree) -> None:
    def fill(fd: int, more: Callable[[], None]) -> None:
        os.write(fd, DATA)
        more()

    def full(_count: int) -> None:
        raise OSError(5, "Input/output error")

    with pytest.raises(OSError, match="Input/output"):
        tree.add_file("a", wanted(DATA), fill, full)


@given(st.lists(st.tuples(st.binary(max_size=40), st.booleans()), max_size=30))
def test_reading_beside_the_writing_finds_what_reading_after_it_finds(written: list[tuple[bytes, bool]]) -> None:
    def fill(fd: int, more: Callable[[], None]) -> None:
        for data, told in written:
            os.write(fd, data)
            if told:
                more()

    fd = os.memfd_create("of-a-test")
    try:
        found = stage.beside(fd, fill, stage.unheard)
        assert found == stage.digest(fd)
        assert found[0] == sum(len(data) for data, _told in written)
    finally:
        os.close(fd)
