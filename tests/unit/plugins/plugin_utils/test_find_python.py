# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finding some Python by sh alone; its places in a container are walked on the lab."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils.find_python import Found, find_command, read_found

NONCE = "0011aabb"


def program(path: Path, version: str) -> str:
    """A program that says that it is a Python of this version; an empty one says nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n[ -z '{version}' ] || echo '{version}'\n")
    path.chmod(0o755)
    return str(path)


def find(wished: str | None, root: str | None) -> Found:
    done = subprocess.run(
        ["sh", "-c", find_command(NONCE, wished, root)],
        capture_output=True,
        text=True,
        check=True,
        stdin=subprocess.DEVNULL,
        timeout=120,
    )
    assert done.stderr == ""
    return read_found(done.stdout, NONCE)


@pytest.mark.parametrize("version", ["3.9.2", "3.10.0", "3.14.0rc1", "4.0.0", "3.9.18+"])
def test_the_wished_one_is_asked_first(tmp_path: Path, version: str) -> None:
    wished = program(tmp_path / "it's mine" / "python", version)
    assert find(wished, None) == Found(wished, ((wished, version),), ())


@pytest.mark.parametrize("version", ["3.8.20", "2.7.18", "3.1.0", ""])
def test_one_that_is_not_fit_does_not_end_the_search(tmp_path: Path, version: str) -> None:
    wished = program(tmp_path / "old" / "python", version)
    found = find(wished, None)
    assert found.python != wished
    assert ((wished, version) in found.tried) is bool(version)


def test_one_that_is_missing_does_not_end_it_either(tmp_path: Path) -> None:
    assert find(str(tmp_path / "none"), str(tmp_path)) == find(None, str(tmp_path))


READ = [
    ("", Found(None, (), ())),
    (f"{NONCE} tried 3.7.3 /a b/python\n", Found(None, (("/a b/python", "3.7.3"),), ())),
    (
        f"{NONCE} other /w/python\n{NONCE} tried 3.11.2 /u\n{NONCE} use /u\n",
        Found("/u", (("/u", "3.11.2"),), ("/w/python",)),
    ),
    (f"noise\nxx use /evil\n{NONCE} use relative\n{NONCE} tried x /u\n{NONCE} what /u\n", Found(None, (), ())),
]


@pytest.mark.parametrize(("output", "found"), READ)
def test_only_lines_of_the_agreed_form_count(output: str, found: Found) -> None:
    assert read_found(output, NONCE) == found
