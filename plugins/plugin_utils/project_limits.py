# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How large a project may be before it is taken for a mistake, such as a folder of checkpoints. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import OptionError
from ansible_collections.trainops.proxmox.plugins.plugin_utils.lines import size
from ansible_collections.trainops.proxmox.plugins.plugin_utils.project_size import culprits, exclude_pattern, tree
from ansible_collections.trainops.proxmox.plugins.plugin_utils.visible import path_text

_UNITS = {
    "": 1,
    **{unit: 1000**power for power, unit in enumerate(("b", "kb", "mb", "gb", "tb"))},
    **{unit: 1024**power for power, unit in enumerate(("kib", "mib", "gib", "tib"), 1)},
}
_NAMED = 5
_SHARE = 10  # what has a tenth of what is allowed is worth a name
_OVER = 20  # so many times the allowed number of files tell enough; counting on would only take time


def read_size(text: str) -> int:
    """Bytes from a text such as ``500MB``, ``1.5 GiB`` or ``2000000``; 0 is no limit. Raises OptionError."""
    match = re.fullmatch(r"\s*([0-9]{1,30}(?:\.[0-9]{1,30})?)\s*([A-Za-z]*)\s*", str(text))
    factor: int | None = _UNITS.get(match[2].lower()) if match else None
    if match is None or factor is None:
        raise OptionError(f"option max_size: {text!r} is no size: write it as 500MB, 2GB or 1.5GiB; 0 is no limit")
    return math.ceil(Fraction(match[1]) * factor)


@dataclass(frozen=True)
class Limits:
    """What a project may have: bytes and files; 0 is no limit."""

    size: int = 0
    files: int = 0

    @property
    def most(self) -> int | None:
        """After how many files a walk may stop, since the answer is clear."""
        return self.files * _OVER if self.files else None

    def refuse(self, found: list[tuple[str, int]], paths: Mapping[str, str], whole: bool) -> None:
        """Raise OptionError, naming the largest paths, when the files (path, bytes) are more than is allowed.

        ``paths`` says where each path is in the folder that was named; ``whole``: there are no more files than these.
        """
        total = sum(amount for _path, amount in found)
        if self.size and total > self.size:
            allowed, fix = f"option max_size allows ({size(self.size)})", _size_fix(total)
            limit, by_files = self.size // _SHARE, False
        elif self.files and len(found) > self.files:
            allowed, fix = f"option max_files allows ({self.files})", _files_fix(len(found), whole)
            limit, by_files = self.files // _SHARE, True
        else:
            return
        named = _largest(found, limit, by_files)
        has = f"{'' if whole else 'at least '}{size(total)} in {len(found)} files"
        largest = "; ".join(f"{path_text(path)} ({_amount(count, amount)})" for path, amount, count in named)
        what = f"The largest: {largest}." if largest else "No folder of it stands out."
        patterns = [pattern for path, *_more in named if (pattern := exclude_pattern(paths, path))]
        told = [pattern for pattern in patterns if path_text(pattern) == pattern]
        exclude = f"training_exclude{f': {told}' if told else ''}"
        raise OptionError(
            f"this project has {has}, more than {allowed}. {what} Leave out what is no code ({exclude}), name in "
            f"training_shared what the container has of its own, or allow it: {fix}"
        )


def limits_of(options: Mapping[str, Any]) -> Limits:
    """The options ``max_size`` and ``max_files``. Raises OptionError for what they cannot be."""
    if options["max_files"] < 0:
        raise OptionError(f"option max_files: {options['max_files']} cannot be, it must be at least 0 (no limit)")
    return Limits(read_size(options["max_size"]), options["max_files"])


def _size_fix(total: int) -> str:
    unit, factor = ("GB", 10**9) if total >= 10**9 else ("MB", 10**6) if total >= 10**6 else ("kB", 10**3)
    enough = f"{math.ceil(total / factor)}{unit}"
    return f"option max_size: {enough} (trainops deploy --max-size {enough})"


def _files_fix(count: int, whole: bool) -> str:
    enough = count if whole else 0
    return f"option max_files: {enough} (trainops deploy --max-files {enough})"


def _largest(found: list[tuple[str, int]], limit: int, by_files: bool) -> list[tuple[str, int, int]]:
    """The paths to name, largest first: (path, bytes, files)."""
    totals, counts, children = tree(found)
    by = counts if by_files else totals
    named = [
        path
        for path in culprits(by, children, limit) or children[""]
        if counts[path] > 1 or not by_files  # that a file is one file tells nothing
    ]
    return [(path, totals[path], counts[path]) for path in sorted(named, key=lambda one: (-by[one], one))[:_NAMED]]


def _amount(count: int, amount: int) -> str:
    return size(amount) + (f" in {count} files" if count > 1 else "")
