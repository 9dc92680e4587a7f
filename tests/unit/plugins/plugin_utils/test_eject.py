# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What users are told of an eject: the line, the names, what went, what stays, the diff."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker import eject
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.store import release_id
from ansible_collections.trainops.proxmox.plugins.plugin_utils.eject import ejected

from tests.unit.releasing import Controller, deploy, home, params, rows, snapshot, write

FILES = {"train.py": "t" * 41_000, "conf/a.yml": "a: 1\n"}
ID = release_id(rows(FILES))[:7]


def step(root: Path, **more: Any) -> dict[str, Any]:
    """The step's result, as the action returns it."""
    asked = {**params(root, {}), **more}
    return ejected(eject.run(Controller({}), asked), asked["check_mode"], asked["want_diff"])  # type: ignore[arg-type]


def test_the_lines_of_a_plain_eject(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": "by hand\n"})
    deploy(tmp_path, FILES)
    predicted = step(tmp_path, check_mode=True, want_diff=True)
    done = step(tmp_path, want_diff=True)
    at = f"plain files at {tmp_path}, 2 files, 41 kB"
    assert predicted["summary"] == f'{ID} would become {at}; 1 other release would be removed, 8 B ("adopted")'
    assert done["summary"] == f'{ID} became {at}, sha256 proven; 1 other release removed, 8 B ("adopted")'
    assert done["msg"].splitlines()[1:] == [
        "plain: conf (folder)",
        "plain: train.py (file)",
        "removed: release adopted, 1 file, 8 B",
    ]
    hint = "to have back what was there before the first deploy, roll back to adopted first"
    assert predicted["msg"].splitlines()[1:] == [*done["msg"].splitlines()[1:], hint]
    assert (done["release_id"], done["previous_release_id"], done["warnings"]) == (None, release_id(rows(FILES)), [])
    assert [(file["path"], file["action"], file["mode"], file["size"]) for file in done["files"]] == [
        ("conf/a.yml", "ejected", "0644", 5),
        ("train.py", "ejected", "0644", 41_000),
    ]
    assert predicted["diff"] == done["diff"]
    assert done["diff"][0]["before"].splitlines() == [
        "conf -> .trainops/demo/current/conf",
        "train.py -> .trainops/demo/current/train.py",
        ".trainops/demo/releases: release adopted, 1 file, 8 B",
    ]
    assert done["diff"][0]["after"].splitlines() == ["conf/", "train.py"]


def test_nothing_to_eject_is_said_with_what_is_there(tmp_path: Path) -> None:
    nothing = f"there is nothing of demo at {tmp_path}"
    done = step(tmp_path, want_diff=True)
    assert (done["changed"], done["summary"], done["diff"]) == (False, f"{nothing}, nothing changed", [])
    assert step(tmp_path, name=None)["summary"] == f"there is nothing of any project at {tmp_path}, nothing changed"
    deploy(tmp_path, FILES, name="other")
    assert step(tmp_path)["summary"] == f"{nothing} (there are: other), nothing changed"


def test_what_was_altered_what_is_not_ours_and_what_stays_is_named(tmp_path: Path) -> None:
    deploy(tmp_path, {**FILES, "x.py": "x\n"})
    home(tmp_path, "notes").write_text("n")
    (tmp_path / "train.py").write_text("hot fix\n")
    (tmp_path / "x.py").unlink()
    write(tmp_path, {"x.py": "mine\n"})
    done = step(tmp_path)
    assert done["summary"].split("; ")[1:] == [
        "what was altered since the deploy stays as it is: train.py",
        "not ours and left alone: x.py",
        f"1 file that no release lists stay in {home(tmp_path)}",
    ]
    assert "proven" not in done["summary"]
    assert done["warnings"] == [
        "train.py was altered since the deploy: what is there is what you keep",
        f"{tmp_path / 'x.py'} is not the project's link but a file: it stays as it is",
    ]
    assert done["foreign"] == [str(home(tmp_path, "notes"))]
    assert step(tmp_path)["summary"].endswith(f"nothing changed; 1 file that no release lists stay in {home(tmp_path)}")


def test_a_program_that_goes_on_is_warned_of(tmp_path: Path) -> None:
    deploy(tmp_path, FILES)
    found = eject.run(Controller({}), params(tmp_path, {}))  # type: ignore[arg-type]
    done = ejected({**found, "running": [{"pid": 4711, "command": "python3 train.py"}]}, False, False)
    assert [warning.partition(" runs from")[0] for warning in done["warnings"]] == ["process 4711 (python3 train.py)"]


def test_a_lost_manifest_is_said(tmp_path: Path) -> None:
    deploy(tmp_path, FILES)
    home(tmp_path, "releases", release_id(rows(FILES)) + ".json").unlink()
    done = step(tmp_path)
    assert done["summary"] == f"{ID} became plain files at {tmp_path}, 2 files, 41 kB"
    assert done["warnings"] == [f"the manifest of {ID} is lost, so its files could not be compared with it"]


def test_links_without_anything_live(tmp_path: Path) -> None:
    deploy(tmp_path, FILES)
    home(tmp_path, "current").unlink()
    done = step(tmp_path)
    gone = "2 links that led nowhere removed: conf, train.py"
    assert done["summary"] == f"nothing of demo was live at {tmp_path}; 1 other release removed, 41 kB; {gone}"


@pytest.mark.parametrize("name", ["demo", None])
def test_links_into_folders_that_were_lost_are_named_and_go(tmp_path: Path, name: str | None) -> None:
    write(tmp_path, {"notes": "n"})
    deploy(tmp_path, FILES)
    (tmp_path / "mine").symlink_to(".trainops/demo/current/train.py")
    shutil.rmtree(tmp_path / ".trainops")
    typo = step(tmp_path, name="dmeo")
    assert (typo["changed"], typo["warnings"]) == (False, [])
    assert typo["summary"] == f"there is nothing of dmeo at {tmp_path}, nothing changed"
    before = snapshot(tmp_path)
    predicted = step(tmp_path, name=name, check_mode=True)
    assert snapshot(tmp_path) == before
    done = step(tmp_path, name=name)
    nothing, links = f"nothing of demo was live at {tmp_path}", "2 links that led nowhere"
    assert (predicted["changed"], predicted["summary"]) == (
        True,
        f"{nothing}; {links} would be removed: conf, train.py",
    )
    assert done["changed"]
    assert done["summary"].startswith(f"{nothing}; {links} removed: conf, train.py")
    assert (
        done["warnings"][0]
        == predicted["warnings"][0]
        == (
            "conf, train.py: links of demo that led nowhere, since what was deployed for demo is no longer below "
            f"{tmp_path}/.trainops: if you need the files, deploy the project again"
        )
    )
    assert sorted(os.listdir(tmp_path)) == ["mine", "notes"]
    assert (tmp_path / "mine").is_symlink()
    assert not step(tmp_path, name=name)["changed"]
