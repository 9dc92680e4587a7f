# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The activations of a project: one line of JSON for each time that a release went live, only ever appended to.

A line is written before the rename that makes it true. When a run ended between the two, the next one settles it.
"""

from __future__ import annotations

import json
import os

from .control import open_control
from .store import Store, live_id, now, write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def activations(store: Store) -> list[dict[str, Any]]:
    """The activations of a project, oldest first, without those that never took effect.

    ``proved`` in a record says that it took effect for certain: it was noted after the rename.
    """
    lines = _lines(store)
    void = [line["void"] for line in lines if "void" in line]
    proved = [line["proved"] for line in lines if "proved" in line]
    return [
        {**line, "proved": line["activation"] in proved}
        for line in lines
        if "activation" in line and line["activation"] not in void and isinstance(line.get("release"), str)
    ]


def _lines(store: Store) -> list[dict[str, Any]]:
    if store.home_fd < 0:
        return []
    try:
        fd = open_control(store.home_fd, "activations", store.path("activations"))
    except FileNotFoundError:
        return []
    with open(fd, encoding="utf-8", errors="replace") as stream:
        lines = stream.read().split("\n")
    records = []
    for line in lines:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):  # the torn end of a write that was cut off, or nothing of ours
            continue
        if isinstance(record, dict) and isinstance(record.get("activation", 0), int):
            records.append(record)
    return records


def next_number(store: Store) -> int:
    """The number of the next activation; numbers are never used twice."""
    return 1 + max((record.get("activation", 0) for record in _lines(store)), default=0)


def append(store: Store, record: dict[str, Any], lasting: bool = True) -> None:
    """Add one line to the activations, on disk when this returns (unless it need not be ``lasting``)."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
    fd = open_control(store.home_fd, "activations", store.path("activations"), flags)
    try:
        size = os.fstat(fd).st_size
        torn = size and os.pread(fd, 1, size - 1) != b"\n"
        line = json.dumps(record, separators=(",", ":")) + "\n"
        write_all(fd, ("\n" * bool(torn) + line).encode("ascii"))
        if lasting:
            os.fsync(fd)
    finally:
        os.close(fd)


def record(store: Store, release: str, before: str | None, who: dict[str, Any]) -> int:
    """Append the activation of a release that is to be live instead of ``before``; returns its number."""
    number = next_number(store)
    append(store, {"activation": number, "release": release, "from": before, "time": now(), **who})
    return number


def settled(store: Store) -> tuple[list[dict[str, Any]], int]:
    """The activations as :func:`settle` leaves them, and the number of the next one; nothing is written."""
    records, number, live = activations(store), next_number(store), live_id(store)
    change = _unsettled(records, live)
    if change == "void":
        return records[:-1], number
    if change == "found":
        return [*records, {"activation": number, "release": live, "kind": "found", "proved": False}], number + 1
    return records, number


def settle(store: Store) -> None:
    """Bring the activations in line with what is live, after a run that ended between the two. Needs the lock."""
    records, live = activations(store), live_id(store)
    change = _unsettled(records, live)
    if change == "void":
        append(store, {"void": records[-1]["activation"], "time": now()})
    elif change == "found":
        record(store, live or "", records[-1]["release"] if records else None, {"kind": "found"})


def _unsettled(records: list[dict[str, Any]], live: str | None) -> str:
    """What brings the activations in line: "void" strikes the last one, "found" adds what is live, "" nothing."""
    last = records[-1] if records else {"release": None, "proved": True}
    if live == last["release"]:
        return ""
    if last.get("from") == live and not last["proved"]:
        return "void"
    return "found" if live else ""
