# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The interpreters of this machine on which the worker can be tried: this one, and the oldest that we promise."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
from pathlib import Path


def _runs(python: Path | str) -> bool:
    # A name on PATH may be a version manager's shim that only fails.
    try:
        done = subprocess.run(
            [python, "-c", "import sys; print(sys.version_info[:2])"], capture_output=True, check=False
        )
    except OSError:
        return False
    return done.stdout.strip() == b"(3, 9)"


@functools.cache
def interpreters() -> list[str]:
    """Paths: the running interpreter, then a Python 3.9 where there is one that works."""
    installed = sorted(Path.home().glob(".pyenv/versions/3.9*/bin/python"))
    candidates = [found for found in (shutil.which("python3.9"),) if found] + [str(path) for path in installed]
    return [sys.executable, *[path for path in candidates if _runs(path)][:1]]
