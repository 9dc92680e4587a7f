# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What users are told of a push: options that cannot be, the line, the files, the diff, warnings."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import OptionError, SourceChanged, StepError
from ansible_collections.trainops.proxmox.plugins.plugin_utils.push import (
    check_options,
    mode_of,
    received,
    sender,
)
from ansible_collections.trainops.proxmox.plugins.plugin_utils.push_source import read_source

from tests.unit.pushing import DEFAULTS, step
from tests.unit.releasing import refusal, snapshot, write


@pytest.mark.parametrize(
    ("value", "mode"),
    [
        (None, None),
        ("0644", 0o644),
        ("644", 0o644),
        ("0o1777", 0o1777),
        (0o644, 0o644),
        (0o2755, 0o2755),
        ("preserve", "preserve"),
        ("u=rwX,g=rX,o=", "u=rwX,g=rX,o="),
        (" +x ", "+x"),
    ],
)
def test_modes(value: Any, mode: Any) -> None:
    assert mode_of("mode", value) == mode


@pytest.mark.parametrize("value", ["0888", "rw-r--r--", "u=q", "", "77777", -1, 1 << 15, True, ["0644"]])
def test_what_is_no_mode(value: Any) -> None:
    with pytest.raises(OptionError, match=r"^option directory_mode: "):
        mode_of("directory_mode", value)


@pytest.mark.parametrize("value", [644, 755, 600, 777])
def test_an_octal_mode_that_yaml_read_as_decimal(value: int) -> None:
    with pytest.raises(OptionError, match=f"option mode: {value} is read as a decimal number: .* '0{value}'"):
        mode_of("mode", value)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"dest": "relative/x"}, "option dest: 'relative/x' must be an absolute path in the container"),
        ({"dest": ""}, "option dest: '' must be an absolute path"),
        ({"dest": "/a\0b"}, "option dest: it has a zero byte"),
        ({"dest": "/x", "timeout": 0}, "option timeout: 0 cannot be"),
        ({"dest": "/x", "timeout": math.nan}, "option timeout: nan cannot be"),
        ({"dest": "/x", "mode": "0999"}, "option mode: '0999' is no mode"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], text: str) -> None:
    with pytest.raises(OptionError) as caught:
        check_options({**DEFAULTS, **options})
    assert str(caught.value).startswith(text)


def test_the_lines_of_a_file(tmp_path: Path) -> None:
    source, place = tmp_path / "f", tmp_path / "there" / "f"
    place.parent.mkdir()
    source.write_text("x" * 12_345)
    assert step(source, place, check=True)["summary"] == f"{place} would be added, 12 kB"
    assert step(source, place)["summary"] == f"{place} added, 12 kB, sha256 proven"
    assert step(source, place)["summary"] == f"{place} already there, nothing changed"
    assert step(source, place, mode="0600")["summary"] == f"{place} given mode or owner"
    assert step(source, place, check=True, mode="0640")["summary"] == f"{place} would be given mode or owner"
    source.write_text("y")
    done = step(source, place)
    assert done["summary"] == f"{place} changed, 1 B, sha256 proven"
    assert [(one["path"], one["action"], one["size"], one["mode"]) for one in done["files"]] == [
        (str(place), "changed", 1, "0600")
    ]
    new = place.parent / "new"
    assert step(source, f"{new}/")["summary"] == f"{new}/f added, 1 folder made, 1 B, sha256 proven"


def test_the_lines_of_a_folder(tmp_path: Path) -> None:
    source, top = tmp_path / "d", tmp_path / "there"
    write(source, {"a": "1", "b": "2", "sub/c": "3"})
    done = step(source, top)
    assert done["summary"] == f"{top}/d: 3 files, 3 added, 3 folders made, 3 B, sha256 proven"
    assert done["msg"].splitlines()[1:] == [
        f"added    {top}{one}" for one in ("", "/d", "/d/a", "/d/b", "/d/sub", "/d/sub/c")
    ]
    assert step(source, top)["summary"] == f"{top}/d: 3 files, nothing changed"
    (source / "a").write_text("4")
    (top / "d" / "b").chmod(0o600)
    (source / "new").touch()
    what = f"{top}/d: 4 files, %s1 added, 1 changed, 1 given mode or owner, 1 B"
    assert step(source, top, check=True, mode="0644")["summary"] == what % "would be "
    assert step(source, top, mode="0644")["summary"] == what % "" + ", sha256 proven"


def test_a_long_list_is_cut(tmp_path: Path) -> None:
    write(tmp_path / "d", {f"{number:02}": "" for number in range(30)})
    lines = step(tmp_path / "d", tmp_path / "there")["msg"].splitlines()
    assert (len(lines), lines[-1]) == (22, "… and 12 more")


def test_the_diff(tmp_path: Path) -> None:
    source, top = tmp_path / "d", tmp_path / "there"
    write(source, {"text": "new\n", "data": b"\0\1", "added": "a\n", "secrets.yml": "token\n", "latin": b"\xe4"})
    (source / "link").symlink_to("text")
    (source / "large").write_bytes(b"x" * 300_000)
    write(top, {"d/text": "old\n", "d/data": b"\0" * 5, "d/link": "a file\n", "d/secrets.yml": "other token\n"})
    (top / "d" / "text").chmod(0o600)
    done = step(source, top, diff=True, mode="0644")
    parts = {part["after_header"].removeprefix(f"{top}/d/"): (part["before"], part["after"]) for part in done["diff"]}
    owner = f"owner {source.stat().st_uid}\ngroup {source.stat().st_gid}\n"
    hidden = "(not shown: its name is that of secrets)\n"
    assert parts == {
        "text": ("old\n", "new\n"),
        "text (mode and owner)": (f"mode 0600\n{owner}", f"mode 0644\n{owner}"),
        "data": ("(5 B, no text to show)\n", "(2 B, no text to show)\n"),
        "added": ("", "a\n"),
        "latin": ("", "(1 B, no text to show)\n"),
        "large": ("", "(300 kB, no text to show)\n"),
        "link": ("a file\n", "(a link to text)\n"),
        "secrets.yml": (hidden, hidden.replace(")", ", changed)")),
    }
    assert step(source, top, diff=True, mode="0644")["diff"] == []
    made = step(source, top / "new", diff=True)["diff"]
    assert ("(a folder)\n", "") in [(part["after"], part["before"]) for part in made]


def test_places_of_a_release_are_told(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x\n")
    demo = tmp_path / "root" / ".trainops" / "demo"
    home = demo / "releases" / ("a" * 64)
    write(home, {"train.py": "released\n", "conf/a.yml": "released\n"})
    (demo / "current").symlink_to(f"releases/{home.name}")
    for name in ("train.py", "conf"):
        (tmp_path / "root" / name).symlink_to(f".trainops/demo/current/{name}")
    link = f"{tmp_path}/root/train.py"
    done = step(tmp_path / "f", link)
    what = f"{link} was a link to .trainops/demo/current/train.py, which a file replaces"
    assert done["warnings"] == [f"{what}; it was a release's, and the next deploy puts it back"]
    assert (home / "train.py").read_text() == "released\n"
    path = f"{tmp_path}/root/conf/a.yml"
    done = step(tmp_path / "f", path)
    puts_back = "the next deploy puts back what it has, and keeps what was changed as release edited"
    assert done["warnings"] == [f"{path} lies in a release: {puts_back}"]
    assert done["summary"] == f"{path} (which is {home}/conf/a.yml) changed, 2 B, sha256 proven"
    assert step(tmp_path / "f", path)["warnings"] == []
    new = f"{tmp_path}/root/conf/new"
    leaves = f"the next deploy takes a new file out of view, and moves it to {demo}/kept when that release goes"
    assert step(tmp_path / "f", new)["warnings"] == [f"{new} lies in a release: {leaves}"]


@pytest.mark.parametrize(
    "place", ["demo/lock", "demo/activations", "demo/current", "demo/releases/{id}.json", "demo/kept/x", ".lock", "x"]
)
def test_what_is_the_tools_own_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "f").write_text("x\n")
    home = tmp_path / "root" / ".trainops"
    write(home, {"demo/lock": "", f"demo/releases/{'a' * 64}/train.py": "released\n", "demo/kept/old": "k"})
    before = snapshot(tmp_path)
    dest = home / place.format(id="a" * 64)
    for check in (False, True):
        error = refusal(step, tmp_path / "f", dest, check=check)
        assert error.code == "tools-own"
        assert error.message.startswith(f"{dest}: what is in {home} is the tool's own (")
    assert snapshot(tmp_path) == before


def test_a_folder_that_would_write_over_the_tools_own_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "src", {".trainops/demo/lock": "mine", "a": "a"})
    (tmp_path / "root").mkdir()
    assert refusal(step, f"{tmp_path}/src/", tmp_path / "root").code == "tools-own"
    assert list((tmp_path / "root").iterdir()) == []


def test_a_worker_gets_nothing_that_is_not_pushed(tmp_path: Path) -> None:
    write(tmp_path / "d", {"f": "x"})
    answer = sender(read_source(str(tmp_path / "d")))
    frames = list(answer({"files": ["f"]}))
    assert [(frame.kind, frame.body, frame.blob and b"".join(frame.blob)) for frame in frames] == [
        ("file", {"path": "f"}, b"x"),
        ("end", {}, None),
    ]
    with pytest.raises(StepError, match="which is not pushed"):
        list(answer({"files": ["/etc/shadow"]}))


@pytest.mark.parametrize("change", ["longer", "other", "gone"])
def test_a_file_that_changes_while_it_is_sent(tmp_path: Path, change: str) -> None:
    file = tmp_path / "f"
    file.write_text("first")
    (frame, _end) = list(sender(read_source(str(file)))({"files": [""]}))
    if change == "gone":
        file.unlink()
    else:
        file.write_text({"longer": "first and more", "other": "First"}[change])
    with pytest.raises(SourceChanged, match=str(file)):
        b"".join(frame.blob or ())


def test_progress_reads_as_amounts() -> None:
    assert received({"done": 1_000_000, "total": 2.5e9, "what": "bytes"}) == {
        "done": "1.0 MB",
        "total": "2.5 GB",
        "what": "received",
    }
