# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a manifest is and says, and when its text is none: damaged by a disk, or written by somebody else. Pure."""

from __future__ import annotations

import json
import re

from .store import FORMAT, release_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SHA256 = re.compile(r"[0-9a-f]{64}")
# What the entries of the releases that keep somebody else's files must hold, beside what they may.
_FORMS: dict[str, dict[str, type]] = {
    "file": {"mode": int, "size": int, "sha256": str},
    "dir": {"mode": int},
    "link": {"target": str},
    "shared": {},
}
_MAY: dict[str, type] = {"uid": int, "gid": int, "mtime_ns": int, "original": str}


def parse(text: str, release: str) -> dict[str, Any] | None:
    """The manifest of ``release`` in a text; None for anything else.

    An id is made from a release's files, so no other files can pass for them. What a check has noted is only help:
    where it is damaged it is dropped.
    """
    try:
        manifest = json.loads(text)
        ours = isinstance(manifest, dict) and manifest.get("format") == FORMAT and manifest.get("id") == release
        if not ours or not _are_files(manifest.get("files"), release):
            return None
    except (ValueError, RecursionError, AttributeError, TypeError):
        return None
    found: dict[str, Any] = manifest
    if not _are_facts(found.get("checked", {})):
        found["checked"] = {}
    return found


def _are_files(files: Any, release: str) -> bool:
    if not isinstance(files, dict):
        return False
    if _SHA256.fullmatch(release):
        return release_id([dict(entry, path=path) for path, entry in files.items()]) == release
    return all(_is_entry(path, entry) for path, entry in files.items())


def _is_entry(path: str, entry: Any) -> bool:
    form = _FORMS.get(entry.get("type"))
    if form is None or "\0" in path or any(part in ("", ".", "..") for part in path.split("/")):
        return False
    wanted = {**form, **{key: kind for key, kind in _MAY.items() if key in entry}}
    values = [(entry.get(key), kind) for key, kind in wanted.items()]
    right = all(isinstance(value, kind) and not isinstance(value, bool) for value, kind in values)
    return right and (
        entry["type"] != "file" or (entry["size"] >= 0 and _SHA256.fullmatch(entry["sha256"]) is not None)
    )


def _are_facts(value: Any) -> bool:
    """{interpreter: {sha256: {kind: facts}}}; whoever uses facts looks at them himself."""
    return isinstance(value, dict) and all(
        isinstance(by_content, dict) and all(isinstance(by_kind, dict) for by_kind in by_content.values())
        for by_content in value.values()
    )
