# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is noted with a release beside its files: what a check has passed, so that the next one need not read it."""

from __future__ import annotations

from .scratch import Scratch, write_manifest
from .store import Store, manifest_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .release import Plan


def checked(params: dict[str, Any], plan: Plan, *manifests: dict[str, Any] | None) -> dict[str, dict[str, Any]]:
    """What each interpreter has passed of the wanted files: known before, and new from the check of this deploy."""
    found: dict[str, dict[str, Any]] = {}
    contents = {entry.get("sha256") for entry in plan.wanted.values()}
    known = [(manifest or {}).get("checked") or {} for manifest in manifests]
    if params.get("checked"):
        known.append({params["checked"]["python"]: _unpack(params["checked"]["facts"])})
    for facts in known:
        for python, by_content in facts.items():
            ours = {sha256: fact for sha256, fact in by_content.items() if sha256 in contents}
            for sha256, fact in ours.items():
                found.setdefault(python, {}).setdefault(sha256, {}).update(fact)
    return found


def _unpack(facts: str) -> dict[str, Any]:
    if not facts:
        return {}
    import base64
    import json
    import zlib

    unpacked: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(facts)))
    return unpacked


def note(store: Store, params: dict[str, Any], plan: Plan, files: dict[str, dict[str, Any]] | None) -> None:
    """Write the manifest of a release in place again when there is something new to note: facts, signatures."""
    manifest = manifest_of(store, plan.release)
    if manifest is None:
        return
    live = manifest_of(store, plan.seen.live) if plan.seen.live not in (None, plan.release) else None
    noted = dict(manifest, files=files or manifest["files"], checked=checked(params, plan, live, manifest))
    if noted != manifest:
        with Scratch(store) as scratch:
            write_manifest(scratch, plan.release, noted)
