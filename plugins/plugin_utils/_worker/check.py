# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operation `check`: do the project's sources compile with this interpreter, and do their imports resolve.

Only sources that this interpreter has not passed before are asked for; what the others bind and import is known from
the facts kept with the live release. Everything happens on bytes in memory: nothing is written, nothing executed.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import sys
import threading
import zlib

from .channel import WorkerError
from .facts import fingerprint
from .imports import ERROR, WARNING, import_problems, problem
from .modules import OPAQUE, Outside, Tree
from .store import HOME, live_release

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from .channel import Channel

    Key = tuple[str, str]  # kind and sha256: an empty file is a Python source and a shell script

PYTHON, SHELL = "python", "shell"


def run(channel: Channel, params: dict[str, Any]) -> dict[str, Any]:
    """Check the files of `params`.

    params: files: [{path, sha256, size, kind}], kind `python`, `shell`, or `opaque` for what can be imported but not
    read; root and name say where the live release is (root null: nowhere); pythonpath: folders that the run has on its
    path; optional: top-level modules that may be missing; left_out: {module: why} for modules that were left behind;
    gpus: parameters of a reading of the GPUs beside the check, or null.

    Conversation: `need` {paths}, answered by a `source` {path} frame with the file's bytes for each, in that order.

    Result: python {path, version, implementation}; files_checked, files_cached; problems [{file, line, column,
    severity, code, message}]; checked {python: fingerprint, facts} with the facts of the files read now; gpus: the
    reading, or {error}.
    """
    gpus = _Gpus(params["gpus"]) if params.get("gpus") else None
    sources = [item for item in params["files"] if item["kind"] in (PYTHON, SHELL)]
    facts = kept_facts(params.get("root"), params["name"], sources)
    missing = _first_of_each(item for item in sources if _key(item) not in facts)
    fresh, refused = _read_all(channel, list(missing.values()))
    facts.update(fresh)
    problems = [dict(one, file=item["path"]) for item in sources for one in refused.get(_key(item), ())]
    problems += _warnings(sources, facts)
    problems += _imports(params, sources, facts)
    return {
        "python": {
            "path": sys.executable,
            "version": sys.version.split()[0],
            "implementation": sys.implementation.name,
        },
        "files_checked": len(sources),
        "files_cached": sum(1 for item in sources if _key(item) not in missing),
        "problems": sorted(problems, key=lambda one: (one["file"], one["line"], one["column"], one["message"])),
        "checked": {"python": fingerprint(), "facts": pack(fresh)},
        "gpus": gpus.wait() if gpus else None,
    }


class _Gpus(threading.Thread):
    """Reads the GPUs while sources are compiled: nvidia-smi takes its time, and most of it is waiting."""

    def __init__(self, params: dict[str, Any]) -> None:
        super().__init__(daemon=True)
        self._params = params
        self._reading: dict[str, Any] | None = None
        self.start()

    def run(self) -> None:
        from .gpus import read

        try:
            self._reading = read(self._params)
        except Exception as error:  # no reading of GPUs may cost a check; the message is kept
            self._reading = {"error": f"{type(error).__name__}: {error}"}

    def wait(self) -> dict[str, Any] | None:
        self.join()
        return self._reading


def pack(facts: dict[Key, dict[str, Any]]) -> str:
    """Facts as the opaque text that is handed on with a release: base64 of zlib of JSON {sha256: {kind: facts}}."""
    by_sha: dict[str, dict[str, Any]] = {}
    for (kind, sha256), known in facts.items():
        by_sha.setdefault(sha256, {})[kind] = known
    return base64.b64encode(zlib.compress(json.dumps(by_sha, separators=(",", ":")).encode("ascii"))).decode("ascii")


def kept_facts(root: str | None, name: str, sources: list[dict[str, Any]]) -> dict[Key, dict[str, Any]]:
    """What the live release's manifest holds for these sources and this interpreter."""
    if not root:
        return {}
    try:
        live = live_release(root, name)
    except (WorkerError, OSError):
        return {}  # the release says what is wrong there; a check needs nothing of it
    by_sha = (live[1].get("checked") or {}).get(fingerprint(), {}) if live else {}
    found = {}
    for kind, sha256 in map(_key, sources):
        known = by_sha.get(sha256, {}).get(kind)
        if isinstance(known, dict):
            found[kind, sha256] = known
    return found


def _key(item: dict[str, Any]) -> Key:
    return item["kind"], item["sha256"]


def _first_of_each(items: Iterable[dict[str, Any]]) -> dict[Key, dict[str, Any]]:
    """One file for each content: equal files are read once."""
    found: dict[Key, dict[str, Any]] = {}
    for item in items:
        found.setdefault(_key(item), item)
    return found


def _read_all(
    channel: Channel, items: list[dict[str, Any]]
) -> tuple[dict[Key, dict[str, Any]], dict[Key, list[dict[str, Any]]]]:
    """Ask for the sources and read each as it comes: the facts of those that pass, what is wrong with the others."""
    passed: dict[Key, dict[str, Any]] = {}
    refused: dict[Key, list[dict[str, Any]]] = {}
    if items:
        channel.send("need", {"paths": [item["path"] for item in items]})
    for done, item in enumerate(items, 1):
        channel.receive("source")
        data = b"".join(channel.read_blob())
        if hashlib.sha256(data).hexdigest() != item["sha256"]:
            raise WorkerError(
                "source-changed", f"{item['path']} changed on the controller while it was sent: try again"
            )
        channel.at(item["path"])
        facts, found = read_file(item["kind"], item["path"], data)
        if found:
            refused[_key(item)] = found
        else:
            passed[_key(item)] = facts
        channel.progress(done, len(items), "files read")
    return passed, refused


def read_file(kind: str, path: str, data: bytes) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The facts of one source, or what is wrong with it."""
    # Imported only when there is something to read: mostly there is not.
    if kind == SHELL:
        from .shells import shell_problems

        return {}, shell_problems(path, data)
    from .source_facts import Unreadable, read_source

    try:
        return read_source(path, data), []
    except Unreadable as exc:
        return {}, [problem(path, exc.line, exc.column, ERROR, "syntax", exc.message)]


def _warnings(sources: list[dict[str, Any]], facts: dict[Key, dict[str, Any]]) -> list[dict[str, Any]]:
    """The compiler's warnings, again also for files that were read at an earlier check."""
    return [
        problem(item["path"], line, column, WARNING, "syntax-warning", message)
        for item in sources
        for line, column, message in facts.get(_key(item), {}).get("warnings", ())
    ]


def _imports(
    params: dict[str, Any], sources: list[dict[str, Any]], facts: dict[Key, dict[str, Any]]
) -> list[dict[str, Any]]:
    by_path = {item["path"]: facts.get(_key(item)) for item in sources if item["kind"] == PYTHON}
    tree = Tree({item["path"]: item["kind"] for item in params["files"] if item["kind"] in (PYTHON, OPAQUE)})
    root = params.get("root")
    inside, outside = search_folders(params.get("pythonpath") or [], root)
    released = os.path.join(os.path.realpath(root), HOME, "") if root else None
    found = import_problems(by_path, tree, Outside(outside, released), inside, params.get("optional") or [])
    if params.get("missing") == WARNING:
        return list(_played_down(found))
    nowhere = sorted({one["module"] for one in found if "module" in one})
    return _explain_missing(found, nowhere, params) if nowhere else found


def _played_down(found: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Where another machine than this one will run the project, a module that is missing here is told once."""
    told = set()
    for one in found:
        if "module" not in one or one["message"]:  # a file of the project has nearly this name: that is no other module
            yield one if "module" not in one else dict(one, message=f"there is no {one['module']}{one['message']}")
        elif one["module"] not in told:
            told.add(one["module"])
            text = f"{sys.executable} has no {one['module']}, and where this will run was not looked"
            yield dict(one, severity=WARNING, message=text)


def search_folders(pythonpath: list[str], root: str | None) -> tuple[list[str], list[str]]:
    """PYTHONPATH as folders of the project (relative to it) and as absolute folders besides.

    Relative ones count from the root, where the project's names are links into the release.
    """
    inside, outside = [], []
    for entry in filter(None, pythonpath):
        if os.path.isabs(entry):
            outside.append(entry)
        elif root:
            outside.append(os.path.normpath(os.path.join(root, entry)))
        relative = os.path.relpath(os.path.join(root or "/nowhere", entry), root or "/nowhere")
        if not relative.startswith(".."):
            inside.append("" if relative == "." else relative)
    return inside, outside


def _explain_missing(found: list[dict[str, Any]], nowhere: list[str], params: dict[str, Any]) -> list[dict[str, Any]]:
    """Say of each missing module where it is, or what to do: the search is made once, and only when one is missing."""
    from .pythons import who_has

    elsewhere = who_has(nowhere, params.get("root"))
    return [dict(one, message=_missing_text(one, elsewhere, params)) if "module" in one else one for one in found]


def _missing_text(one: dict[str, Any], elsewhere: dict[str, str], params: dict[str, Any]) -> str:
    """That a module is missing, and the likeliest way to it. The problem's own message says what else may be meant."""
    module: str = one["module"]
    text = f"{sys.executable} has no {module}"
    if module in elsewhere:
        return f"{text}; {elsewhere[module]} has: set training_python"
    if module in params.get("left_out", {}):
        return f"{text}; {params['left_out'][module]}"
    for name in (f"{module}.py", f"{module}/__init__.py") if params.get("root") else ():
        path = os.path.join(params["root"], name)
        if os.path.exists(path):
            return f"{text}; {path} is not part of the project: add it to training_project"
    if one["message"]:
        return f"{text}{one['message']}"
    if module in getattr(sys, "stdlib_module_names", ()):
        text += ", a part of the standard library that is not installed"
    return f"{text}; install it there, or name it in training_optional_modules if the run can do without"
