# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where a project's releases live below its root, and what is live there: the layout and how it is read.

    ROOT/.trainops/.lock                    taken while names in ROOT change
    ROOT/.trainops/NAME/current             link to releases/ID: its rename is what makes a release live
    ROOT/.trainops/NAME/releases/ID         the tree of a release; ID.json beside it is its manifest
    ROOT/.trainops/NAME/releases/.stage-*   where one run puts things together; the next one removes what is left
    ROOT/.trainops/NAME/activations         one line of JSON for each time that a release went live
    ROOT/.trainops/NAME/kept                what was found in the way of removing and no manifest lists
    ROOT/.trainops/NAME/lock                held while a deploy or a rollback runs

Everything is reached through descriptors of folders that were opened once and never by following a link, so whoever may
write in ROOT cannot lead the worker elsewhere.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import time

from .channel import WorkerError
from .control import open_control

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

FORMAT = 1
HOME = ".trainops"
ADOPTED = "adopted"
EDITED = "edited"
SHORT = 7
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
_ID = re.compile(r"[0-9a-f]{64}|adopted(?:-[0-9]+)?|edited(?:-[0-9]+)?")
_CURRENT = re.compile(f"releases/({_ID.pattern})")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MTIME_FIRST = 978_307_200  # 2001-01-01
_MTIME_SPAN = 9 * 365 * 86_400
_PIECE = 1 << 20


class Store:
    """The open folders of one project below one root, and their paths for messages.

    ``home_fd`` and ``releases_fd`` are -1 where nothing was ever released and nothing was to be made, or where the
    folder was removed.
    """

    def __init__(self, root: str, name: str, root_fd: int, home_fd: int, releases_fd: int) -> None:
        self.root = root
        self.name = name
        self.root_fd = root_fd
        self.home_fd = home_fd
        self.releases_fd = releases_fd

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_exc: object) -> None:
        for fd in (self.releases_fd, self.home_fd, self.root_fd):
            if fd >= 0:
                os.close(fd)

    def exists(self) -> bool:
        """Whether the folder of the project's releases is there."""
        return self.releases_fd >= 0

    def has_tree(self, release: str) -> bool:
        """Whether the folder of a release is there."""
        info = lstat(self.releases_fd, release) if self.exists() else None
        return info is not None and stat.S_ISDIR(info.st_mode)

    def open_tree(self, release: str | None) -> int:
        """A descriptor of the folder of a release; -1 when there is none."""
        return os.open(release, _FOLDER, dir_fd=self.releases_fd) if release and self.has_tree(release) else -1

    def path(self, *parts: str) -> str:
        """A path below ROOT/.trainops/NAME, as text."""
        return os.path.join(self.root, HOME, self.name, *parts)

    def link(self, top: str) -> str:
        """What the link ROOT/TOP of a top-level name says."""
        return f"{HOME}/{self.name}/current/{top}"


def short_id(release: str) -> str:
    """A release id as people read it."""
    return release[:SHORT] if len(release) == 64 else release


def release_id(files: list[dict[str, Any]]) -> str:
    """The id of a release with these files: sha256 over path, type, mode, size, sha256 and target of each, by path."""
    import hashlib

    keys = ("path", "type", "mode", "size", "sha256", "target")
    rows = sorted([entry.get(key) for key in keys] for entry in files)
    return hashlib.sha256(json.dumps(rows, separators=(",", ":")).encode("ascii")).hexdigest()


def content_mtime(sha256: str) -> int:
    """The modification time, in whole seconds, that a file with this content gets: some second of 2001 to 2009.

    Python takes a .pyc file for current when source size and mtime match, so equal times of different contents would
    let old code run.
    """
    return _MTIME_FIRST + int(sha256[:12], 16) % _MTIME_SPAN


def check_name(name: str) -> None:
    """Raise WorkerError unless ``name`` can be a project's folder below ROOT/.trainops."""
    if not _NAME.fullmatch(name):
        fix = "set a name of letters, digits, '.', '_' and '-' that does not begin with '.'"
        raise WorkerError("name", f"{name!r} cannot be a project's name: {fix}")


def open_root(root: str) -> int:
    """A descriptor of the root folder. Raises WorkerError when it is missing, no folder or no absolute path."""
    if not os.path.isabs(root):
        raise WorkerError("no-root", f"training_root {root!r} is not an absolute path in the container")
    try:
        return os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        fix = "create it in the container, or correct training_root"
        raise WorkerError("no-root", f"training_root {root} does not exist: {fix}") from None
    except NotADirectoryError:
        raise WorkerError("no-root", f"training_root {root} is not a folder: correct training_root") from None


def open_folder(parent: int, name: str, shown: str) -> int | None:
    """A descriptor of our own folder ``name`` in ``parent``, or None when there is none.

    Raises WorkerError when something else is in its place, or when others could change what is in it.
    """
    try:
        fd = os.open(name, _FOLDER, dir_fd=parent)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
        fix = "move it away; releases are kept in a folder of that name"
        raise WorkerError("planted", f"{shown} is no folder but a link or a file: {fix}") from None
    _refuse_foreign(fd, shown)
    return fd


def make_folder(parent: int, name: str, shown: str) -> int:
    """As :func:`open_folder`; makes the folder when there is none."""
    fd = open_folder(parent, name, shown)
    if fd is not None:
        return fd
    try:
        os.mkdir(name, 0o755, dir_fd=parent)
    except FileExistsError:  # another deploy was faster
        return make_folder(parent, name, shown)
    fd = os.open(name, _FOLDER, dir_fd=parent)
    os.fchmod(fd, 0o755)
    os.fsync(parent)
    return fd


def _refuse_foreign(fd: int, shown: str) -> None:
    info = os.fstat(fd)
    if info.st_uid != os.geteuid():
        os.close(fd)
        fix = "give it to the user that deploys (chown), or use another training_root"
        raise WorkerError("planted", f"{shown} belongs to uid {info.st_uid}, not to uid {os.geteuid()}: {fix}")
    if info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        os.close(fd)
        raise WorkerError("planted", f"{shown} can be written by others: chmod go-w {shown}")


def open_store(root: str, name: str, create: bool) -> Store:
    """Open the folders of a project; those that are missing are made when ``create`` says so."""
    check_name(name)
    fds: list[int] = [open_root(root)]
    try:
        shown = root
        for part in (HOME, name, "releases"):
            shown = os.path.join(shown, part)
            fd = make_folder(fds[-1], part, shown) if create else open_folder(fds[-1], part, shown)
            if fd is None:
                break
            fds.append(fd)
        if os.fstat(fds[0]).st_dev != os.fstat(fds[-1]).st_dev:
            fix = "links and files must move between them by rename; unmount it or choose another training_root"
            raise WorkerError("mount-point", f"{root}/{HOME} is on another file system than {root}: {fix}")
        releases_fd = fds.pop() if len(fds) == 4 else -1
        home_fd = fds.pop() if len(fds) == 3 else -1
        return Store(root, name, fds.pop(0), home_fd, releases_fd)
    finally:
        for fd in fds:
            os.close(fd)


def together(problems: list[str], most: int = 20) -> str:
    """Several problems, one a line; the first line says how many more there are, since some readers see only that."""
    more = len(problems) - 1
    lines = [problems[0] + (f" (and {more} more)" if more > 0 else ""), *problems[1:most]]
    return "\n".join([*lines, *([f"… and {len(problems) - most} more"] if len(problems) > most else [])])


def require_writable(store: Store) -> None:
    """Raise WorkerError, as a run that writes would, where the root or our folders in it cannot be written."""
    for fd, name in ((store.root_fd, "."), (store.home_fd, "."), (store.releases_fd, "."), (store.root_fd, HOME)):
        if fd < 0 or lstat(fd, name) is None:
            continue
        if os.fstatvfs(fd).f_flag & os.ST_RDONLY:
            code = errno.EROFS
        elif os.access(name, os.W_OK | os.X_OK, dir_fd=fd):
            continue
        else:  # whoever may write everywhere and still may not here meets an attribute
            code = errno.EACCES if os.geteuid() else errno.EPERM
        raise explain(OSError(code, os.strerror(code)), store.root)


def project_names(root: str) -> list[str]:
    """The projects that have something live below ``root``, by name."""
    home = os.path.join(root, HOME)
    try:
        names = os.listdir(home)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(name for name in names if _NAME.fullmatch(name) and os.path.islink(f"{home}/{name}/current"))


def only_project(root: str, verb: str) -> str:
    """The only project with something live below ``root``, to ``verb`` it. Raises WorkerError when there is not one."""
    os.close(open_root(root))  # or it says that there is no such folder
    names = project_names(root)
    if not names:
        raise WorkerError("nothing-live", f"nothing was deployed below {root}: deploy first, or correct training_root")
    if len(names) != 1:
        which = f"say which project below {root} to {verb}, by option name (there: {', '.join(names)})"
        raise WorkerError("name", which)
    return names[0]


def live_id(store: Store) -> str | None:
    """The id of the live release, or None when nothing is live. Raises WorkerError when ``current`` is not our link."""
    if store.home_fd < 0:
        return None
    try:
        target = os.readlink("current", dir_fd=store.home_fd)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        target = "no link"
    match = _CURRENT.fullmatch(target)
    if not match:
        fix = "make it a relative link releases/ID again, or remove it"
        raise WorkerError("planted", f"{store.path('current')} is not a link to a release ({target}): {fix}")
    return match[1]


def manifest_of(store: Store, release: str) -> dict[str, Any] | None:
    """The manifest of a release; None when it is missing or damaged (then the release counts as unknown content)."""
    if not store.exists():
        return None
    try:
        fd = open_control(store.releases_fd, f"{release}.json", store.path("releases", f"{release}.json"))
    except FileNotFoundError:
        return None
    from .manifest import parse  # which needs what is defined here

    with open(fd, encoding="ascii", errors="replace") as stream:
        return parse(stream.read(), release)


def releases(store: Store) -> list[str]:
    """The ids of the releases that have a manifest."""
    return sorted(name[:-5] for name in os.listdir(store.releases_fd) if is_manifest(name))


def is_manifest(name: str) -> bool:
    """Whether a name in the folder of the releases is that of a manifest; people put all kinds of files anywhere."""
    return name.endswith(".json") and is_id(name[:-5])


def is_id(name: str) -> bool:
    """Whether a name in the folder of the releases is that of a release."""
    return _ID.fullmatch(name) is not None


def live_release(root: str, name: str) -> tuple[str, dict[str, Any]] | None:
    """Id and manifest of what is live for a project below ``root``; None when nothing is or its manifest is damaged."""
    with open_store(root, name, create=False) as store:
        release = live_id(store)
        manifest = manifest_of(store, release) if release else None
        return (release, manifest) if release and manifest else None


def now() -> str:
    """The time as the activations and manifests write it, UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def signature(info: os.stat_result) -> list[int]:
    """What changes whenever a file's content does: times, size, inode."""
    return [info.st_mtime_ns, info.st_ctime_ns, info.st_size, info.st_ino]


def write_all(fd: int, data: bytes) -> None:
    """Write all of ``data``; a short write is continued, so it ends in an error or not at all."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def unheard(_count: int) -> None:
    """Nobody wants to know how far it is."""


def digest(fd: int, seen: Callable[[int], None] = unheard) -> tuple[int, str]:
    """Size and sha256 of an open file, read from its beginning; ``seen`` gets the bytes of each piece."""
    import hashlib

    whole, offset = hashlib.sha256(), 0
    while True:
        data = os.pread(fd, _PIECE, offset)
        whole.update(data)
        offset += len(data)
        seen(len(data))
        if len(data) < _PIECE:  # the end of a regular file, and nothing else gives less
            return offset, whole.hexdigest()


def digest_at(folder: int, path: str) -> tuple[int, str] | None:
    """Size and sha256 of the regular file ``path`` below ``folder``; None when it is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO):
            return None
        raise
    try:
        return digest(fd) if stat.S_ISREG(os.fstat(fd).st_mode) else None
    finally:
        os.close(fd)


def lstat(folder: int, path: str) -> os.stat_result | None:
    """What is at ``path`` below ``folder``, links not followed; None when there is nothing."""
    try:
        return os.stat(path, dir_fd=folder, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None


def shared_target(name: str) -> str:
    """What the link of a shared name in a release's tree says: the same name in the root."""
    return f"../../../../{name}"


def tops(files: dict[str, dict[str, Any]]) -> set[str]:
    """The top-level names of a manifest's files that are linked in the root (shared names are not)."""
    return {path.partition("/")[0] for path, entry in files.items() if entry["type"] != "shared"}


def amount(count: int) -> str:
    """Bytes as people read them, in powers of ten."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}" if count < 10 * factor else f"{count / factor:.0f} {unit}"
    return f"{count} B"


def some(paths: list[str], most: int = 5, count: int = 0) -> str:
    """The first of some paths (of ``count``, when not all are given) for a sentence."""
    more = (count or len(paths)) - min(most, len(paths))
    return ", ".join(paths[:most]) + (f" and {more} more" if more > 0 else "")


def sentence(error: OSError | WorkerError, root: str) -> str:
    """What an error says to a person."""
    return (error if isinstance(error, WorkerError) else explain(error, root)).message


def explain(error: OSError, root: str) -> WorkerError:
    """An error of the file system as a sentence with what to do about it."""
    fixes: dict[int | None, tuple[str, str]] = {
        errno.ENOSPC: ("no-space", "free space or inodes on its file system"),
        errno.EDQUOT: ("no-space", "the quota is used up: free space or raise it"),
        errno.EXDEV: ("os", "it is part of an image below an overlay file system: copy it in place, or move it away"),
        errno.EROFS: ("read-only", "its file system is mounted read-only: remount it, or choose another training_root"),
        errno.ENAMETOOLONG: ("os", "names or paths so long cannot be there: shorten it, or leave it out"),
        errno.EEXIST: ("os", "its file system takes it for the same name as another of the project: rename one"),
        errno.EACCES: ("denied", f"the worker runs as uid {os.geteuid()}: give it the right, or use another login"),
        errno.EPERM: ("denied", f"the worker runs as uid {os.geteuid()} and may not: look at owner and attributes"),
    }
    code, fix = fixes.get(error.errno, ("os", "look at the container's file system"))
    where = f" ({error.filename})" if isinstance(error.filename, str) else ""
    return WorkerError(code, f"below {root}{where}: {error.strerror}: {fix}")


def guarded(work: Callable[[], dict[str, Any]], root: str) -> dict[str, Any]:
    """Run an operation's body; the file system's errors come out as WorkerError, said once, here."""
    try:
        return work()
    except OSError as error:
        raise explain(error, root) from error
