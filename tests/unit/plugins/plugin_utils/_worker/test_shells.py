# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What shells say about scripts, and what becomes of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.shells import complaints, shell_problems


def said(data: bytes) -> list[tuple[int, str, str]]:
    return [(one["line"], one["severity"], one["message"]) for one in shell_problems("run.sh", data)]


@pytest.mark.parametrize(
    ("data", "line", "severity", "text"),
    [
        (b"#!/bin/bash\nif true; then\n  echo a\n", 4, "error", "unexpected end of file"),
        (b"#!/bin/sh\necho a\nfi\n", 3, "error", "unexpected"),
        (b"#!/usr/bin/env -S bash -e\ndone\n", 2, "error", "unexpected token `done'"),
        (b"case a in\n", 2, "error", "unexpected end of file"),
        (b"#!/bin/bash\ncat <<X\nabc\n", 3, "warning", "here-document"),
        (b"#!/bin/sh\r\necho a\r\n", 1, "warning", "carriage return"),
    ],
)
def test_problems(data: bytes, line: int, severity: str, text: str) -> None:
    found = said(data)
    assert [one[:2] for one in found] == [(line, severity)]
    assert text in found[0][2]


@pytest.mark.parametrize("data", [b"", b"#!/bin/bash\n[[ a =~ b ]] && f() { :; }\n", b"a=(1 2)\necho ${a[@]}\n"])
def test_sound_scripts(data: bytes) -> None:
    assert said(data) == []


def test_nothing_is_executed(tmp_path: Path) -> None:
    assert said(f"#!/bin/bash\ntouch {tmp_path}/executed\n".encode()) == []
    assert not list(tmp_path.iterdir())


def test_no_such_shell_is_no_refusal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(os.environ, "PATH", str(tmp_path))
    assert said(b"#!/bin/zsh\nfi\n") == [(1, "warning", "not checked: there is no zsh here to read it")]
    assert said(b"fi\n") == [(1, "warning", "not checked: there is no bash here to read it")]


def test_without_a_shebang_sh_will_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "sh").symlink_to("/bin/sh")
    monkeypatch.setitem(os.environ, "PATH", str(tmp_path))
    assert [one[:2] for one in said(b"echo\nfi\n")] == [(2, "error")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "bash: line 3: syntax error near unexpected token `fi'\nbash: line 3: `fi'\n",
            [(3, "syntax error near unexpected token `fi'")],
        ),
        ('sh: 12: Syntax error: "fi" unexpected\n', [(12, 'Syntax error: "fi" unexpected')]),
        ("zsh:7: parse error near `fi'\n", [(7, "parse error near `fi'")]),
        ("ksh: syntax error at line 4: `fi' unexpected\n", [(4, "`fi' unexpected")]),
        ("something else\n", [(1, "something else")]),
        ("", [(1, "the shell refuses it")]),
    ],
)
def test_texts_of_other_shells(text: str, expected: list[tuple[int, str]]) -> None:
    assert [(one["line"], one["message"]) for one in complaints("x.sh", text, True)] == expected
