# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs as a table, of one host or of many. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.store import short_id
from ansible_collections.trainops.proxmox.plugins.plugin_utils.activation_table import activation_lines
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_select import ranges
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_text import age, cut
from ansible_collections.trainops.proxmox.plugins.plugin_utils.lines import size
from ansible_collections.trainops.proxmox.plugins.plugin_utils.run_ending import signal_name, span
from ansible_collections.trainops.proxmox.plugins.plugin_utils.visible import cell, one_line, visible

_GAP = "  "
_TITLES = {"tokens_per_s": "tokens/s"}
_ALIVE = ("starting", "running")
_OVER = 5  # of a project, unless more are asked for
_COLUMNS = 80
_BLANK = re.compile(r"(\d) (d|h|min|s)\b(?: (?=\d))?")


def summary(result: Mapping[str, Any]) -> str:
    """One line about a host: ``1 run alive, 2 over; live 7c1e09a``."""
    alive = sum(1 for run in result["runs"] if run["state"] in _ALIVE)
    over = len(result["runs"]) - alive
    text = f"{alive} {'run' if alive == 1 else 'runs'} alive, {over} over" if result["runs"] else "no run"
    if stalled := [run["run"] for run in result["runs"] if run["stalled"]]:
        text += f", {', '.join(stalled)} stalled"
    lives = [_live(project) for project in result["projects"]]
    return "; ".join([text, *lives])


def _live(project: Mapping[str, Any]) -> str:
    """``live 7c1e09a (3 activations), compile caches 1.2 GB``."""
    if project["live"] is None:
        return f"{project['name']}: nothing is live"
    times = len(project["activations"])
    text = (
        f"{project['name']}: live {short_id(project['live'])} ({times} {'activation' if times == 1 else 'activations'})"
    )
    caches = project["cache_bytes"]
    return text + (f", compile caches {size(caches)}" if caches else "")


def table(hosts: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """The runs of hosts (name, result) in at most 80 columns, a line each, and below what is live where.

    Of the runs that are over the last ones of each project. The name of a single host that is empty has no column.
    """
    runs = [(host, result, run) for host, result in hosts for run in _shown(result)]
    values = list(dict.fromkeys(name for _host, _result, run in runs for name in run["found"]))
    named = any(host for host, _result in hosts)
    head = [*(["host"] if named else []), "run", "state", "age", *(_TITLES.get(name, name) for name in values)]
    rows = [[*head, "GPUs", "release"]]
    for host, result, run in runs:
        texts = [_run(run, result), _state(run), _age(run), *(_figure(run["found"].get(name)) for name in values)]
        row = [*([host] if named else []), *texts, _gpus(run), _release(run, result)]
        rows.append(list(map(cell, row)))
    lines = _aligned(_fitted(rows)) if runs else []
    column = max((len(host) for host, _result in hosts), default=0)
    for host, result in hosts:
        begin = f"{host:<{column}}{_GAP if named else ''}"
        lines += [f"{begin}{line}" if told else f"{_GAP}{line}" for told, line in _beneath(result)]
    return "\n".join(visible(one_line(line)) for line in lines)


def _shown(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Every run that lives, and of those that are over the last ones of each project; the latest come first."""
    left = {str(project["name"]): _most(result) for project in result["projects"]}
    found = []
    for run in result["runs"]:
        if run["state"] not in _ALIVE and not run.get("left_behind"):
            name = str(run["project"])
            left[name] = left.get(name, _most(result)) - 1
            if left[name] < 0:
                continue
        found.append(run)
    return found


def _most(result: Mapping[str, Any]) -> int:
    return max(_OVER, int(result.get("history") or 0))


def _beneath(result: Mapping[str, Any]) -> Iterator[tuple[bool, str]]:
    """The lines about a host below the table, and whether its name comes before each."""
    if hidden := len(result["runs"]) - len(_shown(result)):
        yield True, f"… and {hidden} earlier {'run' if hidden == 1 else 'runs'} (--history {_most(result) + hidden})"
    first = "" if result["runs"] else "no run; "
    for project in result["projects"]:
        yield True, f"{first}{_live(project)}"
        for line in activation_lines(project, result["runs"], int(result.get("history") or 0)):
            yield False, line
        first = ""
    if not result["projects"]:
        yield True, f"{first}nothing of trainops is there"


def _fitted(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Rows that fit a terminal: spans without blanks where they do not, and then the widest cells cut."""
    found = [list(row) for row in rows]
    if _excess(found) > 0:
        found = [[_BLANK.sub(r"\1\2", text) for text in row] for row in found]
    while (excess := _excess(found)) > 0:
        widths = [max(map(len, column)) for column in zip(*found, strict=True)]
        widest = max(range(len(widths)), key=widths.__getitem__)
        second = max((width for at, width in enumerate(widths) if at != widest), default=0)
        width = max(min(widths[widest] - 1, second), widths[widest] - excess, 1)
        found = [[cut(text, width) if at == widest else text for at, text in enumerate(row)] for row in found]
    return found


def _excess(rows: Sequence[Sequence[str]]) -> int:
    return max(map(len, _aligned(rows))) - _COLUMNS


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [_GAP.join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _run(run: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    return f"{run['project']} {run['run']}" if len(result["projects"]) > 1 else str(run["run"])


def _state(run: Mapping[str, Any]) -> str:
    """``running``, ``exit 1 after 231 s``, ``lost``."""
    state, end = str(run["state"]), run["exit"]
    if state == "running":
        if run["stalled"]:
            return f"stalled for {span(float(run['log_age_s']))}"
        if run.get("stopping_by"):
            return "stopping"
        return "unsupervised" if run.get("unsupervised") else state
    if state != "ended" or end is None:
        return state
    if end["how"] == "not-started":
        return "not started"
    if end["stopped_by"]:
        word = "stopped"
    elif end["out_of_memory"]:
        word = "out of memory"
    elif end["signal"]:
        word = signal_name(int(end["signal"]))
    else:
        word = "exit unknown" if end["exit_code"] is None else f"exit {end['exit_code']}"
    text = word if end["seconds"] is None else f"{word} after {span(float(end['seconds']))}"
    return text + (", processes left" if run["left_behind"] else "")


def _age(run: Mapping[str, Any]) -> str:
    return "-" if run["age_s"] is None else age(int(run["age_s"]))


def _figure(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) and abs(value) < 10_000 else str(value)


def _gpus(run: Mapping[str, Any]) -> str:
    return ranges(int(gpu["index"]) for gpu in run.get("gpus") or []) or "none"


def _release(run: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    release = run.get("release")
    if not release:
        return "-"
    return short_id(release) + (" live" if result["live"].get(run["project"]) == release else "")
