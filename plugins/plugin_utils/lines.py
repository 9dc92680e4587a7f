# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lines that a person reads: one a host and step, what went wrong in full beneath it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.trainops.proxmox.plugins.plugin_utils.visible import cell, one_line, path_text, visible

# The word that a line shows for a step, by the module that does it.
STEPS = {
    "trainops.proxmox.syntax_check": "check",
    "trainops.proxmox.training_release": "release",
    "trainops.proxmox.gpu_idle": "gpus",
    "trainops.proxmox.gpu_info": "gpus",
    "trainops.proxmox.container_info": "state",
    "trainops.proxmox.container_push": "push",
    "trainops.proxmox.node_info": "node",
    "trainops.proxmox.training_survey": "survey",
    "trainops.proxmox.training_run": "run",
}

_GAP = "  "  # between columns
_NAMED = 5  # of many paths in one line
_STEP_WIDTH = max(map(len, STEPS.values()))

# Core puts these, from the left, before the message of an exception that an action, a connection or a template raised.
_WRAPPINGS = (
    "Task failed: ",
    "Action failed: ",
    "Module failed: ",
    "A 'when' expression failed: ",
    "Error while evaluating conditional: ",
)


def size(count: int) -> str:
    """Bytes as people read them, in powers of ten."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= factor:
            amount = count / factor
            return f"{amount:.1f} {unit}" if amount < 10 else f"{amount:.0f} {unit}"
    return f"{count} B"


def left_out(found: Sequence[Mapping[str, str]]) -> list[str]:
    """What of a project does not ship ({path, why}), a line for each reason."""
    by_reason: dict[str, list[str]] = {}
    for one in found:
        by_reason.setdefault(one["why"], []).append(path_text(one["path"]))
    return [
        f"left out, {why}: {', '.join(paths[:_NAMED])}" + (f" and {len(paths) - _NAMED} more" * (len(paths) > _NAMED))
        for why, paths in sorted(by_reason.items())
    ]


def step_word(action: str | None) -> str | None:
    """The word for a step of ours, None for any other module; ``action`` is its fully qualified name."""
    return STEPS.get(action or "")


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of a table as lines with their cells one below the other, each of them one line whatever is in its cells."""
    cells = [[cell(text) for text in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [_GAP.join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def step_line(host: str, width: int, step: str, text: str) -> str:
    """``ct200  check    2 files compile``: the host padded to ``width``, the step to the longest word of all."""
    return visible(one_line(f"{host:<{width}}  {step:<{_STEP_WIDTH}}  {text}".rstrip()))


def task_line(host: str, width: int, task: str, text: str) -> str:
    """The line of an ordinary module: its task's name instead of a step."""
    return visible(one_line(f"{host:<{width}}  {task}: {text}"))


def beneath(line: str, body: Iterable[str], indent: int) -> str:
    """``line`` and, indented beneath it, every line of ``body``."""
    return "\n".join([line, *(f"{'':{indent}}{visible(one_line(text))}".rstrip() for text in body)])


def failure(result: Mapping[str, Any]) -> tuple[str, list[str]]:
    """What went wrong: a headline, and all else that was said, as lines.

    Of a step of ours the headline is its ``summary`` and the rest its whole ``msg``; of another module it is the first
    line of ``msg``, and what a command or a crashed module printed belongs to the rest.
    """
    message = _unwrapped(str(result.get("msg") or result.get("censored") or "")).splitlines()
    headline = str(result.get("summary") or (message[0] if message else "no message"))
    rest = message[1:] if message[:1] == [headline] else message
    if len(rest) == 1 and rest[0] in headline:
        rest = []
    if result.get("rc") is not None:
        headline = f"{headline} (exit {result['rc']})"
    for stream in ("stderr", "stdout", "module_stderr", "module_stdout"):
        rest += str(result.get(stream) or "").rstrip().splitlines()
    return headline, rest


def _unwrapped(message: str) -> str:
    for wrapping in _WRAPPINGS:
        message = message.removeprefix(wrapping)
    return message.strip()


def ended_badly(what: str, hosts: Sequence[str], total: int) -> str:
    """``2 of 3 hosts failed: ct200, ct210``."""
    return f"{len(hosts)} of {total} {'host' if total == 1 else 'hosts'} {what}: {', '.join(hosts)}"
