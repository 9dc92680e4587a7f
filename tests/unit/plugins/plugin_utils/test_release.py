# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What users are told of a release: the line, the files, the diff."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import OptionError, StepError
from ansible_collections.trainops.proxmox.plugins.plugin_utils.project import read_project
from ansible_collections.trainops.proxmox.plugins.plugin_utils.release import (
    check_options,
    message,
    released,
    rolled_back,
    sender,
    size,
)

from tests.unit.releasing import deploy, params, roll_back, write


def step(root: Path, project: Path, **more: Any) -> dict[str, Any]:
    """The step's result, as the action returns it."""
    found = read_project(str(project), [], "/")
    files = {entry.path: Path(entry.source).read_bytes() for entry in found.files if entry.type == "file"}
    asked = {**params(root, {}), "manifest": {"files": found.rows}, **more}
    done = deploy(
        root, files, **{key: asked[key] for key in ("manifest", "check_mode", "want_diff", "keep", "adopt_folders")}
    )
    return released(found, done, asked["check_mode"])


def test_the_lines_of_a_day(tmp_path: Path) -> None:
    root, project = tmp_path / "root", tmp_path / "project"
    write(root, {"train.py": "by hand\n"})
    write(project, {"train.py": "t" * 41_000, "model.py": "m" * 20_000, "inventory.yml": ""})
    predicted = step(root, project, check_mode=True)
    done = step(root, project)
    release = done["release_id"][:7]
    at = f"at {root}, 1 added, 1 changed, 61 kB"
    assert predicted["summary"] == f'{release} would go live {at} (what was there would be release "adopted")'
    assert done["summary"] == f'{release} live {at}, sha256 proven (what was there is release "adopted")'
    assert done["left_out"] == [{"path": "inventory.yml", "why": "inventory"}]
    assert done["source"] == {"commit": None, "dirty": None}
    assert [(file["path"], file["action"], file["size"], file["mode"]) for file in done["files"]] == [
        ("model.py", "added", 20_000, "0644"),
        ("train.py", "changed", 41_000, "0644"),
    ]
    assert step(root, project)["summary"] == f"{release} already live at {root}, nothing changed"
    (root / "train.py").chmod(0o600)
    assert step(root, project)["summary"] == f"{release} already live at {root}, put right: train.py"
    (root / "train.py").write_text("edited\n")
    line = f'{release} live at {root}, 1 changed, 41 kB, sha256 proven (what was edited there is release "edited")'
    done = step(root, project)
    assert done["summary"] == line
    assert "was edited in the live release: train.py" in done["msg"]
    back = rolled_back(roll_back(root, "adopted"), check_mode=False)
    assert back["summary"] == f"adopted live again at {root}, 1 changed, 1 removed, sha256 proven (before: {release})"
    assert back["source"] == {"commit": None, "dirty": None}
    again = rolled_back(roll_back(root, release, check_mode=True), check_mode=True)
    assert again["summary"] == f"{release} would go live at {root}, 1 added, 1 changed (before: adopted)"


@pytest.mark.parametrize("gone", [["releases"], ["releases", "current"], ["current"]])
def test_the_line_is_never_empty_where_it_says_what_was_done(tmp_path: Path, gone: list[str]) -> None:
    root, project = tmp_path / "root", tmp_path / "project"
    root.mkdir()
    write(project, {"a.py": "1", "b.py": "2"})
    release = step(root, project)["release_id"][:7]
    for name in gone:
        path = root / ".trainops" / "demo" / name
        path.unlink() if path.is_symlink() else shutil.rmtree(path)
    size = "2 B" if "releases" in gone else "0 B"
    assert step(root, project, check_mode=True)["summary"] == f"{release} would go live at {root}, 2 added, {size}"
    assert step(root, project)["summary"] == f"{release} live at {root}, 2 added, {size}, sha256 proven"


def test_what_was_put_right_is_named_and_cut(tmp_path: Path) -> None:
    root, project = tmp_path / "root", tmp_path / "project"
    root.mkdir()
    write(project, {f"{number}.py": "1" for number in range(9)})
    release = step(root, project)["release_id"][:7]
    for path in root.glob("*.py"):
        path.unlink()
    right = "right: 0.py, 1.py, 2.py, 3.py, 4.py and 4 more"
    assert step(root, project, check_mode=True)["summary"] == f"{release} already live at {root}, would put {right}"
    assert step(root, project)["summary"] == f"{release} already live at {root}, put {right}"


def test_diffs_show_text_as_text_and_all_else_by_size(tmp_path: Path) -> None:
    root, project = tmp_path / "root", tmp_path / "project"
    write(project, {"a.py": "old\n", "gone.py": "gone\n", "b.bin": b"\0\1"})
    root.mkdir()
    step(root, project)
    write(project, {"a.py": "new\n", "b.bin": b"\0\1\2", "big.txt": "x" * 300_000, "new.py": "n\n"})
    (project / "gone.py").unlink()
    diff = {one["after_header"]: (one["before"], one["after"]) for one in step(root, project, want_diff=True)["diff"]}
    assert diff == {
        "a.py": ("old\n", "new\n"),
        "b.bin": ("(no text to show)\n", "(3 B, no text to show)\n"),
        "big.txt": ("", "(300 kB, no text to show)\n"),
        "gone.py": ("gone\n", ""),
        "new.py": ("", "n\n"),
    }
    back = rolled_back(roll_back(root, want_diff=True), check_mode=False)
    assert ("new\n", "old\n") in [(one["before"], one["after"]) for one in back["diff"]]


def test_a_diff_shows_no_secrets_of_a_folder_that_was_there(tmp_path: Path) -> None:
    root, project = tmp_path / "root", tmp_path / "project"
    write(
        root, {"conf/.env": "TOKEN=hush\n", "conf/tls.key": "hush\n", "conf/.ssh/config": "hush\n", "conf/a": "old\n"}
    )
    write(project, {"conf/a": "new\n", "conf/.env": "TOKEN=hush\n"})
    done = step(root, project, want_diff=True, adopt_folders=True)
    assert "hush" not in str(done)
    assert {one["before_header"] for one in done["diff"]} == {"conf/.env", "conf/tls.key", "conf/.ssh/config", "conf/a"}


def test_a_diff_shows_no_key_and_begins_no_line_by_a_name(tmp_path: Path) -> None:
    root, project = tmp_path / "root", tmp_path / "project"
    key = "-----BEGIN OPENSSH PRIVATE KEY-----\nhush\n"
    write(root, {"conf/deploy": key, "conf/a": key, "conf/x\n--- forged": "1\n"})
    write(project, {"conf/a": "new\n"})
    done = step(root, project, want_diff=True, adopt_folders=True)
    assert "hush" not in str(done)
    hidden = "(not shown: it holds a private key"
    shown = {one["after_header"]: (one["before"], one["after"]) for one in done["diff"]}
    assert shown["conf/a"] == (f"{hidden})\n", f"{hidden}, changed)\n")
    assert shown["conf/deploy"][0] == f"{hidden})\n"
    assert all(header.isprintable() for header in shown)
    assert all(line.isprintable() for line in done["msg"].split("\n"))


def test_a_long_list_is_cut_in_the_message() -> None:
    files = [{"action": "added", "path": f"f{number}"} for number in range(25)]
    strays = {"count": 500, "paths": [f"/s{number}" for number in range(100)]}
    foreign = [f"/f{number}" for number in range(21)]
    text = message({"summary": "s", "files": files, "drift": ["d"], "strays": strays, "foreign": foreign})
    lines = text.splitlines()
    assert lines[21:23] == ["… and 5 more", "was edited in the live release: d"]
    assert [line for line in lines if line.endswith("more")][1:] == [
        "out of view, no release lists it: … and 480 more",
        "belongs to nobody, kept: … and 1 more",
    ]
    assert len(lines) == 1 + 21 + 1 + 21 + 21


def test_the_line_names_what_went_out_of_view_and_what_removing_found(tmp_path: Path) -> None:
    root, project = tmp_path / "root", tmp_path / "project"
    root.mkdir()
    write(project, {"train.py": "1", "out/x": "x"})
    first = step(root, project, keep=2)["release_id"]
    write(root, {"out/model.pt": "m", "out/log/1.txt": "1"})
    for number, end in (
        (2, "; 2 files that no release lists {stay} in {home}/releases/{first}…: name out in training_shared"),
        (3, "; 2 files that no release lists {be} in {home}/kept"),
    ):
        write(project, {"train.py": str(number)})
        for check_mode in (True, False):
            done = step(root, project, check_mode=check_mode, keep=2)
            words = {"stay": "would stay", "be": "would be"} if check_mode else {"stay": "stay", "be": "are"}
            assert done["summary"].endswith(end.format(home=f"{root}/.trainops/demo", first=first[:7], **words))
            gone = f"2 files written below out of {root} {'would go' if check_mode else 'went'} out of view"
            warned = [gone] if number == 2 else []
            assert [one.partition(", since")[0].removeprefix("release: ") for one in done["warnings"]] == warned
    assert (root / ".trainops" / "demo" / "kept" / first / "out" / "model.pt").read_text() == "m"


def test_the_worker_gets_nothing_that_the_project_does_not_have(tmp_path: Path) -> None:
    write(tmp_path, {"p/a.py": "1", "secret": "s"})
    answer = sender(read_project(str(tmp_path / "p"), [], "/").files)
    frames = list(answer({"files": ["a.py"]}))
    assert [(frame.kind, frame.body) for frame in frames] == [("file", {"path": "a.py"}), ("end", {})]
    for path in ("../secret", "/etc/passwd", "b.py"):
        with pytest.raises(StepError, match="which the project does not have"):
            list(answer({"files": [path]}))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"root": "relative", "keep_releases": 5}, "must be an absolute path in the container"),
        ({"root": "/root", "keep_releases": 1}, "option keep_releases: 1 is too few"),
        ({"root": "/root", "keep_releases": 5, "wait": -1.0}, "option wait: -1 cannot be"),
        ({"root": "/root", "keep_releases": 5, "timeout": float("nan")}, "option timeout: nan cannot be"),
        ({"root": "/root", "keep_releases": 5, "timeout": float("inf")}, "option timeout: inf cannot be"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        check_options(options)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (61_234, "61 kB"), (1_500_000, "1.5 MB"), (5 * 10**9, "5.0 GB")],
)
def test_sizes(count: int, text: str) -> None:
    assert size(count) == text
