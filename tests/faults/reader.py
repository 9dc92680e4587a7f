# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs in a container: resolves ``current`` once, imports and reads the whole project from there, and does so again.

``python3 -I -S - FOLDER ROOT...``: FOLDER gets ``reads``, how many passes there were, and ``bad``, a line for each
pass that saw anything but one complete release.
"""

from __future__ import annotations

import importlib
import os
import stat  # noqa: F401 - what the project imports beside its own is there before
import sys
import time

PAUSE_SECONDS = 0.05


def one_pass(root: str, own: set[str]) -> None:
    """Import the project below a root from what ``current`` says now. Raises whatever goes wrong.

    ``own`` are the names of the modules that are not the project's.
    """
    home = os.path.join(root, ".trainops", "demo")
    try:
        release = os.path.join(home, os.readlink(os.path.join(home, "current")))
    except FileNotFoundError:
        return  # nothing was deployed yet
    for name in sys.modules.keys() - own:
        del sys.modules[name]
    sys.path_importer_cache.clear()
    sys.path.insert(0, release)
    try:
        importlib.import_module("train").check(release, root)
    finally:
        sys.path.remove(release)


def note(folder: int, name: str, text: str, flags: int) -> None:
    """Write a text to a file of the report."""
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | flags, 0o644, dir_fd=folder)
    os.write(fd, text.encode())
    os.close(fd)


def main() -> None:
    """Read until killed."""
    sys.dont_write_bytecode = True
    folder, reads, own = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECTORY), 0, set(sys.modules)
    while True:
        for root in sys.argv[2:]:
            try:
                one_pass(root, own)
            except Exception as error:
                note(folder, "bad", f"{type(error).__name__}: {error}\n", os.O_APPEND)
        reads += 1
        note(folder, "reads", f"{reads:12d}\n", 0)
        time.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    main()
