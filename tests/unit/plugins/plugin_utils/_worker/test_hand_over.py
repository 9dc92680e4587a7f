# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who has a file or folder open while a deploy replaces it goes on with it: nothing that is written then is lost."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker import switch

from tests.unit.interrupting import in_memory, run_and_die
from tests.unit.releasing import Controller, deploy, history, home, leftovers, live, plain, roll_back, visible, write

PREFIX = "ansible_collections.trainops.proxmox.plugins.plugin_utils._worker"
OLD = {"train.log": "old\n", "conf/run.log": "old\n", "conf/deep/x.log": "old\n"}
NEW = {"train.log": "new\n", "conf/run.log": "new\n", "conf/deep/x.log": "new\n", "model.py": "V = 1\n"}
LATE = {path: text + "late\n" for path, text in OLD.items()}


@contextmanager
def appending(root: Path, *paths: str) -> Iterator[list[Any]]:
    """The files, open for appending, as a run has its log."""
    with ExitStack() as stack:
        yield [stack.enter_context((root / path).open("a")) for path in paths]


def write_late(streams: list[Any]) -> None:
    for stream in streams:
        stream.write("late\n")
        stream.flush()


@pytest.fixture(params=[True, False], ids=["exchange", "no exchange"])
def exchanging(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without renameat2's exchange in the file system."""
    if not request.param:
        for module in ("adopt", "hand_over", "switch"):
            monkeypatch.setattr(f"{PREFIX}.{module}.exchange", lambda *_args: False)


@pytest.mark.usefixtures("exchanging")
def test_what_is_written_after_an_adoption_is_in_the_adopted_release(tmp_path: Path) -> None:
    write(tmp_path, OLD)
    with appending(tmp_path, *OLD) as streams:
        assert deploy(tmp_path, NEW)["adopted"] == "adopted"
        write_late(streams)
        assert visible(tmp_path) == plain(NEW)
        predicted = roll_back(tmp_path, check_mode=True)
        done = roll_back(tmp_path)
        assert predicted == done
        assert done["files"]["train.log"]["size"] == len(LATE["train.log"])
        assert visible(tmp_path) == plain(LATE)
        write_late(streams)
    assert visible(tmp_path) == {path: data + b"late\n" for path, data in plain(LATE).items()}
    assert leftovers(tmp_path) == []


@pytest.mark.usefixtures("exchanging")
def test_a_process_in_an_adopted_folder_goes_on_there(tmp_path: Path) -> None:
    write(tmp_path, OLD)
    folder = os.open(tmp_path / "conf", os.O_RDONLY | os.O_DIRECTORY)
    try:
        deploy(tmp_path, NEW)
        os.close(os.open("checkpoint.pt", os.O_WRONLY | os.O_CREAT, dir_fd=folder))
    finally:
        os.close(folder)
    assert home(tmp_path, "releases", "adopted", "conf", "checkpoint.pt").exists()
    roll_back(tmp_path)
    assert visible(tmp_path) == {**plain(OLD), "conf/checkpoint.pt": b""}


def test_what_is_written_while_bytes_travel_is_there_too(tmp_path: Path) -> None:
    write(tmp_path, OLD)
    with appending(tmp_path, *OLD) as streams:
        deploy(tmp_path, NEW, Controller(NEW, meddle=lambda: write_late(streams)))
    roll_back(tmp_path)
    assert visible(tmp_path) == plain(LATE)


@pytest.mark.parametrize("late", ["copied", "displaced"])
def test_what_is_written_between_copy_and_switch_is_there_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: str
) -> None:
    write(tmp_path, OLD)
    step = {"copied": "displace", "displaced": "add_links"}[late]
    call = getattr(switch, step)
    with appending(tmp_path, *OLD) as streams:

        def meddle(*args: Any) -> None:
            write_late(streams)
            call(*args)

        monkeypatch.setattr(switch, step, meddle)
        deploy(tmp_path, NEW)
    monkeypatch.undo()
    roll_back(tmp_path)
    assert visible(tmp_path) == plain(LATE)
    assert leftovers(tmp_path) == []


def test_a_copy_that_somebody_wrote_into_stays_visible_and_the_original_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, OLD)
    call = switch.add_links

    def through_the_link(*args: Any) -> None:
        write(tmp_path, {"train.log": "by link\n"})
        call(*args)

    with appending(tmp_path, "train.log") as streams:
        monkeypatch.setattr(switch, "add_links", through_the_link)
        done = deploy(tmp_path, NEW)
        write_late(streams)
    monkeypatch.undo()
    kept = home(tmp_path, "kept", "train.log")
    assert done["foreign"] == [str(kept)]
    assert kept.read_text() == "old\nlate\n"
    roll_back(tmp_path)
    assert visible(tmp_path) == {**plain(OLD), "train.log": b"by link\n"}


def test_links_out_of_a_folder_lead_on(tmp_path: Path) -> None:
    write(tmp_path, {**OLD, "data/x": "d"})
    (tmp_path / "conf" / "deep" / "data").symlink_to("../../data")
    inode = (tmp_path / "conf").stat().st_ino
    deploy(tmp_path, NEW, adopt_folders=True)
    assert home(tmp_path, "releases", "adopted", "conf").stat().st_ino == inode
    roll_back(tmp_path)
    assert (tmp_path / "conf" / "deep" / "data" / "x").read_text() == "d"
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("late", ["", "late\n"])
def test_an_edit_of_the_live_release_goes_on_in_the_release_that_keeps_it(tmp_path: Path, late: str) -> None:
    deploy(tmp_path, NEW)
    with appending(tmp_path, "train.log") as (stream,):
        stream.write("edit\n")
        stream.flush()
        done = deploy(tmp_path, NEW)
        assert (done["adopted"], done["foreign"], visible(tmp_path)) == ("edited", [], plain(NEW))
        stream.write(late)
    roll_back(tmp_path)
    assert visible(tmp_path) == {**plain(NEW), "train.log": f"new\nedit\n{late}".encode()}
    assert leftovers(tmp_path) == []


def test_pruning_keeps_listed_files_that_changed(tmp_path: Path) -> None:
    first = deploy(tmp_path, NEW, keep=2)["release_id"]
    with appending(tmp_path, "train.log") as streams:
        for number in range(2):
            done = deploy(tmp_path, {"model.py": f"V = {number}{number}\n"}, keep=2)
            if number == 0:
                write_late(streams)
        assert done["pruned"] == [first]
        kept = home(tmp_path, "kept", first, "train.log")
        assert done["foreign"] == [str(kept)]
        write_late(streams)
    assert kept.read_text() == "new\nlate\nlate\n"


def test_nothing_that_is_left_of_an_adopted_release_is_refused(tmp_path: Path) -> None:
    write(tmp_path, {"train.log": "old\n"})
    deploy(tmp_path, NEW)
    home(tmp_path, "releases", "adopted", "train.log").unlink()
    with pytest.raises(Exception, match="adopted was changed since it was made"):
        roll_back(tmp_path)
    assert live(tmp_path) == history(tmp_path)[-1]["release"]


def test_an_edit_is_not_handed_over_to_what_goes_in_the_same_run(tmp_path: Path) -> None:
    """The edited file of a release that is made anew is in a release that keeps the edit, and that is the oldest."""
    first, edit = {"train.py": "A\n", "pkg/m.py": "m\n"}, "an edit of A\n"
    deploy(tmp_path, first)
    write(tmp_path, {"train.py": edit})
    for number in range(3):
        deploy(tmp_path, {**first, "train.py": f"{number}\n"})
    write(tmp_path, {"pkg/m.py": "another edit\n"})
    predicted = deploy(tmp_path, first, check_mode=True)
    done = deploy(tmp_path, first)
    assert (done["pruned"], done["adopted"]) == (["edited"], "edited-2")
    assert {**predicted, "asked": []} == {**done, "asked": []}
    (kept,) = done["foreign"]
    assert Path(kept).read_text() == edit


def test_a_release_whose_manifest_is_lost_is_judged_by_the_one_that_replaces_it(tmp_path: Path) -> None:
    deploy(tmp_path, {"train.py": "1\n", "a": "a\n"})
    first = str(live(tmp_path))
    deploy(tmp_path, {"train.py": "2\n"})
    home(tmp_path, "releases", f"{first}.json").unlink()
    write(home(tmp_path, "releases", first), {"a": "changed\n", "b": "b\n"})
    predicted = deploy(tmp_path, {"train.py": "1\n", "a": "a\n"}, check_mode=True)
    done = deploy(tmp_path, {"train.py": "1\n", "a": "a\n"})
    assert predicted["foreign"] == done["foreign"]
    assert [Path(path).read_text() for path in done["foreign"]] == ["changed\n", "b\n"]


def test_check_mode_foretells_what_follows_an_adoption_that_did_not_end() -> None:
    at, died = 0, True
    while died:
        at += 1
        with in_memory() as root:
            deploy(root, {"a": "1\n", "b": "b\n"})
            write(root, {"a": "by hand\n"})
            died = run_and_die(lambda where: deploy(where, {"a": "2\n", "b": "b\n"}), root, at)
            predicted = deploy(root, {"a": "2\n", "b": "b\n"}, check_mode=True)
            done = deploy(root, {"a": "2\n", "b": "b\n"})
            differs = {key: (predicted[key], done[key]) for key in done if predicted[key] != done[key]}
            assert set(differs) <= {"asked", "bytes_sent"}, (at, differs)
    assert at > 50
