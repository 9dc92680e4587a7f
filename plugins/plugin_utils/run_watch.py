# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Following a run over connections that come and go. Pure, but for the functions that are handed in."""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.follow import ANY, compiled_sign
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.store import short_id
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.values import compiled
from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import OptionError, StepError
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_select import ranges
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_wait import Clock
from ansible_collections.trainops.proxmox.plugins.plugin_utils.lines import size
from ansible_collections.trainops.proxmox.plugins.plugin_utils.run_ending import ended_well, record_ending, span
from ansible_collections.trainops.proxmox.plugins.plugin_utils.visible import one_line, visible

# One remote command; the next one goes on where it ended. A node has few sessions at a time: whoever follows lets
# others in between, and they wait no longer than this.
LEG_SECONDS = 20.0
MARGIN_SECONDS = 60.0
# How long a connection may be away until the follower gives up. The run goes on in any case.
PATIENCE_SECONDS = 600.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 15.0
_ALIVE = ("starting", "running")
_REMEMBERED = 400  # lines: more than a traceback has

Frames = Callable[[dict[str, Any]], None]
# Runs one exchange: the parameters of the operation ``follow`` and a receiver of its frames; returns its result.
Ask = Callable[[dict[str, Any], Frames], dict[str, Any]]


@dataclass(frozen=True)
class Wish:
    """What to follow and until when; the options of the module, checked.

    ``seconds`` bounds the wait for ``until``; None: as long as the run.
    """

    params: dict[str, Any]
    seconds: float | None


@dataclass
class Screen:
    """Where to show things: lines of the log as they come, and notes of our own."""

    lines: Callable[[Sequence[str]], None]
    note: Callable[[str], None]


@dataclass
class Watched:
    """What is known of the run, over all exchanges."""

    run: str | None = None
    offset: int | None = None
    found: dict[str, Any] = field(default_factory=dict)
    connected: bool = False
    shown: deque[str] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))


def wish(options: Mapping[str, Any]) -> Wish:
    """The options of a watch. Raises OptionError for what the worker could not use."""
    until = {key: value for key, value in (options.get("until") or {}).items() if value is not None}
    try:
        compiled(options.get("values"))
    except ValueError as error:
        raise OptionError(f"option values: {error}") from error
    try:
        compiled_sign(until.get("log"))
    except ValueError as error:
        raise OptionError(f"option until, log: {error}") from error
    seconds = options.get("until_timeout")
    if until and seconds is not None and not 0 <= seconds < math.inf:
        raise OptionError(f"option until_timeout: {seconds:g} cannot be, it must be a number, and 0 for no limit")
    names = {name for pattern in compiled(options.get("values")) for name in pattern.names}
    if "value" in until and until["value"] not in names | {ANY}:
        raise OptionError(
            f"option until, value: no pattern of option values has a group {until['value']!r}; "
            f"there are: {', '.join(sorted(names))}"
        )
    params = {
        "root": os.path.normpath(options["root"]),
        "name": options.get("name"),
        "run": options.get("run"),
        # A sign may be in the log already.
        "offset": 0 if until and options.get("offset") is None else options.get("offset"),
        "lines": options.get("lines") or 0,
        "follow": bool(options.get("follow", True)),
        "until": until or None,
        "patterns": options.get("values"),
        "stall_seconds": float(options.get("stall_seconds") or 300.0),
        "nvidia_smi": options["nvidia_smi"],
        "nvidia_smi_timeout": float(options["nvidia_smi_timeout"]),
    }
    return Wish(params, (seconds or None) if until else None)


def watch(ask: Ask, wanted: Wish, screen: Screen, clock: Clock) -> dict[str, Any]:
    """Follow until the sign that was asked for, the end of the run, or the end of the time for it.

    A connection that is lost is made again, and the log is read on from the byte behind the last line that was shown.
    Returns the worker's last result, with ``timed_out``, and with ``seen``: whether its last words were shown. Raises
    AnsibleConnectionFailure when the first connection fails, or when none could be made for PATIENCE_SECONDS.
    """
    known = Watched(offset=wanted.params["offset"])
    deadline = None if wanted.seconds is None else clock.now() + wanted.seconds
    receive = _receiver(known, screen, bool(wanted.params["follow"] and not wanted.params["run"]))
    lost_at, pause = clock.now(), 0.0
    while True:
        left = LEG_SECONDS if deadline is None else min(LEG_SECONDS, deadline - clock.now())
        mine = {"run": known.run or wanted.params["run"], "offset": known.offset, "seconds": max(left, 0.0)}
        try:
            result = ask({**wanted.params, **mine}, receive)
        except AnsibleConnectionFailure:
            now = clock.now()
            if known.connected:
                known.connected, lost_at, pause = False, now, 0.0
                screen.note(f"the connection is lost, {known.run} goes on; connecting again")
            if known.run is None or now - lost_at > PATIENCE_SECONDS or (deadline is not None and now > deadline):
                raise
            pause = min(max(2 * pause, _FIRST_PAUSE), _LONGEST_PAUSE)
            clock.sleep(pause)
            continue
        known.offset = result["offset"]
        known.found.update(result["found"])
        over = deadline is not None and clock.now() >= deadline
        if not result["more"] or over:
            more = {"found": known.found, "timed_out": bool(result["more"] and over)}
            seen = set(known.shown).issuperset(result["traceback"]) if result["traceback"] else bool(known.shown)
            return {**result, **more, "seen": seen}


def _receiver(known: Watched, screen: Screen, unnamed: bool) -> Frames:
    """Takes the frames of every exchange in turn; what was shown counts as shown even if the connection breaks next.

    ``unnamed``: nobody said which run is followed, so that is said first.
    """

    def receive(frame: dict[str, Any]) -> None:
        kind = frame["kind"]
        if kind == "run":
            if known.run is not None and not known.connected:
                screen.note("connected again")
            elif known.run is None and unnamed:
                screen.note(f"the log of {frame['record']['run']}")
            known.run, known.connected = frame["record"]["run"], True
            if known.offset is None:
                known.offset = frame["offset"]
        elif kind == "lines":
            if frame["skipped"]:
                screen.note(skipped(frame["skipped"]))
            lines = [str(line) for line in frame["lines"]]
            if screen.lines is not hide:
                known.shown.extend(lines)
            screen.lines(lines)
            known.offset = int(frame["offset"])
        elif kind == "values":
            known.found.update(frame["found"])
        elif kind == "stall":
            screen.note(stalled(str(known.run), frame["seconds"], frame["gpus"]))

    return receive


def skipped(count: int) -> str:
    """What stands for lines that were left out."""
    return f"{size(count)} are not shown, the run prints faster than can be shown; its log has all of it"


def stalled(run: str, seconds: float, gpus: int) -> str:
    """The report of a stall."""
    what = "its GPU does" if gpus == 1 else f"its {gpus} GPUs do"
    return f"{run} seems stalled: it has printed nothing for {span(seconds)}, and {what} nothing"


def watched(wanted: Wish, result: Mapping[str, Any]) -> dict[str, Any]:
    """The step's result. Raises StepError, with the same values, when the run died or the sign did not come."""
    record, until = result["record"], wanted.params["until"]
    end, run, state = record["exit"], str(record["run"]), str(record["state"])
    traceback = [str(line) for line in result["traceback"]]
    values = {
        **known_of(record),
        "found": result["found"],
        "reached": bool(result["reached"]),
        "offset": result["offset"],
        "traceback": traceback,
        "stalled": bool(result["stalled"]),
    }
    over = state not in _ALIVE
    summary = record_ending(record, traceback) if over else _alive(record, result)
    if over:
        missed = bool(until) and not result["reached"]
        if missed and ended_well(state, end):
            summary += f", before {told(until)}"
        # A short run may be done before any sign. A sign that came before it died does not make a dead run a good one.
        short = missed and ended_well(state, end) and not (end or {}).get("stopped_by")
        if (missed and not short) or ((until or wanted.params["follow"]) and not ended_well(state, end)):
            lines = traceback or [str(line) for line in (end or {}).get("last_lines") or []][-15:]
            told_ones = [] if result["seen"] else [visible(one_line(line)) for line in lines]
            fix = f"more: trainops why {run}"
            raise StepError("run-ended", "\n".join([summary, *told_ones, fix]), values)
    if result["timed_out"]:
        text = f"{run} runs, and {told(until or {})} did not come within {wanted.seconds:g} s. It goes on"
        raise StepError("until-timeout", f"{text}: see its log, or give it more time (option until_timeout)", values)
    return {**values, "summary": summary, "msg": summary}


def known_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """What every result about one run has, from the record as the worker tells it."""
    alive = record["state"] in _ALIVE
    return {
        "run": record["run"],
        "name": record["project"],
        "state": record["state"],
        "release_id": record.get("release"),
        "pid": (record.get("process") or {}).get("pid") if alive else None,
        "log": record["log"],
        "gpus": record.get("gpus") or [],
        "started": record.get("started"),
        "exit": record["exit"],
    }


def _alive(record: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    """``r1 of 7c1e09a runs on GPUs 0-7: step 12 loss 3.4``."""
    run, release = record["run"], short_id(str(record.get("release")))
    text = f"{run} of {release} {'runs' if record['state'] == 'running' else 'is starting'}"
    indexes = [gpu["index"] for gpu in record.get("gpus") or []]
    if indexes:
        text += f" on GPU{'s' if len(indexes) > 1 else ''} {ranges(indexes)}"
    figures = value_text(result["found"])
    if result["stalled"]:
        return stalled(run, result["silent_s"], len(indexes))
    return f"{text}: {figures}" if figures else text


def hide(_lines: Sequence[str]) -> None:
    """Show nothing of a log."""


def value_text(found: Mapping[str, Any]) -> str:
    """``step 12 loss 3.4 tokens/s 1200``."""
    names = {"tokens_per_s": "tokens/s"}
    return " ".join(f"{names.get(name, name)} {_figure(value)}" for name, value in found.items())


def _figure(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) and abs(value) < 10_000 else str(value)


def told(until: Mapping[str, Any]) -> str:
    """What is waited for, in words."""
    words = {
        "log": "a line that matches {!r}",
        "file": "the file {}",
        "value": "a value of {}" if until.get("value") != ANY else "any value",
        "gpu_memory_mib": "{} MiB of memory in use on each GPU",
        "gpu_utilization_percent": "{} % of use on each GPU",
    }
    return " or ".join(words[name].format(value) for name, value in until.items())
