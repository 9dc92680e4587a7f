# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Symbolic modes mean what chmod makes of them."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.modes import is_symbolic, resolve

SYMBOLIC = [
    *("u=rw,g=r,o=r", "u=rwX,g=rX,o=", "a+x", "+x", "-w", "=r", "u+s", "g+s,u-x", "o+t", "a=t", "g=u", "o=g-w", "u=o"),
    *("ug+rwx,o-rwx", "go=", "u+x-w", "a=rX", "+X", "u-s", "a+rwxst"),
]


@pytest.mark.parametrize("mode", SYMBOLIC)
@pytest.mark.parametrize("base", [0o644, 0o755, 0o4750, 0o000, 0o600, 0o2711])
def test_a_file_gets_what_chmod_gives_it(tmp_path: Path, mode: str, base: int) -> None:
    file = tmp_path / "file"
    file.touch()
    file.chmod(base)
    old = os.umask(0o027)
    try:
        # A mode of its own as an option's end: "-w" would be an option.
        done = subprocess.run(["chmod", "--", mode, file], capture_output=True, check=False)
    finally:
        os.umask(old)
    # chmod sets the bits, and tells with exit 1 when the umask kept it from more than it did.
    assert done.returncode == 0 or b"new permissions" in done.stderr, done.stderr
    assert oct(resolve(mode, base, False, 0o027)) == oct(stat.S_IMODE(file.stat().st_mode))


def test_a_folder_runs() -> None:
    assert resolve("u=rwX,g=rX,o=", 0o700, True, 0) == 0o750


def test_bits_are_taken_as_they_are() -> None:
    assert resolve(0o4755, 0o600, False, 0o077) == 0o4755


@pytest.mark.parametrize(
    ("text", "is_one"),
    [("u=rw,g=r", True), ("+x", True), ("u=rw,", False), ("", False), ("rw", False), ("u=q", False), ("0644", False)],
)
def test_what_is_a_symbolic_mode(text: str, is_one: bool) -> None:
    assert is_symbolic(text) is is_one
