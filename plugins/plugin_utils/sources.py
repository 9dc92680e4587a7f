# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The worker's modules as they travel: the one that brings the others, and those that an operation can come to need."""

from __future__ import annotations

import functools
import importlib.resources
import json
import re
import zlib
from collections.abc import Mapping

_PACKAGE = "trainops_worker"
_IMPORT = re.compile(r"^ *from \.(\w*) import (\([^)]*\)|.*)", re.MULTILINE)
_QUICK = 3  # zlib's level: a better one takes longer than a network needs for what it saves


@functools.cache
def worker_sources() -> Mapping[str, str]:
    """All modules of the worker by their names in its package."""
    found = {}
    for entry in importlib.resources.files(f"{__package__}._worker").iterdir():
        name = entry.name.removesuffix(".py")
        if name != entry.name:
            found[name] = entry.read_text("utf-8")
    return found


def boot_source() -> str:
    """The code that starts the worker and takes in the modules that are sent."""
    return worker_sources()["boot"]


def packed_sources(operation: str) -> bytes:
    """What an operation needs, as the boot source takes it: a length line and compressed JSON {module: source}."""
    needed = _needed(operation, worker_sources())
    modules = {f"{_PACKAGE}.{name}".removesuffix(".__init__"): text for name, text in needed.items()}
    packed = zlib.compress(json.dumps(modules).encode("utf-8"), _QUICK)
    return b"%d\n" % len(packed) + packed


def _needed(operation: str, sources: Mapping[str, str]) -> dict[str, str]:
    """An operation's module and the conversation's, and all that they import, now or later."""
    found: dict[str, str] = {}
    waiting = ["__init__", "channel", operation]
    while waiting:
        name = waiting.pop()
        if name in found or name not in sources:
            continue
        found[name] = sources[name]
        for module, names in _IMPORT.findall(sources[name]):
            waiting += [module] if module else re.findall(r"\w+", names)
    return found
