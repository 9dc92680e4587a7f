# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run starts: the words of its command, always by the release's real path and never through a link.

Links of the project in the root lead to whatever is live, so a run that was started through them would see the next
deploy: in modules that it imports late, and in the children that multiprocessing spawns.
"""

from __future__ import annotations

import os
import posixpath
import re

from .channel import WorkerError
from .store import some
from .words import ShellNeeded, split

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Python before 3.11 cannot be told to leave the working folder out of its path.
AS_MODULE = (
    "import runpy, sys; sys.path[:] = [entry for entry in sys.path if entry]; "
    "del sys.argv[0]; runpy._run_module_as_main(sys.argv[0])"
)
_WITHOUT_CWD = "import sys; sys.path[:] = [entry for entry in sys.path if entry]\n"
# Programs that start one Python for each GPU, as a script or as a module.
_LAUNCHERS = {
    "accelerate",
    "accelerate.commands.launch",
    "deepspeed",
    "deepspeed.launcher.runner",
    "torch.distributed.launch",
    "torch.distributed.run",
    "torchrun",
}
_PYTHON = re.compile(r"python(?:[23](?:\.\d+)?)?")


class Place:
    """What a command is made for: the release's folder and files, the root, the interpreter and its version."""

    def __init__(self, release: str, files: list[str], root: str, python: str, version: tuple[int, int]) -> None:
        self.release = release
        self.files = files
        self.root = root
        self.python = python
        self.version = version


def words_of(value: Any, what: str) -> list[str]:
    """A command or arguments as words: a list, or one text that is split as a shell would. Raises WorkerError."""
    if isinstance(value, str):
        try:
            return split(value)
        except ShellNeeded as error:
            fix = "quote it, or name a shell: [bash, -c, '...']"
            raise WorkerError("command", f"{what}: no shell is between that would understand {error}: {fix}") from None
        except ValueError as error:
            raise WorkerError("command", f"{what} cannot be split into words: {error}") from None
    if not isinstance(value, list) or not all(isinstance(word, (str, int, float)) for word in value):
        raise WorkerError("command", f"{what} is neither a text nor a list of texts")
    words = [str(word) for word in value]
    if any("\0" in word for word in words):
        raise WorkerError("command", f"{what} has a NUL character in it, which no command can hold")
    return words


def build(given: dict[str, Any], place: Place) -> list[str]:
    """The words to start, of ``given`` {command, script, args}; the first is still as it was named.

    Raises WorkerError: "command" when nothing usable was given, "no-script" for a script that is not there.
    """
    if given.get("script"):
        words = [place.python, find_script(str(given["script"]), place)]
        words += [_expand(word, place) for word in words_of(given.get("args") or [], "training_args")]
        return words
    words = [_expand(word, place) for word in words_of(given.get("command") or [], "training_command")]
    if not words or not words[0]:
        fix = "set training_script and training_args, or training_command"
        raise WorkerError("command", f"there is nothing to start: {fix}")
    return [words[0], *(real_script(word, place) for word in words[1:])]


def _expand(word: str, place: Place) -> str:
    return word.replace("{release}", place.release).replace("{python}", place.python)


def real_script(word: str, place: Place) -> str:
    """A word that names a Python file of the project, seen from the root, by the release's path; others as they are."""
    if not word.endswith(".py"):
        return word
    relative = posixpath.normpath(posixpath.relpath(posixpath.join(place.root, word), place.root))
    return posixpath.join(place.release, relative) if relative in place.files else word


def find_script(script: str, place: Place) -> str:
    """The path of a script, which counts from the release. Raises WorkerError("no-script") naming what is near."""
    word = _expand(script, place)
    real = real_script(word, place)
    path = real if real != word else posixpath.normpath(posixpath.join(place.release, word))
    if os.path.isfile(path):
        return path
    near = near_names(word, place.files)
    scripts = [path for path in place.files if path.endswith(".py")]
    there = f"there are {some(scripts)}" if scripts else f"its files are in {place.release}"
    fix = f"did you mean {' or '.join(near)}?" if near else there
    raise WorkerError("no-script", f"there is no {word} in the release: {fix}")


def near_names(word: str, files: list[str]) -> list[str]:
    """The Python files whose path or name is nearest to a word, at most three."""
    import difflib  # only a mistake needs it

    scripts = [path for path in files if path.endswith(".py")]
    name = posixpath.basename(word)
    same = [path for path in scripts if posixpath.basename(path) == name]
    # Without the ending, which alone makes two short names look alike.
    paths = {path[:-3]: path for path in scripts}
    names = {posixpath.basename(path)[:-3]: path for path in scripts}
    word, name = (text[:-3] if text.endswith(".py") else text for text in (word, name))
    close = [paths[one] for one in difflib.get_close_matches(word, paths, 3)]
    close += [names[one] for one in difflib.get_close_matches(name, names, 3)]
    return list(dict.fromkeys([*same, *close]))[:3]


def resolved(words: list[str], env: dict[str, str], place: Place) -> list[str]:
    """The same with the path of the program. Raises WorkerError("no-command") when it is not there."""
    name, found = words[0], None
    if "/" in name:
        found = os.path.join(place.root, name)
    else:
        found = next(
            (one for one in (f"{folder}/{name}" for folder in env["PATH"].split(":")) if _is_program(one)), None
        )
    if found and _is_program(found):
        return [found, *words[1:]]
    if found and os.path.isfile(found):
        raise WorkerError("no-command", f"{found} is not executable: chmod +x, or start it by its interpreter")
    where = "there" if "/" in name else f"on the run's PATH ({env['PATH']})"
    fix = "set training_python to the interpreter beside it, or name its path in training_command"
    raise WorkerError("no-command", f"{name} is not {where}: {fix}")


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def without_cwd(words: list[str], place: Place) -> tuple[list[str], dict[str, str]]:
    """A resolved command that does not look for modules in the working folder, and the variables for that.

    Python puts the working folder first for ``-m`` and ``-c``; there the project's names are links.
    Raises WorkerError("command") for a launcher of modules under a Python older than 3.11.
    """
    inner = words[1:]
    launcher = posixpath.basename(words[0])
    if is_python(words[0]):
        flags, kind, rest = split_options(words[1:])
        if kind in ("-m", "-c") and rest:
            launcher, inner = rest[0] if kind == "-m" else "", rest[1:]
            words = _own_module(words[0], flags, kind, rest, place)
    if launcher not in _LAUNCHERS or not _starts_module(inner):
        return words, {}
    if place.version < (3, 11):
        fix = "name the script's file instead, or use Python 3.11 or newer"
        raise WorkerError("command", f"{launcher} -m would look in {place.root} first, not in the release: {fix}")
    return words, {"PYTHONSAFEPATH": "1"}


def _own_module(program: str, flags: list[str], kind: str, rest: list[str], place: Place) -> list[str]:
    if place.version >= (3, 11) and is_same(program, place.python):
        return [program, "-P", *flags, kind, *rest]
    if kind == "-m":
        return [program, *flags, "-c", AS_MODULE, *rest]
    code = rest[0] if "__future__" in rest[0] else _WITHOUT_CWD + rest[0]
    return [program, *flags, "-c", code, *rest[1:]]


def is_python(program: str) -> bool:
    """Whether a program is a Python, by its name."""
    return _PYTHON.fullmatch(posixpath.basename(program)) is not None


def is_same(program: str, python: str) -> bool:
    """Whether two paths are one interpreter, of the same environment."""
    same_folder = os.path.dirname(program) == os.path.dirname(python)
    return program == python or (same_folder and os.path.realpath(program) == os.path.realpath(python))


def split_options(words: list[str]) -> tuple[list[str], str, list[str]]:
    """The words after ``python`` as its own options, the kind of what it runs (-m, -c or "") and the rest."""
    flags: list[str] = []
    for at, word in enumerate(words):
        if flags and flags[-1] in ("-W", "-X", "--check-hash-based-pycs"):
            flags.append(word)
        elif not word.startswith("-") or word == "-":
            return flags, "", words[at:]
        elif word.startswith("--"):
            flags.append(word)
        else:
            match = re.match(r"-([^mcWX]*)([mc])(.*)", word, re.DOTALL)
            if match:
                flags += [f"-{match[1]}"] if match[1] else []
                return flags, f"-{match[2]}", [*([match[3]] if match[3] else []), *words[at + 1 :]]
            flags.append(word)
    return flags, "", []


def _starts_module(words: list[str]) -> bool:
    """Whether the words of a launcher say that it starts a module."""
    before = []
    for word in words:
        if word.endswith(".py"):
            break
        before.append(word)
    return "-m" in before or "--module" in before


def python_path(entries: list[str], place: Place) -> list[str]:
    """The release and the folders after it; one that the release brings too is meant there, and not through a link."""
    found = [place.release]
    for entry in entries:
        full = os.path.normpath(os.path.join(place.root, entry))
        relative = os.path.relpath(full, place.root)
        inside = os.path.join(place.release, relative)
        found.append(inside if not relative.startswith("..") and relative != "." and os.path.isdir(inside) else full)
    return found
