# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Going back: to the activation before, to a number, to an id; what is live then was proved before."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.rollback import choose
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.store import release_id

from tests.unit.releasing import (
    deploy,
    history,
    home,
    leftovers,
    live,
    plain,
    refusal,
    roll_back,
    rows,
    snapshot,
    visible,
    write,
)

A = {"train.py": "a\n", "both.py": "same\n", "only_a/x": "1"}
B = {"train.py": "b\n", "both.py": "same\n", "only_b.py": "2"}


def test_back_and_back_again(tmp_path: Path) -> None:
    deploy(tmp_path, A)
    deploy(tmp_path, B)
    done = roll_back(tmp_path)
    assert visible(tmp_path) == plain(A)
    assert (done["changed"], done["activation"], done["bytes_sent"]) == (True, 3, 0)
    assert done["actions"] == {"train.py": "changed", "only_a/x": "added", "only_b.py": "removed"}
    assert done["files"]["train.py"]["size"] == 2
    record = history(tmp_path)[-1]
    assert (record["kind"], record["commit"], record["who"]) == ("rollback", "c0ffee", "tester@desk")
    roll_back(tmp_path)
    assert visible(tmp_path) == plain(B)
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize(("to", "expected"), [("1", A), ("2", B), ("id", A), ("short", A)])
def test_to_an_activation_or_an_id(tmp_path: Path, to: str, expected: dict[str, str]) -> None:
    deploy(tmp_path, A)
    deploy(tmp_path, B)
    deploy(tmp_path, {"train.py": "c\n"})
    whole = release_id(rows(A))
    roll_back(tmp_path, {"id": whole, "short": whole[:7]}.get(to, to))
    assert visible(tmp_path) == plain(expected)


def test_to_what_is_live_changes_nothing(tmp_path: Path) -> None:
    deploy(tmp_path, A)
    before = snapshot(tmp_path)
    done = roll_back(tmp_path, release_id(rows(A)))
    assert (done["changed"], done["activation"]) == (False, 1)
    assert {path for path, state in snapshot(tmp_path).items() if before.get(path) != state} <= {"."}


def test_there_is_nothing_before_a_first_release_of_new_files(tmp_path: Path) -> None:
    deploy(tmp_path, A)
    error = refusal(roll_back, tmp_path)
    assert (error.code, "nothing was live below" in error.message) == ("no-earlier", True)
    assert visible(tmp_path) == plain(A)


@pytest.mark.parametrize("to", ["7", "feed", "adopted", "a"])
def test_what_is_not_there_is_named_with_what_is(tmp_path: Path, to: str) -> None:
    deploy(tmp_path, A)
    error = refusal(roll_back, tmp_path, to)
    assert error.code == "unknown-release"
    assert f"1 is {release_id(rows(A))[:7]}" in error.message


def test_to_what_was_adopted_and_is_live_takes_what_is_in_it_now(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": "old\n"})
    deploy(tmp_path, A)
    roll_back(tmp_path, "adopted")
    write(tmp_path, {"train.py": "went on\n"})
    predicted = roll_back(tmp_path, "adopted", check_mode=True)
    assert predicted == roll_back(tmp_path, "adopted")
    assert (predicted["changed"], predicted["adopted"], predicted["drift"]) == (False, None, [])
    assert visible(tmp_path)["train.py"] == b"went on\n"


def test_what_was_removed_is_said_to_be(tmp_path: Path) -> None:
    for number in range(4):
        deploy(tmp_path, {"train.py": f"{number}\n"}, keep=2)
    gone = release_id(rows({"train.py": "0\n"}))
    for to in ("1", "9"):
        error = refusal(roll_back, tmp_path, to)
        assert error.code == "unknown-release"
        assert f"the last activations: 1 is {gone[:7]} (removed); 2 is " in error.message
        assert error.message.count("(removed)") == 2
    assert (
        f"release {gone[:7]} is no longer in {home(tmp_path, 'releases')}; "
        in refusal(roll_back, tmp_path, "1").message
    )


def test_nothing_was_ever_released(tmp_path: Path) -> None:
    error = refusal(roll_back, tmp_path)
    assert (error.code, "deploy first" in error.message) == ("nothing-live", True)
    assert list(tmp_path.iterdir()) == []


def test_the_only_project_needs_no_name(tmp_path: Path) -> None:
    assert f"nothing was deployed below {tmp_path}" in refusal(roll_back, tmp_path, name=None).message
    deploy(tmp_path, A)
    deploy(tmp_path, B)
    assert roll_back(tmp_path, name=None)["name"] == "demo"
    deploy(tmp_path, {"eval.py": ""}, name="other")
    assert "there: demo, other" in refusal(roll_back, tmp_path, name=None).message


RECORDS: list[dict[str, Any]] = [
    {"activation": 1, "release": "adopted"},
    {"activation": 2, "release": "a" * 64},
    {"activation": 4, "release": "abcd" + "b" * 60},
    {"activation": 5, "release": "abcd" + "c" * 60},
]
IDS = sorted({str(record["release"]) for record in RECORDS} | {"1234" + "0" * 60})


@pytest.mark.parametrize(
    ("to", "expected"),
    [
        (None, "abcd" + "b" * 60),
        ("1", "adopted"),
        ("adopted", "adopted"),
        ("4", "abcd" + "b" * 60),
        ("abcdb", "abcd" + "b" * 60),
        ("1234", "1234" + "0" * 60),
        ("a" * 64, "a" * 64),
    ],
)
def test_what_to_means(to: str | None, expected: str) -> None:
    assert choose(to, RECORDS, IDS, "abcd" + "c" * 60, "/root") == expected


def test_an_ambiguous_beginning_is_refused() -> None:
    error = refusal(choose, "abcd", RECORDS, IDS, "", "/root")
    assert "abcd means 2 releases" in error.message


@pytest.mark.parametrize("check_mode", [False, True])
def test_a_target_that_was_written_into_does_not_go_live(tmp_path: Path, check_mode: bool) -> None:
    deploy(tmp_path, A)
    path = home(tmp_path, "current").resolve() / "both.py"
    deploy(tmp_path, B)
    info = path.stat()
    path.write_text("SAME\n")
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))
    error = refusal(roll_back, tmp_path, check_mode=check_mode)
    assert (error.code, error.details["files"]) == ("drifted", ["both.py"])
    assert (
        f"release {release_id(rows(A))[:7]} was changed since it was made (both.py in {path.parent})" in error.message
    )
    assert visible(tmp_path) == plain(B)
    deploy(tmp_path, A)
    assert visible(tmp_path) == plain(A)


def test_edits_of_the_live_release_are_kept_by_a_rollback(tmp_path: Path) -> None:
    deploy(tmp_path, A)
    deploy(tmp_path, B)
    write(tmp_path, {"train.py": "hot fix\n"})
    done = roll_back(tmp_path, "1")
    assert (done["adopted"], done["drift"]) == ("edited", ["train.py"])
    assert visible(tmp_path) == plain(A)
    roll_back(tmp_path)
    assert visible(tmp_path) == {**plain(B), "train.py": b"hot fix\n"}


def test_check_mode_and_diff_of_a_rollback(tmp_path: Path) -> None:
    deploy(tmp_path, A)
    deploy(tmp_path, B)
    before = snapshot(tmp_path)
    predicted = roll_back(tmp_path, check_mode=True, want_diff=True)
    assert snapshot(tmp_path) == before
    assert (predicted["before"], predicted["after"]) == (
        {"train.py": "b\n", "only_b.py": "2"},
        {"train.py": "a\n", "only_a/x": "1"},
    )
    assert roll_back(tmp_path, want_diff=True) == predicted
    assert live(tmp_path) == release_id(rows(A))
