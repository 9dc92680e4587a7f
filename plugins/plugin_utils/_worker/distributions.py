# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run is started with, for the record: Python, every distribution with its version, the driver."""

from __future__ import annotations

import os
import re
import shlex
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SECONDS = 1.0
_INFO = re.compile(r"(?P<name>.+?)(?:-(?P<version>\d[^-]*?|v\d[^-]*?))?(?:-py\d[\d.]*)?\.(?:dist|egg)-info")
_DRIVER = re.compile(r"Module(?: for \S+)?\s+(\d+(?:\.\d+)+)")
_MOST = 200
_WORDS = "words of the command"
_HIDDEN = "\0"  # before a digest, which stands for a value that was not written down


def distributions(folders: list[str] | None = None) -> dict[str, str]:
    """Every distribution that this interpreter finds, with its version, by normal name.

    The names of the metadata's folders say both, so hundreds take milliseconds; only where they do not is the metadata
    read, for a second at most.
    """
    found: dict[str, str] = {}
    end = time.monotonic() + _SECONDS
    for folder in sys.path if folders is None else folders:
        try:
            names = sorted(os.listdir(folder)) if folder else []
        except OSError:
            continue
        for entry in names:
            match = _INFO.fullmatch(entry)
            name = re.sub(r"[-_.]+", "-", match["name"]).lower() if match else ""
            if match and name not in found:
                version = match["version"] or (_read(os.path.join(folder, entry)) if time.monotonic() < end else None)
                found[name] = version or "?"
    return dict(sorted(found.items()))


def _read(path: str) -> str | None:
    import importlib.metadata
    import pathlib

    try:
        return importlib.metadata.PathDistribution(pathlib.Path(path)).version
    except Exception:  # whatever a broken installation leads to: it is no reason not to train
        return None


def driver() -> str | None:
    """The version of the NVIDIA driver that the kernel runs; None without one."""
    for path in ("/proc/driver/nvidia/version", "/sys/module/nvidia/version"):
        try:
            with open(path, encoding="utf-8", errors="replace") as stream:
                text = stream.read()
        except OSError:
            continue
        match = _DRIVER.search(text) if path.startswith("/proc") else re.fullmatch(r"([\d.]+)\s*", text)
        if match:
            return match[1]
    return None


def facts() -> dict[str, Any]:
    """What of this belongs into a run's record."""
    return {"python_version": sys.version.split()[0].rstrip("+"), "distributions": distributions(), "driver": driver()}


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[dict[str, str | None]]:
    """What of two runs' records differs: [{what, before, now}]; None for what is not there.

    Values that were not recorded are compared by their digests, and shown as such; what differs in any case is left
    out.
    """
    old, new = _comparable(before), _comparable(now)
    if old["command"] != new["command"]:  # that tells enough
        old.pop(_WORDS, None)
        new.pop(_WORDS, None)
    rows = [
        {"what": what, "before": _told(old.get(what)), "now": _told(new.get(what), old.get(what))}
        for what in [*new, *(what for what in old if what not in new)]
        if old.get(what) != new.get(what)
    ]
    return rows[:_MOST]


def _told(value: str | None, before: str | None = None) -> str | None:
    if value is None or not value.startswith(_HIDDEN):
        return value
    return "another that is not shown" if before and before.startswith(_HIDDEN) else "one that is not shown"


def _comparable(record: dict[str, Any]) -> dict[str, str | None]:
    """What may differ, as texts, the most telling first."""
    release = record.get("release") or ""
    environment = {
        f"environment {name}": value.replace(release, "{release}") if release else value
        for name, value in (record.get("environment") or {}).items()
        if value is not None and not name.startswith(("TRAINOPS_", "CUDA_VISIBLE_DEVICES"))
    }
    hidden = {
        _WORDS if name == "command" else name: _HIDDEN + found
        for name, found in sorted((record.get("digests") or {}).items())
    }
    wanted = record.get("wanted") or {}
    words = wanted.get("command") or [
        *([wanted["script"]] if wanted.get("script") else []),
        *(wanted.get("args") or []),
    ]
    return {
        "driver": record.get("driver"),
        "Python": record.get("python_version"),
        "python": record.get("python"),
        **(record.get("distributions") or {}),
        "command": shlex.join(words),
        "gpus": ",".join(str(gpu["index"]) for gpu in record.get("gpus") or []) or "none",
        **environment,
        **hidden,
    }
