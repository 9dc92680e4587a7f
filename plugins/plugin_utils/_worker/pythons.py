# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Other Python interpreters on this machine, and which of them has a module that the chosen one lacks."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

_NAME = re.compile(r"python(3(\.\d+)?)?")
_MAX_CANDIDATES = 24
_TRUSTED = frozenset((0, os.geteuid()))  # whose programs may be started here
_BIN = ("/usr/local/bin", "/usr/bin")
_HOMES = ("miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba", ".conda")

# Finds top-level modules without importing them; the current folder must not count.
_PROBE = """
import importlib.util, sys
sys.path[:] = [entry for entry in sys.path if entry]
for name in sys.argv[1:]:
    try:
        found = importlib.util.find_spec(name) is not None
    except Exception:
        found = False
    if found:
        print(name)
"""


def who_has(names: Iterable[str], root: str | None, seconds: float = 5.0) -> dict[str, str]:
    """Which other interpreter has each of the missing top-level modules: {module: path of the interpreter}.

    Virtual environments near the training root come first; one that has more of the modules wins over one with fewer.
    Modules that nobody has are left out. Ends within about `seconds`.
    """
    now = time.monotonic()
    wanted = sorted(set(names))
    pythons = _candidates(root, now + seconds * 0.4)
    answers = [(python, set(text.split())) for python, text in ask(pythons, [_PROBE, *wanted], now + seconds)]
    best = sorted(answers, key=lambda answer: -len(answer[1]))  # a stable sort keeps the nearer one first
    return {name: next(python for python, has in best if name in has) for name in wanted if _anyone(answers, name)}


def _anyone(answers: list[tuple[str, set[str]]], name: str) -> bool:
    return any(name in has for _python, has in answers)


def ask(pythons: Iterable[str], command: list[str], deadline: float) -> list[tuple[str, str]]:
    """What each of them prints for `python -c COMMAND…`, until `deadline` (of time.monotonic).

    All are asked at the same time: one that hangs costs the others nothing.
    """
    started = [(python, process) for python in pythons for process in [_start(python, command)] if process]
    outputs = {python: bytearray() for python, _process in started}
    with selectors.DefaultSelector() as selector:
        for python, process in started:
            selector.register(process.stdout, selectors.EVENT_READ, outputs[python])
        while selector.get_map() and time.monotonic() < deadline:
            for key, _events in selector.select(max(0.0, deadline - time.monotonic())):
                data = os.read(key.fd, 4096)
                key.data.extend(data)
                if not data:
                    selector.unregister(key.fileobj)
    for _python, process in started:
        _end(process)
    return [(python, output.decode("utf-8", "replace")) for python, output in outputs.items()]


def _start(python: str, command: list[str]) -> Any:
    import subprocess

    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    argv = [python, "-B", "-c", *command]
    null = subprocess.DEVNULL
    try:
        return subprocess.Popen(argv, stdin=null, stdout=subprocess.PIPE, stderr=null, cwd="/", env=env)
    except OSError:
        return None


def _end(process: Any) -> None:
    import subprocess

    process.stdout.close()
    process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(1)  # one that is stuck in the kernel is left to the end of the worker


def identity(python: str) -> tuple[str, str]:
    """What two paths of one interpreter and environment have in common. The binary alone does not tell."""
    return os.path.realpath(os.path.dirname(python)), os.path.realpath(python)


def _candidates(root: str | None, deadline: float) -> list[str]:
    """Interpreters in the usual places, nearest first, each environment once, without the one that runs this."""
    found: list[str] = []
    seen = {identity(sys.executable)}
    for folder in folders_of(root, deadline):
        for python in programs_in(folder):
            key = identity(python)
            if key not in seen and _is_ours(python):
                seen.add(key)
                found.append(python)
        if len(found) >= _MAX_CANDIDATES or time.monotonic() > deadline:
            break
    return found[:_MAX_CANDIDATES]


def programs_in(folder: str) -> Iterator[str]:
    """`python` before `python3` before `python3.12`, which are mostly one and the same."""
    try:
        names = sorted(name for name in os.listdir(folder) if _NAME.fullmatch(name))
    except OSError:
        return
    for name in names:
        yield os.path.join(folder, name)


def _is_ours(path: str) -> bool:
    """A program that may be started: not one that some other user has put in a shared folder."""
    return is_program(path) and stranger(path) is None


def is_program(path: str) -> bool:
    """Whether there is a file that can be started."""
    return os.path.isfile(path) and os.access(path, os.X_OK)


def stranger(python: str) -> int | None:
    """The user, other than root and us, who could have another program run in its place; None when there is none.

    That is the owner of the program, of a link to it, of the environment's folders, or of the file that makes them one:
    its site-packages run with every start.
    """
    folder = os.path.dirname(python)
    env = os.path.dirname(folder)
    for path in (python, folder, env, os.path.join(env, "pyvenv.cfg")):
        for look in (os.stat, os.lstat):
            try:
                owner = look(path).st_uid
            except OSError:
                continue
            if owner not in _TRUSTED:
                return owner
    return None


def folders_of(root: str | None, deadline: float) -> Iterator[str]:
    """The folders in which interpreters usually are, the training root's first."""
    home = os.path.expanduser("~")
    bases = [base for base in dict.fromkeys((root or home, home)) if os.path.isabs(base) and base != "/"]
    for base in bases:
        yield from below(base, 2, deadline)
    for name in _HOMES:
        yield os.path.join(home, name, "bin")
        yield from below(os.path.join(home, name, "envs"), 1, deadline)
    yield from below(os.path.join(home, ".pyenv", "versions"), 1, deadline)
    yield from below("/opt", 1, deadline)
    for conda in children("/opt", deadline):
        yield from below(os.path.join(conda, "envs"), 1, deadline)
    yield "/venv/bin"
    yield from _BIN


def below(base: str, depth: int, deadline: float) -> Iterator[str]:
    """`bin` folders one to `depth` levels below; near ones first. Data folders can be huge, so time is bounded."""
    level = [base]
    for _step in range(depth):
        level = [child for folder in level for child in children(folder, deadline)]
        for folder in level:
            yield os.path.join(folder, "bin")


def children(folder: str, deadline: float) -> list[str]:
    """The folders in a folder, by name."""
    found: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if time.monotonic() > deadline:
                    break
                if entry.name not in (".trainops", ".cache", "__pycache__") and entry.is_dir():
                    found.append(entry.path)
    except OSError:
        pass
    return sorted(found)
