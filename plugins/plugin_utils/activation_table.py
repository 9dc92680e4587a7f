# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What was live when, as lines for a person: who did it, from which commit, what can be gone back to. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.store import short_id
from ansible_collections.trainops.proxmox.plugins.plugin_utils.lines import columns

_HEAD = ["#", "when (UTC)", "by", "how", "commit", "release, its runs"]
_WHO = 12


def activation_lines(project: Mapping[str, Any], runs: Sequence[Mapping[str, Any]], most: int) -> list[str]:
    """The last ``most`` activations of a project, the latest first, in at most 78 columns.

    ``project``: name, live, activations, releases (the ids of those that are there); ``runs``: those of the host, of
    which the ones of this project that live are named beside the release that they use.
    """
    records = list(project["activations"])[-most:] if most > 0 else []
    if not records:
        return []
    used = _used(runs, str(project["name"]))
    rows = [_HEAD, *(_row(record, project, used) for record in reversed(records))]
    earlier = len(project["activations"]) - len(records)
    return [*columns(rows), *([f"… and {earlier} earlier"] if earlier else [])]


def _used(runs: Sequence[Mapping[str, Any]], name: str) -> dict[str, list[str]]:
    """The runs that may still read from a release, by its id."""
    found: dict[str, list[str]] = {}
    for run in runs:
        lives = run["state"] in ("starting", "running") or run.get("left_behind")
        if lives and run.get("project") == name and run.get("release"):
            found.setdefault(str(run["release"]), []).append(str(run["run"]))
    return found


def _row(record: Mapping[str, Any], project: Mapping[str, Any], used: Mapping[str, list[str]]) -> list[str]:
    release = str(record["release"])
    is_live = record is project["activations"][-1] and release == project["live"]
    notes = ["live"] if is_live else [] if release in project["releases"] else ["removed"]
    if runs := used.get(release):
        notes += [runs[0], *(["…"] if len(runs) > 1 else [])]
    return [
        str(record["activation"]),
        str(record.get("time") or "-").removesuffix("Z").replace("T", " ")[:16],
        _cut(str(record.get("who") or "-")),
        str(record.get("kind") or "-"),
        _commit(record),
        " ".join([short_id(release), *notes]),
    ]


def _cut(text: str) -> str:
    return text if len(text) <= _WHO else text[: _WHO - 1] + "…"


def _commit(record: Mapping[str, Any]) -> str:
    """``c0ffee1``, with a ``+`` where what was shipped was not quite that."""
    commit = record.get("commit")
    return str(commit)[:7] + "+" * bool(record.get("dirty")) if commit else "-"
