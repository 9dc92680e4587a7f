# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pushes into real folders: where things go, what travels, what is in the way, links, check mode, cuts anywhere."""

from __future__ import annotations

import codecs
import errno
import fcntl
import functools
import os
import socket
import stat
import tempfile
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker import (
    owners,
    push_plan,
    push_write,
)
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker import push as worker
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.channel import WorkerError
from ansible_collections.trainops.proxmox.plugins.plugin_utils.push_source import Source, read_source

from tests.unit.pushing import Pusher, actions, params, run, tree
from tests.unit.releasing import refusal, snapshot, write

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
ALL_BYTES = bytes(range(256)) * 300
FILES = {"a": b"a\n", "empty": b"", "all": ALL_BYTES, "sub/ü nï/日本.txt": b"x", "sub/-dash '\"$x\n": b"y"}


@pytest.fixture
def src(tmp_path: Path) -> Path:
    """A folder with files of all kinds, an empty folder and a link."""
    folder = tmp_path / "source"
    write(folder, FILES)
    (folder / "none").mkdir()
    (folder / "sub" / "link").symlink_to("../a")
    return folder


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """A folder that stands for the container's."""
    folder = tmp_path / "there"
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    ("source", "dest", "place"),
    [
        ("a", "new", "new"),
        ("a", "dir", "dir/a"),
        ("a", "dir/", "dir/a"),
        ("a", "dir/.", "dir/a"),
        ("a", "x/y/", "x/y/a"),
        ("a", "dir/other", "dir/other"),
        ("a", "old", "old"),
        ("a", "to-dir", "to-dir/a"),
        ("a", "to-dir/b", "to-dir/b"),
        ("a", "dir/../up", "up"),
        ("none", "dir", "dir/none"),
        ("none", "x/y", "x/y/none"),
        ("none/", "x/y", "x/y"),
        ("none/", "dir", "dir"),
    ],
)
def test_where_things_go(src: Path, there: Path, source: str, dest: str, place: str) -> None:
    (there / "dir").mkdir()
    (there / "old").write_text("old")
    (there / "to-dir").symlink_to("dir")
    before = set(tree(there))
    done = run(f"{src}/{source}", f"{there}/{dest}")
    assert os.path.normpath(done["dest"]) == str(there / place)
    assert done["real"] == os.path.realpath(there / place)
    found = {path.relative_to(there) for path in (there / place).resolve().parents if path.is_relative_to(there)}
    made = set(tree(there)) - before - {str(path) for path in found}
    assert made <= {str((there / place).resolve().relative_to(there))}
    assert (there / place).is_dir() == source.startswith("none")
    assert source != "a" or (there / place).read_bytes() == b"a\n"


def test_a_folder_as_itself_and_its_content(src: Path, there: Path) -> None:
    run(src, there)
    run(f"{src}/", there / "content")
    assert tree(there / "source") == tree(there / "content") == tree(src)
    assert stat.S_IMODE((there / "source").stat().st_mode) == 0o777 & ~push_plan.Wish(params_of(src)).umask


def params_of(src: Path) -> dict[str, Any]:
    return params(read_source(str(src)), "/")


def test_nothing_travels_and_nothing_is_written_when_nothing_differs(src: Path, there: Path) -> None:
    first = run(src, there)
    assert first["bytes_sent"] == sum(map(len, FILES.values()))
    before = snapshot(there)
    done = run(src, there)
    assert (done["changed"], done["asked"], done["bytes_sent"]) == (False, [], 0)
    assert set(actions(done, there).values()) == {"unchanged"}
    assert snapshot(there) == before


def test_only_what_differs_travels(src: Path, there: Path) -> None:
    run(src, there)
    write(src, {"all": ALL_BYTES[::-1], "new": b"new"})
    (src / "sub" / "link").unlink()
    (src / "sub" / "link").symlink_to("../all")
    (there / "source" / "extra").write_text("stays")
    done = run(src, there)
    assert done["asked"] == ["all", "new"]
    changed = {path: action for path, action in actions(done, there).items() if action != "unchanged"}
    assert changed == {"source/all": "changed", "source/new": "added", "source/sub/link": "changed"}
    assert tree(there / "source") == {**tree(src), "extra": b"stays"}


def test_a_file_is_replaced_whole_and_keeps_its_mode(src: Path, there: Path) -> None:
    old = there / "f"
    old.write_text("old, and longer than the new one\n")
    old.chmod(0o4711)
    os.link(old, there / "hard link")
    with old.open() as reader:
        run(src / "a", old)
        assert reader.read() == "old, and longer than the new one\n"
    assert (old.read_bytes(), stat.S_IMODE(old.stat().st_mode)) == (b"a\n", 0o4711)
    assert (there / "hard link").read_text().startswith("old")
    assert sorted(os.listdir(there)) == ["f", "hard link"]


@pytest.mark.parametrize(
    ("was", "mode", "becomes", "action"),
    [
        (None, None, None, "added"),
        (None, "0640", 0o640, "added"),
        (None, 0o600, 0o600, "added"),
        (None, "u=rwx,g=rx,o=", 0o750, "added"),
        (None, "preserve", 0o751, "added"),
        (0o600, None, 0o600, "unchanged"),
        (0o600, "0644", 0o644, "mode"),
        (0o644, "0644", 0o644, "unchanged"),
        (0o644, "u+x", 0o744, "mode"),
        (0o751, "preserve", 0o751, "unchanged"),
        (0o750, "preserve", 0o751, "mode"),
        (0o755, "4755", 0o4755, "mode"),
    ],
)
def test_modes(src: Path, there: Path, was: int | None, mode: Any, becomes: int | None, action: str) -> None:
    (src / "a").chmod(0o751)
    if was is not None:
        (there / "f").write_bytes(b"a\n")
        (there / "f").chmod(was)
    predicted = run(src / "a", there / "f", mode=mode, check=True)
    done = run(src / "a", there / "f", mode=mode)
    assert [file["action"] for file in done["files"]] == [action]
    assert (done["files"], done["changed"]) == (predicted["files"], predicted["changed"])
    expected = 0o666 & ~push_plan.Wish(params_of(src)).umask if becomes is None else becomes
    assert oct(stat.S_IMODE((there / "f").stat().st_mode)) == oct(expected) == oct(done["files"][0]["mode"])
    assert not run(src / "a", there / "f", mode=mode)["changed"]


def test_folders_that_are_made_get_their_mode_and_others_keep_theirs(src: Path, there: Path) -> None:
    (there / "source").mkdir(mode=0o711)
    (there / "source").chmod(0o711)
    (src / "none").chmod(0o2770)
    run(src, there, directory_mode="preserve")
    assert stat.S_IMODE((there / "source").stat().st_mode) == 0o711
    assert stat.S_IMODE((there / "source" / "none").stat().st_mode) == 0o2770
    run(src, there / "x" / "y", directory_mode="0700")
    assert {stat.S_IMODE(path.stat().st_mode) for path in (there / "x", there / "x" / "y" / "source")} == {0o700}


@ROOT
def test_owners(src: Path, there: Path) -> None:
    done = run(src, there / "new", owner="1234", group="4321", mode="4755")
    assert {(path.lstat().st_uid, path.lstat().st_gid) for path in (there / "new").rglob("*")} == {(1234, 4321)}
    assert stat.S_IMODE((there / "new" / "source" / "a").stat().st_mode) == 0o4755
    assert done["changed"]
    assert not run(src, there / "new", owner="1234", group="4321", mode="4755")["changed"]
    done = run(src, there / "new", owner="0")
    assert {file["action"] for file in done["files"] if file["type"] != "dir"} == {"mode"}
    assert (there / "new" / "source" / "a").stat().st_gid == 4321
    write(src, {"a": b"other"})
    run(src, there / "new")
    info = (there / "new" / "source" / "a").stat()
    assert (info.st_uid, info.st_gid, stat.S_IMODE(info.st_mode)) == (0, 4321, 0o4755)


def test_a_link_in_a_files_place_is_replaced_and_not_written_through(src: Path, there: Path) -> None:
    (there / "target").write_text("precious")
    (there / "f").symlink_to("target")
    (there / "nowhere").symlink_to("not there")
    assert actions(run(src / "a", there / "f"), there) == {"f": "changed"}
    assert actions(run(src / "a", there / "nowhere"), there) == {"nowhere": "changed"}
    assert tree(there) == {"f": b"a\n", "nowhere": b"a\n", "target": b"precious"}


def test_a_link_with_the_right_content_behind_it_is_replaced_too(src: Path, there: Path) -> None:
    (there / "target").write_bytes(b"a\n")
    (there / "f").symlink_to("target")
    assert run(src / "a", there / "f")["changed"]
    assert not (there / "f").is_symlink()


def test_a_link_on_the_way_is_followed_and_said(src: Path, there: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (there / "way").symlink_to(tmp_path / "elsewhere")
    done = run(src / "a", there / "way" / "f")
    assert (done["dest"], done["real"]) == (f"{there}/way/f", f"{tmp_path}/elsewhere/f")
    assert (tmp_path / "elsewhere" / "f").read_bytes() == b"a\n"


def test_planted_temporary_names_are_never_written_through(
    src: Path, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (there / "precious").write_text("precious")
    guesses = [bytes([number]) * 8 for number in range(6)]
    monkeypatch.setattr(os, "urandom", lambda count: guesses.pop(0)[:count])
    monkeypatch.setattr(push_write, "sweep", lambda folder: None)  # or it would find them before
    (there / f"{push_write.PREFIX}{'00' * 8}").symlink_to("precious")
    os.link(there / "precious", there / f"{push_write.PREFIX}{'01' * 8}")
    run(src / "a", there / "f")
    assert ((there / "f").read_bytes(), (there / "precious").read_text()) == (b"a\n", "precious")
    assert (there / f"{push_write.PREFIX}{'00' * 8}").is_symlink()


def special(path: Path) -> None:
    os.mkfifo(path)


def socket_at(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(os.path.relpath(path))  # the name of a socket must be short


def link_out(top: Path) -> None:
    write(top, {"source/x": b""})
    (top / "source" / "sub").symlink_to("/etc")


REFUSALS: list[tuple[str, str, Callable[[Path], Any], str, str]] = [
    ("a", "no/such/f", lambda top: None, "no-parent", "/no/such/f: its folder {top}/no/such does not exist"),
    ("a", "no/../f", lambda top: None, "no-parent", "{top}/no does not exist"),
    ("a", "file/f", lambda top: (top / "file").touch(), "not-folder", "{top}/file is no folder in the container"),
    ("a", "file/", lambda top: (top / "file").touch(), "not-folder", "{top}/file is no folder in the container"),
    ("a", "dir", lambda top: (top / "dir/a").mkdir(parents=True), "is-folder", "{top}/dir/a is a folder where a file"),
    ("a", "pipe", lambda top: special(top / "pipe"), "special", "{top}/pipe is a named pipe and is not replaced"),
    ("a", "sock", lambda top: socket_at(top / "sock"), "special", "{top}/sock is a socket and is not replaced"),
    ("", "dang", lambda top: (top / "dang").symlink_to("no"), "not-folder", "{top}/dang is a link to nothing"),
    ("a", "loop/f", lambda top: (top / "loop").symlink_to("loop"), "not-folder", "links in it lead round"),
    ("a", "n" * 300, lambda top: None, "name", "its name is too long"),
    ("", "", lambda top: write(top, {"source/sub": b""}), "not-folder", "{top}/source/sub is a file where a folder"),
    (
        "",
        "",
        link_out,
        "outside",
        "{top}/source/sub is a link to /etc, which is outside of what dest names: remove the link",
    ),
]


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(("source", "dest", "there_is", "code", "text"), REFUSALS)
def test_what_is_in_the_way(
    src: Path,
    there: Path,
    monkeypatch: pytest.MonkeyPatch,
    source: str,
    dest: str,
    there_is: Callable[[Path], Any],
    code: str,
    text: str,
    check: bool,
) -> None:
    monkeypatch.chdir(there)
    there_is(there)
    before = snapshot(there)
    error = refusal(run, src / source, f"{there}/{dest}", check=check)
    assert (error.code, text.format(top=there) in error.message) == (code, True), error.message
    assert ": " in error.message
    assert snapshot(there) == before


def test_all_that_is_in_the_way_is_named_at_once(src: Path, there: Path) -> None:
    (there / "source" / "a").mkdir(parents=True)
    os.mkfifo(there / "source" / "all")
    error = refusal(run, src, there)
    assert "source/a is a folder" in error.message
    assert "source/all is a named pipe" in error.message


@pytest.mark.parametrize("dest", ["relative", "./x", ""])
def test_a_relative_destination_is_refused(src: Path, dest: str) -> None:
    error = refusal(worker.run, Pusher(read_source(str(src / "a"))), params(read_source(str(src / "a")), dest))
    assert (error.code, "must be an absolute path" in error.message) == ("option", True)


def test_the_home_of_whoever_runs_the_worker(src: Path, there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(there))
    assert run(src / "a", "~/x")["dest"] == f"{there}/x"


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(
    ("what", "code", "text"),
    [
        ("read-only", "read-only", "{top}: Read-only file system: its file system is mounted read-only"),
        ("mount", "mount-point", "{top}/f: it is a mount point: something is mounted on that name"),
        ("immutable", "denied", "{top}/f has the attribute immutable or append-only: chattr -ia {top}/f"),
        ("full", "no-space", "the file system of {top} in the container has 4.1 kB free, this push needs 77.8 kB"),
        ("inodes", "no-space", "the file system of {top} in the container has 0 inodes free, this push needs 1"),
    ],
)
def test_what_check_mode_knows_before(
    src: Path, there: Path, monkeypatch: pytest.MonkeyPatch, what: str, code: str, text: str, check: bool
) -> None:
    (there / "f").write_text("old")
    real = os.fstatvfs(0)
    values = {name: getattr(real, name) for name in dir(real) if name.startswith("f_")}
    values.update(f_flag=0, f_bavail=1 << 30, f_frsize=4096, f_blocks=1 << 30, f_files=1 << 30, f_favail=1 << 20)
    values.update(
        {"read-only": {"f_flag": os.ST_RDONLY}, "full": {"f_bavail": 1}, "inodes": {"f_favail": 0}}.get(what, {})
    )
    monkeypatch.setattr(os, "fstatvfs", lambda fd: types.SimpleNamespace(**values))
    monkeypatch.setattr(push_plan, "mount_points", lambda: ["/", f"{there}/f"] if what == "mount" else ["/"])
    monkeypatch.setattr(push_plan, "_is_fixed", lambda folder, name: what == "immutable" and name == "f")
    before = snapshot(there)
    error = refusal(run, src / "all", there / "f", check=check)
    assert (error.code, text.format(top=there) in error.message) == (code, True), error.message
    assert snapshot(there) == before


@ROOT
def test_what_a_user_other_than_root_may_not(memory: Path) -> None:
    """The checks of root's own power are told apart in a process without it."""
    codecs.lookup("ascii")  # that user may not read where this Python has it
    src, there = memory, memory / "there"
    memory.chmod(0o755)
    (memory / "a").write_bytes(b"a\n")
    there.mkdir()
    (there / "mine").mkdir()
    os.chown(there / "mine", 1234, 1234)
    (there / "mine" / "roots").write_bytes(b"a\n")
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("new", {}, "denied"),
        ("mine/x", {}, ""),
        ("mine/y", {"owner": "0"}, "denied"),
        ("mine/z", {"group": "0"}, "denied"),
        ("mine/roots", {"mode": "0600"}, "denied"),
        ("mine/roots", {}, ""),
    ]
    for dest, options, code in cases:
        for check in (True, False):
            work = functools.partial(run, src / "a", there / dest, check=check, **options)
            assert as_user(1234, work) == code, dest


def as_user(uid: int, work: Callable[[], Any]) -> str:
    """The code of the error with which ``work`` ends in a process of that user; empty when it succeeds."""
    read, written = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            work()
            said = ""
        except WorkerError as error:
            said = error.code
        except BaseException as error:
            said = repr(error)
        os.write(written, said.encode())
        os._exit(0)
    os.close(written)
    with open(read, encoding="utf-8") as stream:
        said = stream.read()
    os.waitpid(child, 0)
    return said


def test_an_unknown_owner_is_refused_before_anything(src: Path, there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owners, "_spans", lambda kind: [(0, 65536)])
    for options in ({"owner": "nobody-here"}, {"group": "70000"}):
        error = refusal(run, src, there, check=True, **options)
        assert (error.code, os.listdir(there)) == ("owner", [])


def test_damage_on_the_way_leaves_what_was_there(src: Path, there: Path) -> None:
    (there / "f").write_text("old")
    controller = Pusher(read_source(str(src / "all")))
    controller.files[""] = ALL_BYTES[:-1] + b"?"
    error = refusal(run, src / "all", there / "f", controller)
    assert (error.code, f"{there}/f is as it was" in error.message) == ("damaged", True)
    assert tree(there) == {"f": b"old"}


class Breaks(Pusher):
    """The controller's file changes while its last chunk is read."""

    def read_blob(self) -> Iterator[bytes]:
        yield from super().read_blob()
        if len(self.asked) > 1 and self._blob == ALL_BYTES:
            raise WorkerError("source-changed", "the controller could not finish sending a file")


def test_what_was_done_before_a_failure_is_named(src: Path, there: Path) -> None:
    error = refusal(run, f"{src}/", there, Breaks(read_source(f"{src}/")))
    assert error.code == "source-changed"
    done = [f"{there}/{name}" for name in ("none", "sub", "sub/ü nï", "a")]
    assert error.details == {"changed": True, "done": done}
    assert error.message.endswith("(4 of 9 done before, each whole)")
    assert {name for name in tree(there) if push_write.PREFIX in name} == set()


def test_check_mode_predicts_and_writes_nothing(src: Path, there: Path) -> None:
    write(there, {"source/a": b"other", "source/empty": b""})
    (there / "source" / "empty").chmod(0o600)
    before = snapshot(there)
    predicted = run(src, there, check=True, diff=True, mode="0644")
    assert snapshot(there) == before
    done = run(src, there, diff=True, mode="0644")
    assert predicted.pop("asked") == []
    assert len(done.pop("asked")) == 4
    assert predicted == done
    assert done["before"] == {f"{there}/source/a": "other"}


def test_what_a_killed_push_left_goes_and_what_another_writes_stays(src: Path, there: Path) -> None:
    left = [there / f"{push_write.PREFIX}{number:016x}" for number in range(5)]
    left[0].write_text("half")
    left[1].mkdir()
    left[2].symlink_to("somewhere")
    left[3].write_text("being written by another")
    left[4].mkdir()
    (left[4] / "not ours").touch()
    (there / f"{push_write.PREFIX}notes").touch()
    with left[3].open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert run(src / "a", there / "f")["changed"]
    kept = {left[3].name, left[4].name, f"{push_write.PREFIX}notes", "f"}
    assert set(os.listdir(there)) == kept
    assert not run(src / "a", there / "f")["changed"]
    assert set(os.listdir(there)) == kept - {left[3].name}


# Every call by which a push changes something on the disk, or makes it last.
STEPS = ("open", "mkdir", "rename", "symlink", "unlink", "rmdir", "write", "fsync", "fchmod", "fchown", "chown")


class Cut:
    """Lets the call number ``at`` of those that change something fail."""

    def __init__(self, at: int, fail: Callable[[], None]) -> None:
        self.left = at
        self.fail = fail

    def install(self, patch: pytest.MonkeyPatch) -> None:
        for name in STEPS:
            patch.setattr(os, name, self._around(getattr(os, name)))

    def _around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **more: Any) -> Any:
            self.left -= 1
            if self.left == 0:
                self.fail()
            return call(*args, **more)

        return counted


@pytest.fixture
def memory() -> Iterator[Path]:
    """A fresh folder, in memory where the machine has one: each of hundreds of runs waits for the disk."""
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="trainops-", dir=place) as path:
        yield Path(path)


def old_files(top: Path) -> None:
    write(top, {"source/a": b"old", "source/all": b"old", "source/empty": b""})
    (top / "source" / "sub").mkdir()
    (top / "source" / "sub" / "link").symlink_to("old")


def push_all(source: Source, top: Path) -> dict[str, Any]:
    more = {"owner": "1234", "directory_mode": "0750"} if os.geteuid() == 0 else {}
    return worker.run(Pusher(source), params(source, str(top), mode="0640", **more))  # type: ignore[arg-type]


def is_old_or_new(top: Path, old: dict[str, Any], new: dict[str, Any]) -> None:
    for path, content in tree(top).items():
        if push_write.PREFIX not in path:
            assert path in new, path
            assert content in ([old[path]] if path in old else []) + [new[path]], path


def rounds(memory: Path, interrupt: Callable[[Path, int], bool]) -> Iterator[Path]:
    at = 0
    while True:
        at += 1
        top = memory / str(at)
        top.mkdir()
        old_files(top)
        if not interrupt(top, at):
            break
        yield top
    assert at > 40


def test_killed_at_any_step_each_file_is_old_or_new_and_the_next_push_leaves_nothing(memory: Path, src: Path) -> None:
    source = read_source(str(src))

    def die(top: Path, at: int) -> bool:
        child = os.fork()
        if child == 0:
            with pytest.MonkeyPatch.context() as patch:
                Cut(at, lambda: os._exit(9)).install(patch)
                try:
                    push_all(source, top)
                finally:
                    os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9

    (memory / "ref").mkdir()
    old_files(memory / "ref")
    old = tree(memory / "ref")
    push_all(source, memory / "ref")
    new = tree(memory / "ref")
    for top in rounds(memory, die):
        is_old_or_new(top, old, new)
        push_all(source, top)
        assert tree(top) == new, top
        assert not push_all(source, top)["changed"], top


def test_a_full_disk_at_any_step_leaves_each_file_old_or_new_and_nothing_else(memory: Path, src: Path) -> None:
    source = read_source(str(src))

    def fail(top: Path, at: int) -> bool:
        def full() -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        cut = Cut(at, full)
        with pytest.MonkeyPatch.context() as patch:
            cut.install(patch)
            try:
                push_all(source, top)
            except WorkerError as error:
                assert (error.code, "free space or inodes" in error.message) == ("no-space", True)
        return cut.left <= 0

    (memory / "ref").mkdir()
    old_files(memory / "ref")
    old = tree(memory / "ref")
    push_all(source, memory / "ref")
    new = tree(memory / "ref")
    for top in rounds(memory, fail):
        is_old_or_new(top, old, new)
        assert not [path for path in tree(top) if push_write.PREFIX in path]
        push_all(source, top)
        assert tree(top) == new, top


def test_space_is_reckoned_file_by_file(src: Path, there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replacing two large files takes room for one of them, since the first one's old bytes are free by then."""
    write(src, {"one/a": b"1" * 4096, "one/b": b"2" * 4096})
    write(there, {"one/a": b"x" * 4096, "one/b": b"y" * 4096})
    real = os.fstatvfs(0)
    values = {name: getattr(real, name) for name in dir(real) if name.startswith("f_")}
    values.update(f_flag=0, f_bavail=1, f_frsize=4096, f_blocks=9, f_files=0)
    monkeypatch.setattr(os, "fstatvfs", lambda fd: types.SimpleNamespace(**values))
    assert run(src / "one", there, check=True)["changed"]
    os.link(there / "one" / "a", there / "kept")
    assert refusal(run, src / "one", there, check=True).code == "no-space"


def test_a_worker_that_meets_another_answer_than_agreed(src: Path, there: Path) -> None:
    class Wrong(Pusher):
        def receive(self, *kinds: str) -> dict[str, Any]:
            return {**super().receive(*kinds), "path": "other"}

    assert refusal(run, src / "a", there, Wrong(read_source(str(src / "a")))).code == "protocol"
