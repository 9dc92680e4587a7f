# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a run ended, as sentences: from its records and what it printed. Pure."""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_text import age
from ansible_collections.trainops.proxmox.plugins.plugin_utils.visible import one_line

_PLACE = re.compile(r'File "(?P<path>[^"]+)", line (?P<line>\d+)')
_EXCEPTION = re.compile(r"(?:[\w]+\.)*(?P<name>[A-Za-z_]\w*)(?::\s*(?P<text>.*))?$")
_PREFIX = re.compile(r"^\[rank\d+\]:\s?|^[\s|+-]*[|+]\s")
_LONGEST = 160
_SHELL = 128  # a shell's status for a program that a signal ended is this and the signal's number


def last_exception(traceback: Sequence[str]) -> str:
    """The line of a traceback that names the exception, such as ``RuntimeError: shape mismatch``; "" without one."""
    return next((_bare(line) for line in _unindented(traceback)), "")


def exception_name(traceback: Sequence[str]) -> str:
    """The class of a traceback's exception without its module, such as ``OutOfMemoryError``."""
    match = _EXCEPTION.match(last_exception(traceback))
    return match["name"] if match else ""


def _unindented(traceback: Sequence[str]) -> list[str]:
    """The lines behind the last frame that are not indented: the exception, and what its message goes on with."""
    found: list[str] = []
    for line in traceback:
        bare = _PREFIX.sub("", line)
        if bare.startswith((" ", "Traceback (", "Exception Group Traceback")):
            found = []
        elif bare.strip():
            found.append(bare)
    return found


def _bare(line: str) -> str:
    text = " ".join(line.split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def place(traceback: Sequence[str], release: str) -> str:
    """Where it was raised, such as ``dflash_model.py:212``: the last frame in the release, otherwise the last of all.

    ``release`` is the id of the release, which is the name of its folder.
    """
    frames = [(match["path"], match["line"]) for line in traceback if (match := _PLACE.search(line))]
    own = [(path, line) for path, line in frames if f"/releases/{release}/" in path]
    if not frames:
        return ""
    path, line = (own or frames)[-1]
    return f"{path.partition(f'/releases/{release}/')[2] or path}:{line}"


def signal_name(number: int) -> str:
    """``SIGKILL`` for 9."""
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"


def signal_of(end: Mapping[str, Any] | None) -> int | None:
    """The signal that ended a run, also one that a shell around it reports as its exit code."""
    if end is None:
        return None
    code = end.get("exit_code")
    if end.get("signal"):
        return int(end["signal"])
    known = set(map(int, signal.Signals))
    return code - _SHELL if isinstance(code, int) and code > _SHELL and code - _SHELL in known else None


def ended_well(state: str, end: Mapping[str, Any] | None) -> bool:
    """Whether a run that is over did what it should: exit code 0, or it was asked to stop."""
    return state == "ended" and end is not None and (end.get("exit_code") == 0 or bool(end.get("stopped_by")))


def span(seconds: float) -> str:
    """A run's time: seconds up to ten minutes, since a start-up is counted in them."""
    return f"{seconds:.0f} s" if seconds < 600 else age(int(seconds))


def record_ending(record: Mapping[str, Any], traceback: Sequence[str]) -> str:
    """The line of :func:`ending` for a run as the worker tells it: one, whatever is in its records."""
    why = str(record.get("why") or "")
    text = ending(record["run"], record["state"], record["exit"], traceback, str(record.get("release")), why)
    return one_line(text)


def ending(
    run: str, state: str, end: Mapping[str, Any] | None, traceback: Sequence[str], release: str, why: str = ""
) -> str:
    """One line: ``r1 died after 231 s, exit 1: RuntimeError: shape mismatch dflash_model.py:212``.

    ``why`` is what is known of a lost run.
    """
    if state in ("starting", "running"):
        return f"{run} is {state}"
    if state == "lost" or end is None:
        return f"{run} is lost: {why or 'nobody saw how it ended'}"
    after = "" if end.get("seconds") is None else f" after {span(float(end['seconds']))}"
    if end.get("how") == "not-started":
        return f"{run} did not start: {end.get('note') or 'its program could not be run'}"
    if end.get("stopped_by"):
        return f"{run} was stopped{after}, by {end['stopped_by']}, {status(end)}"
    if end.get("exit_code") == 0:
        return f"{run} ended{after}, exit 0"
    memory = ", out of memory" if end.get("out_of_memory") else ""
    text = f"{run} died{after}, {status(end)}{memory}"
    exception = last_exception(traceback)
    return f"{text}: {exception} {place(traceback, release)}".rstrip() if exception else text


def status(end: Mapping[str, Any]) -> str:
    """``exit 1``, or ``killed by SIGKILL``."""
    if end.get("signal"):
        return f"killed by {signal_name(int(end['signal']))}"
    code = end.get("exit_code")
    return "exit status unknown" if code is None else f"exit {code}"


def seconds_of(text: Any) -> float | None:
    """A time as the records write it, as seconds since 1970; None for anything else."""
    try:
        when = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        return None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
