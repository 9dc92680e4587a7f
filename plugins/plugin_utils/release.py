# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The controller's part of a release: what the worker is asked, how it is answered, and the result as users see it."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.store import ADOPTED, short_id
from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import OptionError, SourceChanged, StepError
from ansible_collections.trainops.proxmox.plugins.plugin_utils.frames import Frame
from ansible_collections.trainops.proxmox.plugins.plugin_utils.left_out import why_hidden
from ansible_collections.trainops.proxmox.plugins.plugin_utils.lines import size
from ansible_collections.trainops.proxmox.plugins.plugin_utils.project import Entry, Project, read_bytes
from ansible_collections.trainops.proxmox.plugins.plugin_utils.visible import cut_short, one_line

_ACTIONS = ("added", "changed", "removed")
_TEXT_BYTES = 256 * 1024
_LISTED = 20


def check_options(options: Mapping[str, Any]) -> None:
    """Raise OptionError for values that no type can refuse."""
    if not os.path.isabs(options["root"]):
        raise OptionError(f"option root: {options['root']!r} must be an absolute path in the container")
    if options["keep_releases"] < 2:
        raise OptionError(
            f"option keep_releases: {options['keep_releases']} is too few: the live release and the one that a "
            "rollback returns to make 2"
        )
    for name in ("wait", "timeout"):
        if not 0 <= options.get(name, 0) < math.inf:
            raise OptionError(f"option {name}: {options[name]:g} cannot be, it must be a number of seconds, at least 0")


def sender(files: Iterable[Entry]) -> Callable[[dict[str, Any]], Iterator[Frame]]:
    """The answer to the worker's `need`: a `file` frame with the bytes for each path, read while they are sent."""
    entries = {entry.path: entry for entry in files if entry.type == "file"}

    def answer(frame: dict[str, Any]) -> Iterator[Frame]:
        for path in frame["files"]:
            if path not in entries:
                raise StepError("protocol", f"the worker asked for {path!r}, which the project does not have")
            yield Frame("file", {"path": path}, read_bytes(entries[path]))
        yield Frame("end")

    return answer


def released(project: Project, done: Mapping[str, Any], check_mode: bool) -> dict[str, Any]:
    """The result of a release from the worker's and the project.

    Raises StepError for the release of another project: its id is made of the content, here as there.
    """
    if done["release_id"] != project.release_id:
        told = cut_short(str(done["release_id"]))
        raise StepError(
            "protocol",
            f"the container says that release {told} is live, and {project.release_id} was sent: it was not the worker "
            "that was sent which answered; look at training_python there",
        )
    after = {entry.path: entry.row() for entry in project.files}
    result = _result(done, after, {"commit": project.commit, "dirty": project.dirty}, check_mode)
    result["left_out"] = [{"path": path, "why": why} for path, why in project.ignored]
    if done["before"] is not None:
        sources = {entry.path: entry for entry in project.files if entry.type == "file"}
        changing = [path for path, action in done["actions"].items() if action in ("added", "changed")]
        texts = {path: text_of(sources[path]) for path in changing if path in sources}
        result["diff"] = diff(done, after, texts)
    result["summary"] = summary(result, check_mode)
    result["msg"] = message(result)
    return result


def rolled_back(done: Mapping[str, Any], check_mode: bool) -> dict[str, Any]:
    """The result of a rollback from the worker's."""
    result = _result(done, done["files"], done["source"], check_mode)
    if done["before"] is not None:
        result["diff"] = diff(done, done["files"], done["after"])
    result["summary"] = summary(result, check_mode, rollback=True)
    result["msg"] = message(result)
    return result


def _result(
    done: Mapping[str, Any], after: Mapping[str, Any], source: Mapping[str, Any], check_mode: bool
) -> dict[str, Any]:
    keys = ("changed", "release_id", "previous_release_id", "activation", "root", "name", "bytes_sent", "pruned")
    more = ("foreign", "strays", "adopted", "drift", "mended", "waits_for")
    files = [
        _file(path, done["actions"].get(path, "unchanged"), after.get(path) or done["gone"][path])
        for path in sorted({*after, *done["gone"]})
    ]
    return {
        **{key: done[key] for key in (*keys, *more)},
        "files": [one for one in files if one["type"] in ("file", "link") or one["action"] != "unchanged"],
        "source": dict(source),
        "warnings": _warnings(done, check_mode),
    }


def _warnings(done: Mapping[str, Any], check_mode: bool) -> list[str]:
    """What must not be read over: files out of view, and what is left to put away."""
    said = []
    if done["strays"]["count"]:
        said.append(
            f"release: {_files(done['strays']['count'])} written below {labels(done['strays']['names'], 3)} of "
            f"{done['root']} {'would go' if check_mode else 'went'} out of view, since no release lists what others "
            f"write: {labels(done['strays']['paths'], 3)}. Name in training_shared what is written to"
        )
    for trouble in done["troubles"]:
        said.append(f"release: not all could be put away, which the next deploy tries again: {trouble}")
    return said


def _file(path: str, action: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    mode = f"{entry['mode']:04o}" if "mode" in entry else None
    file = {"path": path, "action": action, "type": entry["type"], "mode": mode}
    return {**file, "size": entry.get("size", 0), "sha256": entry.get("sha256"), "target": entry.get("target")}


def summary(result: Mapping[str, Any], check_mode: bool, rollback: bool = False) -> str:
    """The one line that a person reads of a release or rollback."""
    wait = f"; would wait for {result['waits_for']}" if result["waits_for"] else ""
    return _what_happened(result, check_mode, rollback) + _elsewhere(result, check_mode) + wait


def _what_happened(result: Mapping[str, Any], check_mode: bool, rollback: bool) -> str:
    release, root = short_id(result["release_id"]), result["root"]
    stays = result["release_id"] == result["previous_release_id"] and not (result["drift"] or result["adopted"])
    if stays and not result["changed"]:
        return f"{release} already live at {root}, nothing changed"
    if stays and result["mended"]:
        right = f"{'would put' if check_mode else 'put'} right: {labels(result['mended'])}"
        return f"{release} already live at {root}, {right}"
    if stays and result["pruned"]:
        old = f"{len(result['pruned'])} old release{'s' * (len(result['pruned']) != 1)}"
        return f"{release} already live at {root}, {old} {'would be removed' if check_mode else 'removed'}"
    counts = Counter(
        file["action"] for file in result["files"] if file["type"] == "file" or file["action"] != "unchanged"
    )
    said = [f"{counts[action]} {action}" for action in _ACTIONS if counts[action]] or ["no file changed"]
    if not rollback:
        said.append(size(result["bytes_sent"]))
    if not check_mode:
        said.append("sha256 proven")
    before = ""
    if result["adopted"]:
        what = "what was there" if result["adopted"].startswith(ADOPTED) else "what was edited there"
        before = f' ({what} {"would be" if check_mode else "is"} release "{result["adopted"]}")'
    elif rollback and result["previous_release_id"]:
        before = f" (before: {short_id(result['previous_release_id'])})"
    verb = "would go live" if check_mode else "live again" if rollback else "live"
    return f"{release} {verb} at {root}, {', '.join(said)}{before}"


def _elsewhere(result: Mapping[str, Any], check_mode: bool) -> str:
    """What lies where nobody looks for it: files that went out of view, and those that removing found."""
    home = f"{result['root'].rstrip('/')}/.trainops/{result['name']}"
    said, strays = "", result["strays"]
    if strays["count"]:
        stay = "would stay" if check_mode else "stays" if strays["count"] == 1 else "stay"
        which = f"{_files(strays['count'])} that no release lists {stay}"
        share = f"name {labels(strays['names'], 3)} in training_shared"
        said += f"; {which} in {home}/releases/{short_id(result['previous_release_id'])}…: {share}"
    if result["foreign"]:
        are = "would be" if check_mode else "is" if len(result["foreign"]) == 1 else "are"
        which = f"{_files(len(result['foreign']))} that no release lists {are}"
        said += f"; {which} in {home}/kept"
    return said


def _files(count: int) -> str:
    return f"{count} file{'s' * (count != 1)}"


def message(result: Mapping[str, Any]) -> str:
    """The summary, and what happened to which file, one a line."""
    lines = [result["summary"]]
    changes = [file for file in result["files"] if file["action"] != "unchanged"]
    lines += [f"{file['action']:8} {file['path']}" for file in changes[:_LISTED]]
    if len(changes) > _LISTED:
        lines.append(f"… and {len(changes) - _LISTED} more")
    for what, paths, count in (
        ("was edited in the live release", result["drift"], len(result["drift"])),
        ("out of view, no release lists it", result["strays"]["paths"], result["strays"]["count"]),
        ("belongs to nobody, kept", result["foreign"], len(result["foreign"])),
    ):
        lines += [f"{what}: {path}" for path in paths[:_LISTED]]
        if count > _LISTED:
            lines.append(f"{what}: … and {count - _LISTED} more")
    return "\n".join(map(one_line, lines))


def diff(
    done: Mapping[str, Any], after: Mapping[str, Mapping[str, Any]], texts: Mapping[str, str | None]
) -> list[dict[str, str]]:
    """Ansible's diffs against what was visible before: text as text, all else by its size."""
    found = []
    for path, action in sorted(done["actions"].items()):
        old, new = done["before"].get(path), texts.get(path)
        was = "" if action == "added" else shown(old, done["gone"].get(path))
        will = "" if action in ("removed", "adopted") else shown(new, after.get(path))
        if why := why_hidden(path, old, new):  # in a folder that was there, or in a release of an earlier version
            was, will = hidden(was, will, why)
        found.append(headed(path, path, was, will))
    return found


def hidden(before: str, after: str, why: str) -> tuple[str, str]:
    """The sides of a diff of which nothing is shown but that they are there, and that they differ."""
    changed = ", changed" * bool(before)
    return f"(not shown: {why})\n" * bool(before), f"(not shown: {why}{changed})\n" * bool(after)


def headed(before_header: str, after_header: str, before: str, after: str) -> dict[str, str]:
    """Ansible's diff of two texts; a header is one line, whatever a file is called."""
    headers = {"before_header": one_line(before_header), "after_header": one_line(after_header)}
    return {**headers, "before": before, "after": after}


def shown(text: str | None, entry: Mapping[str, Any] | None) -> str:
    """One side of a diff: a text as it is, all else by what it is."""
    if text is not None:
        return text
    if entry and entry["type"] == "link":
        return f"(a link to {one_line(str(entry['target']))})\n"
    return f"({size(entry['size'])}, no text to show)\n" if entry and "size" in entry else "(no text to show)\n"


def text_of(entry: Entry) -> str | None:
    """The text of a project's file; None for what is no text or too large to show."""
    if entry.size > _TEXT_BYTES:
        return None
    try:
        data = b"".join(read_bytes(entry))
        return None if b"\0" in data else data.decode("utf-8")
    except (UnicodeDecodeError, SourceChanged):  # what went live is what was read before
        return None


def labels(paths: Sequence[str], most: int = 5) -> str:
    """Some paths for a sentence."""
    return ", ".join(paths[:most]) + (f" and {len(paths) - most} more" if len(paths) > most else "")
