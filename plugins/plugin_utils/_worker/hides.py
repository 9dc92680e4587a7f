# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What must not go out of view when a project takes a name: files that it does not bring, and the Python in use."""

from __future__ import annotations

import os
import stat
import sys

from .channel import WorkerError
from .scratch import is_bytecode
from .store import Store, amount, some, together

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Found = list[tuple[str, os.stat_result]]

MOST = 200_000  # files that are counted in a folder before it is refused as it is


def refuse_interpreter(store: Store, plain: list[str]) -> None:
    """Raise WorkerError("interpreter") when the Python that runs this lies under a name that is to be taken."""
    root = os.path.realpath(f"/proc/self/fd/{store.root_fd}")
    used = {path for path in (sys.executable, sys.prefix, sys.exec_prefix, sys.base_prefix) if path}
    used |= {os.path.realpath(path) for path in used}
    for name in plain:
        places = (os.path.join(root, name), os.path.join(store.root, name))
        if any(path == place or path.startswith(place + "/") for path in used for place in places):
            raise WorkerError(
                "interpreter",
                f"{os.path.join(store.root, name)} holds the Python that does this ({sys.executable}), and the project "
                f"has the same name: leave {name} out with training_exclude",
            )


def refuse_hidden(store: Store, found: Found, wanted: dict[str, dict[str, Any]]) -> None:
    """Raise WorkerError("hides") when a plain folder has files that the project does not bring under its name."""
    hidden: dict[str, Found] = {}
    for path, info in found:
        if path not in wanted and not is_bytecode(path) and (stat.S_ISREG(info.st_mode) or stat.S_ISLNK(info.st_mode)):
            hidden.setdefault(path.partition("/")[0], []).append((path, info))
    if hidden:
        counted = {name: _counted(files) for name, files in hidden.items()}
        raise WorkerError("hides", together([_sentence(store, *item) for item in counted.items()]), hidden=counted)


def _counted(files: Found) -> dict[str, Any]:
    return {
        "files": len(files),
        "bytes": sum(info.st_size for _path, info in files),
        "examples": [path for path, _info in files[:5]],
    }


def _sentence(store: Store, name: str, hidden: dict[str, Any]) -> str:
    count, more = hidden["files"], " at least" * (hidden["files"] >= MOST)
    files = f"{count} file{'s' * (count != 1)}"
    return (
        f"{os.path.join(store.root, name)} has{more} {files} ({amount(hidden['bytes'])}) that the project does not "
        f"bring, and they would go out of view ({some(hidden['examples'], count=count, most=3)}): name {name} in "
        "training_shared when it holds data, leave it out with training_exclude, or set training_adopt_folders: true "
        "when the project's folder is to replace it (all of it is then kept as a release)"
    )
