# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What was changed by hand in a real container is found, named and put right; check mode foretells a real deploy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.api import open_lab
from tests.integration.connections import inventory
from tests.integration.inside import folder_in, inside, shell
from tests.integration.steps import run_step
from tests.unit.releasing import Files, write

FILES: Files = {"train.py": "import model\nprint(model.V)\n", "model.py": "V = 1\n", "conf/a.yml": "a: 1\n"}
# All that a change of anything below a folder, or of itself, would change.
EVERYTHING = 'find "$1" -printf "%p %y %m %U:%G %s %i %n %T@ %C@ %l\n"; find "$1" -type f -exec sha256sum {} +'


@pytest.fixture
def root(tmp_path: Path) -> Iterator[str]:
    with folder_in([200], tmp_path.name) as folder:
        yield folder


def release(folder: Path, root: str, **more: Any) -> dict[str, Any]:
    keywords = {key: more.pop(key) for key in ("check_mode", "diff") if key in more}
    given = {"project": "project", "root": root, "name": "demo", **more}
    return run_step(folder, "trainops.proxmox.training_release", given, inventory(), "ct200", **keywords)["ct200"]


def trainops(folder: Path, root: str, *words: str) -> subprocess.CompletedProcess[str]:
    values = {"training_project": "project", "training_root": root, "training_name": "demo"}
    variables = json.dumps({**values, "training_python": "/usr/bin/python3"})
    command = [sys.executable, "-m", "trainops", *words, "-i", inventory(), "-l", "ct200", "-e", variables]
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_an_old_push_through_our_links_is_found_named_and_put_right(tmp_path: Path, root: str, quick_pct: None) -> None:
    write(tmp_path / "project", FILES)
    assert release(tmp_path, root)["changed"]
    same = trainops(tmp_path, root, "diff")
    assert same.returncode == 0, same.stdout + same.stderr
    assert "nothing was changed by hand; it is what the project has" in same.stdout
    node = open_lab().node("pve1")
    node.check(["sh", "-c", "echo 'V = 66' > /tmp/model.py"])
    node.check(["pct", "push", "200", "/tmp/model.py", f"{root}/model.py"])
    shell(200, 'cd "$1"; sed -i s/1/2/ .trainops/demo/current/conf/a.yml; sed -i s/model.V/0/ train.py', root)
    write(tmp_path / "project", {"model.py": "V = 3\n"})
    before = shell(200, EVERYTHING, root)
    found = trainops(tmp_path, root, "diff")
    assert found.returncode == 6, found.stdout + found.stderr
    assert found.stderr == ""
    assert "; by hand 3 changed (conf/a.yml, model.py, train.py); the project has 1 changed (model.py)" in found.stdout
    for line in (f"+++ after: ct200:{root}/.trainops/demo/current/model.py (by hand)", "+V = 66", "-a: 1", "+a: 2"):
        assert line in found.stdout.splitlines()
    # An editor that writes a new file replaces the link: it is named by its own place.
    assert f"+++ after: ct200:{root}/train.py (by hand)" in found.stdout.splitlines()
    told = json.loads(trainops(tmp_path, root, "diff", "--json").stdout)
    assert (told["ok"], told["reason"]) == (False, "differs")
    values = next(step["values"] for step in told["hosts"]["ct200"]["steps"] if step["step"] == "release")
    assert [(one["path"], one["action"]) for one in values["in_project"]] == [("model.py", "changed")]
    assert shell(200, EVERYTHING, root) == before
    done = release(tmp_path, root)
    assert (sorted(done["drift"]), done["adopted"]) == (["conf/a.yml", "model.py"], "adopted")
    assert trainops(tmp_path, root, "diff").returncode == 0
    assert inside(200, "cat", f"{root}/model.py", f"{root}/conf/a.yml") == "V = 3\na: 1\n"
    # What was done by hand is a release that a rollback leads to.
    assert release(tmp_path, root, state="rolled_back")["release_id"] == "adopted"
    assert inside(200, "cat", f"{root}/model.py", f"{root}/conf/a.yml") == "V = 66\na: 2\n"


def test_nothing_to_compare_is_a_failure_only_without_a_project(tmp_path: Path, root: str) -> None:
    write(tmp_path / "project", FILES)
    done = trainops(tmp_path, root, "diff")
    assert done.returncode == 6
    assert f"nothing of demo is live at {root}; the project has 3 added" in done.stdout
    refused = run_step(
        tmp_path, "trainops.proxmox.training_release", {"state": "compared", "root": root}, inventory(), "ct200"
    )["ct200"]
    assert (refused["failed"], refused["code"]) == (True, "nothing-live")


def by_hand(_folder: Path, root: str) -> None:
    shell(200, 'cd "$1"; mkdir conf; echo "V = 0" >model.py; echo b >conf/b.yml; chmod 640 model.py', root)


def edited(folder: Path, root: str) -> None:
    release(folder, root)
    shell(200, 'cd "$1"; echo "# hot fix" >>train.py; echo n >.trainops/demo/current/notes', root)
    write(folder / "project", {"model.py": "V = 2\n", "new.py": ""})


def in_the_way(folder: Path, root: str) -> None:
    release(folder, root)
    shell(200, 'cd "$1"; rm model.py; echo x >model.py; rm .trainops/demo/activations', root)


def a_foreign_link(_folder: Path, root: str) -> None:
    shell(200, 'cd "$1"; ln -s nowhere train.py', root)


def unchanged(folder: Path, root: str) -> None:
    release(folder, root)


@pytest.mark.parametrize("there", [by_hand, edited, in_the_way, a_foreign_link, unchanged])
def test_check_and_diff_foretell_the_deploy(tmp_path: Path, root: str, there: Callable[[Path, str], None]) -> None:
    write(tmp_path / "project", FILES)
    there(tmp_path, root)
    before = shell(200, EVERYTHING, root)
    steps: list[dict[str, Any]] = [{"adopt_folders": True}, {"state": "rolled_back"}, {"state": "ejected"}]
    for options in steps:
        predicted = release(tmp_path, root, check_mode=True, diff=True, **options)
        assert shell(200, EVERYTHING, root) == before
        done = release(tmp_path, root, diff=True, **options)
        # The sentences say what would be and what is; all else is the same, errors too.
        spoken = () if done["failed"] else ("summary", "msg", "warnings")
        assert {key: value for key, value in predicted.items() if key not in spoken} == {
            key: value for key, value in done.items() if key not in spoken
        }
        before = shell(200, EVERYTHING, root)
