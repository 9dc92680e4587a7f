# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a first deploy finds in the container: interpreters, the project's files, free space, GPUs. Reads only."""

from __future__ import annotations

import os
import re
import sys
import time

from .gpus import read
from .pythons import ask, below, children, folders_of, identity, is_program, programs_in, stranger
from .store import HOME

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .channel import Channel

_OLDEST = (3, 9)
_MOST = 48
_SEARCH_SECONDS = 4.0
_ANSWER_SECONDS = 12.0
_HOMES = "/home"
# Where people put what they train with, besides root's home.
_SHARED = ("/opt", "/srv", "/data", "/mnt", "/workspace", "/app")
_MOST_PLACES = 2000

# Runs in each interpreter, whatever its version. torch is not imported: that would take seconds and load CUDA.
_PROBE = r"""
import os, sys
sys.path[:] = [entry for entry in sys.path if entry]
torch = "-"
try:
    import importlib.util
    spec = importlib.util.find_spec("torch")
    if spec is not None and spec.origin not in (None, "namespace"):
        torch = "unknown"
        try:
            from importlib.metadata import version
            torch = version("torch")
        except Exception:
            with open(os.path.join(os.path.dirname(spec.origin), "version.py")) as stream:
                for line in stream:
                    if line.startswith("__version__"):
                        torch = line.split("=")[1].strip().strip("'\"")
except Exception:
    pass
environment = sys.prefix != getattr(sys, "base_prefix", sys.prefix) or os.path.isdir(os.path.join(sys.prefix, "conda-meta"))
sys.stdout.write("\n%s %s %s %d\n" % (sys.argv[1], sys.version.split()[0], torch.replace(" ", "_"), environment))
"""  # noqa: E501


def run(channel: Channel, params: dict[str, Any]) -> dict[str, Any]:
    """The operation ``survey``.

    ``params``: ``root`` and ``python`` (as wished, or None), ``name`` and ``names`` (the project and its top-level
    names), ``gpus`` (the parameters of the operation ``gpus``, or None).

    Returns ``pythons`` (path, version, torch, environment; best first), ``skipped`` (path, owner), ``places`` (path,
    names, deployed, free; of each folder that has any of the names, and of root and root's home), ``home``, ``init``,
    ``gpus`` (the reading, or None).
    """
    found, skipped = candidates(params["root"], params["python"], time.monotonic() + _SEARCH_SECONDS)
    home = os.path.expanduser("~")
    return {
        "pythons": asked(found, time.monotonic() + _ANSWER_SECONDS),
        "skipped": [{"path": path, "owner": _user(owner)} for path, owner in skipped],
        "places": places(params["root"], home, params["name"], params["names"]),
        "home": home,
        "init": init(),
        "gpus": read(params["gpus"]) if params["gpus"] else None,
    }


def candidates(root: str | None, wished: str | None, deadline: float) -> tuple[list[str], list[tuple[str, int]]]:
    """Interpreters that may be started, nearest first, and (path, owner) of those that another user could change."""
    found: list[str] = []
    others: list[tuple[str, int]] = []
    seen = set()
    # What the user names, and what this runs in, is trusted already.
    for python in [*([wished] if wished else []), *_everywhere(root, deadline), sys.executable]:
        key = identity(python)
        if key in seen or not is_program(python):
            continue
        seen.add(key)
        owner = None if python in (wished, sys.executable) else stranger(python)
        if owner is None:
            found.append(python)
        else:
            others.append((python, owner))
        if len(found) >= _MOST:
            break
    return found, others[:_MOST]


def _everywhere(root: str | None, deadline: float) -> Iterator[str]:
    for folder in _folders(root, deadline):
        if time.monotonic() > deadline:
            return
        yield from programs_in(folder)


def _folders(root: str | None, deadline: float) -> Iterator[str]:
    yield from folders_of(root, deadline)
    yield from below(os.path.expanduser("~/.local/share/uv/python"), 1, deadline)
    yield from below("/opt/pyenv/versions", 1, deadline)
    for base in (*_SHARED, *children(_HOMES, deadline)):
        yield from below(base, 2, deadline)


def asked(pythons: list[str], deadline: float) -> list[dict[str, Any]]:
    """What each interpreter that answers is, the best to train with first; among equals the nearer one."""
    mark = os.urandom(8).hex()
    rows = [
        {"path": python, "version": answer[1], "torch": None if answer[2] == "-" else answer[2], "environment": env}
        for python, text in ask(pythons, [_PROBE, mark], deadline)
        for answer in [re.search("^%s ([0-9]\\S*) (\\S+) ([01])$" % mark, text, re.MULTILINE)]
        if answer
        for env in [answer[3] == "1"]
    ]
    return sorted(rows, key=lambda row: (not is_fit(row["version"]), row["torch"] is None, not row["environment"]))


def is_fit(version: str) -> bool:
    """Whether the worker, and so a deploy, runs on this version of Python."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return numbers is not None and (int(numbers[1]), int(numbers[2])) >= _OLDEST


def places(root: str | None, home: str, name: str | None, names: list[str]) -> list[dict[str, Any]]:
    """The folders that have any of the project's names, most first; the wished root and root's home in any case."""
    deadline = time.monotonic() + _SEARCH_SECONDS
    rows = []
    for path in dict.fromkeys(_places(root, home, deadline)):
        row = place(path, name, names)
        if row and (row["names"] or row["deployed"] or path in (root, home)):
            rows.append(row)
        if time.monotonic() > deadline:
            break
    return sorted(rows, key=lambda row: (not row["deployed"], -len(row["names"])))


def _places(root: str | None, home: str, deadline: float) -> Iterator[str]:
    if root:
        yield root
    yield home
    yield from (_HOMES, *_SHARED)
    for base in (home, _HOMES, *_SHARED):
        yield from children(base, deadline)[:_MOST_PLACES]


def place(path: str, name: str | None, names: list[str]) -> dict[str, Any] | None:
    """What a folder has of the project; None when there is no such folder."""
    if not os.path.isdir(path):
        return None
    there = [one for one in names if os.path.lexists(os.path.join(path, one))]
    deployed = name is not None and os.path.isdir(os.path.join(path, HOME, name, "releases"))
    try:
        space = os.statvfs(path)
    except OSError:
        return None
    return {"path": path, "names": there, "deployed": deployed, "free": space.f_bavail * space.f_frsize}


def init() -> str | None:
    """The first process: "systemd", or the name of another one."""
    if os.path.isdir("/run/systemd/system"):
        return "systemd"
    try:
        with open("/proc/1/comm", encoding="utf-8", errors="replace") as stream:
            return stream.read().strip() or None
    except OSError:
        return None


def _user(number: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return "user %d" % number
