# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading what an ended process wrote while another keeps its stream open."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from collections.abc import Iterator
from typing import IO

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils.pipes import Drain


@contextlib.contextmanager
def pipe() -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    reader, writer = os.pipe()
    with open(reader, "rb") as stream, open(writer, "wb", buffering=0) as end:
        yield stream, end


def test_all_is_there_though_another_process_keeps_the_stream_open() -> None:
    with pipe() as (stream, end):
        with Drain(stream) as drain:
            subprocess.run(["/bin/sh", "-c", "printf '%0100000d' 7 >&2"], stderr=end, check=True)
        assert drain.data == b"0" * 99999 + b"7"


def test_no_more_than_the_limit_is_kept() -> None:
    with pipe() as (stream, end):
        with Drain(stream, limit=10) as drain:
            end.write(b"x" * 1000)
        assert drain.data == b"x" * 10


def test_nothing_reads_on_and_nothing_stays_open_when_the_work_fails() -> None:
    with pipe() as (stream, end):
        before, threads = sorted(os.listdir("/proc/self/fd")), threading.active_count()
        with pytest.raises(ValueError, match="of the work"), Drain(stream) as drain:
            end.write(b"said")
            raise ValueError("of the work")
        assert drain.data == b"said"
        assert (sorted(os.listdir("/proc/self/fd")), threading.active_count()) == (before, threads)
