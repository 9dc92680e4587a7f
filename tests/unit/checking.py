# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operation `check` over texts, run by a real interpreter through a real exchange on this machine."""

from __future__ import annotations

import hashlib
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.trainops.proxmox.plugins.plugin_utils.exchange import Frame, Request, exchange

LOCAL = types.SimpleNamespace(transport="local")


def kind(path: str) -> str:
    """What the controller says of a file with this name, as far as these tests need it."""
    return {"py": "python", "sh": "shell"}.get(path.rpartition(".")[2], "opaque")


def check(files: Mapping[str, str | bytes], python: str = sys.executable, **params: Any) -> dict[str, Any]:
    """The operation's result for the files, and under `asked` the paths whose sources it wanted."""
    data = {path: text.encode() if isinstance(text, str) else text for path, text in files.items()}
    told = [
        {"path": path, "sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "kind": kind(path)}
        for path, content in data.items()
    ]
    asked: list[str] = []

    def answer(frame: dict[str, Any]) -> Iterator[Frame]:
        assert frame["kind"] == "need"
        for path in frame["paths"]:
            asked.append(path)
            yield Frame("source", {"path": path}, [data[path]])

    request = Request("check", {"root": None, "name": "demo", "files": told, **params}, python, timeout=60)
    return {**exchange(LOCAL, request, answer).result, "asked": asked}


def lines(result: Mapping[str, Any]) -> list[str]:
    """The problems as a person reads them, warnings marked."""
    marks = {"error": "", "warning": "warning: "}
    return [
        f"{one['file']}:{one['line']}:{one['column']}: {marks[one['severity']]}{one['message']}"
        for one in result["problems"]
    ]
