# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The syntax of JSON, YAML and TOML files. They mean the same everywhere, so the controller reads them."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import yaml

_TOML_PLACE = re.compile(r"^(.*) \(at line (\d+), column (\d+)\)$", re.DOTALL)
_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]', re.DOTALL)


@dataclass(frozen=True, order=True)
class Problem:
    """One finding. `line` and `column` count from 1; `severity` is `error` or `warning`."""

    file: str
    line: int
    column: int
    severity: str
    code: str
    message: str

    def __str__(self) -> str:
        mark = "" if self.severity == "error" else "warning: "
        return f"{self.file}:{self.line}:{self.column}: {mark}{self.message}"


def json_problems(path: str, data: bytes) -> list[Problem]:
    """What Python's json says about a file; repeated keys of an object and a byte order mark are warnings."""
    try:
        text = data.decode(json.detect_encoding(data))
        json.loads(text)
    except json.JSONDecodeError as exc:
        return [Problem(path, exc.lineno, exc.colno, "error", "json", exc.msg)]
    except UnicodeDecodeError as exc:
        return [_not_text(path, data, exc, "json")]
    except RecursionError:
        return [Problem(path, 1, 1, "error", "json", "nested too deeply")]
    found = []
    if data.startswith(b"\xef\xbb\xbf"):
        found.append(Problem(path, 1, 1, "warning", "json", "begins with a byte order mark, which json.load refuses"))
    return found + [
        Problem(path, *_place(text, at), "warning", "duplicate-key", f"key {key} comes again: the last one counts")
        for at, key in _repeated_keys(text)
    ]


def _repeated_keys(text: str) -> Iterator[tuple[int, str]]:
    """Offset and text of each key that comes a second time in its object. The text must be valid JSON."""
    stack: list[set[str] | None] = []  # the keys of the objects around the place; None for arrays
    wants_key = False
    for token in _JSON_TOKEN.finditer(text):
        mark = token.group()
        if mark in "{[":
            stack.append(set() if mark == "{" else None)
        elif mark in "}]":
            stack.pop()
        elif mark[0] == '"' and wants_key and stack and (keys := stack[-1]) is not None:
            name = json.loads(mark, strict=False)
            if name in keys:
                yield token.start(), mark
            keys.add(name)
        wants_key = mark == "{" or (mark == "," and bool(stack) and stack[-1] is not None)


def yaml_problems(path: str, data: bytes) -> list[Problem]:
    """What YAML's parser says about a file, any number of documents; repeated keys are warnings.

    Tags are not looked at: what `!env` means is for the program that reads the file.
    """
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found: list[Problem] = []
    try:
        for document in yaml.compose_all(data, Loader=loader):
            found += _repeated_yaml_keys(path, document)
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        place = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        text = ": ".join(part for part in (exc.context, exc.problem) if part) or "not YAML"
        return [Problem(path, *place, "error", "yaml", text)]
    except yaml.reader.ReaderError as exc:
        line = data[: exc.position].count(b"\n") + 1
        return [Problem(path, line, 1, "error", "yaml", f"{exc.reason} (position {exc.position})")]
    except RecursionError:
        return [Problem(path, 1, 1, "error", "yaml", "nested too deeply")]
    return found


def _repeated_yaml_keys(path: str, document: Any) -> Iterator[Problem]:
    todo, seen = [document], set()
    while todo:
        node = todo.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))  # an alias leads to its anchor's node, perhaps into itself
        if isinstance(node, yaml.SequenceNode):
            todo += node.value
        elif isinstance(node, yaml.MappingNode):
            keys = set()
            for key, value in node.value:
                todo += (key, value)
                name = (key.tag, key.value) if isinstance(key, yaml.ScalarNode) and key.value != "<<" else None
                if name in keys:
                    line, column = key.start_mark.line + 1, key.start_mark.column + 1
                    text = f"key {key.value!r} comes again: the last one counts"
                    yield Problem(path, line, column, "warning", "duplicate-key", text)
                if name:
                    keys.add(name)


def toml_problems(path: str, data: bytes) -> list[Problem]:
    """What TOML's parser says about a file."""
    try:
        tomllib.loads(data.decode("utf-8"))
    except tomllib.TOMLDecodeError as exc:
        match = _TOML_PLACE.match(str(exc))
        if match:
            return [Problem(path, int(match[2]), int(match[3]), "error", "toml", match[1])]
        return [Problem(path, data.count(b"\n") + 1, 1, "error", "toml", str(exc))]
    except UnicodeDecodeError as exc:
        return [_not_text(path, data, exc, "toml")]
    except RecursionError:
        return [Problem(path, 1, 1, "error", "toml", "nested too deeply")]
    return []


def _not_text(path: str, data: bytes, exc: UnicodeDecodeError, code: str) -> Problem:
    line = data[: exc.start].count(b"\n") + 1
    column = exc.start - (data.rfind(b"\n", 0, exc.start) + 1) + 1
    return Problem(path, line, column, "error", code, f"not {exc.encoding}: {exc.reason}")


def _place(text: str, at: int) -> tuple[int, int]:
    return text.count("\n", 0, at) + 1, at - (text.rfind("\n", 0, at) + 1) + 1


PARSERS: dict[str, Callable[[str, bytes], list[Problem]]] = {
    "json": json_problems,
    "yaml": yaml_problems,
    "toml": toml_problems,
}
