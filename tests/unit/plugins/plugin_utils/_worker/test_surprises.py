# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a target may have in store: real mounts, attributes, folders for files, links of others, and files of others."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker import eject, prune, scratch, switch
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.channel import WorkerError

from tests.unit.releasing import (
    Controller,
    Files,
    compare_with,
    deploy,
    history,
    home,
    leftovers,
    live,
    params,
    plain,
    roll_back,
    snapshot,
    visible,
    write,
)

V1: Files = {"train.py": "1\n", "conf/a.yml": "a\n", "model.py": "V = 1\n"}
V2: Files = {**V1, "train.py": "2\n"}
_NEW_MOUNTS = 0x20000  # CLONE_NEWNS

Outcome = dict[str, Any]


def ejected(root: Path, check_mode: bool = False) -> Outcome:
    return eject.run(Controller({}), params(root, {}, check_mode=check_mode))  # type: ignore[arg-type]


def told(call: Callable[..., Outcome], *args: Any, **more: Any) -> Outcome:
    try:
        return call(*args, **more)
    except WorkerError as error:
        return {"code": error.code, "message": error.message}


def mount(*words: str | Path) -> None:
    subprocess.run(["mount", *map(str, words)], check=True)


def with_mounts(work: Callable[[], Any]) -> Any:
    """What ``work`` returns, as JSON, done in a process whose mounts nobody else sees and that go with it."""
    read, done = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if ctypes.CDLL(None, use_errno=True).unshare(_NEW_MOUNTS):
                raise OSError(ctypes.get_errno(), "unshare")
            mount("--make-rprivate", "/")
            answer = json.dumps(work())
        except BaseException as error:
            answer = json.dumps({"crashed": repr(error)})
        with open(done, "w") as stream:
            stream.write(answer)
        os._exit(0)
    os.close(done)
    with open(read) as stream:
        answer = stream.read()
    os.waitpid(child, 0)
    found = json.loads(answer)
    assert not (isinstance(found, dict) and "crashed" in found), found
    return found


def a_file(root: Path) -> None:
    write(root, {"train.py": "old\n", "../other": "mounted\n"})
    mount("--bind", root / "../other", root / "train.py")


def a_folder(root: Path) -> None:
    write(root, {"conf/mine": "m\n", "../else/x": "x"})
    mount("--bind", root / "../else", root / "conf")


def deep_in_a_folder(root: Path) -> None:
    write(root, {"conf/deep/mine": "m\n", "../else/x": "x"})
    mount("--bind", root / "../else", root / "conf/deep")


def on_a_file_of_the_live_release(root: Path) -> None:
    """Over our link: the kernel mounts on what the link leads to."""
    deploy(root, V1)
    write(root, {"../other": "mounted\n"})
    mount("--bind", root / "../other", root / "train.py")


def on_the_releases(root: Path) -> None:
    deploy(root, V1)
    write(root, {"../else/x": "x"})
    mount("--bind", root / "../else", home(root, "releases"))


def on_our_folder(root: Path) -> None:
    write(root, {"../else/x": "x", ".trainops/y": "y"})
    mount("--bind", root / "../else", root / ".trainops")


def another_file_system(root: Path) -> None:
    (root / ".trainops").mkdir()
    mount("-t", "tmpfs", "-o", "mode=755", "none", root / ".trainops")


def a_read_only_root(root: Path) -> None:
    deploy(root, V1)
    mount("--bind", root, root)
    mount("-o", "remount,bind,ro", root)


def read_only_releases(root: Path) -> None:
    deploy(root, V1)
    mount("--bind", root / ".trainops", root / ".trainops")
    mount("-o", "remount,bind,ro", root / ".trainops")


MOUNTS = [
    (a_file, "conflict", "train.py is a mount point: name it in training_shared"),
    (a_folder, "conflict", "conf is a mount point"),
    (deep_in_a_folder, "conflict", "conf has a mount point in it ("),
    (on_a_file_of_the_live_release, "mount-point", "/train.py is a mount point, and releases move there by rename"),
    (on_the_releases, "mount-point", ".trainops/demo/releases is a mount point"),
    (on_our_folder, "mount-point", ".trainops is a mount point"),
    (another_file_system, "mount-point", "is on another file system"),
    (a_read_only_root, "read-only", "mounted read-only"),
    (read_only_releases, ("mount-point", "read-only"), ".trainops"),
]


@pytest.mark.parametrize(("there", "code", "words"), MOUNTS)
def test_what_is_mounted_is_refused_by_name_and_stays(
    tmp_path: Path, there: Callable[[Path], None], code: str | tuple[str, ...], words: str
) -> None:
    root = tmp_path / "root"
    root.mkdir()

    def work() -> Any:
        there(root)
        before, seen = snapshot(root), visible(root)
        asked = [told(deploy, root, V2, check_mode=mode, adopt_folders=True) for mode in (True, False)]
        return [asked, snapshot(root) == before, visible(root) == seen]

    (predicted, done), same, seen = with_mounts(work)
    assert predicted == done
    assert done["code"] in code
    assert words in done["message"]
    assert str(root) in done["message"]
    assert same
    assert seen


@pytest.mark.parametrize("there", [on_a_file_of_the_live_release, on_the_releases, a_read_only_root])
def test_a_rollback_and_an_eject_are_refused_as_well(tmp_path: Path, there: Callable[[Path], None]) -> None:
    root = tmp_path / "root"
    root.mkdir()

    def work() -> Any:
        deploy(root, {"train.py": "0\n"})
        there(root)
        before = snapshot(root)
        calls = [lambda mode: roll_back(root, check_mode=mode), lambda mode: ejected(root, mode)]
        return [[[told(call, mode) for mode in (True, False)] for call in calls], snapshot(root) == before]

    pairs, same = with_mounts(work)
    assert same
    for predicted, done in pairs:
        assert predicted == done
        assert done["code"] in ("mount-point", "read-only"), done


def test_what_is_mounted_on_a_live_file_is_told_by_a_comparison(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()

    def work() -> Any:
        on_a_file_of_the_live_release(root)
        return [(one["path"], one["action"]) for one in compare_with(root, V1)["by_hand"]]

    assert with_mounts(work) == [["train.py", "changed"]]


def test_after_the_mount_is_gone_everything_goes_on(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()

    def work() -> Any:
        on_a_file_of_the_live_release(root)
        refused = told(deploy, root, V2)["code"]
        subprocess.run(["umount", str(root / "train.py")], check=True)
        deploy(root, V2)
        return [refused, visible(root) == plain(V2), compare_with(root, V2)["by_hand"]]

    assert with_mounts(work) == ["mount-point", True, []]


@pytest.fixture
def holding(tmp_path: Path) -> Iterator[Callable[[Path, str], None]]:
    """Sets an attribute on a file, and takes it away in the end, wherever the file is by then."""

    def hold(path: Path, attribute: str) -> None:
        subprocess.run(["chattr", f"+{attribute}", str(path)], check=True)

    yield hold
    subprocess.run(["chattr", "-R", "-ia", str(tmp_path)], check=False, stderr=subprocess.DEVNULL)


def both_ways(call: Callable[[bool], Outcome], root: Path) -> Outcome:
    """What the run does, after check mode foretold exactly that and touched nothing."""
    before = snapshot(root)
    predicted = told(call, True)
    assert snapshot(root) == before
    done = told(call, False)
    assert predicted == done
    return done


def foretold(root: Path, files: Files, **more: Any) -> Outcome:
    """A deploy, which check mode foretold."""
    return both_ways(lambda mode: {**deploy(root, files, check_mode=mode, **more), "asked": []}, root)


@pytest.mark.parametrize("attribute", ["i", "a"])
@pytest.mark.parametrize("name", ["train.py", "conf"])
def test_what_an_attribute_holds_is_not_adopted(tmp_path: Path, holding: Any, attribute: str, name: str) -> None:
    write(tmp_path, {**V1, "train.py": "old\n"})
    holding(tmp_path / name, attribute)
    done = both_ways(lambda mode: {**deploy(tmp_path, V2, check_mode=mode, adopt_folders=True), "asked": []}, tmp_path)
    assert done["code"] == "conflict"
    assert f"{tmp_path / name} is held by an attribute" in done["message"]
    assert f"chattr -ia {tmp_path / name}" in done["message"]


def test_what_an_attribute_holds_in_an_old_release_is_kept_and_named(tmp_path: Path, holding: Any) -> None:
    deploy(tmp_path, V1)
    holding((tmp_path / "train.py").resolve(), "i")
    first = live(tmp_path)
    for number in range(2):
        deploy(tmp_path, {"train.py": f"{number}\n"}, keep=9)
    done = foretold(tmp_path, {"train.py": "x\n"}, keep=2)
    assert first in done["pruned"]
    assert done["foreign"] == [str(home(tmp_path, "kept", str(first), "train.py"))]
    assert visible(tmp_path) == {"train.py": b"x\n"}


@pytest.mark.parametrize("attribute", ["i", "a"])
def test_an_old_release_that_an_attribute_holds_stays(tmp_path: Path, holding: Any, attribute: str) -> None:
    deploy(tmp_path, V1)
    first = str(live(tmp_path))
    holding(home(tmp_path, "releases", first), attribute)
    for number in range(4):
        files = {"train.py": f"{number}\n"}
        done = foretold(tmp_path, files, keep=2)
        assert (first in done["pruned"], len(done["pruned"]), done["troubles"]) == (False, int(number > 1), [])
        assert visible(tmp_path) == plain(files)


def test_a_link_where_what_stays_is_kept_is_refused_before_anything_changes(tmp_path: Path) -> None:
    deploy(tmp_path, V1)
    write(home(tmp_path, "current"), {"run.log": "l\n"})
    (tmp_path / "elsewhere").mkdir()
    home(tmp_path, "kept").symlink_to(tmp_path / "elsewhere")
    deploy_v2 = foretold(tmp_path, V2, keep=2)
    back = both_ways(lambda mode: roll_back(tmp_path, check_mode=mode), tmp_path)
    for done in (deploy_v2, back):
        assert (done["code"], "kept is no folder but a link" in done["message"]) == ("planted", True)
    assert visible(tmp_path) == plain(V1)


def test_what_cannot_be_put_away_is_no_failure_of_what_is_live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once with an old release, once with the scratch folder; the next run puts both away."""
    for number in range(3):
        deploy(tmp_path, {"train.py": f"{number}\n"}, keep=9)

    def fail(*_arguments: Any) -> Any:
        raise OSError(errno.EIO, os.strerror(errno.EIO), "somewhere")

    with monkeypatch.context() as patch:
        patch.setattr(prune, "retire", fail)
        patch.setattr(scratch, "discard", fail)
        done = deploy(tmp_path, V1, keep=2)
    assert visible(tmp_path) == plain(V1)
    assert [trouble.partition(": ")[2].partition(":")[0] for trouble in done["troubles"]] == ["Input/output error"] * 2
    assert deploy(tmp_path, V1, keep=2)["troubles"] == []
    assert leftovers(tmp_path) == []
    assert len([one for one in home(tmp_path, "releases").iterdir() if one.is_dir()]) == 2


def test_a_full_disk_after_the_switch_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What proves an activation is noted after the rename that makes it true."""
    deploy(tmp_path, V1)
    deploy(tmp_path, V2)
    append = switch.append

    def full(store: Any, record: Any, lasting: bool = True) -> None:
        if "proved" in record:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        append(store, record, lasting)

    monkeypatch.setattr(switch, "append", full)
    assert roll_back(tmp_path)["changed"]
    assert visible(tmp_path) == plain(V1)
    assert [one["kind"] for one in history(tmp_path)] == ["deploy", "deploy", "rollback"]


def test_what_an_attribute_holds_in_the_live_release_is_refused_by_an_eject(tmp_path: Path, holding: Any) -> None:
    deploy(tmp_path, V1)
    holding((tmp_path / "train.py").resolve(), "i")
    done = both_ways(lambda mode: ejected(tmp_path, mode), tmp_path)
    assert (done["code"], "chattr -ia" in done["message"]) == ("denied", True)
    assert visible(tmp_path) == plain(V1)


def test_a_root_that_an_attribute_holds(tmp_path: Path, holding: Any) -> None:
    root = tmp_path / "root"
    root.mkdir()
    holding(root, "i")
    done = both_ways(lambda mode: deploy(root, V1, check_mode=mode), root)
    assert (done["code"], "look at owner and attributes" in done["message"]) == ("denied", True)


@pytest.mark.parametrize(
    ("there", "files", "words"),
    [
        ({"train.py/mine": "m"}, V1, "train.py has 1 file (1 B) that the project does not bring"),
        ({"conf": "a file\n"}, V1, ""),
        ({"train.py/": "", "conf/a.yml": "mine\n"}, V1, ""),
    ],
)
def test_a_folder_where_a_file_should_go_and_the_reverse(
    tmp_path: Path, there: Files, files: Files, words: str
) -> None:
    for path, content in there.items():
        (tmp_path / path).mkdir(parents=True) if path.endswith("/") else write(tmp_path, {path: content})
    before = visible(tmp_path)
    done = both_ways(lambda mode: {**deploy(tmp_path, files, check_mode=mode), "asked": []}, tmp_path)
    if words:
        assert (done["code"], words in done["message"]) == ("hides", True)
        assert visible(tmp_path) == before
        return
    assert visible(tmp_path) == plain(files)
    roll_back(tmp_path, "adopted")
    assert visible(tmp_path) == before


@pytest.mark.parametrize("target", ["/etc/passwd", "nowhere", "beside", ".trainops/demo/current/other.py", "train.py"])
def test_a_link_that_is_not_ours_is_named_and_stays(tmp_path: Path, target: str) -> None:
    write(tmp_path, {"beside": "b"})
    (tmp_path / "train.py").symlink_to(target)
    done = both_ways(lambda mode: {**deploy(tmp_path, V1, check_mode=mode), "asked": []}, tmp_path)
    assert (done["code"], f"(to {target})" in done["message"]) == ("conflict", True)
    assert os.readlink(tmp_path / "train.py") == target


def test_files_of_others_are_never_touched(tmp_path: Path) -> None:
    root = tmp_path / "root"
    write(root, {"notes.txt": "n", "tool/state.json": "{}", "checkpoints/1.pt": "w", ".cache/x": "x"})
    (root / "dangling").symlink_to("nowhere")
    (root / "loop").symlink_to("loop")
    os.mkfifo(root / "pipe")
    theirs = list(root.rglob("*"))
    write(home(root), {"notes": "a note beside our files"})
    write(root, {".trainops/README": "a note"})

    def state() -> list[Any]:
        paths = [*theirs, home(root, "notes"), root / ".trainops/README"]
        return [(str(path), *path.lstat()[:7], path.lstat().st_ctime_ns) for path in paths]

    before = state()
    deploy(root, V1, shared=("data",))
    deploy(root, V2, shared=("data",), keep=2)
    deploy(root, {"train.py": "3\n"}, keep=2)
    roll_back(root)
    assert state() == before
    ejected(root)
    assert state() == before
