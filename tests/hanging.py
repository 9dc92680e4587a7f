# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a test that hangs waits for: its processes as the kernel sees them, shortly before its time is up.

pytest-timeout shows where Python stands, and by then nothing is left of what it waited for.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

_BEFORE = 10.0  # seconds


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Show the processes of a test ten seconds before pytest-timeout ends it."""
    marker = item.get_closest_marker("timeout")
    seconds = float(marker.args[0] if marker and marker.args else item.config.getini("timeout") or 0)
    timer = threading.Timer(max(seconds - _BEFORE, _BEFORE), _show, [item])
    timer.daemon = True
    if seconds:
        timer.start()
    try:
        return (yield)
    finally:
        timer.cancel()


def _show(item: pytest.Item) -> None:
    text = "\n".join(map(described, family(os.getpid())))
    item.add_report_section("call", "processes", text)
    print(f"{item.nodeid} hangs; its processes:\n{text}", file=sys.__stderr__, flush=True)


def family(pid: int) -> list[int]:
    """A process and its descendants."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        if text := _text(folder / "stat"):
            parents[int(folder.name)] = int(text.rpartition(")")[2].split()[1])
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def described(pid: int) -> str:
    """A process in one line: its state, where it waits in the kernel, its words, and what its handles are."""
    folder = Path(f"/proc/{pid}")
    state = (_text(folder / "stat").rpartition(")")[2].split() or ["gone"])[0]
    where = " < ".join(line.split()[-1] for line in _text(folder / "stack").splitlines()) or _text(folder / "wchan")
    words = _text(folder / "cmdline").replace("\0", " ").strip()[:200]
    return f"  {pid} {state} [{where}] {words!r} {_handles(folder)}"


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _handles(folder: Path) -> str:
    found = []
    try:
        for link in sorted((folder / "fd").iterdir(), key=lambda path: int(path.name))[:40]:
            found.append(f"{link.name}={os.readlink(link)}")
    except OSError:
        pass
    return " ".join(found)
