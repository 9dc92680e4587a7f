# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Syntax of shell scripts, by the shell that would run them: it reads (`-n`), it executes nothing."""

from __future__ import annotations

import os
import re

from .imports import ERROR, WARNING, problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SECONDS = 20.0
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SHELLS = frozenset(("sh", "bash", "dash", "ash", "ksh", "mksh", "zsh"))
# bash: `bash: line 3: text`; dash: `sh: 3: text`; zsh: `zsh:3: text`; ksh: `ksh: syntax error at line 3: text`
_PLACES = (
    re.compile(r"^[^:\n]*: line (\d+): (.*)$"),
    re.compile(r"^[^:\n]*: ?(\d+): (.*)$"),
    re.compile(r"^[^:\n]*: (?:syntax error )?at line (\d+):? ?(.*)$"),
)


def shell_problems(path: str, data: bytes) -> list[dict[str, Any]]:
    """What the script's own shell says about its syntax; a warning when this machine has no such shell.

    The shell is the one of the `#!` line; without one bash, which reads most, or else sh.
    """
    first = data.split(b"\n", 1)[0]
    found = []
    if first.startswith(b"#!") and first.endswith(b"\r"):
        text = "the #! line ends with a carriage return (CRLF): the kernel would look for an interpreter of that name"
        found.append(problem(path, 1, len(first), WARNING, "shell", text))
    wanted = _wanted(first)
    shell = next((there for there in map(_which, wanted) if there), None)
    if shell is None:
        text = f"not checked: there is no {wanted[0]} here to read it"
        return [*found, problem(path, 1, 1, WARNING, "shell", text)]
    return found + _read(path, data, shell)


def _wanted(first: bytes) -> list[str]:
    words = first[2:].decode("utf-8", "replace").split() if first.startswith(b"#!") else []
    names = [os.path.basename(word) for word in words]
    # `#!/usr/bin/env -S bash -e` names its shell later in the line.
    shell = next((name for name in names if name in _SHELLS), None)
    return [shell] if shell else ["bash", "sh"]


def _which(name: str) -> str | None:
    for folder in os.environ.get("PATH", _PATH).split(":"):
        path = os.path.join(folder, name)
        if folder and os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    return None


def _read(path: str, data: bytes, shell: str) -> list[dict[str, Any]]:
    import subprocess  # costs milliseconds that a project without shell scripts need not pay

    env = {"PATH": os.environ.get("PATH", _PATH), "LC_ALL": "C"}
    argv = [shell, "-n"]
    try:
        done = subprocess.run(argv, input=data, capture_output=True, env=env, cwd="/", timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        text = f"not checked: {shell} -n did not end within {SECONDS:g} s"
        return [problem(path, 1, 1, WARNING, "shell", text)]
    except OSError as exc:
        return [problem(path, 1, 1, WARNING, "shell", f"not checked: {shell} cannot be run: {exc.strerror}")]
    return complaints(path, done.stderr.decode("utf-8", "replace"), done.returncode != 0)


def complaints(path: str, text: str, failed: bool) -> list[dict[str, Any]]:
    """A shell's messages as problems; lines that only quote the source are left out."""
    found = []
    for line in text.splitlines():
        match = next((match for match in (place.match(line) for place in _PLACES) if match), None)
        quoted = match and match.group(2).startswith("`") and match.group(2).endswith("'")
        if match and not quoted:
            found.append((int(match.group(1)), match.group(2) or "syntax error"))
    if failed and not found:
        found = [(1, text.strip().splitlines()[0] if text.strip() else "the shell refuses it")]
    severity = ERROR if failed else WARNING
    return [problem(path, max(1, line), 1, severity, "shell", message) for line, message in found]
