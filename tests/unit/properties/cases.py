# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the property tests draw, and how many cases: names that Linux allows, trees, folders that cost no disk."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

#: As many cases as all property tests together ask for at least; a test counts them.
ALL_CASES = 10_000
COUNTED: dict[str, int] = {}

_MEMORY = "/dev/shm"  # syncing a file there costs nothing


def cases(count: int) -> Callable[[Any], Any]:
    """Run a test for so many cases, the same each time, and count them for :data:`ALL_CASES`."""

    def decorate(test: Any) -> Any:
        COUNTED[f"{test.__module__}.{test.__name__}"] = count
        return settings(
            max_examples=count,
            deadline=None,
            derandomize=True,
            database=None,
            print_blob=True,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        )(test)

    return decorate


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """A folder of its own for one case."""
    with tempfile.TemporaryDirectory(dir=_MEMORY if os.access(_MEMORY, os.W_OK) else None) as path:
        yield Path(path)


_ODD = [
    "-rf",
    "--help",
    "new\nline.py",
    "tab\t",
    " lead and trail ",
    'it\'s "quoted" $HOME `id` $(id)',
    "e\u0301",
    "\u00e9",
    "\u202eevil",
    "\x1b[31m",
    "{{ training_root }}",
    "*",
    "[a]",
    "\\",
    "~",
    "...",
    "2 bad-name.py",
    "class.py",
    "x" * 255,
    "\u00fc" * 127,
    "current",
    "releases",
    "a:b",
    "%s",
    "#x",
    "CON",
]


def _name(data: bytes) -> str:
    return os.fsdecode(data.replace(b"/", b"").replace(b"\0", b"")[:255])


#: Any name that Linux allows, as Python has it (bytes that are no UTF-8 as surrogates).
NAMES = st.one_of(
    st.sampled_from(_ODD),
    st.text(max_size=40).map(lambda text: _name(text.encode("utf-8", "surrogatepass"))),
    st.binary(max_size=48).map(_name),
).filter(lambda name: name not in ("", ".", ".."))

#: Words of a command line: all but NUL.
WORDS = st.one_of(
    st.sampled_from([*_ODD, "", "$IFS", "a\\", "\\0101", "'", '"', "\n", "'\"'\"'", "!x", ";", "&&", "${x}", "\\c"]),
    st.text(max_size=30).map(lambda text: text.replace("\0", "").encode("utf-8", "replace").decode()),
    st.binary(max_size=60).map(lambda data: os.fsdecode(data.replace(b"\0", b""))),
)


@dataclass(frozen=True)
class Node:
    """A file (content), a folder (no content, no target) or a link (target) of a tree."""

    mode: int
    content: bytes | None = None
    target: str | None = None


_CONTENTS = st.one_of(st.just(b""), st.binary(max_size=40), st.just(b"x = 1\n"), st.just(bytes(range(256))))
_FILES = st.builds(lambda mode, content: Node(mode, content), st.sampled_from([0o644, 0o600, 0o755, 0o700]), _CONTENTS)
Tree = Mapping[str, Node]


@st.composite
def trees(draw: st.DrawFn) -> dict[str, Node]:
    """A tree by path: up to a dozen files in folders, empty folders, links to what is in it or to nothing in it."""
    places = [""]
    found: dict[str, Node] = {}
    for name in draw(st.lists(NAMES, max_size=4, unique=True)):
        path = os.path.join(draw(st.sampled_from(places)), name)
        if path not in found:
            found[path] = Node(draw(st.sampled_from([0o755, 0o700])))
            places.append(path)
    for name in draw(st.lists(NAMES, min_size=1, max_size=8, unique=True)):
        path = os.path.join(draw(st.sampled_from(places)), name)
        found.setdefault(path, draw(_FILES))
    for name in draw(st.lists(NAMES, max_size=2, unique=True)):
        path = os.path.join(draw(st.sampled_from(places)), name)
        aim = draw(st.sampled_from(sorted(found)))
        if path not in found:
            found[path] = Node(0o777, target=os.path.relpath(aim, os.path.dirname(path) or "."))
    return found


def make(folder: Path, tree: Tree) -> None:
    """Put a tree on the disk, modes of folders last."""
    for path in sorted(tree, key=lambda one: one.count("/")):
        node, place = tree[path], folder / path
        if node.content is not None:
            place.write_bytes(node.content)
            place.chmod(node.mode)
        elif node.target is not None:
            place.symlink_to(node.target)
        else:
            place.mkdir()
            place.chmod(node.mode)


def read_back(folder: Path) -> dict[str, Node]:
    """What is in a folder, as :func:`make` puts it there."""
    found: dict[str, Node] = {}
    for place in sorted(folder.rglob("*")):
        info, path = place.lstat(), str(place.relative_to(folder))
        if stat.S_ISLNK(info.st_mode):
            found[path] = Node(0o777, target=os.readlink(place))
        elif stat.S_ISDIR(info.st_mode):
            found[path] = Node(stat.S_IMODE(info.st_mode))
        elif stat.S_ISREG(info.st_mode):
            found[path] = Node(stat.S_IMODE(info.st_mode), place.read_bytes())
        else:
            found[path] = Node(0)
    return found


_SHA = st.binary(max_size=3).map(lambda data: hashlib.sha256(data).hexdigest())
_PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)


@st.composite
def manifests(draw: st.DrawFn) -> list[dict[str, Any]]:
    """The rows of a manifest, by path."""
    rows = []
    for path in draw(st.lists(_PATHS, min_size=1, max_size=4, unique=True)):
        kind = draw(st.sampled_from(["file", "file", "dir", "link", "shared"]))
        row: dict[str, Any] = {"path": path, "type": kind}
        if kind == "file":
            row |= {
                "mode": draw(st.sampled_from([0o644, 0o755])),
                "size": draw(st.integers(0, 1 << 60)),
                "sha256": draw(_SHA),
            }
        elif kind == "dir":
            row["mode"] = draw(st.sampled_from([0o755, 0o700]))
        elif kind == "link":
            row["target"] = draw(_PATHS)
        rows.append(row)
    return sorted(rows, key=lambda one: str(one["path"]))
