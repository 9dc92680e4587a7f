# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The controller's part of a push: what the worker is asked, how it is answered, and the result as users see it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.modes import BITS, is_symbolic
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.store import HOME
from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import OptionError, StepError
from ansible_collections.trainops.proxmox.plugins.plugin_utils.frames import Frame
from ansible_collections.trainops.proxmox.plugins.plugin_utils.push_source import Piece, Source, read_piece
from ansible_collections.trainops.proxmox.plugins.plugin_utils.release import diff, headed, size
from ansible_collections.trainops.proxmox.plugins.plugin_utils.visible import one_line

PRESERVE = "preserve"
_TEXT_BYTES = 256 * 1024
_LISTED = 20
_NEW = {"added", "unchanged"}
_ACTIONS = ("added", "changed", "mode")


def check_options(options: Mapping[str, Any]) -> None:
    """Raise OptionError for values that no type can refuse."""
    if not options["dest"].startswith(("/", "~")):
        raise OptionError(f"option dest: {options['dest']!r} must be an absolute path in the container")
    if "\0" in options["dest"]:
        raise OptionError("option dest: it has a zero byte, which no path can have")
    if not 0 < options["timeout"] < math.inf:
        raise OptionError(f"option timeout: {options['timeout']:g} cannot be, it must be a number of seconds above 0")
    for name in ("mode", "directory_mode"):
        mode_of(name, options[name])


def mode_of(option: str, value: Any) -> int | str | None:
    """The permission bits, symbolic mode or "preserve" that an option's value means; None where it is not set.

    Raises OptionError, also for a decimal number that was meant as an octal one.
    """
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        # 0644 in YAML is the number 420. The number 644 has bits that nobody wants, and looks as what was meant.
        if not 0 <= value <= BITS or (600 <= value <= 777 and not set(str(value)) - set("01234567")):
            raise OptionError(f"option {option}: {value} is read as a decimal number: put it in quotes, '0{value}'")
        return value
    text = str(value).strip()
    digits = text.removeprefix("0o")
    if digits and not set(digits) - set("01234567") and int(digits, 8) <= BITS:
        return int(digits, 8)
    if text == PRESERVE or is_symbolic(text):
        return text
    raise OptionError(
        f"option {option}: {value!r} is no mode: write it in octal ('0644'), symbolic (u=rw,g=r,o=) or preserve"
    )


def question(options: Mapping[str, Any], source: Source, check_mode: bool, want_diff: bool) -> dict[str, Any]:
    """The worker's parameters for a push."""
    modes = {name: mode_of(name, options[name]) for name in ("mode", "directory_mode")}
    keeping = {kind for kind, name in (("file", "mode"), ("dir", "directory_mode")) if modes[name] == PRESERVE}
    return {
        "dest": options["dest"],
        "kind": source.kind,
        "name": source.name,
        "rows": [_row(piece, piece.type in keeping) for piece in source.pieces],
        "owner": options["owner"],
        "group": options["group"],
        **{name: None if mode == PRESERVE else mode for name, mode in modes.items()},
        "check_mode": check_mode,
        "want_diff": want_diff,
    }


def _row(piece: Piece, keeps_mode: bool) -> dict[str, Any]:
    row: dict[str, Any] = {"path": piece.path, "type": piece.type}
    if piece.type == "file":
        row.update(size=piece.size, sha256=piece.sha256)
    elif piece.type == "link":
        row["target"] = piece.target
    if keeps_mode:
        row["mode"] = piece.mode
    return row


def sender(source: Source) -> Callable[[dict[str, Any]], Iterator[Frame]]:
    """The answer to the worker's `need`: a `file` frame with the bytes for each path, read while they are sent."""
    pieces = _files(source)

    def answer(frame: dict[str, Any]) -> Iterator[Frame]:
        for path in frame["files"]:
            if path not in pieces:
                raise StepError("protocol", f"the worker asked for {path!r}, which is not pushed")
            yield Frame("file", {"path": path}, read_piece(pieces[path]))
        yield Frame("end")

    return answer


def _files(source: Source) -> dict[str, Piece]:
    return {piece.path: piece for piece in source.pieces if piece.type == "file"}


def pushed(source: Source, done: Mapping[str, Any], check_mode: bool) -> dict[str, Any]:
    """The result of a push from the worker's and the source."""
    result = {
        "changed": done["changed"],
        "dest": done["dest"],
        "bytes_sent": done["bytes_sent"],
        "files": [_file(file) for file in done["files"]],
        "warnings": warnings(done),
    }
    if done["before"] is not None:
        result["diff"] = diffs(source, done)
    result["summary"] = summary(result, done["real"], source.kind == "file", check_mode)
    result["msg"] = message(result)
    return result


def _file(file: Mapping[str, Any]) -> dict[str, Any]:
    mode = None if file["mode"] is None else f"{file['mode']:04o}"
    return {**{key: file[key] for key in ("path", "action", "type", "size", "sha256", "target")}, "mode": mode}


def summary(result: Mapping[str, Any], real: str, single: bool, check_mode: bool) -> str:
    """The one line that a person reads of a push: of a ``single`` file, or of many."""
    files = [file for file in result["files"] if file["type"] != "dir"]
    counts = Counter(file["action"] for file in files)
    folders = sum(file["type"] == "dir" and file["action"] == "added" for file in result["files"])
    where = result["dest"] + (f" (which is {real})" if real != (result["dest"].rstrip("/") or "/") else "")
    head = where if single else f"{where}: {_count(len(files), 'file')},"
    if not result["changed"]:
        return f"{head} already there, nothing changed" if single else f"{head} nothing changed"
    said = [_word(action, counts[action], single) for action in _ACTIONS if counts[action]]
    if folders:
        said.append(f"{_count(folders, 'folder')} made")
    if counts["added"] or counts["changed"]:
        said += [size(result["bytes_sent"]), *([] if check_mode else ["sha256 proven"])]
    return f"{head} {'would be ' * check_mode}{', '.join(said)}"


def _word(action: str, count: int, single: bool) -> str:
    word = "given mode or owner" if action == "mode" else action
    return word if single else f"{count} {word}"


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def message(result: Mapping[str, Any]) -> str:
    """The summary, and what happened to which file, one a line."""
    changes = [file for file in result["files"] if file["action"] != "unchanged"]
    lines = [result["summary"], *(f"{file['action']:8} {file['path']}" for file in changes[:_LISTED])]
    lines += [f"… and {len(changes) - _LISTED} more"] * (len(changes) > _LISTED)
    return "\n".join(map(one_line, lines))


def warnings(done: Mapping[str, Any]) -> list[str]:
    """What the user may not know of the places that were written to."""
    said = []
    before, found, below = f"{done['real']}/".partition(f"/{HOME}/")
    if done["changed"] and found:
        kept = f"{before}/{HOME}/{below.partition('/')[0]}/kept"
        actions = {file["action"] for file in done["files"]}
        ends = ["puts back what it has, and keeps what was changed as release edited"] * bool(actions - _NEW)
        ends += [f"takes a new file out of view, and moves it to {kept} when that release goes"] * ("added" in actions)
        said.append(f"{done['dest']} lies in a release: the next deploy {', '.join(ends)}")
    for file in done["files"]:
        was = file["was"] or {}
        if file["type"] == "file" and was.get("type") == "link":
            of_release = str(was["target"]).startswith(f"{HOME}/")
            what = "; it was a release's, and the next deploy puts it back" * of_release
            said.append(f"{file['path']} was a link to {was['target']}, which a file replaces{what}")
    return said


def diffs(source: Source, done: Mapping[str, Any]) -> list[dict[str, str]]:
    """Ansible's diffs: text as text, all else by its size, and modes and owners where they differ."""
    files = {file["path"]: file for file in done["files"]}
    pieces = _files(source)
    contents = {path: file["action"] for path, file in files.items() if file["action"] in ("added", "changed")}
    values = {
        "actions": {path: action for path, action in contents.items() if files[path]["type"] != "dir"},
        "before": done["before"],
        "gone": {path: file["was"] for path, file in files.items() if file["was"]},
    }
    texts = {path: _text(pieces[files[path]["key"]]) for path in contents if files[path]["type"] == "file"}
    return [*diff(values, files, texts), *(part for file in files.values() for part in _attributes(file))]


def _attributes(file: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """The diff of mode and owner, when one of them differs, and of a folder that is made."""
    path, was = file["path"], file["was"]
    if file["type"] == "dir" and file["action"] == "added":
        yield headed(path, path, "", "(a folder)\n")
    if not was or file["action"] not in ("changed", "mode") or was["type"] != file["type"]:
        return
    before = _owner_text(was["mode"], (was["uid"], was["gid"]))
    owner = (_or(file["owner"][0], was["uid"]), _or(file["owner"][1], was["gid"]))
    after = _owner_text(_or(file["mode"], was["mode"]), owner)
    if before != after:
        header = f"{path} (mode and owner)"
        yield headed(header, header, before, after)


def _or(value: int | None, other: int) -> int:
    return other if value is None else value


def _owner_text(mode: int, owner: Sequence[int]) -> str:
    return f"mode {mode:04o}\nowner {owner[0]}\ngroup {owner[1]}\n"


def _text(piece: Piece) -> str | None:
    if piece.size > _TEXT_BYTES:
        return None
    data = b"".join(read_piece(piece))
    try:
        return None if b"\0" in data else data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def received(frame: Mapping[str, Any]) -> dict[str, Any]:
    """A progress frame of a push in amounts that people read."""
    return {"done": size(int(frame["done"])), "total": size(int(frame["total"])), "what": "received"}
