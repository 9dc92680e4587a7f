# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A comparison as users see it: one line, a line for each difference, and diffs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils.compare import compared
from ansible_collections.trainops.proxmox.plugins.plugin_utils.project import Project, read_project

from tests.unit.releasing import Files, compare_with, deploy, home, live, write

OLD: Files = {"train.py": "1\n", "model.py": "V = 1\n", "id_rsa": "k\n", "big.bin": b"\0\1"}


def difference(
    root: Path, project: Files | None = None, folder: Path | None = None, want_diff: bool = True
) -> dict[str, Any]:
    found: Project | None = None
    if project is not None and folder is not None:
        write(folder, project)
        found = read_project(str(folder), [], "/")
    done = compare_with(root, manifest=found and {"files": found.rows})
    return compared(found, done, want_diff, "ct200")


def test_one_line_for_each_kind_of_difference(tmp_path: Path) -> None:
    root, folder = tmp_path / "root", tmp_path / "project"
    root.mkdir()
    project: Files = {"train.py": "1\n", "model.py": "V = 1\n"}
    result = difference(root, project, folder)
    assert result["summary"] == f"nothing of demo is live at {root}; the project has 2 added (model.py, train.py)"
    deploy(root, project)
    short = str(live(root))[:7]
    result = difference(root, project, folder)
    assert (result["differs"], result["drift"], result["changed"]) == (False, [], False)
    assert result["summary"] == (f"{short} live at {root}; nothing was changed by hand; it is what the project has")
    assert (result["source"], result["activation"]) == ({"commit": "c0ffee", "dirty": False}, 1)
    (root / "train.py").write_text("by hand\n")
    home(root, "current", "train.py").chmod(0o600)
    home(root, "current", "notes").symlink_to("/tmp")
    result = difference(root, {**project, "model.py": "V = 2\n", "new.py": ""}, folder)
    assert result["summary"] == (
        f"{short} live at {root}; by hand 1 changed, 1 added (notes, train.py); "
        "the project has 1 changed, 1 added (model.py, new.py)"
    )
    place = f"{home(root)}/releases/{live(root)}"
    assert result["msg"].splitlines()[1:] == [
        f"by hand: added   {place}/notes (a link to /tmp)",
        f"by hand: changed {place}/train.py (2 B, mode 0644 → 8 B, mode 0600)",
        "in the project: changed model.py (6 B)",
        "in the project: added   new.py (0 B)",
    ]
    home(root, "releases", f"{live(root)}.json").unlink()
    assert "its manifest is lost, so nobody knows what was changed by hand" in difference(root)["summary"]


def test_the_diff_has_each_side_by_its_name(tmp_path: Path) -> None:
    root, folder = tmp_path / "root", tmp_path / "project"
    root.mkdir()
    deploy(root, OLD)
    short = str(live(root))[:7]
    (root / "train.py").write_text("by hand\n")
    (root / "id_rsa").write_text("secret\n")
    (root / "big.bin").write_bytes(b"\0\1\2")
    home(root, "current", "model.py").chmod(0o600)
    result = difference(root, {"train.py": "1\n", "model.py": "V = 2\n", "big.bin": b"\0\1"}, folder)
    shown = {part["after_header"]: (part["before_header"], part["before"], part["after"]) for part in result["diff"]}
    current = f"ct200:{home(root)}/current"
    hidden = "(not shown: its name is that of secrets"
    assert shown == {
        f"{current}/big.bin (by hand)": (
            f"big.bin ({short})",
            "(2 B, no text to show)\n",
            "(3 B, no text to show)\n",
        ),
        f"{current}/id_rsa (by hand)": (f"id_rsa ({short})", f"{hidden})\n", f"{hidden}, changed)\n"),
        f"{current}/model.py (by hand)": (f"model.py ({short})", "(mode 0644)\nV = 1\n", "(mode 0600)\nV = 1\n"),
        # The text that was released is in the project only.
        f"{current}/train.py (by hand)": (f"train.py ({short})", "1\n", "by hand\n"),
        "id_rsa (the project)": (f"id_rsa (ct200: {short})", f"{hidden})\n", ""),
        "model.py (the project)": (f"model.py (ct200: {short})", "V = 1\n", "V = 2\n"),
    }
    assert "diff" not in difference(root, want_diff=False)


def test_where_both_went_on_from_what_is_lost_they_are_compared_with_each_other(tmp_path: Path) -> None:
    root, folder = tmp_path / "root", tmp_path / "project"
    root.mkdir()
    deploy(root, OLD)
    (root / "train.py").write_text("by hand\n")
    result = difference(root, {**{path: OLD[path] for path in ("model.py", "big.bin")}, "train.py": "2\n"}, folder)
    hand, project = (part for part in result["diff"] if part["before_header"].startswith("train.py"))
    assert (hand["before"], hand["after"]) == ("2\n", "by hand\n")
    assert hand["before_header"] == f"train.py (the project; {str(live(root))[:7]} is nowhere any more)"
    assert (project["before"], project["after"]) == ("(2 B, nowhere any more)\n", "(2 B)\n")


KEYS = [
    "-----BEGIN OPENSSH PRIVATE KEY-----\nhush\n",
    "\n  -----BEGIN EC PRIVATE KEY-----\nhush\n",
    "Bag Attributes\n-----BEGIN ENCRYPTED PRIVATE KEY-----\nhush\n",
    '{"private_key": "-----BEGIN PRIVATE KEY-----\\nMIIEvQIBADANBgkqhkiGhush"}',
    "-----BEGIN PGP PRIVATE KEY BLOCK-----\nhush\n",
    "PuTTY-User-Key-File-3: ssh-ed25519\nhush\n",
    "$ANSIBLE_VAULT;1.1;AES256\nhush\n",
]


@pytest.mark.parametrize("text", KEYS)
def test_a_key_is_not_shown_whatever_its_file_is_called(tmp_path: Path, text: str) -> None:
    root, folder = tmp_path / "root", tmp_path / "project"
    root.mkdir()
    deploy(root, OLD)
    home(root, "current", "deploy_key").write_text(text)
    home(root, "current", "deploy_key").chmod(0o600)
    (root / "train.py").write_text(text)
    result = difference(root, OLD, folder)
    shown = {part["after_header"].rpartition("/")[2]: (part["before"], part["after"]) for part in result["diff"]}
    assert "hush" not in str(result)
    what = "vault" if "VAULT" in text else "private key"
    assert shown["deploy_key (by hand)"] == ("", f"(not shown: it holds a {what})\n")
    hidden = f"(not shown: it holds a {what}"
    assert shown["train.py (by hand)"] == (f"{hidden})\n", f"{hidden}, changed)\n")


def test_code_that_knows_keys_is_shown(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    deploy(root, OLD)
    (root / "train.py").write_text('KEY = "-----BEGIN PRIVATE KEY-----"\n')
    assert [part["after"] for part in difference(root)["diff"]] == ['KEY = "-----BEGIN PRIVATE KEY-----"\n']


@pytest.mark.parametrize("end", ["\n", "\r", "\x85", "\u2028"])
def test_a_name_or_a_target_begins_no_line(tmp_path: Path, end: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    deploy(root, OLD)
    forged = f"x{end}ct201  release  FAILED"
    home(root, "current", forged).write_text("1\n")
    home(root, "current", "link").symlink_to(forged)
    result = difference(root)
    headers = [part[key] for part in result["diff"] for key in ("before_header", "after_header")]
    assert len(headers) == 4
    lines = [*result["msg"].split("\n"), *headers, *"".join(part["after"] for part in result["diff"]).split("\n")]
    assert all(line.isprintable() and not line.startswith("ct201") for line in lines)


@pytest.mark.parametrize("count", [60])
def test_many_differences_are_counted_and_not_listed(tmp_path: Path, count: int) -> None:
    root, folder = tmp_path / "root", tmp_path / "project"
    root.mkdir()
    deploy(root, {"a.py": "1"})
    result = difference(root, {"a.py": "1", **{f"m{one:02}.py": "" for one in range(count)}}, folder)
    assert result["summary"].endswith("the project has 60 added (m00.py, m01.py, m02.py and 57 more)")
    assert result["msg"].splitlines()[-1] == "in the project: … and 10 more"
