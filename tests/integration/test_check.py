# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The check on the lab's containers: what their interpreters pass and refuse, at what cost, and without a trace."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.api import open_lab
from tests.integration.connections import inventory
from tests.integration.steps import run_step

ROOT = Path(__file__).resolve().parents[2]
CHECK = "trainops.proxmox.syntax_check"
HOSTS = "ct200,ct201,ct210"
VENV = "/root/venv/bin/python"


def check(folder: Path, hosts: str = "ct200", **options: Any) -> dict[str, dict[str, Any]]:
    """The results of a check of folder/project by host, with the containers' virtual environments."""
    options = {"project": "project", "root": "/root", "python": VENV, **options}
    return run_step(folder, CHECK, options, inventory(), hosts)


def write(folder: Path, **files: str) -> None:
    """Write the files of folder/project; `__` in a name stands for its dot."""
    (folder / "project").mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / "project" / name.replace("__", ".")).write_text(text)


def inside(*argv: str) -> str:
    """What a command in container 200 prints."""
    done = open_lab().container(200).run(argv)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


@pytest.fixture
def dflash(tmp_path: Path) -> Path:
    """The example, copied to where it may be changed."""
    shutil.copytree(ROOT / "examples" / "dflash", tmp_path / "project")
    return tmp_path


def test_the_example_passes_everywhere(dflash: Path) -> None:
    found = check(dflash, HOSTS)
    assert set(found) == set(HOSTS.split(","))
    for result in found.values():
        assert not result["failed"], result["msg"]
        assert result["problems"] == []
        assert result["summary"].startswith("2 files compile, ")
        assert re.search(f"imports resolve  +{VENV} {result['python']['version']}$", result["summary"])
    versions = {host: result["python"]["version"].rsplit(".", 1)[0] for host, result in found.items()}
    assert versions == {"ct200": "3.11", "ct201": "3.9", "ct210": "3.11"}


def test_a_renamed_class_is_refused_with_both_files(dflash: Path) -> None:
    model = dflash / "project" / "dflash_model.py"
    model.write_text(model.read_text().replace("DFlashConfig", "DFlashConf"))
    trainer = (dflash / "project" / "train_dflash_pipeline.py").read_text().splitlines()
    line = next(number for number, text in enumerate(trainer, 1) if text.startswith("from dflash_model import"))
    said = f"train_dflash_pipeline.py:{line}:1: dflash_model.py has no name DFlashConfig (did you mean DFlashConf?)"
    for result in check(dflash, HOSTS).values():
        assert (result["failed"], result["code"]) == (True, "refused")
        assert result["summary"] == f"refused: {said}"
        assert result["msg"] == said


def test_all_problems_at_once_and_no_trace_in_the_container(tmp_path: Path) -> None:
    write(
        tmp_path,
        train__py="import nowhere\nopen('/root/executed', 'w')\nfrom model import gone\n",
        model__py="x = 1\n",
        late__py="def f():\n    yield\nreturn\n",
        run__sh="#!/bin/bash\ntouch /root/executed\nif\n",
        conf__json='{"a" 1}',  # whose place all versions of Python agree about
        conf__yaml="a: [\n",
    )
    listing = ("find", "/root", "/tmp", "-xdev", "-printf", "%p %T@ %C@\n")
    before = inside(*listing)
    result = check(tmp_path)["ct200"]
    places = [line.split(": ")[0] for line in result["msg"].splitlines()]
    assert places == ["conf.json:1:6", "conf.yaml:2:1", "late.py:3:1", "run.sh:4:1", "train.py:1:1", "train.py:3:1"]
    assert result["summary"].endswith("(+5 more)")
    assert inside(*listing) == before


def test_the_containers_python_decides_and_not_the_controllers(tmp_path: Path) -> None:
    write(tmp_path, quotes__py='x = {"a": 1}\ny = f"{x["a"]}"\n', branches__py="match x:\n    case 1:\n        pass\n")
    refused = {
        host: sorted({problem["file"] for problem in result["problems"]})
        for host, result in check(tmp_path, "ct200,ct201").items()
    }
    assert refused == {"ct200": ["quotes.py"], "ct201": ["branches.py", "quotes.py"]}


@pytest.fixture
def torch_in_the_environment() -> Iterator[None]:
    """A module `torch` in the virtual environment of container 200; importing it would fail."""
    site = inside(VENV, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    inside("mkdir", "-p", f"{site}/torch")
    inside("sh", "-c", 'echo "raise SystemExit(1)" >"$1"', "sh", f"{site}/torch/__init__.py")
    yield
    inside("rm", "-r", f"{site}/torch")


@pytest.mark.usefixtures("torch_in_the_environment")
def test_another_interpreter_that_has_the_module_is_named(tmp_path: Path) -> None:
    write(tmp_path, train__py="import torch.nn as nn\n", optional__py="def f():\n    import torch\n")
    result = check(tmp_path, python="/usr/bin/python3")["ct200"]
    said = f"/usr/bin/python3 has no torch; {VENV} has: set training_python"
    assert result["msg"] == f"train.py:1:1: {said}\noptional.py:2:5: warning: {said}"
    passed = check(tmp_path)["ct200"]
    assert not passed["failed"], passed["msg"]


def test_without_an_interpreter_the_host_is_unreachable_and_told_why(dflash: Path) -> None:
    result = check(dflash, python="/root/other/bin/python")["ct200"]
    assert result["unreachable"] is True
    assert "no Python at /root/other/bin/python" in result["msg"]


def test_a_shell_that_is_not_there_is_a_warning(tmp_path: Path) -> None:
    write(tmp_path, run__sh="#!/bin/ksh\nfi\n", train__py="")
    result = check(tmp_path)["ct200"]
    assert not result["failed"]
    assert [problem["message"] for problem in result["problems"]] == ["not checked: there is no ksh here to read it"]


def test_any_number_of_files_is_one_session(tmp_path: Path) -> None:
    write(tmp_path, **{f"module_{number}__py": f"import module_{number // 2}\nx = {number}\n" for number in range(500)})
    lab = open_lab()
    with lab.counting("pve1") as sessions:
        result = check(tmp_path)["ct200"]
        assert not result["failed"], result["msg"]
        assert (result["files_checked"], result["files_cached"]) == (500, 0)
        assert sessions() == 1


def test_a_busy_gpu_is_told_on_the_way(dflash: Path) -> None:
    lab = open_lab()
    with lab.hold(201, gpu=1, mib=700), lab.counting("pve1") as sessions:
        result = check(dflash, gpus=True)["ct200"]
        assert sessions() == 1
    assert not result["failed"]
    assert [gpu["index"] for gpu in result["gpus"] if gpu["verdict"] == "busy"] == [5]
    assert len(result["gpus"]) == 8
    (warning,) = result["warnings"]
    assert "GPU 5 busy" in warning and "vmid 201" in warning


def test_without_a_container(dflash: Path) -> None:
    options = {"project": "project"}
    result = run_step(dflash, CHECK, options, "localhost,", "localhost", connection="local")["localhost"]
    assert not result["failed"], result["msg"]
    assert result["python"]["path"] == sys.executable


def test_what_was_released_is_not_read_again(tmp_path: Path) -> None:
    write(tmp_path, train__py="from model import x\n", model__py="x = 1\n", run__sh="#!/bin/sh\n")
    root = "/root/check-cache"
    inside("mkdir", "-p", root)
    try:
        first = check(tmp_path, root=root)["ct200"]
        options = {"project": "project", "root": root, "python": VENV, "checked": first["checked"]}
        released = run_step(tmp_path, "trainops.proxmox.training_release", options, inventory(), "ct200")["ct200"]
        assert not released["failed"], released["msg"]
        again = check(tmp_path, root=root)["ct200"]
        assert (again["files_checked"], again["files_cached"], again["failed"]) == (3, 3, False)

        write(tmp_path, model__py="y = 1\n")
        broken = check(tmp_path, root=root)["ct200"]
        assert (broken["files_cached"], broken["summary"]) == (2, "refused: train.py:1:1: model.py has no name x")
    finally:
        inside("rm", "-r", root)
