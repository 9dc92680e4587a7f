# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a first deploy needs to know: the result of a look at a container, and what it proposes. Pure."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.survey import is_fit
from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import OptionError
from ansible_collections.trainops.proxmox.plugins.plugin_utils.find_python import Found
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_result import gpu_summary
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpus import Snapshot
from ansible_collections.trainops.proxmox.plugins.plugin_utils.project import Measured
from ansible_collections.trainops.proxmox.plugins.plugin_utils.project_size import sizes
from ansible_collections.trainops.proxmox.plugins.plugin_utils.release import labels, size
from ansible_collections.trainops.proxmox.plugins.plugin_utils.visible import one_line, path_text

_HOME = "/root"
_MIB = 1024 * 1024
_PATH = 300
_LABEL = 60  # characters of a version or of an owner's name
_MOST_NAMES = 1000  # that are looked for: more tell nothing new
_INSTALL = (
    "install one in the container (Debian: apt-get install python3 python3-venv), or name yours in option python when "
    "it is in an unusual place"
)


@dataclass(frozen=True)
class Wish:
    """What the user gave: root and python of the container, the project, and what is too big in MiB."""

    root: str | None
    python: str | None
    project: Measured | None
    big_mib: int

    @property
    def names(self) -> list[str]:
        """The project's top-level names."""
        return self.project.names[:_MOST_NAMES] if self.project else []

    @property
    def name(self) -> str | None:
        """The project's name."""
        return self.project.name if self.project else None


def check_options(options: Mapping[str, Any]) -> None:
    """Raise OptionError for values that no type can refuse."""
    for name in ("root", "python"):
        if options[name] and not os.path.isabs(options[name]):
            raise OptionError(f"option {name}: {options[name]!r} must be an absolute path in the container")
    if options["big_mib"] < 1:
        raise OptionError(f"option big_mib: {options['big_mib']} cannot be, it must be at least 1")


def surveyed(wish: Wish, answer: Mapping[str, Any], gpus: Snapshot) -> dict[str, Any]:
    """The result where a worker could run: ``answer`` is its own, ``gpus`` what it and the node saw."""
    pythons = [_python(row) for row in answer["pythons"] if _can_be_written(row["path"])]
    python, notes = _chosen(pythons, wish.python)
    places = [_place(row) for row in answer["places"] if _can_be_written(row["path"])]
    skipped = _skipped(answer["skipped"])
    home = answer["home"] if _can_be_written(answer["home"]) else _HOME
    root, reason, free = _root(wish, places, home)
    notes += [f"{one['path']} was not started, {one['why']}" for one in skipped]
    result = {
        "python": python["path"] if python else None,
        "pythons": pythons,
        "not_started": skipped,
        "root": root,
        "root_reason": reason,
        "roots": [{key: one[key] for key in ("path", "names", "deployed")} for one in places if one["names"]],
        "init": _shown(answer["init"]) if answer["init"] else None,
        "disk_free_bytes": free,
        **gpus.as_result(),
        "gpu_summary": gpu_summary(gpus),
        **sizes(wish.project, wish.big_mib * _MIB),
    }
    if gpus.warnings:
        result["warnings"] = list(gpus.warnings)
    return _told(result, _head(python, result), [f"root {root}: {reason}", *notes], wish.big_mib)


def without_python(wish: Wish, found: Found) -> dict[str, Any]:
    """The result where nothing fit was found, so that nothing else was looked at in the container."""
    pythons = [
        _python({"path": path, "version": version, "torch": None, "environment": False})
        for path, version in found.tried
        if not is_fit(version) and _can_be_written(path)
    ]
    skipped = _skipped([{"path": path, "owner": None} for path in found.others])
    text = _no_python(pythons)
    result = {
        "python": None,
        "pythons": pythons,
        "not_started": skipped,
        "root": wish.root,
        "root_reason": "option root, not looked at" if wish.root else "nothing could be looked at without Python",
        "roots": [],
        "init": None,
        "disk_free_bytes": None,
        "gpus": [],
        "gpu_summary": "not looked at: that needs Python in the container",
        "view": None,
        "view_reason": "",
        "driver_version": None,
        "seconds": 0.0,
        **sizes(wish.project, wish.big_mib * _MIB),
    }
    notes = [f"{one['path']} was not started, {one['why']}" for one in skipped]
    return _told(result, text, notes, wish.big_mib)


def _no_python(pythons: Sequence[Mapping[str, Any]]) -> str:
    if not pythons:
        return f"there is no Python in the container that could be used: {_INSTALL}"
    old = labels([f"{one['version']} at {one['path']}" for one in pythons], 3)
    return f"the container has only Pythons older than 3.9 ({old}): {_INSTALL}"


def _python(row: Mapping[str, Any]) -> dict[str, Any]:
    torch = row["torch"]
    return {
        "path": _shown(row["path"]),
        "version": _shown(row["version"], _LABEL),
        "torch": _shown(torch, _LABEL) if torch else None,
        "environment": bool(row["environment"]),
    }


def _skipped(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    return [
        {
            "path": _shown(row["path"]),
            "why": f"it or its environment belongs to {_shown(row['owner'] or 'another user', _LABEL)}",
        }
        for row in rows
    ]


def _can_be_written(path: object) -> bool:
    """Whether a path may stand in an inventory as it is: one with control characters is nobody's choice."""
    return isinstance(path, str) and os.path.isabs(path) and path.isprintable() and _shown(path) == path


def _shown(text: object, most: int = _PATH) -> str:
    """A text of the container as one line that may be printed: a name there need not even be one in UTF-8."""
    return path_text(str(text), most)


def _place(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "path": _shown(row["path"]),
        "names": [_shown(name) for name in row["names"]],
        "deployed": bool(row["deployed"]),
        "free": int(row["free"]),
    }


def _chosen(pythons: Sequence[dict[str, Any]], wished: str | None) -> tuple[dict[str, Any] | None, list[str]]:
    """The interpreter to use, the wished one when it is fit, and sentences about it."""
    best = next((one for one in pythons if is_fit(one["version"])), None)
    if not wished:
        return best, []
    own = next((one for one in pythons if one["path"] == wished), None)
    if own and is_fit(own["version"]):
        better = best is not None and best["torch"] and not own["torch"]
        return own, [f"{best['path']} has torch and {wished} has not" if best and better else ""]
    what = f"is Python {own['version']}, and 3.9 is needed" if own else "does not run as a Python"
    return best, [f"option python: {wished} {what}" + (f": {best['path']} is proposed" if best else "")]


def _root(wish: Wish, places: Sequence[dict[str, Any]], home: str) -> tuple[str, str, int | None]:
    """The training root, why it is that, and the free bytes there."""
    by_path = {one["path"]: one for one in places}
    if wish.root:
        row = by_path.get(os.path.normpath(wish.root))
        if row is None:
            return wish.root, "it does not exist in the container: make it before the first deploy", None
        return wish.root, _why(row, wish) or "none of the project's names is there", row["free"]
    # A single name that many folders have (data, utils) must not decide.
    fit = next((one for one in places if one["deployed"] or 2 * len(one["names"]) >= len(wish.names) > 0), None)
    if fit:
        return fit["path"], _why(fit, wish), fit["free"]
    free = by_path[home]["free"] if home in by_path else None
    return home, "root's home" + ("; none of your files are there yet" if wish.names else ""), free


def _why(row: Mapping[str, Any], wish: Wish) -> str:
    if row["deployed"]:
        return f"{wish.name} was deployed there before"
    if not row["names"]:
        return ""
    return f"{labels(row['names'], 3)} {'is' if len(row['names']) == 1 else 'are'} there"


def _head(python: Mapping[str, Any] | None, result: Mapping[str, Any]) -> str:
    if python is None:
        return _no_python(result["pythons"])
    torch = f"with torch {python['torch']}" if python["torch"] else "without torch"
    idle = sum(gpu["verdict"] == "idle" for gpu in result["gpus"])
    gpus = f"{idle} of {len(result['gpus'])} GPUs idle" if result["gpus"] else "no GPU"
    free = f"; {size(result['disk_free_bytes'])} free" if result["disk_free_bytes"] is not None else ""
    return f"Python {python['version']} {torch} at {python['path']}; root {result['root']}{free}; {gpus}"


def _told(result: dict[str, Any], head: str, notes: Sequence[str], big_mib: int) -> dict[str, Any]:
    """The result with its line, and with all that a person should read before a first deploy."""
    lines = [head, *filter(None, notes), f"GPUs: {result['gpu_summary']}"]
    if result["name"] or result["files"] or result["problems"]:
        lines.append(f"project {result['name'] or '?'}: {result['files']} files, {size(result['total_bytes'])}")
    for one in result["big"]:
        many = f" in {one['files']} files" if one["files"] > 1 else ""
        lines.append(
            f"{path_text(one['path'])} has {size(one['bytes'])}{many}, more than {big_mib} MiB: leave it out with "
            "training_exclude, or name it in training_shared when the container has its own"
        )
    lines = [one_line(str(line)) for line in [*lines, *result["problems"]]]
    return {**result, "summary": lines[0], "details": "\n".join(lines[1:]), "msg": "\n".join(lines)}
