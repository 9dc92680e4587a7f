# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Any tree of files, folders, links and modes: what is live is exactly it, and what was done to it by hand is found."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker import store
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.look import verify
from ansible_collections.trainops.proxmox.plugins.plugin_utils.project import Project, read_bytes, read_project
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.unit.properties.cases import Node, Tree, cases, folder, make, read_back, trees
from tests.unit.releasing import deploy, home, leftovers, live


def project_of(place: Path, tree: Tree) -> Project:
    """A project with a file of its own beside the tree, so that it is never empty."""
    place.mkdir()
    make(place, {"always.txt": Node(0o644, b"here"), **tree})
    return read_project(str(place), [], "/")


def release(root: Path, project: Project) -> dict[str, Any]:
    files = {entry.path: b"".join(read_bytes(entry)) for entry in project.files if entry.type == "file"}
    return deploy(root, files, manifest={"files": json.loads(json.dumps(project.rows))}, adopt_folders=True)


def shipped(project: Project, place: Path) -> dict[str, Node]:
    """What of the project's folder ships."""
    paths = {entry.path for entry in project.files}
    return {path: node for path, node in read_back(place).items() if path in paths}


@cases(150)
@given(trees(), trees())
def test_a_b_a(first: Tree, second: Tree) -> None:
    with folder() as base:
        root = base / "root"
        root.mkdir()
        a, b = project_of(base / "a", first), project_of(base / "b", second)
        ids = []
        for project, place in ((a, base / "a"), (b, base / "b"), (a, base / "a")):
            done = release(root, project)
            ids.append(done["release_id"])
            assert live(root) == done["release_id"] == project.release_id
            assert read_back(home(root, "current").resolve()) == shipped(project, place)
            links = {name: os.readlink(root / name) for name in os.listdir(root) if name != ".trainops"}
            tops = {entry.path.partition("/")[0] for entry in project.files}
            assert links == {name: f".trainops/demo/current/{name}" for name in tops}
            assert set(leftovers(root)) <= set(links)  # a link to what is left out leads nowhere
        assert ids[0] == ids[2]
        assert (ids[0] == ids[1]) is (a.rows == b.rows)


@cases(250)
@given(trees(), st.data())
def test_what_was_done_by_hand_is_found_and_put_right(tree: Tree, data: st.DataObject) -> None:
    with folder() as base:
        root = base / "root"
        root.mkdir()
        project = project_of(base / "a", tree)
        release_id = release(root, project)["release_id"]
        current = home(root, "current").resolve()
        before = read_back(current)
        path = data.draw(st.sampled_from(sorted(path for path, node in before.items() if node.content is not None)))
        how = data.draw(st.sampled_from(sorted(EDITS)))
        EDITS[how](current / path)
        assume(read_back(current).get(path) != before[path])
        with store.open_store(str(root), "demo", create=False) as opened:
            for content in (False, True):
                assert list(verify(opened, release_id, content=content).drift) == [path]
        done = release(root, project)
        assert (done["release_id"], done["drift"], done["changed"]) == (release_id, [path], True)
        assert read_back(home(root, "current").resolve()) == before


def _in_place(path: Path) -> None:
    """Other bytes of the same size, the old times set again, as the most careful editor could."""
    info = path.stat()
    data = bytes((byte + 1) % 256 for byte in path.read_bytes())
    with path.open("r+b") as stream:
        stream.write(data)
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))


def _replaced(path: Path, by: str) -> None:
    path.unlink()
    if by == "folder":
        path.mkdir()
    elif by == "link":
        path.symlink_to("/etc/hostname")
    elif by == "pipe":
        os.mkfifo(path)


EDITS = {
    "other bytes, same size and time": _in_place,
    "appended": lambda path: path.open("ab").write(b"more"),
    "emptied": lambda path: path.write_bytes(b""),
    "removed": lambda path: path.unlink(),
    "a folder": lambda path: _replaced(path, "folder"),
    "a link": lambda path: _replaced(path, "link"),
    "a pipe": lambda path: _replaced(path, "pipe"),
}


@cases(300)
@given(trees(), st.sampled_from([0o000, 0o022, 0o027, 0o077]))
def test_the_same_tree_has_the_same_id_from_every_checkout(tree: Tree, umask: int) -> None:
    """Whoever checks it out: group and umask make no other release, a private file and a program do."""
    with folder() as base:
        one, other = project_of(base / "one", tree), project_of(base / "other", tree)
        assert one.rows == other.rows
        for entry in other.files:
            if entry.type == "file" and entry.mode in (0o644, 0o755):
                os.chmod(entry.source, entry.mode | 0o022 & ~umask)
        again = read_project(str(base / "other"), [], "/")
        assert again.release_id == one.release_id
