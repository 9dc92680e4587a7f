# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is pushed: exactly what was named, links inside as links, and what cannot be pushed by name."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils import push_source
from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import OptionError, SourceChanged
from ansible_collections.trainops.proxmox.plugins.plugin_utils.push_source import read_source

from tests.unit.releasing import write


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "d"
    write(found, {".env": "secret", ".git/config": "", "a.pyc": "x", "sub/a.tmp": "t", "sub/b": "b", "z": "z"})
    (found / "none").mkdir()
    return found


def paths(src: Path | str, *exclude: str) -> list[str]:
    return [piece.path + "/" * (piece.type == "dir") for piece in read_source(str(src), exclude).pieces]


def test_nothing_that_was_named_is_left_out(folder: Path) -> None:
    below = [".env", ".git/", ".git/config", "a.pyc", "none/", "sub/", "sub/a.tmp", "sub/b", "z"]
    assert paths(folder) == ["/", *below]
    assert paths(f"{folder}/") == below
    assert read_source(str(folder)).kind == "folder"
    assert (read_source(f"{folder}/").kind, read_source(f"{folder}/").name) == ("content", "d")


@pytest.mark.parametrize(
    ("exclude", "left"),
    [
        ([".*"], ["a.pyc", "none/", "sub/", "sub/a.tmp", "sub/b", "z"]),
        (["*.tmp", "z"], [".env", ".git/", ".git/config", "a.pyc", "none/", "sub/", "sub/b"]),
        (["sub/*", ".git/", "a.pyc/"], [".env", "a.pyc", "none/", "sub/", "z"]),
        (["sub/a*", "./z", ".git", "none/"], [".env", "a.pyc", "sub/", "sub/b"]),
    ],
)
def test_exclude(folder: Path, exclude: list[str], left: list[str]) -> None:
    assert paths(f"{folder}/", *exclude) == left


def test_folders_come_before_what_is_in_them_whatever_their_names(tmp_path: Path) -> None:
    write(tmp_path / "d", {"a!/x": "", "a/x": "", "a.b": "", "a/y/z": ""})
    assert paths(f"{tmp_path}/d/") == ["a/", "a/x", "a/y/", "a/y/z", "a!/", "a!/x", "a.b"]


def test_links(folder: Path) -> None:
    (folder / "sub" / "up").symlink_to("../z")
    (folder / "gone").symlink_to("no/such")
    links = {piece.path: piece.target for piece in read_source(str(folder)).pieces if piece.type == "link"}
    assert links == {"sub/up": "../z", "gone": "no/such"}
    link = folder.parent / "named"
    link.symlink_to("d")
    assert paths(link) == paths(folder)
    assert read_source(str(link)).name == "named"


def test_all_that_cannot_be_pushed_is_named_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    os.mkfifo("pipe")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("sock")
    Path("sub/out").symlink_to("../../elsewhere")
    Path("absolute").symlink_to("/etc/passwd")
    Path(".trainops-push-0123456789abcdef").touch()
    with pytest.raises(OptionError) as caught:
        read_source(str(folder))
    text = str(caught.value)
    assert "(and 4 more)" in text
    for words in (
        f"{folder}/pipe is a named pipe: remove it, or leave it out with option exclude",
        f"{folder}/sock is a socket",
        f"{folder}/sub/out is a link out of the folder (to ../../elsewhere): replace it by what it points to",
        f"{folder}/absolute is a link out of the folder (to /etc/passwd)",
        f"{folder}/.trainops-push-0123456789abcdef has the name of what a killed push leaves behind",
    ):
        assert words in text
    assert paths(f"{folder}/", "pipe", "sock", "sub/", "absolute", ".*") == ["a.pyc", "none/", "z"]


def test_what_is_named_and_cannot_be_pushed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "f").touch()
    for src, text in (
        (f"{tmp_path}/no", "No such file or directory"),
        (f"{tmp_path}/pipe", "is a named pipe: only files, folders and links"),
        (f"{tmp_path}/f/", "it is no folder: leave the slash at its end out"),
        ("/dev/null", "is a device"),
    ):
        with pytest.raises(OptionError) as caught:
            read_source(src)
        assert str(caught.value).startswith(f"option src: {src}")
        assert text in str(caught.value)


def test_unreadable_files_are_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may read everything, so the refusal comes from the call."""
    opened = push_source._open

    def refuse(source: str) -> object:
        if source.endswith("/z"):
            raise PermissionError(13, "Permission denied")
        return opened(source)

    monkeypatch.setattr(push_source, "_open", refuse)
    for src in (folder, folder / "z"):
        with pytest.raises(OptionError, match=r"z: Permission denied: make it readable"):
            read_source(str(src))


def test_a_file_that_never_stands_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "f"
    file.write_text("x")
    opened = push_source._open

    def meddle(source: str) -> object:
        stream = opened(source)
        with file.open("a") as more:
            more.write("x")
        return stream

    stat = os.fstat
    grown: list[int] = []

    def first_smaller(fd: int) -> os.stat_result:
        info = stat(fd)
        grown.append(info.st_size)
        if len(grown) % 2:
            with file.open("a") as more:
                more.write("y")
        return info

    monkeypatch.setattr(push_source, "_open", meddle)
    monkeypatch.setattr(os, "fstat", first_smaller)
    with pytest.raises(SourceChanged, match=f"{file} keeps changing while it is read: stop what writes it"):
        read_source(str(file))
