# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Debian roots for nodes and containers: built once by mmdebstrap, kept in the cache, shared by all labs.

A root is a stack of folders, the lowest first, that an overlay joins; nothing ever writes to them after the build.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import spec
from .errors import LabError
from .instance import CACHE
from .system import folder_lock

#: Tried in this order: a release that is no longer supported moves to the archive.
MIRRORS = ("http://deb.debian.org/debian", "http://archive.debian.org/debian")
FILES = Path(__file__).parent / "files"
_UNNEEDED = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/info/*")


@dataclass(frozen=True)
class Layer:
    """Packages installed over a base, then a script of files/ (or none) run inside."""

    name: str
    packages: tuple[str, ...]
    script: str | None = None


@dataclass(frozen=True)
class Recipe:
    """A Debian release with packages; its layers; whether its files belong to mapped ids (unprivileged containers)."""

    suite: str
    packages: tuple[str, ...]
    layers: tuple[Layer, ...] = ()
    shifted: bool = False


_CONTAINER_PACKAGES = ("python3", "python3-venv", "sudo", "procps")
_NODE_PACKAGES = ("lxc", "openssh-server", "uidmap", "iproute2")

RECIPES = {
    "bookworm": Recipe(
        "bookworm",
        _CONTAINER_PACKAGES,
        (Layer("node", _NODE_PACKAGES, "customize-node"), Layer("systemd", ("systemd-sysv", "dbus"))),
    ),
    "bullseye": Recipe("bullseye", _CONTAINER_PACKAGES, shifted=True),
}

#: Image name: recipe and the layers over its base, lowest first.
IMAGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "bookworm": ("bookworm", ()),
    "bookworm-systemd": ("bookworm", ("systemd",)),
    "bookworm-node": ("bookworm", ("node",)),
    "bullseye": ("bullseye", ()),
}


def folder(recipe: str) -> Path:
    """The cache folder of a recipe; its name changes with everything that goes into the build."""
    digest = hashlib.sha256(repr((RECIPES[recipe], spec.PASSWORDS)).encode())
    for name in ("init", "install", "customize", *(layer.script for layer in RECIPES[recipe].layers if layer.script)):
        digest.update((FILES / name).read_bytes())
    return CACHE / f"{recipe}-{digest.hexdigest()[:12]}"


def stack(image: str) -> tuple[Path, ...]:
    """The folders of an image, the lowest first."""
    recipe, layers = IMAGES[image]
    return tuple(folder(recipe) / part for part in ("base", *layers))


def missing() -> list[str]:
    """The recipes that are yet to be built."""
    return [recipe for recipe in RECIPES if not folder(recipe).is_dir()]


def ensure(say: Callable[[str], None]) -> None:
    """Build what is missing. LabError with the end of the build's log when that fails."""
    if not missing():
        return
    with folder_lock(CACHE):
        _drop_leftovers()
        todo = missing()
        if todo:
            say(f"building {' and '.join(f'Debian {name}' for name in todo)} (only the first time; about a minute)")
        with concurrent.futures.ThreadPoolExecutor() as pool:
            list(pool.map(_build, todo))


def purge() -> None:
    """Remove the cache."""
    with folder_lock(CACHE):
        shutil.rmtree(CACHE)


def _drop_leftovers() -> None:
    """Builds that were cut short, and roots of recipes that have changed since."""
    kept = {folder(recipe) for recipe in RECIPES}
    for entry in CACHE.iterdir():
        if entry.is_dir() and entry not in kept and not _in_use(entry):
            shutil.rmtree(entry)


def _in_use(entry: Path) -> bool:
    """Whether a running lab's overlays still rest on this folder."""
    for mounts in Path("/proc").glob("[0-9]*/mountinfo"):
        try:
            if str(entry) in mounts.read_text() or f"/{entry.name}/" in mounts.read_text():
                return True
        except OSError:
            continue
    return False


def _build(name: str) -> None:
    recipe = RECIPES[name]
    work = Path(tempfile.mkdtemp(prefix=f"build-{name}-", dir=CACHE))
    work.chmod(0o755)  # the root of an unprivileged container must be reached by its mapped ids
    log = work / "log"
    base = work / "base"
    _bootstrap(log, name, recipe, base)
    shutil.copy(FILES / "init", base / "sbin/init")
    _inside(log, name, [base], "customize", [spec.PASSWORDS["root"], spec.PASSWORDS["trainer"]])
    for layer in recipe.layers:
        (work / layer.name).mkdir(mode=0o755)
        _inside(log, name, [base, work / layer.name], "install", layer.packages)
        if layer.script:
            _inside(log, name, [base, work / layer.name], layer.script, ())
    shutil.rmtree(base / "var/lib/apt/lists")
    (base / "var/lib/apt/lists/partial").mkdir(parents=True)
    if recipe.shifted:
        shift_ids(base, spec.ID_BASE)
    log.unlink()
    work.rename(folder(name))


def _bootstrap(log: Path, name: str, recipe: Recipe, base: Path) -> None:
    keep_lists = ["--skip=cleanup/apt/lists"] if recipe.layers else []
    unneeded = [f"--dpkgopt=path-exclude={pattern}" for pattern in _UNNEEDED]
    packages = ",".join(recipe.packages)
    command = ["mmdebstrap", "--variant=minbase", *keep_lists, *unneeded, f"--include={packages}", recipe.suite]
    failures = []
    for mirror in MIRRORS:
        try:
            return _logged(log, name, [*command, str(base), mirror])
        except LabError as exc:
            failures.append(exc)
            shutil.rmtree(base, ignore_errors=True)
    raise failures[0]


#: Runs the script $3 with the rest as its arguments in the root $1, or in an overlay of it that writes to $2.
_CHROOT = r"""
set -eu
root=$1 upper=$2 script=$3
shift 3
if [ -n "$upper" ]; then
    mkdir -p "$upper.work" "$upper.root"
    mount -t overlay overlay -o "lowerdir=$root,upperdir=$upper,workdir=$upper.work" "$upper.root"
    root=$upper.root
fi
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
mount --rbind /dev "$root/dev"
touch "$root/etc/resolv.conf"
mount --bind /etc/resolv.conf "$root/etc/resolv.conf"
cp "$script" "$root/tmp/script"
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
exec chroot "$root" /tmp/script "$@"
"""


def _inside(log: Path, name: str, folders: Sequence[Path], script: str, args: Sequence[str]) -> None:
    lower, upper = str(folders[0]), "".join(map(str, folders[1:]))
    argv = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _CHROOT, "sh", lower, upper]
    _logged(log, name, [*argv, str(FILES / script), *args])
    for scratch in (f"{upper}.work", f"{upper}.root") if upper else ():
        shutil.rmtree(scratch)


def _logged(log: Path, name: str, argv: Sequence[str]) -> None:
    with log.open("ab") as stream:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, check=False)
    if done.returncode:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-12:])
        raise LabError(f"building the root of Debian {name} failed; the whole log is {log}\n{tail}")


def shift_ids(root: Path, base: int) -> None:
    """Give every file below root to its owner's and group's id plus base, modes kept."""
    seen: set[int] = set()  # a file of several names is shifted once
    for folder_, names, files in os.walk(root):
        for path in [folder_, *(os.path.join(folder_, name) for name in names + files)]:
            state = os.lstat(path)
            if state.st_ino in seen:
                continue
            seen.add(state.st_ino)
            os.lchown(path, state.st_uid + base, state.st_gid + base)
            if not stat.S_ISLNK(state.st_mode):
                os.chmod(path, stat.S_IMODE(state.st_mode))  # chown cleared set-user-id
