# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check mode as a property: whatever a root went through, it foretells what the run then does, and touches nothing."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker import eject
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.channel import WorkerError
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.unit.interrupting import in_memory, run_and_die
from tests.unit.releasing import Controller, Files, compare_with, deploy, home, live, params, roll_back, write

NAMES = ("train.py", "model.py", "conf", "data")
PROJECTS: tuple[Files, ...] = (
    {"train.py": "1\n", "model.py": "V = 1\n", "conf/a.yml": "a\n"},
    {"train.py": "2\n", "model.py": "V = 1\n", "conf/a.yml": "a\n", "conf/b/c": "c\n"},
    {"train.py": "1\n", "conf": "a file\n", "run.sh": "r\n"},
    {"model.py": "V = 1\n", "train.py/__init__.py": "1\n", "empty/": ""},
    {"train.py": "by hand\n"},
    {"data": "d\n", "train.py": "1\n"},
)
SHARED = ((), (), (), ("data",), ("conf",))
Step = tuple[Any, ...]
# A file beside the root, in the test's own folder: what is done by hand below follows links.
OUTSIDE = "outside"


# What may happen to a root. Each takes the root and what was drawn for it, and does what it can.


def deployed(root: Path, files: Files, shared: tuple[str, ...], keep: int, adopt: bool) -> None:
    shipped = {path: content for path, content in files.items() if path.partition("/")[0] not in shared}
    with contextlib.suppress(WorkerError):
        deploy(root, shipped, shared=shared, keep=keep, adopt_folders=adopt)


def cut_deploy(root: Path, files: Files, at: int) -> None:
    run_and_die(lambda where: deploy(where, files, keep=2, adopt_folders=True), root, at)


def cut_rollback(root: Path, to: str | None, at: int) -> None:
    run_and_die(lambda where: roll_back(where, to, adopt_folders=True), root, at)


def cut_eject(root: Path, at: int) -> None:
    run_and_die(ejected, root, at)


def rolled_back(root: Path, to: str | None) -> None:
    with contextlib.suppress(WorkerError):
        roll_back(root, to, adopt_folders=True)


def ejected(root: Path, check_mode: bool = False) -> dict[str, Any]:
    return eject.run(Controller({}), params(root, {}, check_mode=check_mode))  # type: ignore[arg-type]


def an_eject(root: Path) -> None:
    with contextlib.suppress(WorkerError):
        ejected(root)


def written_by_hand(root: Path, path: str, content: str) -> None:
    """In place: through a link of ours into the live release, or a plain file."""
    if not (root / path).is_fifo():
        with contextlib.suppress(OSError):
            write(root, {path: content})


def renamed_over(root: Path, path: str) -> None:
    """What an editor does that writes a new file: our link is gone."""
    with contextlib.suppress(OSError):
        (root / ".new").write_text("by an editor\n")
        os.rename(root / ".new", root / path)


def removed(root: Path, path: str) -> None:
    with contextlib.suppress(OSError):
        if (root / path).is_dir() and not (root / path).is_symlink():
            shutil.rmtree(root / path)
        else:
            (root / path).unlink()


def a_mode(root: Path, path: str, mode: int) -> None:
    with contextlib.suppress(OSError):
        (root / path).chmod(mode)


def planted(root: Path, path: str, kind: str) -> None:
    removed(root, path)
    with contextlib.suppress(OSError):
        if kind == "pipe":
            os.mkfifo(root / path)
        elif kind == "folder":
            write(root, {f"{path}/mine": "m\n"})
        elif kind == OUTSIDE:
            (root / path).symlink_to(root.parent / OUTSIDE)
        else:
            (root / path).symlink_to(kind)


def of_another_project(root: Path, name: str, shared: bool) -> None:
    with contextlib.suppress(WorkerError):
        files = {"other.py": "o\n"} if shared else {name: "other\n"}
        deploy(root, files, name="other", shared=(name,) if shared else (), adopt_folders=True)


def lost(root: Path, what: str) -> None:
    """Something of ours is gone; ID stands for the live release."""
    with contextlib.suppress(WorkerError, OSError):
        removed(root, os.path.join(".trainops", what.replace("ID", str(live(root)))))


def damaged(root: Path, what: str, text: str) -> None:
    with contextlib.suppress(WorkerError, OSError):
        (root / ".trainops" / what.replace("ID", str(live(root)))).write_text(text)


def in_an_old_release(root: Path, number: int, path: str, content: str) -> None:
    with contextlib.suppress(OSError):
        trees = sorted(one for one in home(root, "releases").iterdir() if one.is_dir() and one.name != ".stage")
        if trees and not (trees[number % len(trees)] / path).is_fifo():
            write(trees[number % len(trees)], {path: content})


paths = st.sampled_from((*NAMES, "conf/a.yml", "conf/new", "train.py/x", "run.sh", "notes"))
projects = st.sampled_from(PROJECTS)
kinds = st.sampled_from(("pipe", "folder", OUTSIDE, "nowhere", ".trainops/x/y/z"))
cuts = st.integers(1, 140)
to = st.sampled_from((None, "1", "2", "adopted", "edited", "99"))
inside = ("", "/current", "/activations", "/lock", "/releases", "/kept", "/releases/ID", "/releases/ID.json")
ours = (".lock", *(f"demo{path}" for path in (*inside, "/releases/ID/conf", "/releases/ID/train.py")))
steps: st.SearchStrategy[Step] = st.one_of(
    st.tuples(st.just(deployed), projects, st.sampled_from(SHARED), st.integers(2, 3), st.booleans()),
    st.tuples(st.just(deployed), projects, st.just(()), st.just(2), st.just(True)),
    st.tuples(st.just(cut_deploy), projects, cuts),
    st.tuples(st.just(cut_rollback), to, cuts),
    st.tuples(st.just(cut_eject), cuts),
    st.tuples(st.just(rolled_back), to),
    st.tuples(st.just(an_eject)),
    st.tuples(st.just(written_by_hand), paths, st.sampled_from(("by hand\n", "1\n", ""))),
    st.tuples(st.just(renamed_over), paths),
    st.tuples(st.just(removed), paths),
    st.tuples(st.just(a_mode), paths, st.sampled_from((0o600, 0o755, 0o4755))),
    st.tuples(st.just(planted), paths, kinds),
    st.tuples(st.just(of_another_project), st.sampled_from(NAMES), st.booleans()),
    st.tuples(st.just(lost), st.sampled_from(ours)),
    st.tuples(
        st.just(damaged),
        st.sampled_from(("demo/releases/ID.json", "demo/activations", "demo/lock")),
        st.sampled_from(("", "{", '{"format":1,"files":{}}', '{"activation":7,"release":"x"}\n{"void":1}\n{"act')),
    ),
    st.tuples(st.just(in_an_old_release), st.integers(0, 5), paths, st.just("written later\n")),
)
operations: st.SearchStrategy[Step] = st.one_of(
    st.tuples(st.just("deploy"), projects, st.sampled_from(SHARED), st.integers(2, 3), st.booleans()),
    st.tuples(st.just("rollback"), to, st.booleans()),
    st.tuples(st.just("eject")),
)


_FIELDS = ("mode", "uid", "gid", "nlink", "size", "ino", "mtime_ns", "ctime_ns")


def everything(root: Path) -> dict[str, tuple[int, ...]]:
    """All that lstat says of a folder and everything below it, but for when it was last read."""
    return {
        str(path): tuple(getattr(info, f"st_{field}") for field in _FIELDS)
        for path in [root, *root.rglob("*")]
        for info in (path.lstat(),)
    }


def outcome(call: Callable[[], dict[str, Any]]) -> Any:
    """What a call returns, or how it is refused."""
    try:
        return {key: value for key, value in call().items() if key != "asked"}
    except WorkerError as error:
        return {"code": error.code, "message": error.message, "details": error.details}


def carried_out(root: Path, operation: Step, check_mode: bool) -> Any:
    kind, *drawn = operation
    if kind == "deploy":
        files, shared, keep, adopt = drawn
        shipped = {path: content for path, content in files.items() if path.partition("/")[0] not in shared}
        more = {"shared": shared, "keep": keep, "adopt_folders": adopt, "want_diff": True, "check_mode": check_mode}
        return outcome(lambda: deploy(root, shipped, **more))
    if kind == "rollback":
        more = {"adopt_folders": drawn[1], "want_diff": True, "check_mode": check_mode}
        return outcome(lambda: roll_back(root, drawn[0], **more))
    return outcome(lambda: ejected(root, check_mode))


@settings(max_examples=250, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(history=st.lists(steps, max_size=6), operation=operations)
@example(history=[], operation=("eject",))
@example(history=[(of_another_project, "data", False)], operation=("deploy", PROJECTS[0], ("data",), 2, True))
@example(
    history=[
        (deployed, PROJECTS[0], ("data",), 3, True),
        (deployed, PROJECTS[1], (), 3, True),
        (removed, "data"),
        (of_another_project, "data", False),
    ],
    operation=("rollback", "1", True),
)
def test_check_mode_tells_the_truth_whatever_was_there(history: list[Step], operation: Step) -> None:
    with in_memory() as folder:
        root = folder / "root"
        root.mkdir()
        (folder / OUTSIDE).write_text("o\n")
        write(root, {"theirs/data.bin": "d", "theirs/deep/log": "l", "theirs.txt": "t"})
        (root / "theirs.link").symlink_to("nowhere")
        os.mkfifo(root / "theirs/pipe")
        theirs = {path: state for path, state in everything(root).items() if "theirs" in path}
        for happens, *drawn in history:
            happens(root, *drawn)
        before = everything(root)
        predicted = carried_out(root, operation, check_mode=True)
        outcome(lambda: compare_with(root, PROJECTS[0]))
        outcome(lambda: compare_with(root))
        assert everything(root) == before
        assert predicted == carried_out(root, operation, check_mode=False)
        assert theirs.items() <= everything(root).items()  # files of others beside ours are never touched
