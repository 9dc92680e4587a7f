# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Syntax of configuration files, with the place of each problem."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils.config_syntax import (
    Problem,
    json_problems,
    toml_problems,
    yaml_problems,
)

Parser = Callable[[str, bytes], list[Problem]]


def said(parser: Parser, data: bytes) -> list[tuple[int, int, str, str]]:
    return [(one.line, one.column, one.severity, one.message) for one in parser("f", data)]


@pytest.mark.parametrize(
    ("parser", "data"),
    [
        (json_problems, b'{"a": [1, {"a": NaN}], "b": "a\\"{\\u00e9"}'),
        (json_problems, '{"é": 1}'.encode()),
        (json_problems, '{"é": 1}'.encode("utf-16")),
        (json_problems, b'[{"a": 1}, {"a": 1}, "a", ["a", "a"]]'),
        (yaml_problems, b""),
        (yaml_problems, b"a: 1\n---\na: !env 2\nb: {a: 1}\n? [a, b]\n: c\n"),
        (yaml_problems, b"base: &b {x: 1}\none: {<<: *b, y: 1}\nloop: &l [*l]\n"),
        (yaml_problems, b"1: a\n'1': b\n"),
        (toml_problems, b"[a]\nb = 1\n[[c]]\nd = 1979-05-27\n"),
    ],
)
def test_sound(parser: Parser, data: bytes) -> None:
    assert said(parser, data) == []


@pytest.mark.parametrize(
    ("parser", "data", "line", "column", "text"),
    [
        (json_problems, b"", 1, 1, "Expecting value"),
        (json_problems, b'{"a": 1,\n  // no\n "b": 2}', 2, 3, "Expecting property name"),
        (json_problems, b'{"a": 1}\n{}', 2, 1, "Extra data"),
        (json_problems, b'{\n"a": "\xff"}', 2, 7, "not utf-8"),
        (json_problems, b"[" * 100000, 1, 1, "nested too deeply"),
        (yaml_problems, b"a: 1\nb: [1,\n", 3, 1, "while parsing a flow node"),
        (yaml_problems, b"a:\n\t- b\n", 2, 1, "cannot start any token"),
        (yaml_problems, b"a: *nowhere\n", 1, 4, "undefined alias"),
        (yaml_problems, b"a: 1\nb: \xff\n", 2, 1, "position"),
        (yaml_problems, b"a: b: c\n", 1, 5, "mapping values are not allowed"),
        (toml_problems, b"[a]\nb = \n", 2, 5, "Invalid value"),
        (toml_problems, b"a = 1\na = 2\n", 2, None, "Cannot overwrite a value"),
        (toml_problems, b"a = 1\nb = '\xff'\n", 2, 6, "not utf-8"),
        (toml_problems, b"a = [1,\n", None, 1, "end of document"),
    ],
)
def test_errors(parser: Parser, data: bytes, line: int | None, column: int | None, text: str) -> None:
    ((found_line, found_column, severity, message),) = said(parser, data)
    assert severity == "error"
    assert text in message
    assert found_line == (line if line is not None else found_line) >= 1
    assert found_column == (column if column is not None else found_column) >= 1


@pytest.mark.parametrize(
    ("parser", "data", "line", "column", "text"),
    [
        (json_problems, b'{"a": {"b": 1},\n "c": [{"a": 1}],\n "a": 2}', 3, 2, 'key "a" comes again'),
        (json_problems, b'{"a": 1, "\\u0061": 2}', 1, 10, "comes again"),
        (json_problems, b'\xef\xbb\xbf{"a": 1}', 1, 1, "byte order mark"),
        (yaml_problems, b"a: 1\nb:\n  - c: 1\n    c: 2\n", 4, 5, "key 'c' comes again"),
        (yaml_problems, b"a: 1\n---\nb: 1\n'b': 2\n", 4, 1, "key 'b' comes again"),
    ],
)
def test_warnings(parser: Parser, data: bytes, line: int, column: int, text: str) -> None:
    ((found_line, found_column, severity, message),) = said(parser, data)
    assert (found_line, found_column, severity) == (line, column, "warning")
    assert text in message


def test_a_problem_as_a_person_reads_it() -> None:
    assert str(Problem("a/b.py", 3, 7, "error", "syntax", "no")) == "a/b.py:3:7: no"
    assert str(Problem("a/b.py", 3, 7, "warning", "syntax", "no")) == "a/b.py:3:7: warning: no"
