# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operations `release` and `rollback`, driven in a folder of this machine by a controller of a few lines."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker import compare, release, rollback, store
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker import history as past
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.channel import WorkerError

Files = Mapping[str, str | bytes]
ME = "tester@desk"


def data_of(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content


def rows(files: Files, shared: tuple[str, ...] = (), links: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """The manifest of a project with these files; a path that ends with a slash is an empty folder."""
    found: dict[str, dict[str, Any]] = {}
    for path, content in files.items():
        data, clean = data_of(content), path.rstrip("/")
        for parent in Path(clean).parents:
            if str(parent) != ".":
                found[str(parent)] = {"path": str(parent), "type": "dir", "mode": 0o755}
        if path.endswith("/"):
            found[clean] = {"path": clean, "type": "dir", "mode": 0o755}
        else:
            sha256 = hashlib.sha256(data).hexdigest()
            mode = 0o755 if clean.endswith(".sh") else 0o644
            found[clean] = {"path": clean, "type": "file", "mode": mode, "size": len(data), "sha256": sha256}
    found |= {path: {"path": path, "type": "link", "target": target} for path, target in (links or {}).items()}
    found |= {name: {"path": name, "type": "shared"} for name in shared}
    return [found[path] for path in sorted(found)]


class Controller:
    """A channel with the controller's side behind it: answers `need` from the files, and notes what was asked for."""

    def __init__(self, files: Files, meddle: Callable[[], None] | None = None, chunk: int = 7) -> None:
        self.files = {path: data_of(content) for path, content in files.items()}
        self.asked: list[str] = []
        self.waited_for: list[str] = []
        self.meddle = meddle
        self.chunk = chunk
        self._frames: Iterator[dict[str, Any]] = iter(())
        self._blob = b""

    def send(self, kind: str, body: dict[str, Any]) -> None:
        assert kind == "need"
        self.asked += body["files"]
        self._frames = iter([*({"kind": "file", "path": path} for path in body["files"]), {"kind": "end"}])
        if self.meddle:
            self.meddle()

    def receive(self, *kinds: str) -> dict[str, Any]:
        frame = next(self._frames)
        assert frame["kind"] in kinds
        self._blob = self.files[frame["path"]] if "path" in frame else b""
        return frame

    def read_blob(self) -> Iterator[bytes]:
        for start in range(0, len(self._blob), self.chunk):
            yield self._blob[start : start + self.chunk]

    def progress(self, done: int, total: int, what: str) -> None:
        assert done <= total

    def waits(self, holder: str) -> None:
        self.waited_for.append(holder)


def params(root: Path, files: Files, **more: Any) -> dict[str, Any]:
    given = {key: more.pop(key) for key in ("shared", "links") if key in more}
    return {
        "root": str(root),
        "name": "demo",
        "manifest": {"files": rows(files, **given)},
        "keep": 5,
        "who": ME,
        "source": {"commit": "c0ffee", "dirty": False},
        "checked": None,
        "check_mode": False,
        "want_diff": False,
        "adopt_folders": False,
        "patience": 0.3,
        **more,
    }


def deploy(root: Path, files: Files, controller: Controller | None = None, **more: Any) -> dict[str, Any]:
    """Release the files; the result, and under `asked` the paths whose bytes were wanted."""
    controller = controller or Controller(files)
    done = release.run(controller, params(root, files, **more))  # type: ignore[arg-type]
    return {**done, "asked": controller.asked}


def roll_back(root: Path, to: str | None = None, **more: Any) -> dict[str, Any]:
    return rollback.run(Controller({}), {**params(root, {}), "to": to, **more})  # type: ignore[arg-type]


def compare_with(root: Path, files: Files | None = None, **more: Any) -> dict[str, Any]:
    """Compare what is live with what was released, and with these files; None for no project."""
    nothing = {"manifest": None} if files is None else {}
    asked = {**params(root, files or {}), "want_diff": True, **nothing, **more}
    return compare.run(Controller({}), asked)  # type: ignore[arg-type]


def refusal(call: Callable[..., Any], *args: Any, **more: Any) -> WorkerError:
    """The WorkerError that a call ends with."""
    try:
        call(*args, **more)
    except WorkerError as error:
        return error
    raise AssertionError("it was not refused")


def visible(root: Path) -> dict[str, bytes]:
    """What a reader of the root sees: all files by path, through links; a name that leads nowhere is not there."""
    found: dict[str, bytes] = {}
    for folder, folders, names in os.walk(root, followlinks=True):
        folders[:] = [name for name in folders if name not in (".trainops", "__pycache__")]
        for name in names:
            path = Path(folder, name)
            with contextlib.suppress(FileNotFoundError):
                found[str(path.relative_to(root))] = path.read_bytes()
    return found


def plain(files: Files) -> dict[str, bytes]:
    """Files as :func:`visible` shows them."""
    return {path: data_of(content) for path, content in files.items() if not path.endswith("/")}


def write(root: Path, files: Files) -> None:
    """Put plain files into a folder, as somebody does by hand."""
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data_of(content))


def history(root: Path, name: str = "demo") -> list[dict[str, Any]]:
    with store.open_store(str(root), name, create=False) as opened:
        return past.activations(opened)


def live(root: Path, name: str = "demo") -> str | None:
    with store.open_store(str(root), name, create=False) as opened:
        return store.live_id(opened)


def home(root: Path, *parts: str) -> Path:
    return root.joinpath(".trainops", "demo", *parts)


def leftovers(root: Path) -> list[str]:
    """What is below .trainops/demo although no finished run leaves it there."""
    known = {"current", "releases", "activations", "lock"}
    if not home(root).exists():  # nothing was ever released
        return []
    odd = [name for name in os.listdir(home(root)) if name not in known]
    names = set(os.listdir(home(root, "releases")))
    odd += [name for name in names if name.removesuffix(".json") == name and name + ".json" not in names]
    odd += [name for name in names if name.endswith(".json") and name.removesuffix(".json") not in names]
    odd += [name for name in os.listdir(root) if (root / name).is_symlink() and not (root / name).exists()]
    return odd


def snapshot(root: Path) -> dict[str, tuple[int, ...]]:
    """Everything below a folder with what changes when it is touched, but for lock files, which say who holds them."""
    return {
        str(path.relative_to(root)): (info.st_mode, info.st_mtime_ns, info.st_ctime_ns, info.st_size, info.st_ino)
        for path in sorted(root.rglob("*"))
        if path.name not in ("lock", ".lock")
        for info in (path.lstat(),)
    }
