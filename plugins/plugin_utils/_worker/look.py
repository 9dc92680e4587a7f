# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is there now: whether a release is still what its manifest says, and what the root shows under its names."""

from __future__ import annotations

import errno
import os
import stat

from .channel import WorkerError
from .names import Names, look_at_names
from .scratch import walk
from .store import (
    ADOPTED,
    HOME,
    Store,
    content_mtime,
    digest,
    digest_at,
    live_id,
    lstat,
    manifest_of,
    shared_target,
    signature,
    tops,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ADOPT_BYTES = 2 << 30
_ADOPT_COUNT = 50_000


class Verdict:
    """How a release's tree differs from its manifest.

    ``drift`` maps a path to what is there instead (an entry as in a manifest, or None when it is gone or nothing that a
    release can hold). ``files`` are the manifest's, with fresh signatures; ``refreshed`` says that some are new.
    ``mended`` are paths whose content is right while mode or time are not. ``known`` is false without a manifest.
    """

    def __init__(self, files: dict[str, dict[str, Any]]) -> None:
        self.files = files
        self.drift: dict[str, dict[str, Any] | None] = {}
        self.refreshed = False
        self.mended: list[str] = []
        self.known = True


def verify(store: Store, release: str, content: bool = False, repair: bool = False) -> Verdict:
    """Compare a release with its manifest: by signature, by content where that differs, or always with ``content``.

    ``repair`` puts modes and times right in place where the content is: neither shows in what a reader reads.
    """
    manifest = manifest_of(store, release)
    verdict = Verdict(dict((manifest or {"files": {}})["files"]))
    verdict.known = manifest is not None
    if not store.exists():
        verdict.drift = dict.fromkeys(verdict.files)
        return verdict
    try:
        tree = os.open(release, _FOLDER, dir_fd=store.releases_fd)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            raise
        verdict.drift = dict.fromkeys(verdict.files)
        return verdict
    try:
        if manifest is None:  # lost or damaged: nothing is known about any file
            verdict.drift = {path[2:]: describe(tree, path, info) for path, info in walk(tree, ".")[1:]}
        else:
            _compare(tree, verdict, content, repair)
    finally:
        os.close(tree)
    for path, instead in list(verdict.drift.items()):
        if path.partition("/")[0] == HOME:  # no project has it: an eject that did not end made it
            del verdict.drift[path]
        elif instead and instead["type"] == "link" and instead["target"] == store.link(path):
            verdict.drift[path] = None
    return verdict


def _compare(tree: int, verdict: Verdict, content: bool, repair: bool) -> None:
    broken: tuple[str, ...] = ()
    for path in sorted(verdict.files):
        entry = verdict.files[path]
        info = None if broken and path.startswith(broken) else lstat(tree, path)
        if info and not content and signature(info) == entry.get("signature"):
            continue
        if info is None or not _is_right(tree, path, entry, info):
            verdict.drift[path] = describe(tree, path, info) if info else None
            if entry["type"] == "dir":
                broken += (path + "/",)
        elif entry["type"] in ("file", "dir"):
            _freshen(tree, path, info, verdict, repair)


def _is_right(tree: int, path: str, entry: dict[str, Any], info: os.stat_result) -> bool:
    """Whether type and content are those of the entry."""
    if entry["type"] in ("link", "shared"):
        wanted = entry["target"] if entry["type"] == "link" else shared_target(path)
        return stat.S_ISLNK(info.st_mode) and os.readlink(path, dir_fd=tree) == wanted
    if entry["type"] == "dir":
        return stat.S_ISDIR(info.st_mode)
    right = stat.S_ISREG(info.st_mode) and info.st_size == entry["size"]
    return right and digest_at(tree, path) == (entry["size"], entry["sha256"])


def _freshen(tree: int, path: str, info: os.stat_result, verdict: Verdict, repair: bool) -> None:
    """Note (and with ``repair`` mend) a wrong mode or time, and take the new signature of a file."""
    entry = verdict.files[path]
    is_file = entry["type"] == "file"
    mtime = entry.get("mtime_ns", content_mtime(entry["sha256"]) * 10**9) if is_file else info.st_mtime_ns
    if (stat.S_IMODE(info.st_mode), info.st_mtime_ns) != (entry["mode"], mtime):
        verdict.mended.append(path)
        if repair:
            _mend(tree, path, entry["mode"], mtime)
    after = lstat(tree, path)
    if is_file and after and signature(after) != entry.get("signature"):
        verdict.files[path] = dict(entry, signature=signature(after))
        verdict.refreshed = True


def _mend(tree: int, path: str, mode: int, mtime: int) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=tree)
    try:
        os.fchmod(fd, mode)
        os.utime(fd, ns=(mtime, mtime))
    finally:
        os.close(fd)


def describe(folder: int, path: str, info: os.stat_result) -> dict[str, Any] | None:
    """What is at ``path`` as a manifest's entry, with owner and time; None for what no release can hold."""
    if stat.S_ISDIR(info.st_mode):
        return {"type": "dir", "mode": stat.S_IMODE(info.st_mode), "uid": info.st_uid, "gid": info.st_gid}
    if stat.S_ISLNK(info.st_mode):
        target = os.readlink(path, dir_fd=folder)
        return {"type": "link", "target": target, "original": target}
    if not stat.S_ISREG(info.st_mode):
        return None
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        info = os.fstat(fd)  # of what is read, not of what was there a moment ago
        if not stat.S_ISREG(info.st_mode):
            return None
        size, sha256 = digest(fd)
    finally:
        os.close(fd)
    entry = {"mode": stat.S_IMODE(info.st_mode), "uid": info.st_uid, "gid": info.st_gid, "mtime_ns": info.st_mtime_ns}
    return {"type": "file", "size": size, "sha256": sha256, **entry}


def plain_files(
    store: Store, names: list[str], wanted: dict[str, dict[str, Any]], adopt_folders: bool
) -> dict[str, dict[str, Any]]:
    """What plain files and folders in the root hold, as a manifest's files.

    Raises WorkerError when that cannot become a release: too much, sockets, pipes and devices in it, the Python in use,
    or, without ``adopt_folders``, files that would go out of view since nothing ``wanted`` takes their place.
    """
    from .hides import MOST, refuse_hidden, refuse_interpreter  # most runs find no plain names

    refuse_interpreter(store, names)
    found = [item for name in names for item in walk(store.root_fd, name, MOST)]
    if not adopt_folders:
        refuse_hidden(store, found, wanted)
    size = sum(info.st_size for _path, info in found if stat.S_ISREG(info.st_mode))
    if size > _ADOPT_BYTES or len(found) > _ADOPT_COUNT:
        raise WorkerError("too-large", _too_large(store, found, size))
    files = {}
    for path, info in found:
        entry = describe(store.root_fd, path, info)
        if entry is None:
            where = os.path.join(store.root, path)
            raise WorkerError(
                "conflict",
                f"{where} is neither a file nor a folder nor a link, so {path.partition('/')[0]} cannot be kept as a "
                "release: move it away, name it in training_shared or leave it out with training_exclude",
            )
        files[path] = entry
    return files


def _too_large(store: Store, found: list[tuple[str, os.stat_result]], size: int) -> str:
    totals: dict[str, int] = {}
    for path, info in found:
        top = path.partition("/")[0]
        totals[top] = totals.get(top, 0) + info.st_size
    top = max(totals, key=lambda name: totals[name])
    return (
        f"{os.path.join(store.root, top)} is there already and the project has the same name; keeping it would copy "
        f"{size / 1e9:.1f} GB in {len(found)} files: name {top} in training_shared when it holds data, leave it out "
        "with training_exclude, or move it away"
    )


class Look:
    """What is live and visible before a release or rollback changes anything."""

    def __init__(self, live: str | None, verdict: Verdict, names: Names, plain: dict[str, dict[str, Any]]) -> None:
        self.live = live
        self.verdict = verdict
        self.names = names
        self.plain = plain

    def untouched(self) -> bool:
        """Whether what is visible is the live release as its manifest says."""
        return self.verdict.known and not (self.verdict.drift or self.names.plain)

    def to_keep(self) -> bool:
        """Whether something is visible that no release holds."""
        return not self.untouched() and bool(self.visible()) and not self.is_kept()

    def is_kept(self) -> bool:
        """Whether the live release has all plain files already: a run that ended while it adopted them left both."""
        if self.verdict.drift or not self.plain or not (self.live or "").startswith(ADOPTED):
            return False
        below = tuple(name + "/" for name in self.names.plain)
        kept = {
            path: entry
            for path, entry in self.verdict.files.items()
            if path in self.names.plain or path.startswith(below)
        }
        return kept.keys() == self.plain.keys() and all(
            all(kept[path].get(key) == entry.get(key) for key in ("type", "sha256", "original"))
            for path, entry in self.plain.items()
        )

    def visible(self) -> dict[str, dict[str, Any]]:
        """The files that a reader of the root sees now under the names of the project."""
        files = dict(self.verdict.files)
        for path, instead in self.verdict.drift.items():
            files.pop(path, None)
            if instead:
                files[path] = instead
        covered = tuple(name + "/" for name in self.names.plain)
        files = {
            path: entry
            for path, entry in files.items()
            if path not in self.names.plain and not path.startswith(covered)
        }
        return {**files, **self.plain}

    def sources(self) -> dict[str, tuple[bool, str]]:
        """Where each content that is known to be here can be copied from: sha256 to (in the live release?, path)."""
        found = {entry["sha256"]: (False, path) for path, entry in self.plain.items() if entry["type"] == "file"}
        for path, entry in self.verdict.files.items():
            if entry["type"] == "file" and path not in self.verdict.drift:
                found[entry["sha256"]] = (True, path)
        return found


def look(store: Store, wanted: dict[str, dict[str, Any]], repair: bool, adopt_folders: bool) -> Look:
    """Look at what is live and at the names that ``wanted`` needs. Raises WorkerError for what is in the way."""
    live = live_id(store)
    verdict = verify(store, live, repair=repair) if live else Verdict({})
    shared = {path for path, entry in wanted.items() if entry["type"] == "shared"}
    names = look_at_names(store, tops(wanted), shared)
    plain = plain_files(store, names.plain, wanted, adopt_folders) if names.plain else {}
    return Look(live, verdict, names, plain)


def actions(before: dict[str, dict[str, Any]], after: dict[str, dict[str, Any]]) -> dict[str, str]:
    """What happens to each file and link that is visible before or after: added, changed, removed or unchanged."""
    found = {}
    for path in sorted({*before, *after}):
        old, new = before.get(path), after.get(path)
        if (new or old or {})["type"] in ("dir", "shared") and (not old or not new or old["type"] == new["type"]):
            continue
        if not old:
            found[path] = "added"
        elif not new:
            found[path] = "removed"
        else:
            found[path] = "unchanged" if _same(old, new) else "changed"
    return found


def _same(old: dict[str, Any], new: dict[str, Any]) -> bool:
    keys = ("type", "mode", "sha256") if new["type"] == "file" else ("type", "target")
    return all(old.get(key) == new.get(key) for key in keys)
