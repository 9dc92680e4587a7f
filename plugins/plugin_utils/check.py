# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The controller's part of the check: which files are sources of which kind, the syntax of configuration files, texts.

Python and shell sources are checked in the container, by what would run them there. JSON, YAML and TOML mean the same
everywhere, so they are read here and never travel for a check.
"""

from __future__ import annotations

import base64
import json
import posixpath
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ansible_collections.trainops.proxmox.plugins.plugin_utils.config_syntax import PARSERS, Problem
from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import OptionError, SourceChanged, StepError
from ansible_collections.trainops.proxmox.plugins.plugin_utils.frames import Frame
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_result import check_wish, held_by_runs
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_select import Selection
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_text import summary as gpu_summary
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpus import Snapshot
from ansible_collections.trainops.proxmox.plugins.plugin_utils.project import Entry, read_bytes
from ansible_collections.trainops.proxmox.plugins.plugin_utils.visible import path_text

PYTHON, SHELL, OPAQUE = "python", "shell", "opaque"
MAX_CONFIG = 4 * 1024 * 1024  # bytes; larger files are data, and YAML of that size takes minutes
_HEAD = 256
_SHORT = 16  # hex digits of a sha256 that tell two versions of a file apart
_GAP = 8
_SUFFIXES = {
    ".py": PYTHON,
    ".pyw": PYTHON,
    ".sh": SHELL,
    ".bash": SHELL,
    ".json": "json",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".toml": "toml",
}
# What Python can import although there is no source to read.
_BINARY = (".so", ".pyc", ".pyd")
_SHEBANG_PYTHON = re.compile(rb"^#!.*?[/ ]python[0-9.]*(?:\s|$)")
_SHEBANG_SHELL = re.compile(rb"^#!.*?[/ ](?:ba|da|a|k|mk|z)?sh(?:\s|$)")


def kind_of(path: str, head: bytes) -> str | None:
    """What a file is to the check, by its name or its `#!` line; None when the check has nothing to say about it.

    `head` are its first bytes. `python` and `shell` are for the worker; `opaque` can be imported but not read.
    """
    suffix = posixpath.splitext(posixpath.basename(path))[1]
    kind = OPAQUE if suffix in _BINARY else _SUFFIXES.get(suffix)
    if kind == PYTHON:
        return kind  # whatever its first line says, an import reads it as Python
    if _SHEBANG_PYTHON.match(head):
        return PYTHON
    return SHELL if _SHEBANG_SHELL.match(head) else kind


class Kinds:
    """Sorts the files of a project while it is read, and has only those read that the check needs."""

    def __init__(self) -> None:
        self._found: dict[str, str | None] = {}

    def __call__(self, entry: Entry, head: bytes) -> bool:
        """Whether the content of a file matters; ``head`` are its first bytes."""
        kind = self._found[entry.path] = kind_of(entry.path, head[:_HEAD])
        return kind in (PYTHON, SHELL) or (kind in PARSERS and entry.size <= MAX_CONFIG)

    def of(self, entries: Iterable[Entry]) -> dict[str, str]:
        """The kind of each file that has one, by path."""
        files = (entry.path for entry in entries if entry.type == "file")
        return {path: kind for path in files if (kind := self._found.get(path))}


def worker_files(entries: Iterable[Entry], kind: Mapping[str, str]) -> list[dict[str, Any]]:
    """What the worker is told of the project: its sources, and what else can be imported.

    A link within the project is the file that it points to under another name. Of other links, and of shared names,
    which are links in the container, nobody here knows what they hold.
    """
    told = []
    for path, entry in _by_path(entries).items():
        if entry is None:
            told.append({"path": path, "sha256": "", "size": 0, "kind": OPAQUE})
        elif kind.get(entry.path) in (PYTHON, SHELL, OPAQUE):
            told.append({"path": path, "sha256": entry.sha256, "size": entry.size, "kind": kind[entry.path]})
    return told


def pack_sources(entries: Iterable[Entry], kind: Mapping[str, str]) -> str:
    """Which content of which source was checked, for the release that follows: base64 of zlib of JSON {path: hex}."""
    checked = {entry.path: entry.sha256[:_SHORT] for entry in entries if kind.get(entry.path) in (PYTHON, SHELL)}
    return base64.b64encode(zlib.compress(json.dumps(checked).encode("ascii"))).decode("ascii")


def refuse_unchecked(entries: Iterable[Entry], checked: Mapping[str, Any] | None) -> None:
    """Raise SourceChanged when a source is no longer what a check of the same play has passed."""
    packed = (checked or {}).get("sources")
    if not packed:
        return
    try:
        passed = json.loads(zlib.decompress(base64.b64decode(packed)))
    except (ValueError, TypeError, zlib.error) as error:
        raise OptionError("option checked: it is not what syntax_check returned") from error
    changed = [one for one in entries if one.type == "file" and not one.sha256.startswith(passed.get(one.path, ""))]
    if changed:
        more = f" (and {len(changed) - 1} more)" if len(changed) > 1 else ""
        first = path_text(changed[0].source)
        raise SourceChanged(f"{first}{more} changed after it was checked: nothing went live; deploy again")


def _by_path(entries: Iterable[Entry]) -> dict[str, Entry | None]:
    """The file that each path leads to, None for links to folders and out of the project and for shared names."""
    listed = list(entries)
    files = {entry.path: entry for entry in listed if entry.type == "file"}
    found: dict[str, Entry | None] = {**files}
    for entry in listed:
        if entry.type == "link":
            target = posixpath.join(posixpath.dirname(entry.path), entry.target or "")
            found[entry.path] = files.get(posixpath.normpath(target))
        elif entry.type == "shared":
            found[entry.path] = None
    return found


def left_out_modules(ignored: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Top-level modules that are on the controller but not in the project: {module: which file, and why}."""
    found = {}
    for path, why in ignored:
        name = path.removesuffix(".py")
        if name.isidentifier():
            found[name] = f"{path} is left out of the project ({why})"
    return found


def sources(entries: Iterable[Entry]) -> Callable[[dict[str, Any]], Iterator[Frame]]:
    """The answer to the worker's `need`: for each path a `source` frame with the bytes, read while they are sent."""
    files = _by_path(entries)

    def answer(frame: dict[str, Any]) -> Iterator[Frame]:
        for path in frame["paths"]:
            entry = files.get(path)
            if entry is None:
                raise StepError("protocol", f"the worker asked for {path!r}, which is no source of the project")
            yield Frame("source", {"path": path}, read_bytes(entry))

    return answer


def config_problems(entries: Iterable[Entry], kind: Mapping[str, str]) -> tuple[list[Problem], list[dict[str, str]]]:
    """The problems of JSON, YAML and TOML files, and which of them were not read: [{file, why}]."""
    problems: list[Problem] = []
    unread = []
    for entry in entries:
        parser = PARSERS.get(kind.get(entry.path, ""))
        if parser is None:
            continue
        if entry.size > MAX_CONFIG:
            unread.append({"file": entry.path, "why": f"larger than {MAX_CONFIG >> 20} MiB"})
            continue
        problems += _softened(entry.path, parser(entry.path, b"".join(read_bytes(entry))))
    return problems, unread


def _softened(path: str, found: list[Problem]) -> list[Problem]:
    # Settings of editors and other tools, such as .vscode/settings.json with its comments, are no concern of a run.
    if not any(part.startswith(".") for part in path.split("/")):
        return found
    return [Problem(one.file, one.line, one.column, "warning", one.code, one.message) for one in found]


def problems_of(result: Mapping[str, Any]) -> list[Problem]:
    """The worker's problems as values."""
    names = ("file", "line", "column", "severity", "code", "message")
    return [Problem(*(one[name] for name in names)) for one in result["problems"]]


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """Errors before warnings, each by place."""
    return sorted(problems, key=lambda one: (one.severity != "error", one))


def outcome(
    reply: Mapping[str, Any],
    kind: Mapping[str, str],
    config: Sequence[Problem],
    unread: Sequence[Mapping[str, str]],
    room: int,
    elsewhere: bool = False,
) -> dict[str, Any]:
    """The step's result from the worker's `reply`, the problems of configuration files, and which were not read.

    `room` is how many columns there are for the line. `elsewhere`: the project will run by another interpreter.
    """
    problems = in_order([*problems_of(reply), *config])
    compiled = sum(1 for one in kind.values() if one == PYTHON)
    parsed = sum(1 for one in kind.values() if one not in (PYTHON, OPAQUE)) - len(unread)
    failed = any(one.severity == "error" for one in problems)
    line = summary(reply["python"], compiled, parsed, problems, room, elsewhere)
    result = {
        "summary": line,
        "msg": "\n".join(map(str, problems)) if problems else " ".join(line.split()),
        "python": reply["python"],
        "files_checked": compiled + parsed,
        "files_cached": reply["files_cached"],
        "files_unread": list(unread),
        "problems": [asdict(one) for one in problems],
    }
    if failed:
        return {**result, "failed": True, "code": "refused"}
    return {
        **result,
        "checked": reply["checked"],
        "warnings": [f"{one.file}:{one.line}:{one.column}: {one.message}" for one in problems],
    }


def with_gpus(
    result: dict[str, Any], reading: dict[str, Any], see: Callable[[dict[str, Any]], Snapshot], wish: Mapping[str, Any]
) -> dict[str, Any]:
    """The result with the GPUs that were read beside the check, and a warning unless the wanted ones are idle.

    ``wish`` has the options ``select``, ``count``, ``require`` and ``idle_timeout``. GPUs that are wanted and do not
    exist are an error, since no waiting helps and it would be found only after the release.
    """
    if "error" in reading:
        return _warned(result, [f"the GPUs could not be read: {reading['error']}"])
    found = see(reading)
    result = {**result, "gpus": [gpu.as_result() for gpu in found.gpus]}
    try:
        selection = check_wish(found, wish["select"], wish["count"])
    except OptionError as error:
        return _refused(_warned(result, list(found.warnings)), str(error))
    if selection and selection.choose(lambda gpu: gpu.verdict == "idle"):
        return _warned(result, list(found.warnings))
    selection = selection or Selection(found.gpus)
    if held_by_runs(selection.candidates) and not wish["require"]:
        return _warned(result, list(found.warnings))  # a deploy while a run trains is the daily case
    none = found.trouble.text if found.trouble else "there is no GPU in the container"
    line = gpu_summary(selection, found.view) if found.gpus else none
    if wish["require"] and wish["idle_timeout"] == 0:
        line += (
            ". Unless that has changed by then, the deploy will fail after the release went live, since option require "
            "asks for idle GPUs and option idle_timeout is 0"
        )
    return _warned(result, [f"GPUs: {line}", *found.warnings])


def _refused(result: dict[str, Any], why: str) -> dict[str, Any]:
    """The result with one more reason to refuse the deploy; those of the sources come first."""
    if result.get("failed"):
        return {**result, "msg": f"{result['msg']}\n{why}"}
    return {**result, "failed": True, "code": "option", "summary": f"refused: {why}", "msg": why}


def _warned(result: dict[str, Any], warnings: list[str]) -> dict[str, Any]:
    return {**result, "warnings": [*result.get("warnings", []), *warnings]}


def summary(
    python: Mapping[str, str],
    compiled: int,
    parsed: int,
    problems: Sequence[Problem],
    room: int,
    elsewhere: bool = False,
) -> str:
    """The one line that a person reads. `compiled` Python files, `parsed` files of other kinds.

    The interpreter stands apart where `room` columns are enough for that.
    """
    errors = [one for one in problems if one.severity == "error"]
    if errors:
        more = f" (+{len(errors) - 1} more)" if len(errors) > 1 else ""
        return f"refused: {errors[0]}{more}"
    parts = []
    if compiled:
        parts.append(f"{compiled} {'file compiles' if compiled == 1 else 'files compile'}")
    if parsed:
        parts.append(f"{parsed} {'parses' if parsed == 1 else 'parse'}")
    imports = "imports among them resolve" if elsewhere else "imports resolve"
    parts += [imports] if compiled else [] if parsed else ["nothing to check"]
    if problems:
        parts.append(f"{len(problems)} {'warning' if len(problems) == 1 else 'warnings'}")
    found, interpreter = ", ".join(parts), f"{python['path']} {python['version']}"
    if elsewhere:
        interpreter = f"on this machine, by {interpreter}"
    gap = _GAP if len(found) + _GAP + len(interpreter) <= room else 2
    return f"{found}{'':{gap}}{interpreter}"
