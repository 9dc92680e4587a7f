# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What of a project is too big to ship, from the sizes of its files. Pure."""

from __future__ import annotations

import glob
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ansible_collections.trainops.proxmox.plugins.plugin_utils.project import Measured

_CULPRITS = 3
_LARGEST = 10


def sizes(project: Measured | None, limit: int) -> dict[str, Any]:
    """What a result says of a project's size; ``limit`` in bytes is what a file or folder may have."""
    if project is None:
        return {
            "name": None, "files": 0, "total_bytes": 0, "big": [], "largest": [], "left_out": {}, "problems": []
        }  # fmt: skip
    largest = sorted(project.files, key=lambda file: (-file[1], file[0]))[:_LARGEST]
    return {
        "name": project.name,
        "files": len(project.files),
        "total_bytes": sum(size for _path, size in project.files),
        "big": big(project, limit),
        "largest": [{"path": path, "bytes": size} for path, size in largest],
        "left_out": dict(Counter(why for _path, why in project.ignored).most_common()),
        "problems": project.problems,
    }


def big(project: Measured, limit: int) -> list[dict[str, Any]]:
    """The files and folders larger than ``limit``, largest first.

    A folder is named as a whole, unless what is in it without a few large files or folders is no more than ``limit``.
    """
    totals, counts, children = tree(project.files)
    found = sorted(culprits(totals, children, limit), key=lambda path: (-totals[path], path))
    return [
        {"path": path, "bytes": totals[path], "files": counts[path], "exclude": exclude_pattern(project.paths, path)}
        for path in found
    ]


def tree(files: Iterable[tuple[str, int]]) -> tuple[Counter[str], Counter[str], dict[str, set[str]]]:
    """Bytes and files of each file and folder ("" is the project), and what is in each folder."""
    totals: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    children: dict[str, set[str]] = {}
    for path, size in files:
        here = path
        while True:
            totals[here] += size
            counts[here] += 1
            if not here:
                break
            above = here.rpartition("/")[0]
            children.setdefault(above, set()).add(here)
            here = above
    return totals, counts, children


def culprits(totals: Counter[str], children: dict[str, set[str]], limit: int) -> list[str]:
    """The paths to name; ``totals`` may be bytes or files."""
    large = [path for path, total in totals.items() if path and total > limit]
    named: dict[str, list[str]] = {}
    for path in sorted(large, key=lambda one: -one.count("/")):  # what is in a folder before the folder
        inner = [one for child in children.get(path, ()) for one in named.get(child, ())]
        few = 0 < len(inner) <= _CULPRITS and totals[path] - sum(totals[one] for one in inner) <= limit
        named[path] = inner if few else [path]
    return [one for child in children.get("", ()) for one in named.get(child, ())]


def exclude_pattern(paths: Mapping[str, str], path: str) -> str | None:
    """The pattern that leaves out this path alone; None for a folder that only a ``dest`` made.

    ``paths`` says where each path is in the folder that was named.
    """
    inside = paths.get(path)
    return None if inside is None else f"./{glob.escape(inside)}"
