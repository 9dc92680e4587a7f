# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What differs from a live release, by hand and in the project, as users see it. Pure, but for the project's texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.store import short_id
from ansible_collections.trainops.proxmox.plugins.plugin_utils.left_out import why_hidden
from ansible_collections.trainops.proxmox.plugins.plugin_utils.lines import size
from ansible_collections.trainops.proxmox.plugins.plugin_utils.project import Entry, Project
from ansible_collections.trainops.proxmox.plugins.plugin_utils.release import (
    headed,
    hidden,
    labels,
    shown,
    text_of,
)
from ansible_collections.trainops.proxmox.plugins.plugin_utils.visible import one_line

_ACTIONS = ("changed", "added", "removed")
_LISTED = 50

Change = Mapping[str, Any]


def compared(project: Project | None, done: Mapping[str, Any], want_diff: bool, host: str) -> dict[str, Any]:
    """The result of a comparison from the worker's (see :mod:`._worker.compare`) and the project."""
    record = done["activation"] or {}
    by_hand, in_project = done["by_hand"], done["in_project"]
    result: dict[str, Any] = {
        "changed": False,
        "release_id": done["release_id"],
        "activation": record.get("activation"),
        "root": done["root"],
        "name": done["name"],
        "source": {"commit": record.get("commit"), "dirty": record.get("dirty")},
        "differs": bool(by_hand) or not (done["same"] and done["known"]),
        "by_hand": by_hand,
        "in_project": in_project,
        "drift": sorted({one["path"] for one in by_hand}),
        "waits_for": done["waits_for"],
    }
    if want_diff:
        result["diff"] = _Texts(project, done, host).diff()
    result["summary"] = summary(result, done)
    result["msg"] = message(result)
    return result


def summary(result: Mapping[str, Any], done: Mapping[str, Any]) -> str:
    """The one line that a person reads of a comparison."""
    root, in_project = result["root"], result["in_project"]
    if result["release_id"] is None:
        return f"nothing of {result['name']} is live at {root}; the project has {_counts(in_project)}"
    said = [f"{short_id(result['release_id'])} live at {root}"]
    if not done["known"]:
        said.append("its manifest is lost, so nobody knows what was changed by hand: deploy again")
    elif result["by_hand"]:
        said.append(f"by hand {'at least ' * done['more']}{_counts(result['by_hand'])}")
    else:
        said.append("nothing was changed by hand")
    if in_project:
        said.append(f"the project has {_counts(in_project)}")
    elif in_project is not None:
        said.append("it is what the project has" if done["same"] else "the project makes another release of it")
    return "; ".join(said)


def _counts(changes: Sequence[Change]) -> str:
    """``2 changed, 1 added (a.py, b.py, c.py)``."""
    counts = Counter(one["action"] for one in changes)
    told = ", ".join(f"{counts[action]} {action}" for action in _ACTIONS if counts[action])
    return f"{told} ({labels(list(dict.fromkeys(one['path'] for one in changes)), 3)})"


def message(result: Mapping[str, Any]) -> str:
    """The summary and each difference on a line of its own."""
    lines = [result["summary"]]
    for what, changes in (("by hand", result["by_hand"]), ("in the project", result["in_project"] or [])):
        lines += [f"{what}: {one['action']:7} {one.get('at', one['path'])}{_how(one)}" for one in changes[:_LISTED]]
        if len(changes) > _LISTED:
            lines.append(f"{what}: … and {len(changes) - _LISTED} more")
    return "\n".join(map(one_line, lines))


def _how(change: Change) -> str:
    """What a change is beside its content."""
    before, after = change["before"], change["after"]
    sides = [_described(one, before, after) for one in (before, after) if one]
    return f" ({' → '.join(dict.fromkeys(sides))})" if any(sides) else ""


def _described(entry: Mapping[str, Any], before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> str:
    if entry["type"] == "link":
        return f"a link to {one_line(str(entry['target']))}"
    if entry["type"] != "file":
        return {"dir": "a folder", "shared": "a shared name"}.get(entry["type"], "neither file nor folder nor link")
    mode = before and after and before.get("mode") != after.get("mode")
    return size(entry["size"]) + (f", mode {entry['mode']:04o}" if mode else "")


class _Texts:
    """The diffs of a comparison, and where the texts for them come from."""

    def __init__(self, project: Project | None, done: Mapping[str, Any], host: str) -> None:
        self._done = done
        self._release = short_id(done["release_id"] or "nothing")
        self._host = host
        self._files: dict[str, Entry] = {one.path: one for one in (project.files if project else ()) if one.sha256}
        self._by_content = {entry.sha256: entry for entry in self._files.values()}

    def diff(self) -> list[dict[str, str]]:
        """Ansible's diffs: what was done by hand, then what the project has."""
        return [
            *map(self._by_hand, self._done["by_hand"]),
            *map(self._in_project, self._done["in_project"] or ()),
        ]

    def _by_hand(self, change: Change) -> dict[str, str]:
        path, before, after = change["path"], change["before"], change["after"]
        was, is_now = self._original(before), self._done["found"].get(change["at"])
        origin = self._release
        if was is None and is_now is not None and before and path in self._files:
            # Where both sides went on from a text that is nowhere any more, it helps to see how they differ.
            was, origin = text_of(self._files[path]), f"the project; {origin} is nowhere any more"
        sides = (_side(was, before, after), _side(is_now, after, before))
        if why := why_hidden(path, was, is_now):
            sides = hidden(*sides, why)
        return headed(f"{path} ({origin})", f"{self._host}:{self._place(change)} (by hand)", *sides)

    def _place(self, change: Change) -> str:
        """Where it is, by the link that leads to what is live: an id of 64 digits is no help to a reader."""
        home = f"{self._done['root'].rstrip('/')}/.trainops/{self._done['name']}"
        place: str = change["at"]
        return place.replace(f"{home}/releases/{self._done['release_id']}/", f"{home}/current/", 1)

    def _in_project(self, change: Change) -> dict[str, str]:
        path, before, after = change["path"], change["before"], change["after"]
        was = self._original(before)
        lost = before and before["type"] == "file" and was is None
        will = text_of(self._files[path]) if path in self._files else None
        why = why_hidden(path, was, will)
        if lost and will is not None:  # without the other side it would be all of it
            was, will = f"({size(before['size'])}, nowhere any more)\n", f"({size(after['size'])})\n"
        sides = (_side(was, before, after), _side(will, after, before))
        if why:
            sides = hidden(*sides, why)
        return headed(f"{path} ({self._host}: {self._release})", f"{path} (the project)", *sides)

    def _original(self, entry: Mapping[str, Any] | None) -> str | None:
        """The text that was released, from the container or from the project, where it still is."""
        sha256 = (entry or {}).get("sha256")
        text: str | None = self._done["texts"].get(sha256)
        if text is None and sha256 in self._by_content:
            text = text_of(self._by_content[sha256])
        return text


def _side(text: str | None, entry: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> str:
    if entry is None:
        return ""
    mode = other and entry.get("mode") != other.get("mode") and "mode" in entry and "mode" in other
    what = shown(text, entry) if entry["type"] in ("file", "link") else f"({_described(entry, None, None)})\n"
    return (f"(mode {entry['mode']:04o})\n" if mode else "") + what
