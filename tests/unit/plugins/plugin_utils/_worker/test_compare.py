# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What differs from a live release, by hand and in the project: found by content, and nothing is touched."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker import compare
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.lock import Lock
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.store import release_id

from tests.unit.releasing import (
    Files,
    compare_with,
    deploy,
    home,
    live,
    refusal,
    roll_back,
    rows,
    snapshot,
    write,
)

V1: Files = {
    "train.py": "import model\n",
    "model.py": "V = 1\n",
    "conf/a.yml": "a: 1\n",
    "conf/b.yml": "b: 1\n",
    "weights.bin": b"\0" * 64,
}


def in_release(root: Path, path: str) -> Path:
    return home(root, "current", path)


def told(done: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Path, place (release or root) and action of what was done by hand."""
    return [(one["path"], "release" if "/releases/" in one["at"] else "root", one["action"]) for one in done["by_hand"]]


def an_editor_in_place(root: Path) -> None:
    with open(root / "train.py", "a") as stream:
        stream.write("# hot fix\n")


def an_editor_that_renames_over(root: Path) -> None:
    write(root, {"train.py.new": "import model, sys\n"})
    (root / "train.py.new").rename(root / "train.py")


def the_same_size_and_times(root: Path) -> None:
    """What a push that keeps times leaves."""
    path = in_release(root, "model.py")
    info = path.stat()
    path.write_text("V = 2\n")
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))


def a_short_push(root: Path) -> None:
    os.truncate(root / "model.py", 2)


def removed(root: Path) -> None:
    in_release(root, "conf/a.yml").unlink()


def a_folder_removed(root: Path) -> None:
    shutil.rmtree(in_release(root, "conf"))


def added(root: Path) -> None:
    write(in_release(root, "."), {"conf/new.yml": "n\n", "notes.txt": "n\n", "out/log": "l\n"})


def bytecode(root: Path) -> None:
    write(in_release(root, "."), {"__pycache__/model.cpython-311.pyc": b"\0"})


def a_mode(root: Path) -> None:
    in_release(root, "train.py").chmod(0o600)


def touched(root: Path) -> None:
    os.utime(in_release(root, "train.py"))


def a_folder_where_a_file_was(root: Path) -> None:
    in_release(root, "train.py").unlink()
    write(in_release(root, "."), {"train.py/__init__.py": "x\n"})


def a_file_where_a_folder_was(root: Path) -> None:
    a_folder_removed(root)
    in_release(root, "conf").write_text("x")


def a_link_elsewhere(root: Path) -> None:
    (root / "train.py").unlink()
    (root / "train.py").symlink_to("/etc/passwd")


def a_link_in_the_release(root: Path) -> None:
    in_release(root, "train.py").unlink()
    in_release(root, "train.py").symlink_to("/etc/passwd")


def a_name_gone(root: Path) -> None:
    (root / "conf").unlink()


def a_plain_folder_in_the_root(root: Path) -> None:
    (root / "conf").unlink()
    write(root, {"conf/a.yml": "a: 1\n", "conf/mine.yml": "m\n"})
    (root / "conf/a.yml").chmod(0o644)


def a_pipe(root: Path) -> None:
    in_release(root, "train.py").unlink()
    os.mkfifo(in_release(root, "train.py"))


def a_link_of_ours_that_no_release_has(root: Path) -> None:
    (root / "old.py").symlink_to(".trainops/demo/current/old.py")


@pytest.mark.parametrize(
    ("hand", "expected"),
    [
        (an_editor_in_place, [("train.py", "release", "changed")]),
        (an_editor_that_renames_over, [("train.py", "root", "changed")]),
        (the_same_size_and_times, [("model.py", "release", "changed")]),
        (a_short_push, [("model.py", "release", "changed")]),
        (removed, [("conf/a.yml", "release", "removed")]),
        (a_folder_removed, [("conf/a.yml", "release", "removed"), ("conf/b.yml", "release", "removed")]),
        (
            added,
            [
                ("conf/new.yml", "release", "added"),
                ("notes.txt", "release", "added"),
                ("out/log", "release", "added"),
            ],
        ),
        (bytecode, []),
        (a_mode, [("train.py", "release", "changed")]),
        (touched, []),
        (
            a_folder_where_a_file_was,
            [("train.py", "release", "changed"), ("train.py/__init__.py", "release", "added")],
        ),
        (
            a_file_where_a_folder_was,
            [
                ("conf", "release", "changed"),
                ("conf/a.yml", "release", "removed"),
                ("conf/b.yml", "release", "removed"),
            ],
        ),
        (a_link_elsewhere, [("train.py", "root", "changed")]),
        (a_link_in_the_release, [("train.py", "release", "changed")]),
        (a_name_gone, [("conf", "root", "removed")]),
        (a_plain_folder_in_the_root, [("conf/b.yml", "root", "removed"), ("conf/mine.yml", "root", "added")]),
        (a_pipe, [("train.py", "release", "changed")]),
        (a_link_of_ours_that_no_release_has, [("old.py", "root", "added")]),
    ],
)
def test_what_was_done_by_hand_is_found(
    tmp_path: Path, hand: Callable[[Path], None], expected: list[tuple[str, str, str]]
) -> None:
    deploy(tmp_path, V1)
    hand(tmp_path)
    before = snapshot(tmp_path)
    done = compare_with(tmp_path, V1)
    assert snapshot(tmp_path) == before
    assert told(done) == expected
    assert (done["in_project"], done["same"], done["known"]) == ([], True, True)


@pytest.mark.parametrize(
    "hand", [an_editor_in_place, an_editor_that_renames_over, the_same_size_and_times, removed, a_mode, a_name_gone]
)
def test_a_deploy_puts_right_what_was_found(tmp_path: Path, hand: Callable[[Path], None]) -> None:
    deploy(tmp_path, V1)
    hand(tmp_path)
    assert compare_with(tmp_path)["by_hand"]
    deploy(tmp_path, V1)
    assert compare_with(tmp_path, V1)["by_hand"] == []


def test_the_texts_of_both_sides(tmp_path: Path) -> None:
    deploy(tmp_path, {**V1, "train.py": "0\n"})
    deploy(tmp_path, V1)
    deploy(tmp_path, {**V1, "train.py": "2\n"})
    an_editor_in_place(tmp_path)  # what was released of it is nowhere any more
    in_release(tmp_path, "model.py").write_text("V = 3\n")  # and of this in an older release
    in_release(tmp_path, "weights.bin").write_bytes(b"\0" * 63)
    done = compare_with(tmp_path)
    assert {Path(at).name: text for at, text in done["found"].items()} == {
        "train.py": "2\n# hot fix\n",
        "model.py": "V = 3\n",
        "weights.bin": None,
    }
    assert sorted(done["texts"].values()) == ["V = 1\n"]
    assert done["in_project"] is None


def test_the_project_against_what_is_live(tmp_path: Path) -> None:
    deploy(tmp_path, V1)
    done = compare_with(
        tmp_path, {**{path: V1[path] for path in V1 if path != "weights.bin"}, "model.py": "2", "n": ""}
    )
    assert [(one["path"], one["action"]) for one in done["in_project"]] == [
        ("model.py", "changed"),
        ("n", "added"),
        ("weights.bin", "removed"),
    ]
    assert (done["by_hand"], done["same"]) == ([], False)
    assert done["activation"]["who"] == "tester@desk"
    assert done["release_id"] == live(tmp_path) == release_id(rows(V1))
    assert list(done["texts"].values()) == ["V = 1\n"]


def test_folders_and_shared_names_make_another_release(tmp_path: Path) -> None:
    deploy(tmp_path, V1, shared=("data",))
    assert compare_with(tmp_path, V1, manifest={"files": rows(V1, shared=("data",))})["same"]
    done = compare_with(tmp_path, {**V1, "empty/": ""})
    assert [(one["path"], one["action"]) for one in done["in_project"]] == [("data", "removed"), ("empty", "added")]


def test_what_was_adopted_is_compared_by_content(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": "old\n"})
    deploy(tmp_path, V1)
    roll_back(tmp_path, "adopted")
    done = compare_with(tmp_path, {"train.py": "old\n"})
    assert (done["by_hand"], done["same"]) == ([], True)
    assert [one["path"] for one in compare_with(tmp_path, V1)["in_project"]] == sorted(V1)


def test_nothing_live_is_everything_to_come_or_an_error(tmp_path: Path) -> None:
    done = compare_with(tmp_path, V1)
    assert ({one["action"] for one in done["in_project"]}, done["release_id"], done["same"]) == ({"added"}, None, False)
    assert refusal(compare_with, tmp_path).code == "nothing-live"
    assert refusal(compare_with, tmp_path, name=None).code == "nothing-live"
    assert list(tmp_path.iterdir()) == []


def test_a_lost_manifest_is_told_and_the_project_compared_with_what_is_there(tmp_path: Path) -> None:
    deploy(tmp_path, V1)
    home(tmp_path, "releases", f"{live(tmp_path)}.json").unlink()
    done = compare_with(tmp_path, {**V1, "model.py": "V = 2\n"})
    assert (done["known"], done["by_hand"]) == (False, [])
    assert [one["path"] for one in done["in_project"]] == ["model.py"]


def test_a_lost_tree(tmp_path: Path) -> None:
    deploy(tmp_path, V1)
    shutil.rmtree(home(tmp_path, "releases", str(live(tmp_path))))
    assert {one["action"] for one in compare_with(tmp_path)["by_hand"]} == {"removed"}


def test_a_huge_folder_in_the_way_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deploy(tmp_path, V1)
    (tmp_path / "conf").unlink()
    write(tmp_path, {f"conf/{number}": "x" for number in range(9)})
    monkeypatch.setattr(compare, "_MOST", 5)
    done = compare_with(tmp_path)
    assert done["more"]
    assert {one["action"] for one in done["by_hand"]} == {"added"}


def test_a_deploy_meanwhile_is_looked_at_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deploy(tmp_path, V1)
    look, looked = compare._Hands.look, []

    def look_late(hands: Any, release: str) -> None:
        looked.append(release)
        if len(looked) == 1:
            deploy(tmp_path, {"train.py": "2\n"}, keep=2)
        look(hands, release)

    monkeypatch.setattr(compare._Hands, "look", look_late)
    done = compare_with(tmp_path)
    assert (done["release_id"], done["by_hand"], len(looked)) == (live(tmp_path), [], 2)


def test_who_deploys_now_is_told_and_nobody_waits(tmp_path: Path) -> None:
    deploy(tmp_path, V1)
    with Lock(os.open(home(tmp_path), os.O_RDONLY), "lock", "lock", "ann@desk", 0):
        assert compare_with(tmp_path)["waits_for"].startswith("ann@desk since ")
