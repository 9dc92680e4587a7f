# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A show on a terminal or in a log: commands with what they print, and claims that are checked."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_STYLE = re.compile(r"\x1b\[[0-9;]*m")


class ShowError(Exception):
    """Something was not as it should be."""


@dataclass(frozen=True)
class Show:
    """Where the show takes place: the folder in which commands run, and how that folder is called on the screen."""

    folder: Path
    called: str

    def act(self, title: str) -> None:
        """A heading."""
        print(f"\n{self._bold('== ' + title)}", flush=True)

    def note(self, text: str) -> None:
        """A remark."""
        print(f"   {text}", flush=True)

    def run(
        self, *argv: str, status: int = 0, loud: bool = True, on_line: Callable[[str], None] = lambda line: None
    ) -> str:
        """Run a command in the folder, print it and what it prints; gives its standard output without colours.

        ``on_line`` gets each line of it at once. Raises ShowError when it ends with another status.
        """
        print(self._bold(f"{self.called}$ {shlex.join(argv)}"), flush=True)
        started = time.monotonic()
        said = []
        with subprocess.Popen(
            argv, cwd=self.folder, env=_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        ) as process:
            if process.stdout is None:
                raise ShowError("no output")
            for line in process.stdout:
                said.append(_STYLE.sub("", line))
                on_line(said[-1])
                if loud:
                    print(f"   {line}", end="", flush=True)
        self.note(f"[{time.monotonic() - started:.1f} s, exit {process.returncode}]")
        if process.returncode != status:
            raise ShowError(f"{shlex.join(argv)} ended with {process.returncode}, not {status}")
        return "".join(said)

    def python(self, code: str, function: Callable[[], Any]) -> Any:
        """Print one line of Python, run the function that it stands for, and give what that returns."""
        print(self._bold(f">>> {code}"), flush=True)
        return function()

    def claim(self, text: str, holds: bool, otherwise: object = "") -> None:
        """Say what was found to be so. Raises ShowError when it is not."""
        if not holds:
            raise ShowError(f"not so: {text}" + (f"\n{otherwise}" if otherwise != "" else ""))
        print(f"   {_green('✓')} {text}", flush=True)

    @staticmethod
    def _bold(text: str) -> str:
        return f"\x1b[1m{text}\x1b[0m" if _colors() else text


def _green(text: str) -> str:
    return f"\x1b[32m{text}\x1b[0m" if _colors() else text


def _colors() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


def _environment() -> dict[str, str]:
    """The user's environment with this interpreter's tools first, and nothing that would change what Ansible does."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "TRAINOPS_PROXMOX_"))}
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    color = {"ANSIBLE_FORCE_COLOR": "1"} if _colors() else {"ANSIBLE_NOCOLOR": "1"}
    return {**kept, "PATH": path, "PYTHONUNBUFFERED": "1", **color}
