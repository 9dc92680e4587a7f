# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operation `check` in a real worker process, with this Python and with the oldest that we promise."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.check import search_folders
from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import StepError
from ansible_collections.trainops.proxmox.plugins.plugin_utils.exchange import Frame, Request, exchange

from tests.unit.checking import LOCAL, check, lines
from tests.unit.interpreters import interpreters

PYTHONS = interpreters()
DFLASH = {
    "train.py": "import json\nfrom dflash_model import DFlashConfig\n",
    "dflash_model.py": "class DFlashConfig:\n    pass\n",
    "run.sh": "#!/bin/sh\nexec python3 train.py\n",
}


def unpack(result: dict[str, Any]) -> dict[str, Any]:
    """The facts that a result hands on."""
    facts: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(result["checked"]["facts"])))
    return facts


def keep(root: Path, result: dict[str, Any]) -> None:
    """Make a live release that knows what a check passed, as a release does."""
    releases = root / ".trainops" / "demo" / "releases"
    releases.mkdir(parents=True)
    for folder in (root / ".trainops", root / ".trainops" / "demo", releases):
        folder.chmod(0o755)
    (releases.parent / "current").symlink_to("releases/adopted")
    manifest = {"format": 1, "id": "adopted", "files": {}, "checked": {result["checked"]["python"]: unpack(result)}}
    (releases / "adopted.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize("python", PYTHONS)
def test_a_sound_project(python: str) -> None:
    result = check(DFLASH, python)
    assert lines(result) == []
    assert result["asked"] == list(DFLASH)
    assert (result["files_checked"], result["files_cached"]) == (3, 0)
    assert result["python"]["path"] == python
    assert set(unpack(result)) == {hashlib.sha256(text.encode()).hexdigest() for text in DFLASH.values()}


@pytest.mark.parametrize("python", PYTHONS)
def test_all_problems_of_all_files_at_once(python: str) -> None:
    files: dict[str, str | bytes] = {
        "train.py": "from dflash_model import DFlashConfig\nimport nowhere\n",
        "dflash_model.py": "class DFlashConf: pass\n",
        "broken.py": "def f():\n    pass\nreturn\n",
        "bytes.py": b"x = 1\ny = '\0'\n",
        "run.sh": "#!/bin/sh\nfi\n",
        "is.py": "x = 1\ny = x is 1\n",
    }
    found = [line.split(": ")[:2] for line in lines(check(files, python))]
    assert [place for place, _text in found] == [
        "broken.py:3:1",
        "bytes.py:2:6",
        "is.py:2:1",
        "run.sh:2:1",
        "train.py:1:1",
        "train.py:2:1",
    ]
    assert found[2][1] == "warning"


def test_what_is_new_in_the_interpreter_decides() -> None:
    text = "def f(x):\n    match x:\n        case 1: pass\n"
    assert [lines(check({"m.py": text}, python)) != [] for python in PYTHONS] == [False, True][: len(PYTHONS)]


@pytest.mark.parametrize("python", PYTHONS)
def test_what_passed_before_is_not_asked_for_again_but_still_counts(python: str, tmp_path: Path) -> None:
    keep(tmp_path, check(DFLASH, python))
    again = check(DFLASH, python, root=str(tmp_path))
    assert (again["asked"], again["files_cached"], lines(again)) == ([], 3, [])
    assert unpack(again) == {}

    changed = {**DFLASH, "dflash_model.py": "class DFlashConf:\n    pass\n"}
    result = check(changed, python, root=str(tmp_path))
    assert result["asked"] == ["dflash_model.py"]
    assert lines(result) == ["train.py:2:1: dflash_model.py has no name DFlashConfig (did you mean DFlashConf?)"]


def test_facts_of_another_interpreter_do_not_count(tmp_path: Path) -> None:
    result = check(DFLASH)
    keep(tmp_path, {"checked": {**result["checked"], "python": "1:cpython:3.2.1:cpython-32:linux"}})
    assert check(DFLASH, root=str(tmp_path))["asked"] == list(DFLASH)


def test_warnings_come_again_with_files_that_passed_before(tmp_path: Path) -> None:
    files = {"is.py": "x = 1\ny = x is 1\n"}
    first = check(files)
    keep(tmp_path, first)
    again = check(files, root=str(tmp_path))
    assert again["asked"] == []
    assert lines(again) == lines(first) != []


def test_equal_files_are_read_once_and_reported_each() -> None:
    result = check({"a.py": "return\n", "b.py": "return\n", "a.sh": "", "__init__.py": ""})
    assert result["asked"] == ["a.py", "a.sh", "__init__.py"]
    assert [one["file"] for one in result["problems"]] == ["a.py", "b.py"]


def test_an_unreadable_store_does_not_stop_a_check(tmp_path: Path) -> None:
    assert lines(check(DFLASH, root=str(tmp_path / "missing"))) == []
    (tmp_path / ".trainops").write_text("")
    assert lines(check(DFLASH, root=str(tmp_path))) == []


def test_a_file_that_is_not_what_was_announced() -> None:
    told = [{"path": "a.py", "sha256": "0" * 64, "size": 1, "kind": "python"}]
    request = Request("check", {"root": None, "name": "demo", "files": told}, PYTHONS[0], timeout=30)
    with pytest.raises(StepError, match=r"a\.py changed"):
        exchange(LOCAL, request, lambda _frame: [Frame("source", {"path": "a.py"}, [b"x"])])


def missing(text: str, **params: Any) -> str:
    """What is said of the only problem of a file."""
    (line,) = lines(check({"a.py": text}, **params))
    return line.partition(" has no ")[2]


def test_what_is_said_of_a_missing_module(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("")
    venv = tmp_path / "venv" / "bin" / "python"
    venv.parent.mkdir(parents=True)
    venv.write_text('#!/bin/sh\nshift 3\nfor name; do [ "$name" = torch ] && echo torch; done\n')
    venv.chmod(0o755)
    root = str(tmp_path)
    assert missing("import torch.nn\n", root=root) == f"torch; {venv} has: set training_python"
    assert missing("import helper\n", root=root) == (
        f"helper; {tmp_path}/helper.py is not part of the project: add it to training_project"
    )
    left_out = {"secret": "secret.py is left out of the project (.gitignore)"}
    assert missing("import secret\n", left_out=left_out) == "secret; secret.py is left out of the project (.gitignore)"
    assert missing("import nowhere\n") == (
        "nowhere; install it there, or name it in training_optional_modules if the run can do without"
    )
    assert lines(check({"a.py": "import nowhere\n"}, optional=["nowhere"])) == []


def test_no_source_is_executed_and_nothing_is_written(tmp_path: Path) -> None:
    marks = f"open({str(tmp_path / 'executed')!r}, 'w')\n"
    files = {"pkg/__init__.py": marks, "pkg/sub.py": marks, "a.py": "import pkg.sub\n" + marks}
    assert lines(check(files, root=str(tmp_path))) == []
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_pythonpath(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "there.py").write_text("")
    files = {"a.py": "import there\nimport mine\n", "src/mine.py": ""}
    assert lines(check(files, root=str(tmp_path), pythonpath=["src", str(tmp_path / "lib")])) == []
    assert len(lines(check(files, root=str(tmp_path)))) == 2


def test_what_is_live_now_does_not_count(tmp_path: Path) -> None:
    result = check({"src/gone.py": ""})
    keep(tmp_path, result)
    release = tmp_path / ".trainops" / "demo" / "releases" / "adopted" / "src"
    release.mkdir(parents=True)
    (release / "gone.py").write_text("")
    (tmp_path / "src").symlink_to(".trainops/demo/current/src")
    found = lines(check({"a.py": "import gone\n"}, root=str(tmp_path), pythonpath=["src"]))
    assert len(found) == 1 and "has no gone" in found[0]


@pytest.mark.parametrize(
    ("pythonpath", "root", "inside", "outside"),
    [
        (["src", "", "./lib/"], "/root", ["src", "lib"], ["/root/src", "/root/lib"]),
        (["/root/src", "/opt/x"], "/root", ["src"], ["/root/src", "/opt/x"]),
        (["."], "/root", [""], ["/root"]),
        (["src", "../up"], None, ["src"], []),
        (["/opt/x"], None, [], ["/opt/x"]),
    ],
)
def test_search_folders(pythonpath: list[str], root: str | None, inside: list[str], outside: list[str]) -> None:
    assert search_folders(pythonpath, root) == (inside, outside)
