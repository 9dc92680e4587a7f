# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The result of an eject as users see it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.store import ADOPTED, short_id
from ansible_collections.trainops.proxmox.plugins.plugin_utils.lines import size
from ansible_collections.trainops.proxmox.plugins.plugin_utils.release import headed
from ansible_collections.trainops.proxmox.plugins.plugin_utils.visible import one_line

_LISTED = 20


def ejected(done: Mapping[str, Any], check_mode: bool, want_diff: bool) -> dict[str, Any]:
    """The step's result from the worker's, see :mod:`._worker.eject`."""
    result = {
        **{key: done[key] for key in ("changed", "root", "name", "others", "removed", "waits_for")},
        "release_id": None,
        "previous_release_id": done["release_id"],
        "ejected": done["names"],
        "files": [
            _file(path, entry) for path, entry in sorted(done["files"].items()) if entry["type"] in ("file", "link")
        ],
        "drift": done["altered"] if done["known"] else [],
        "left_alone": done["left"],
        "foreign": done["stays"],
        "running": done["running"],
        "runs_kept": done["runs"],
        "warnings": _warnings(done),
    }
    if want_diff:
        result["diff"] = _diff(done)
    result["summary"] = summary(result, check_mode, done["known"], done["lost"])
    result["msg"] = _message(result, check_mode)
    return result


def _file(path: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    mode = f"{entry['mode']:04o}" if "mode" in entry else None
    file = {"path": path, "action": "ejected", "type": entry["type"], "mode": mode, "size": entry.get("size", 0)}
    return {**file, "sha256": entry.get("sha256"), "target": entry.get("target")}


def summary(result: Mapping[str, Any], check_mode: bool, known: bool = True, lost: Sequence[str] = ()) -> str:
    """The one line that a person reads of an eject.

    ``known`` says that there was a manifest to compare with; ``lost`` are names of links that led nowhere.
    """
    home = f"{result['root'].rstrip('/')}/.trainops/{result['name']}"
    proven = ", sha256 proven" * (known and not (check_mode or result["drift"]))
    said = [_what_happened(result, check_mode, proven), *_removed(result, check_mode)]
    if lost:
        verb = "would be removed" if check_mode else "removed"
        said.append(f"{_count(len(lost), 'link')} that led nowhere {verb}: {_some(lost)}")
    if result["drift"]:
        verb = "would stay as it is" if check_mode else "stays as it is"
        said.append(f"what was altered since the deploy {verb}: {_some(result['drift'])}")
    if result["left_alone"]:
        said.append(
            f"not ours and left alone: {_some([os.path.basename(one['path']) for one in result['left_alone']])}"
        )
    if result["foreign"]:
        stay = "would stay" if check_mode and result["changed"] else "stay"
        said.append(f"{_count(len(result['foreign']), 'file')} that no release lists {stay} in {home}")
    if result["runs_kept"] and result["changed"]:
        stay = "would stay" if check_mode else "stay"
        said.append(f"the logs and records of {_count(result['runs_kept']['count'], 'run')} {stay} in {home}/runs")
    if result["waits_for"]:
        said.append(f"would wait for {result['waits_for']}")
    return "; ".join(said)


def _what_happened(result: Mapping[str, Any], check_mode: bool, proven: str) -> str:
    root, name = result["root"], result["name"]
    if not result["changed"]:
        others = f" (there are: {', '.join(result['others'])})" if result["others"] else ""
        return f"there is nothing of {name or 'any project'} at {root}{others}, nothing changed"
    live = result["previous_release_id"]
    if not result["ejected"]:
        what = f"no name of {short_id(live)} was left" if live else f"nothing of {name} was live"
        return f"{what} at {root}"
    files = [file for file in result["files"] if file["type"] == "file"]
    amount = f"{_count(len(files), 'file')}, {size(sum(file['size'] for file in files))}"
    verb = "would become" if check_mode else "became"
    return f"{short_id(live)} {verb} plain files at {root}, {amount}{proven}"


def _removed(result: Mapping[str, Any], check_mode: bool) -> list[str]:
    gone: Sequence[Mapping[str, Any]] = result["removed"]
    if not gone:
        return []
    adopted = [one["release_id"] for one in gone if one["release_id"].startswith(ADOPTED)]
    among = f' ("{adopted[0]}" among them)' if adopted and len(gone) > 1 else f' ("{adopted[0]}")' if adopted else ""
    verb = "would be removed" if check_mode else "removed"
    return [f"{_count(len(gone), 'other release')} {verb}, {size(sum(one['bytes'] for one in gone))}{among}"]


def _warnings(done: Mapping[str, Any]) -> list[str]:
    """What a person should know although all went well."""
    said = []
    if not done["known"]:
        said.append(
            f"the manifest of {short_id(done['release_id'])} is lost, so its files could not be compared with it"
        )
    elif done["altered"]:
        said.append(
            f"{_some(done['altered'])} {'was' if len(done['altered']) == 1 else 'were'} altered since the deploy: "
            "what is there is what you keep"
        )
    if done["lost"]:
        gone = f"what was deployed for {done['name']} is no longer below {done['root'].rstrip('/')}/.trainops"
        it = "a link" if len(done["lost"]) == 1 else "links"
        fix = "if you need the files, deploy the project again"
        said.append(f"{_some(done['lost'])}: {it} of {done['name']} that led nowhere, since {gone}: {fix}")
    said += [f"{one['path']} is {one['why']}: it stays as it is" for one in done["left"]]
    said += [
        f"process {one['pid']} ({one['command']}) runs from a release that goes: what it has loaded and opened it "
        "keeps, what it imports or starts from there later is missing"
        for one in done["running"]
    ]
    return said


def _message(result: Mapping[str, Any], check_mode: bool) -> str:
    lines = [result["summary"]]
    for what, texts in (
        ("plain", [f"{one['path']} ({one['type']})" for one in result["ejected"]]),
        ("removed", [_release(one) for one in result["removed"]]),
        ("altered since the deploy", result["drift"]),
        ("left alone", [f"{one['path']} is {one['why']}" for one in result["left_alone"]]),
        ("belongs to nobody, kept", result["foreign"]),
    ):
        lines += [f"{what}: {text}" for text in texts[:_LISTED]]
        if len(texts) > _LISTED:
            lines.append(f"{what}: … and {len(texts) - _LISTED} more")
    if check_mode and any(one["release_id"].startswith(ADOPTED) for one in result["removed"]):
        lines.append(f"to have back what was there before the first deploy, roll back to {ADOPTED} first")
    return "\n".join(map(one_line, lines))


def _release(one: Mapping[str, Any]) -> str:
    return f"release {short_id(one['release_id'])}, {_count(one['files'], 'file')}, {size(one['bytes'])}"


def _diff(done: Mapping[str, Any]) -> list[dict[str, str]]:
    """The names in the root and the releases, before and after."""
    if not done["changed"]:
        return []
    home = f".trainops/{done['name']}"
    before = [f"{one['path']} -> {home}/current/{one['path']}" for one in done["names"]]
    before += [f"{home}/releases: {_release(one)}" for one in done["removed"]]
    after = [one["path"] + "/" * (one["type"] == "folder") for one in done["names"]]
    texts = {"before": before, "after": [*after, *(f"{path} (no release lists it)" for path in done["stays"])]}
    shown = {key: "".join(f"{one_line(line)}\n" for line in lines) for key, lines in texts.items()}
    return [headed(done["root"], done["root"], **shown)]


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _some(paths: Sequence[str], most: int = 3) -> str:
    return ", ".join(paths[:most]) + (f" and {len(paths) - most} more" if len(paths) > most else "")
