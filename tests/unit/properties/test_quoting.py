# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Any word of a command comes unchanged through every shell on its way: the node's login shell, ours, the last."""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils import enter
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.command import words_of
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.properties.cases import WORDS, cases

NONCE = "0123456789abcdef"
PRINT = "import os, sys; sys.stdout.buffer.write(b''.join(os.fsencode(word) + b'\\0' for word in sys.argv[1:]))"
_TOOLS = {
    "id": "echo 0",
    "lxc-info": "echo RUNNING",
    "lxc-attach": 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"',
}
ARGV = st.lists(WORDS, max_size=5)


@pytest.fixture(scope="module")
def node() -> Iterator[Path]:
    """A folder of tools that stand for a node's; the command runs right here."""
    with tempfile.TemporaryDirectory() as path:
        for name, body in _TOOLS.items():
            tool = Path(path) / name
            tool.write_text(f"#!/bin/sh\n{body}\n")
            tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
        yield Path(path)


def run(command: str, path: str = os.defpath) -> bytes:
    """What a login shell prints for the command line that ssh hands to it."""
    done = subprocess.run(["/bin/sh", "-c", os.fsencode(command)], env={"PATH": path}, capture_output=True, check=True)
    return done.stdout


def printed(words: list[str]) -> bytes:
    return b"".join(os.fsencode(word) + b"\0" for word in words)


@cases(150)
@given(argv=ARGV)
def test_an_argv_arrives_in_the_container(node: Path, argv: list[str]) -> None:
    show = ["/usr/bin/printf", "%s\\0", "first", *argv]
    command = enter.node_command(200, show, nonce=NONCE, enter="lxc-attach")
    assert run(command, f"{node}:{os.defpath}") == printed(["first", *argv])


@cases(400)
@given(argv=ARGV)
def test_a_shell_command_arrives_in_the_container(argv: list[str]) -> None:
    """An Ansible module's command line is text for the container's shell, through a marker, printf and two shells."""
    line = shlex.join(["printf", "%s\\0", "first", *argv])
    words = enter.shell_argv(os.fsencode(line), NONCE)
    assert all(word.isascii() for word in words)  # pct garbles other bytes
    said = run(shlex.join(words))
    assert said == enter.inner(NONCE).encode() + b"\n" + printed(["first", *argv])


@cases(1000)
@given(st.binary(max_size=200))
def test_escaped_bytes_are_ascii_that_printf_turns_back(data: bytes) -> None:
    escaped = enter.escape(data)
    assert escaped.isascii()
    assert escaped.isprintable() or not escaped
    assert _printf_b(escaped) == data


def _printf_b(text: str) -> bytes:
    """What POSIX says of %b for the two forms that are used: a character, and a backslash with octal digits."""
    found, at = bytearray(), 0
    while at < len(text):
        if text[at] == "\\":
            assert text[at + 1] == "0"
            found.append(int(text[at + 2 : at + 5], 8))
            at += 5
        else:
            found.append(ord(text[at]))
            at += 1
    return bytes(found)


@cases(600)
@given(st.lists(WORDS, min_size=1, max_size=6))
def test_a_run_s_command_as_text_is_its_words(words: list[str]) -> None:
    assert words_of(shlex.join(words), "training_command") == words
    assert words_of(words, "training_command") == words
