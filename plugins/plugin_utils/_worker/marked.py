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
_SUPERVISOR = re.compile(rb"/\.trainops/[^/\0]+/runs/(r[0-9]+)(?:/supervisor\.py)?(?=\0|$)")
_MOST = 1 << 20


def runs_of_processes(proc: str = "/proc") -> dict[str, str]:
    """The run of each process that belongs to one, by its PID as text (for JSON)."""
    parents: dict[int, int] = {}
    own: dict[int, str] = {}
    for name in os.listdir(proc):
        if name.isdigit():
            pid = int(name)
            parents[pid] = _parent(_bytes("%s/%s/stat" % (proc, name)))
            mark = _mark("%s/%s" % (proc, name))
            if mark:
                own[pid] = mark
    found = {}
    for pid in parents if own else ():
        run = _inherited(pid, parents, own)
        if run:
            found[str(pid)] = run
    return found


def _mark(folder: str) -> str | None:
    match = _MARK.search(_bytes(folder + "/environ"))
    if match is None:
        words = _bytes(folder + "/cmdline").split(b"\0")
        # Only what Python was told to run, and no editor or pager that shows the file.
        if len(words) > 1 and b"supervisor.py" in b"\0".join(words[1:4]) and b"python" in os.path.basename(words[0]):
            match = _SUPERVISOR.search(b"\0".join(words[1:]))
    return match.group(1).decode("ascii") if match else None


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
