#!/usr/bin/python3 -IS
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Hold memory on the lab's GPUs as a CUDA process does, until killed.

It is installed as /usr/bin/hold on the nodes and in the containers of the lab: one file, standard library only, Python
3.9 and newer. It opens /dev/nvidiactl, /dev/nvidia-uvm and the GPUs' device files, maps the latter as CUDA alone does,
and locks N bytes of each for N MiB; nvidia_smi.py reads those locks. Holders of one GPU add up, and like a card it
gives no more than it has.

TRAINOPS_LAB_GPUS and TRAINOPS_LAB_DEV mean what they mean in nvidia_smi.py.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import mmap
import os
import signal
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, NoReturn

FLOCK = "hhqqi4x"  # struct flock of 64-bit Linux: type, whence, start, length, pid
RESERVED_MIB = 615  # what the driver keeps of each card for itself
MAPPED: list[mmap.mmap] = []  # kept for the life of the process


class HoldError(Exception):
    """Why nothing is held, in words for the person who asked."""


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="hold", description="Hold memory on GPUs as a CUDA process does.")
    parser.add_argument("--gpu", type=int, action="append", required=True, metavar="N", help="index; may be repeated")
    memory = parser.add_mutually_exclusive_group(required=True)
    memory.add_argument("--mib", type=int, help="memory to hold on each of them")
    memory.add_argument("--no-memory", action="store_true", help="a job in its first seconds: open files, no memory")
    options = parser.parse_args(argv)
    if options.mib is not None and options.mib < 1:
        parser.error("--mib must be 1 or more; for a job without memory say --no-memory")
    return options


def read_gpus(table: str) -> dict[int, dict[str, Any]]:
    """The table of GPUs by index."""
    try:
        with open(table, encoding="utf-8") as stream:
            return {gpu["index"]: gpu for gpu in json.load(stream)}
    except FileNotFoundError:
        raise HoldError(f"{table} is missing: this machine has no GPU of the lab") from None


def open_device(path: str) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise HoldError(f"cannot open {path}: {error.strerror}") from None


def foreign_ranges(descriptor: int) -> Iterator[tuple[int, int]]:
    """Start and length of every range that another process has locked, in no order."""
    open_ranges = [(0, 0)]
    while open_ranges:
        start, length = open_ranges.pop()
        query = struct.pack(FLOCK, fcntl.F_WRLCK, os.SEEK_SET, start, length, 0)
        kind, _, at, size, _ = struct.unpack(FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, query))
        if kind == fcntl.F_UNLCK:
            continue
        yield at, size
        if at > start:
            open_ranges.append((start, at - start))
        end = start + length
        if size and (not length or at + size < end):
            open_ranges.append((at + size, end - (at + size) if length else 0))


def first_gap(ranges: list[tuple[int, int]], length: int) -> int:
    """The lowest start of `length` bytes that none of the ranges touches."""
    start = 0
    for at, size in sorted(ranges):
        if at - start >= length:
            break
        start = at + size
    return start


def allocate(descriptor: int, gpu: dict[str, Any], mib: int) -> None:
    """Lock `mib` free bytes of the device file.

    :raises HoldError: when the card has not so much left.
    """
    while True:
        ranges = list(foreign_ranges(descriptor))
        left = gpu["memory_total_mib"] - RESERVED_MIB - gpu.get("baseline_mib", 0) - sum(size for _, size in ranges)
        if mib > left:
            raise HoldError(f"out of memory: GPU {gpu['index']} has {left} MiB left, {mib} MiB were asked for")
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, mib, first_gap(ranges, mib))
        except BlockingIOError:
            continue  # another holder took the same gap between the look and the lock
        return


def map_device(descriptor: int) -> mmap.mmap:
    """What tells a process that has initialised CUDA from one that only watches the GPU."""
    if os.fstat(descriptor).st_size < mmap.PAGESIZE:
        os.ftruncate(descriptor, mmap.PAGESIZE)
    return mmap.mmap(descriptor, mmap.PAGESIZE)


def hold(options: argparse.Namespace, table: str, dev: str) -> str:
    """Take what was asked for; the line that says so. All stays held until the process ends."""
    gpus = read_gpus(table)
    for index in options.gpu:
        if index not in gpus:
            known = ", ".join(map(str, sorted(gpus))) or "none"
            raise HoldError(f"no GPU {index} here: {table} has {known}")
    for name in ("nvidiactl", "nvidia-uvm"):
        open_device(os.path.join(dev, name))
    for index in dict.fromkeys(options.gpu):
        descriptor = open_device(os.path.join(dev, f"nvidia{gpus[index]['minor']}"))
        MAPPED.append(map_device(descriptor))
        if not options.no_memory:
            allocate(descriptor, gpus[index], options.mib)
    memory = "no memory" if options.no_memory else f"{options.mib} MiB"
    return f"holding {memory} on GPU {', '.join(map(str, dict.fromkeys(options.gpu)))} as process {os.getpid()}"


def main() -> NoReturn:
    options = parse(sys.argv[1:])
    table = os.environ.get("TRAINOPS_LAB_GPUS", "/etc/trainops-lab/gpus.json")
    try:
        line = hold(options, table, os.environ.get("TRAINOPS_LAB_DEV", "/dev"))
    except HoldError as error:
        sys.exit(f"hold: {error}")
    print(line, flush=True)
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
