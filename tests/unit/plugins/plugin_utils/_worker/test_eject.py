# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ejecting: links become the files they led to, everything of ours goes, and nothing that is somebody's is lost."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker import eject, lock, plain
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.store import release_id
from ansible_collections.trainops.proxmox.plugins.plugin_utils.exchange import Request, exchange

from tests.unit.interpreters import interpreters
from tests.unit.interrupting import in_memory, run_and_die, run_with_error
from tests.unit.releasing import (
    Controller,
    Files,
    data_of,
    deploy,
    home,
    leftovers,
    params,
    refusal,
    roll_back,
    rows,
    snapshot,
    visible,
    write,
)
from tests.unit.releasing import plain as plain_files

FILES: Files = {
    "train.py": "import pkg\n",
    "run.sh": "echo\n",
    "pkg/__init__.py": "",
    "pkg/deep/a.txt": "a",
    "void/": "",
}
OLD: Files = {"train.py": "old\n", "gone.py": "gone\n", "pkg/__init__.py": "V = 0\n"}


def ejected(root: Path, **more: Any) -> dict[str, Any]:
    return eject.run(Controller({}), {**params(root, {}), **more})  # type: ignore[arg-type]


def tree(root: Path) -> dict[str, tuple[str, int, str | bytes]]:
    """Everything below a folder as somebody would list it: type, mode and content or target, no link followed."""
    found: dict[str, tuple[str, int, str | bytes]] = {}
    for path in root.rglob("*"):
        mode = path.lstat().st_mode & 0o7777
        if path.is_symlink():
            found[str(path.relative_to(root))] = ("link", 0, os.readlink(path))
        else:
            kind, content = ("dir", b"") if path.is_dir() else ("file", path.read_bytes())
            found[str(path.relative_to(root))] = (kind, mode, content)
    return found


def wanted(files: Files) -> dict[str, tuple[str, int, str | bytes]]:
    """What :func:`tree` finds where a project's files lie as plain files."""
    return {
        row["path"]: ("dir", row["mode"], b"")
        if row["type"] == "dir"
        else ("file", row["mode"], data_of(files[row["path"]]))
        for row in rows(files)
    }


def test_links_become_the_files_and_nothing_is_left(tmp_path: Path) -> None:
    deploy(tmp_path, OLD)
    deploy(tmp_path, FILES)
    inodes = {path: (tmp_path / path).stat().st_ino for path in plain_files(FILES)}
    done = ejected(tmp_path)
    assert tree(tmp_path) == wanted(FILES)
    assert {path: (tmp_path / path).stat().st_ino for path in inodes} == inodes  # moved, not copied
    assert (done["changed"], done["release_id"], done["known"]) == (True, release_id(rows(FILES)), True)
    assert [(one["path"], one["type"]) for one in done["names"]] == [
        ("pkg", "folder"),
        ("run.sh", "file"),
        ("train.py", "file"),
        ("void", "folder"),
    ]
    assert done["removed"] == [{"release_id": release_id(rows(OLD)), "files": 3, "bytes": 15}]
    assert done["files"]["train.py"]["size"] == 11
    assert (done["altered"], done["left"], done["stays"], done["others"]) == ([], [], [], [])


def test_what_was_there_before_the_first_deploy_is_there_again(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": "by hand\n", "pkg/__init__.py": "mine\n", "data/big": "d", "notes": "n"})
    write(tmp_path, {"pkg/__pycache__/__init__.cpython-311.pyc": b"\x00bytecode"})
    (tmp_path / "pkg" / "out").symlink_to("../data/big")
    (tmp_path / "pkg" / "near").symlink_to("__init__.py")
    (tmp_path / "pkg" / "far").symlink_to("/etc/hostname")
    (tmp_path / "train.py").chmod(0o640)
    before = tree(tmp_path)
    deploy(tmp_path, FILES, adopt_folders=True)
    assert tree(tmp_path) != before
    roll_back(tmp_path, "adopted")
    done = ejected(tmp_path)
    assert tree(tmp_path) == before
    assert (done["release_id"], [one["release_id"] for one in done["removed"]]) == (
        "adopted",
        [release_id(rows(FILES))],
    )


def test_a_fresh_deploy_adopts_again(tmp_path: Path) -> None:
    deploy(tmp_path, FILES)
    ejected(tmp_path)
    done = deploy(tmp_path, {"train.py": "new\n"})
    assert (done["adopted"], done["activation"]) == ("adopted", 2)
    roll_back(tmp_path, "adopted")
    ejected(tmp_path)
    assert tree(tmp_path) == wanted(FILES)


@pytest.mark.parametrize("check_mode", [True, False])
def test_the_second_eject_has_nothing_to_do(tmp_path: Path, check_mode: bool) -> None:
    deploy(tmp_path, FILES)
    ejected(tmp_path)
    before = snapshot(tmp_path)
    for name in ("demo", None):
        done = ejected(tmp_path, check_mode=check_mode, name=name)
        assert (done["changed"], done["release_id"], done["names"], done["others"]) == (False, None, [], [])
    assert snapshot(tmp_path) == before


def test_the_only_project_needs_no_name_and_others_are_named(tmp_path: Path) -> None:
    deploy(tmp_path, FILES)
    deploy(tmp_path, {"eval.py": "e\n"}, name="other")
    assert "there: demo, other" in refusal(ejected, tmp_path, name=None).message
    assert ejected(tmp_path, name="dmeo")["others"] == ["demo", "other"]
    done = ejected(tmp_path)
    assert (done["others"], os.listdir(tmp_path / ".trainops" / "other") != []) == (["other"], True)
    assert (tmp_path / "eval.py").is_symlink()
    assert ejected(tmp_path, name=None)["name"] == "other"
    assert tree(tmp_path) == wanted({**FILES, "eval.py": "e\n"})


def test_a_root_that_is_not_there_and_a_name_that_cannot_be_are_errors(tmp_path: Path) -> None:
    assert refusal(ejected, tmp_path / "nowhere").code == "no-root"
    assert refusal(ejected, tmp_path, name="../x").code == "name"


def test_what_was_altered_stays_as_it_is(tmp_path: Path) -> None:
    deploy(tmp_path, FILES)
    (tmp_path / "train.py").write_text("hot fix\n")
    (tmp_path / "train.py").chmod(0o600)
    (tmp_path / "pkg" / "deep" / "a.txt").unlink()
    (tmp_path / "pkg" / "deep" / "a.txt").symlink_to("../__init__.py")
    (tmp_path / "pkg" / "log").write_text("of a run\n")
    release = home(tmp_path, "current").resolve()
    (release / "run.sh").unlink()
    done = ejected(tmp_path)
    assert done["altered"] == ["pkg/deep/a.txt", "run.sh", "train.py"]
    assert done["files"]["train.py"]["size"] == 8
    found = tree(tmp_path)
    assert found.pop("pkg/log") == ("file", 0o644, b"of a run\n")
    assert found.pop("pkg/deep/a.txt") == ("link", 0, "../__init__.py")
    assert found.pop("train.py") == ("file", 0o600, b"hot fix\n")
    assert found == wanted({"pkg/__init__.py": "", "pkg/deep/": "", "void/": ""})


def test_a_manifest_that_is_lost_costs_no_file(tmp_path: Path) -> None:
    deploy(tmp_path, FILES)
    home(tmp_path, "releases", release_id(rows(FILES)) + ".json").write_text("{")
    done = ejected(tmp_path)
    assert (done["known"], done["stays"]) == (False, [])
    assert tree(tmp_path) == wanted(FILES)


def test_shared_names_stay_where_they_are(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "checkpoints").symlink_to("elsewhere")
    deploy(tmp_path, FILES, shared=("data", "checkpoints"))
    write(tmp_path, {"data/set.bin": "d", "checkpoints/1.pt": "w"})
    inode = (tmp_path / "data").stat().st_ino
    ejected(tmp_path)
    found = tree(tmp_path)
    assert (tmp_path / "data").lstat().st_ino == inode
    assert found.pop("checkpoints") == ("link", 0, "elsewhere")
    assert found == wanted({**FILES, "data/set.bin": "d", "elsewhere/1.pt": "w"})


def test_what_is_not_ours_is_left_alone_and_named(tmp_path: Path) -> None:
    deploy(tmp_path, FILES)
    for name in ("train.py", "run.sh", "pkg"):
        (tmp_path / name).unlink()
    write(tmp_path, {"train.py": "by an editor\n", "pkg/mine": "m", "foreign": "f"})
    (tmp_path / "run.sh").symlink_to("/bin/true")
    (tmp_path / "short").symlink_to(".trainops/demo/current/train.py")
    done = ejected(tmp_path)
    assert {Path(one["path"]).name: one["why"] for one in done["left"]} == {
        "pkg": "not the project's link but a folder",
        "run.sh": "a link of something else, to /bin/true",
        "train.py": "not the project's link but a file",
        "short": "a link of somebody into what is removed, to .trainops/demo/current/train.py",
    }
    assert visible(tmp_path) == {
        "train.py": b"by an editor\n",
        "pkg/mine": b"m",
        "foreign": b"f",
        "run.sh": Path("/bin/true").read_bytes(),
    }
    assert os.path.islink(tmp_path / "short")
    assert not (tmp_path / ".trainops").exists()


def test_a_lost_link_is_no_lost_file(tmp_path: Path) -> None:
    deploy(tmp_path, FILES)
    (tmp_path / "pkg").unlink()
    (tmp_path / "train.py").unlink()
    assert ejected(tmp_path)["left"] == []
    assert tree(tmp_path) == wanted(FILES)


@pytest.mark.parametrize("gone", ["current", "releases"])
def test_links_that_lead_nowhere_go(tmp_path: Path, gone: str) -> None:
    write(tmp_path, {"notes": "n"})
    deploy(tmp_path, FILES)
    path = home(tmp_path, gone)
    path.unlink() if path.is_symlink() else subprocess.run(["rm", "-r", path], check=True)
    done = ejected(tmp_path)
    assert (done["changed"], done["names"]) == (True, [])
    assert os.listdir(tmp_path) == ["notes"]


def test_files_that_no_manifest_lists_stay_and_are_named(tmp_path: Path) -> None:
    deploy(tmp_path, OLD)
    old = home(tmp_path, "current").resolve()
    (old / "pkg" / "result.csv").write_text("r")
    deploy(tmp_path, FILES)
    live = home(tmp_path, "current").resolve()
    (live / "beside.log").write_text("b")
    (old / "gone.py").write_text("written into\n")
    home(tmp_path, "notes.txt").write_text("of an admin")
    write(home(tmp_path, "releases"), {"README": "too"})
    home(tmp_path, "kept").mkdir()
    (home(tmp_path, "kept") / "earlier").write_text("k")
    foretold = ejected(tmp_path, check_mode=True)["stays"]
    done = ejected(tmp_path)
    kept = {f"kept/{old.name}/pkg/result.csv", f"kept/{old.name}/gone.py", f"kept/{live.name}/beside.log"}
    names = {*kept, "kept/earlier", "notes.txt", "releases/README"}
    assert done["stays"] == sorted(str(home(tmp_path, name)) for name in names) == foretold
    assert all(Path(path).is_file() for path in done["stays"])
    assert {str(path.relative_to(home(tmp_path))) for path in home(tmp_path).rglob("*") if path.is_file()} == names
    assert list(tmp_path.rglob("*lock")) == []  # no project is left that needs it
    before = snapshot(tmp_path)
    again = ejected(tmp_path)
    assert (again["changed"], again["stays"], again["release_id"]) == (False, done["stays"], None)
    assert snapshot(tmp_path) == before


def test_an_edit_that_a_release_keeps_goes_with_that_release(tmp_path: Path) -> None:
    deploy(tmp_path, OLD)
    (tmp_path / "train.py").write_text("hot fix\n")
    assert deploy(tmp_path, FILES)["adopted"] == "edited"
    done = ejected(tmp_path)
    assert [one["release_id"] for one in done["removed"]] == [release_id(rows(OLD)), "edited"]
    assert (done["stays"], tree(tmp_path)) == ([], wanted(FILES))


def test_bytecode_of_runs_goes_too(tmp_path: Path) -> None:
    deploy(tmp_path, {**FILES, "mod.py": "V = 1\n", "train.py": "import mod, pkg\n"})
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([sys.executable, tmp_path / "train.py"], check=True, env=environment)
    assert list(home(tmp_path).rglob("*.pyc")) != []
    done = ejected(tmp_path)
    assert list(tmp_path.rglob("*.pyc")) == []
    assert (done["altered"], done["stays"], (tmp_path / ".trainops").exists()) == ([], [], False)


def test_an_open_file_is_the_one_in_the_root(tmp_path: Path) -> None:
    deploy(tmp_path, {**FILES, "pkg/run.log": "begun\n"})
    with open(tmp_path / "pkg" / "run.log", "a") as log:
        ejected(tmp_path)
        log.write("went on\n")
    assert (tmp_path / "pkg" / "run.log").read_text() == "begun\nwent on\n"


@pytest.mark.parametrize(
    "script", ["train.py", "pkg/../train.py", "{root}/train.py", "{root}/.trainops/demo/current/train.py"]
)
def test_a_program_that_runs_from_a_release_is_named(tmp_path: Path, script: str) -> None:
    deploy(tmp_path, {**FILES, "train.py": "print(flush=True)\ninput()\n"})
    argv = [sys.executable, "-u", script.format(root=tmp_path), "--epochs", "3", "--api-key", "Hush1Hush2Hush3"]
    other = [sys.executable, "-c", "print(flush=True)\ninput()"]
    pipes: Any = {"cwd": tmp_path, "stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(argv, **pipes) as process, subprocess.Popen(other, **pipes) as stranger:
        assert process.stdout and stranger.stdout
        assert (process.stdout.readline(), stranger.stdout.readline()) == (b"\n", b"\n")
        expected = [{"pid": process.pid, "command": " ".join([*argv[:-1], "***"])}]  # others read along
        assert ejected(tmp_path, check_mode=True)["running"] == expected
        assert ejected(tmp_path)["running"] == expected
        process.communicate(b"\n")
        stranger.communicate(b"\n")
    assert process.returncode == 0


def test_a_project_that_others_write_in_is_not_trusted(tmp_path: Path) -> None:
    deploy(tmp_path, FILES)
    home(tmp_path).chmod(0o777)
    assert refusal(ejected, tmp_path).code == "planted"
    assert (tmp_path / "train.py").is_symlink()


def test_a_project_that_is_being_deployed_is_waited_for(tmp_path: Path) -> None:
    deploy(tmp_path, FILES)
    said: list[str] = []

    def meddle() -> None:
        said.append(refusal(ejected, tmp_path, patience=0).code)
        said.append(ejected(tmp_path, check_mode=True)["waits_for"].partition(" ")[0])

    deploy(tmp_path, OLD, Controller(OLD, meddle))
    assert said == ["locked", "tester@desk"]


def test_a_deploy_that_waited_for_an_eject_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deploy(tmp_path, OLD)
    deploying = threading.Thread(target=deploy, args=(tmp_path, FILES), kwargs={"patience": 60.0})
    waits, goes_on = threading.Event(), threading.Event()
    whole = eject.remove_folders

    def sleep(_seconds: float) -> None:
        waits.set()
        assert goes_on.wait(60)

    def meddle(*args: Any) -> None:
        monkeypatch.setattr(lock, "time", types.SimpleNamespace(sleep=sleep, monotonic=time.monotonic))
        deploying.start()
        assert waits.wait(60)  # it has opened the folders and found the lock taken
        whole(*args)

    monkeypatch.setattr(eject, "remove_folders", meddle)
    ejected(tmp_path)
    assert tree(tmp_path) == wanted(OLD)
    goes_on.set()
    deploying.join()
    assert visible(tmp_path) == {**plain_files(FILES), "gone.py": b"gone\n"}
    assert (tmp_path / "train.py").is_symlink()
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("python", interpreters())
def test_a_real_worker_ejects(tmp_path: Path, python: str) -> None:
    deploy(tmp_path, FILES)
    request = Request("eject", params(tmp_path, {}), python, timeout=60)
    done = exchange(types.SimpleNamespace(transport="local"), request).result
    assert (done["changed"], tree(tmp_path)) == (True, wanted(FILES))


@pytest.mark.parametrize("there", ["released", "adopted", "damaged"])
def test_check_mode_foretells_and_writes_nothing(tmp_path: Path, there: str) -> None:
    write(tmp_path, {"pkg/mine.txt": "m", "train.py": "by hand\n"})
    deploy(tmp_path, FILES, adopt_folders=True)
    if there == "adopted":
        roll_back(tmp_path, "adopted")
    if there == "damaged":
        (tmp_path / "train.py").write_text("hot fix\n")
        (tmp_path / "run.sh").unlink()
        write(tmp_path, {"run.sh": "mine\n"})
    before = snapshot(tmp_path)
    foretold = ejected(tmp_path, check_mode=True)
    assert snapshot(tmp_path) == before
    assert ejected(tmp_path) == foretold


def test_a_mount_in_what_would_move_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deploy(tmp_path, FILES)
    mounted = os.path.realpath(tmp_path / "pkg" / "deep")
    monkeypatch.setattr(eject, "mount_points", lambda: ["/", mounted])
    error = refusal(ejected, tmp_path)
    assert (error.code, f"{mounted} is a mount point" in error.message) == ("mount-point", True)
    assert (tmp_path / "pkg").is_symlink()


def without_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "exchange", lambda *_names: False)


def with_exchange(_monkeypatch: pytest.MonkeyPatch) -> None:
    """As the kernel of this machine has it."""


@pytest.mark.parametrize("kernel", [with_exchange, without_exchange])
def test_a_name_that_somebody_takes_meanwhile_stays_his(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernel: Callable[[pytest.MonkeyPatch], None]
) -> None:
    kernel(monkeypatch)
    deploy(tmp_path, FILES)
    drop = plain._drop_bytecode

    def meddle(*args: Any) -> None:
        if args[2][0] == "run.sh":
            (tmp_path / "run.sh").unlink()
            write(tmp_path, {"run.sh": "in the last moment\n"})
        drop(*args)

    monkeypatch.setattr(plain, "_drop_bytecode", meddle)
    done = ejected(tmp_path)
    assert [one["path"] for one in done["left"]] == [str(tmp_path / "run.sh")]
    found = tree(tmp_path)
    assert found.pop("run.sh") == ("file", 0o644, b"in the last moment\n")
    assert found == wanted({path: data for path, data in FILES.items() if path != "run.sh"})


def test_without_exchange_by_plain_renames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_exchange(monkeypatch)
    deploy(tmp_path, OLD)
    deploy(tmp_path, FILES)
    ejected(tmp_path)
    assert tree(tmp_path) == wanted(FILES)


NEW: Files = {"train.py": "new\n", "pkg/__init__.py": "V = 9\n", "added.py": "added\n"}


def released(root: Path) -> None:
    """Two releases, with what a run wrote beside the sources, listed nowhere, in both."""
    deploy(root, OLD)
    (root / "pkg" / "seen.csv").write_text("s")
    home(root, "current").resolve().joinpath("beside.log").write_text("b")
    deploy(root, {**FILES, "pkg/run.log": "r"})
    write(root, {"pkg/__pycache__/x.cpython-311.pyc": "c", "notes": "n"})


def edited(root: Path) -> None:
    released(root)
    (root / "train.py").write_text("hot fix\n")
    (root / "void").unlink()
    write(root, {"void": "by an editor\n"})


def adopted(root: Path) -> None:
    """Live is what was there, with links that lead out of its folder."""
    write(root, {"train.py": "by hand\n", "pkg/__init__.py": "mine\n", "data/big": "d"})
    (root / "pkg" / "big").symlink_to("../data/big")
    (root / "run.sh").symlink_to("data/big")
    deploy(root, {path: data for path, data in FILES.items() if path != "run.sh"}, adopt_folders=True)
    roll_back(root, "adopted")


@pytest.fixture
def folder() -> Iterator[Path]:
    with in_memory() as path:
        yield path


def interrupted(folder: Path, interrupt: Any, there: Callable[[Path], Any]) -> Iterator[tuple[Path, dict[str, int]]]:
    """A fresh root for each step of an eject, which ended there, and the inodes that its readers saw before."""
    at = 0
    while True:
        at += 1
        root = folder / str(at)
        root.mkdir()
        there(root)
        inodes = {path: (root / path).stat().st_ino for path in visible(root)}
        if not interrupt(ejected, root, at):
            break
        yield root, inodes
    assert at > 25


@pytest.mark.parametrize("interrupt", [run_and_die, run_with_error])
@pytest.mark.parametrize("there", [released, edited, adopted])
def test_interrupted_anywhere_paths_keep_working_and_the_next_run_finishes(
    folder: Path, there: Callable[[Path], None], interrupt: Any
) -> None:
    whole = folder / "whole"
    whole.mkdir()
    there(whole)
    seen = visible(whole)
    ejected(whole)
    final = tree(whole)
    assert visible(whole) == seen
    for root, inodes in interrupted(folder, interrupt, there):
        assert visible(root) == seen, root
        assert {path: (root / path).stat().st_ino for path in seen} == inodes, root
        ejected(root)
        assert tree(root) == final, root
        assert not ejected(root)["changed"], root


def program(root: Path) -> None:
    """Files that need others beside them: modules, a folder, links."""
    deploy(root, PROGRAM, links={"alias.py": "mod.py", "pkg/up.py": "../mod.py", "train.py": "main.py"})


PROGRAM: Files = {
    "mod.py": "V = 1\n",
    "main.py": "import alias, mod, pkg.up, pkg, zed\nprint(mod.V + alias.V + pkg.V + pkg.up.V + zed.V)\n",
    "pkg/__init__.py": "V = 1\n",
    "zed.py": "V = 1\n",
}


@pytest.mark.parametrize("kernel", [with_exchange, without_exchange])
def test_interrupted_anywhere_every_name_resolves_from_the_release_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch, kernel: Callable[[pytest.MonkeyPatch], None]
) -> None:
    kernel(monkeypatch)
    for root, _inodes in interrupted(folder, run_and_die, program):
        current = root / ".trainops" / "demo" / "current"
        places = [root, *([current] if os.path.lexists(current) else [])]
        if kernel is without_exchange and not all((place / "pkg").exists() for place in places):
            continue  # a folder cannot be moved there in one step
        if os.path.lexists(current):
            assert all((current / path).stat().st_ino == (root / path).stat().st_ino for path in PROGRAM), root
            assert (current / "pkg" / "up.py").stat().st_ino == (root / "mod.py").stat().st_ino
        for script in ("train.py", "main.py"):
            run = subprocess.run([sys.executable, "-B", root / script], capture_output=True, text=True, check=False)
            assert (run.returncode, run.stdout) == (0, "5\n"), (root, run.stderr)
        ejected(root)
        assert visible(root).keys() == {*PROGRAM, "alias.py", "pkg/up.py", "train.py"}
        assert not (root / ".trainops").exists()


@pytest.mark.parametrize("manifest", ["there", "lost"])
def test_what_a_killed_eject_leaves_in_a_release_is_nobodys_file(folder: Path, manifest: str) -> None:
    for root, _inodes in interrupted(folder, run_and_die, lambda root: deploy(root, PROGRAM)):
        if not list(home(root).glob("releases/*/.trainops/demo/current")):
            continue
        if manifest == "lost":
            home(root, "releases", home(root, "current").resolve().name + ".json").write_text("{")
        foretold = deploy(root, NEW, adopt_folders=True, keep=1, check_mode=True)
        done = deploy(root, NEW, adopt_folders=True, keep=1)
        assert (foretold["strays"]["count"], done["strays"]["count"]) == (0, 0), root
        if manifest == "there":  # else nothing is known of any file, and all are kept
            assert (foretold["foreign"], done["foreign"]) == ([], []), root
        assert not list(home(root).glob("kept/*/.trainops")), root
        assert not os.path.lexists(home(root, "current").resolve() / ".trainops"), root
        ejected(root)
        assert manifest == "lost" or not (root / ".trainops").exists(), root


def test_a_full_disk_keeps_no_name_from_moving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deploy(tmp_path, FILES)

    def full(*_args: Any, **_more: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for name in ("mkdir", "symlink", "link"):
        monkeypatch.setattr(os, name, full)
    ejected(tmp_path)
    assert tree(tmp_path) == wanted(FILES)


def test_a_program_can_be_started_at_any_moment_of_an_eject(tmp_path: Path) -> None:
    many = {f"{letter}{number}.py": "" for number in range(750) for letter in "az"}  # before and after the program
    deploy(tmp_path, {"a.py": "", "main.py": "import a, zz\n", "zz.py": "", **many})
    ended = threading.Event()
    failed, count = list[str](), 0

    def read() -> None:
        nonlocal count
        while not ended.is_set():
            argv = [sys.executable, "-B", str(tmp_path / "main.py")]
            run = subprocess.run(argv, capture_output=True, text=True, check=False)
            count += 1
            failed.extend([run.stderr] if run.returncode else [])

    reader = threading.Thread(target=read)
    reader.start()
    try:
        ejected(tmp_path)
    finally:
        ended.set()
        reader.join()
    assert failed == []
    assert count > 0


def test_a_failure_says_how_to_finish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deploy(tmp_path, FILES)

    def fail(*_args: Any) -> bool:
        raise OSError(5, "Input/output error", "pkg")

    monkeypatch.setattr(plain, "exchange", fail)
    error = refusal(ejected, tmp_path)
    assert error.message.endswith("running eject again, or a deploy, finishes what was begun")
    monkeypatch.undo()
    assert ejected(tmp_path)["changed"]
    assert tree(tmp_path) == wanted(FILES)


def test_a_mount_that_hides_what_was_deployed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deploy(tmp_path, FILES)
    (tmp_path / ".trainops").rename(tmp_path / "away")
    (tmp_path / ".trainops").mkdir()
    monkeypatch.setattr(eject, "mount_points", lambda: ["/", os.path.realpath(tmp_path / ".trainops")])
    assert refusal(ejected, tmp_path).code == "mount-point"
    assert (tmp_path / "train.py").is_symlink()


@pytest.mark.parametrize("there", [released, edited, adopted])
def test_interrupted_anywhere_a_deploy_takes_over(folder: Path, there: Callable[[Path], None]) -> None:
    for root, _inodes in interrupted(folder, run_and_die, there):
        old = visible(root)
        deploy(root, NEW, adopt_folders=True)
        found = visible(root)
        assert {path: found[path] for path in NEW} == plain_files(NEW), root
        assert [name for name in leftovers(root) if name != "kept"] == [], root
        for path, data in found.items():  # a name that was moved and is none of the project's is somebody's file now
            assert path in NEW or data == old[path], root
        ejected(root)
        assert visible(root) == found, root
        assert not (root / "train.py").is_symlink()


def test_without_exchange_an_interrupted_eject_is_finished_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_exchange(monkeypatch)
    (folder / "whole").mkdir()
    released(folder / "whole")
    ejected(folder / "whole")
    final = tree(folder / "whole")
    for root, _inodes in interrupted(folder, run_and_die, released):
        ejected(root)
        assert tree(root) == final, root
