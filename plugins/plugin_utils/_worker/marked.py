# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which processes here belong to a run of ours, whatever project it is of.

A run's environment names it, and children inherit that. Some programs write over theirs (to change their title), so a
process without the mark belongs where its parents do, up to the run's supervisor, which is known by its command line.
"""

from __future__ import annotations

import os
import re

_MARK = re.compile(rb"(?:^|\0)TRAINOPS_RUN_ID=(r[0-9]+)(?=\0|$)")
_DEVICES = re.compile(rb"(?:^|\0)CUDA_VISIBLE_DEVICES=([0-9,]*)(?=\0|$)")
_SUPERVISOR = re.compile(rb"/\.trainops/[^/\0]+/runs/(r[0-9]+)(?:/supervisor\.py)?(?=\0|$)")
_MOST = 1 << 20


def marks(proc: str = "/proc") -> tuple[dict[str, str], dict[str, list[int]]]:
    """The run of each process that belongs to one, by its PID as text (for JSON), and the GPUs given to each run.

    These are numbers as the container counts its GPUs, of runs whose first process lives: it opens them seconds after
    it was started, once its libraries are loaded, and others must not be told before that they were free.
    """
    parents: dict[int, int] = {}
    own: dict[int, str] = {}
    devices: dict[int, list[int]] = {}
    supervisors: set[int] = set()
    for name in os.listdir(proc):
        if name.isdigit():
            pid, folder = int(name), "%s/%s" % (proc, name)
            parents[pid] = _parent(_bytes(folder + "/stat"))
            environment = _bytes(folder + "/environ")
            mark = _MARK.search(environment)
            if mark:
                given = _DEVICES.search(environment)
                devices[pid] = [int(word) for word in (given.group(1) if given else b"").split(b",") if word.isdigit()]
            else:
                mark = _supervised(_bytes(folder + "/cmdline").split(b"\0"))
                supervisors.update({pid} if mark else ())
            if mark:
                own[pid] = mark.group(1).decode("ascii")
    runs = {str(pid): run for pid in (parents if own else ()) for run in [_inherited(pid, parents, own)] if run}
    given_to: dict[str, list[int]] = {}
    for pid, numbers in devices.items():
        if parents[pid] in supervisors:
            given_to[own[pid]] = sorted({*given_to.get(own[pid], []), *numbers})
    return runs, given_to


def _supervised(words: list[bytes]) -> re.Match[bytes] | None:
    """The run that a command line supervises: only what Python was told to run, no editor that shows the file."""
    if len(words) > 1 and b"supervisor.py" in b"\0".join(words[1:4]) and b"python" in os.path.basename(words[0]):
        return _SUPERVISOR.search(b"\0".join(words[1:]))
    return None


def _inherited(pid: int, parents: dict[int, int], own: dict[int, str]) -> str | None:
    seen = set()
    while pid in parents and pid not in seen:
        if pid in own:
            return own[pid]
        seen.add(pid)
        pid = parents[pid]
    return None


def _parent(stat: bytes) -> int:
    fields = stat.rpartition(b")")[2].split()
    return int(fields[1]) if len(fields) > 1 else 0


def _bytes(path: str) -> bytes:
    """A file of /proc; empty when the process is gone or not ours to read."""
    try:
        with open(path, "rb") as stream:
            return stream.read(_MOST)
    except OSError:
        return b""
