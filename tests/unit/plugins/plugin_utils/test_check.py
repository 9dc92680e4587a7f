# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The controller's part of the check: kinds of files, what the worker is told, the result and its texts."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils.check import (
    MAX_CONFIG,
    Kinds,
    config_problems,
    kind_of,
    left_out_modules,
    outcome,
    pack_sources,
    refuse_unchecked,
    sources,
    with_gpus,
    worker_files,
)
from ansible_collections.trainops.proxmox.plugins.plugin_utils.config_syntax import Problem
from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import OptionError, SourceChanged, StepError
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpus import Gpu, Snapshot
from ansible_collections.trainops.proxmox.plugins.plugin_utils.nvidia_smi import Trouble
from ansible_collections.trainops.proxmox.plugins.plugin_utils.project import Entry, read_project

from tests.unit.gpu_samples import VMID, eight, process

PYTHON = {"path": "/root/venv/bin/python", "version": "3.12.3", "implementation": "cpython"}


@pytest.mark.parametrize(
    ("path", "head", "kind"),
    [
        ("a.py", b"", "python"),
        ("a.pyw", b"", "python"),
        ("a.py", b"#!/bin/sh\n", "python"),
        ("tool", b"#!/usr/bin/env python3\n", "python"),
        ("tool", b"#!/usr/bin/python3.12 -u\n", "python"),
        ("tool", b"#!/opt/python-tools/run\n", None),
        ("run.sh", b"", "shell"),
        ("run.bash", b"", "shell"),
        ("run.sh", b"#!/usr/bin/env python\n", "python"),
        ("run", b"#!/usr/bin/env -S bash -e\n", "shell"),
        ("run", b"#!/bin/sh\r\n", "shell"),
        ("run", b"#!/usr/bin/fish\n", None),
        ("c/d.json", b"", "json"),
        ("c.yml", b"", "yaml"),
        ("c.yaml", b"", "yaml"),
        ("c.toml", b"", "toml"),
        ("x.cpython-312-x86_64-linux-gnu.so", b"\x7fELF", "opaque"),
        ("README.md", b"# x", None),
        ("py", b"", None),
        (".py", b"", None),
    ],
)
def test_kind_of(path: str, head: bytes, kind: str | None) -> None:
    assert kind_of(path, head) == kind


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with one file of each kind."""
    files = {
        "train.py": "import model\n",
        "pkg/model.py": "x = 1\n",
        "run": "#!/bin/sh\n",
        "conf/a.yaml": "a: 1\na: 2\n",
        "conf/b.json": "{",
        "conf/.hidden/c.json": "{",
        "notes.txt": "x",
        "fast.abi3.so": "x",
    }
    for name, text in files.items():
        path = tmp_path / "demo" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "demo" / "model.py").symlink_to("pkg/model.py")
    (tmp_path / "demo" / "models").symlink_to("pkg")
    return tmp_path / "demo"


def read(folder: Path, **options: Any) -> list[Entry]:
    """The files of a project's folder."""
    return read_project(str(folder), [], "/", **options).files


def read_sorted(folder: Path, **options: Any) -> tuple[list[Entry], dict[str, str]]:
    """The files of a project's folder as a check reads them, and their kinds."""
    sorter = Kinds()
    entries = read(folder, wanted=sorter, **options)
    return entries, sorter.of(entries)


def test_what_the_worker_is_told(project: Path) -> None:
    entries, kind = read_sorted(project, shared=["data"])
    told = {one["path"]: (one["kind"], one["sha256"]) for one in worker_files(entries, kind)}
    model = hashlib.sha256(b"x = 1\n").hexdigest()
    assert told == {
        "train.py": ("python", hashlib.sha256(b"import model\n").hexdigest()),
        "pkg/model.py": ("python", model),
        "model.py": ("python", model),
        "models": ("opaque", ""),
        "data": ("opaque", ""),
        "run": ("shell", hashlib.sha256(b"#!/bin/sh\n").hexdigest()),
        "fast.abi3.so": ("opaque", ""),
    }


def test_sources_are_read_while_they_are_sent(project: Path) -> None:
    answer = sources(read(project))
    frames = [
        (frame.kind, frame.body, b"".join(frame.blob or ())) for frame in answer({"paths": ["train.py", "model.py"]})
    ]
    assert frames == [
        ("source", {"path": "train.py"}, b"import model\n"),
        ("source", {"path": "model.py"}, b"x = 1\n"),
    ]
    (project / "train.py").write_text("changed\n")
    (frame,) = answer({"paths": ["train.py"]})
    with pytest.raises(SourceChanged, match=r"train\.py changed"):
        list(frame.blob or ())


@pytest.mark.parametrize("path", ["../../etc/passwd", "models", "notes"])
def test_only_files_of_the_project_are_ever_sent(project: Path, path: str) -> None:
    with pytest.raises(StepError, match="no source of the project"):
        list(sources(read(project))({"paths": [path]}))


@pytest.mark.parametrize("instead", [None, os.mkfifo, os.mkdir])
def test_a_configuration_file_that_vanishes(project: Path, instead: Callable[[Path], None] | None) -> None:
    entries, kind = read_sorted(project)
    (project / "conf/a.yaml").unlink()
    if instead:
        instead(project / "conf/a.yaml")
    with pytest.raises(SourceChanged, match=r"conf/a\.yaml changed after it was read"):
        config_problems(entries, kind)


def test_configuration_files(project: Path) -> None:
    (project / "big.yaml").write_bytes(b"#" * (MAX_CONFIG + 1))
    entries, kind = read_sorted(project)
    problems, unread = config_problems(entries, kind)
    assert {(one.file, one.line, one.severity) for one in problems} == {
        ("conf/a.yaml", 2, "warning"),
        ("conf/b.json", 1, "error"),
        ("conf/.hidden/c.json", 1, "warning"),
    }
    assert unread == [{"file": "big.yaml", "why": "larger than 4 MiB"}]


def test_what_changed_after_its_check_is_not_released(project: Path) -> None:
    entries, kind = read_sorted(project)
    checked = {"python": "x", "facts": "", "sources": pack_sources(entries, kind)}
    refuse_unchecked(read(project), checked)
    refuse_unchecked(read(project), None)
    (project / "notes.txt").write_text("no source")
    (project / "new.py").write_text("of another step's project\n")
    refuse_unchecked(read(project), checked)
    for name in ("train.py", "run"):
        (project / name).write_text("edited\n")
    with pytest.raises(SourceChanged, match=r"demo/run \(and 1 more\) changed after it was checked: nothing went live"):
        refuse_unchecked(read(project), checked)


@pytest.mark.parametrize("sources", ["nonsense", "====", "eJwDAAAAAAE=", 3])
def test_what_no_check_returned(project: Path, sources: Any) -> None:
    with pytest.raises(OptionError, match="option checked"):
        refuse_unchecked(read(project), {"sources": sources})


def test_left_out_modules() -> None:
    ignored = [("secret.py", ".gitignore"), ("wandb", "excluded by wandb"), ("a/b.py", "x"), (".env", "secrets")]
    assert left_out_modules(ignored) == {
        "secret": "secret.py is left out of the project (.gitignore)",
        "wandb": "wandb is left out of the project (excluded by wandb)",
    }


def problem(file: str, line: int, severity: str = "error", message: str = "no") -> dict[str, Any]:
    return {"file": file, "line": line, "column": 1, "severity": severity, "code": "syntax", "message": message}


def result(*problems: dict[str, Any], kind: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    """The step's result for what a worker found."""
    reply = {"python": PYTHON, "files_cached": 1, "problems": list(problems), "checked": {}}
    kind = kind if kind is not None else {"a.py": "python", "b.py": "python"}
    return outcome(reply, kind, more.get("config", []), more.get("unread", []), more.get("room", 100))


@pytest.mark.parametrize(
    ("kind", "problems", "line"),
    [
        ({"a.py": "python", "b.py": "python"}, [], "2 files compile, imports resolve"),
        ({"a.py": "python"}, [], "1 file compiles, imports resolve"),
        (
            {"a.py": "python", "x": "opaque"},
            [problem("a.py", 1, "warning")],
            "1 file compiles, imports resolve, 1 warning",
        ),
        (
            {"a.py": "python", "b.sh": "shell", "c.json": "json"},
            [problem("a.py", 1, "warning")] * 2,
            "1 file compiles, 2 parse, imports resolve, 2 warnings",
        ),
        ({"b.sh": "shell"}, [], "1 parses"),
        ({}, [], "nothing to check"),
    ],
)
def test_the_line_of_a_sound_project(kind: dict[str, str], problems: list[dict[str, Any]], line: str) -> None:
    found = result(*problems, kind=kind)
    assert found["summary"] == f"{line}        /root/venv/bin/python 3.12.3"
    assert "failed" not in found
    assert len(found["warnings"]) == len(problems)
    assert found["files_cached"] == 1


@pytest.mark.parametrize(("room", "gap"), [(68, 8), (67, 2), (20, 2)])
def test_the_line_of_a_sound_project_fits_its_room(room: int, gap: int) -> None:
    assert result(room=room)["summary"] == f"2 files compile, imports resolve{'':{gap}}/root/venv/bin/python 3.12.3"


def test_a_refusal_says_the_first_error_and_lists_all() -> None:
    config = [Problem("c.json", 2, 3, "error", "json", "bad")]
    found = result(problem("b.py", 9), problem("a.py", 1, "warning", "odd"), problem("b.py", 10), config=config)
    assert found["failed"] is True
    assert found["code"] == "refused"
    assert found["summary"] == "refused: b.py:9:1: no (+2 more)"
    assert found["msg"] == "b.py:9:1: no\nb.py:10:1: no\nc.json:2:3: bad\na.py:1:1: warning: odd"
    assert [one["file"] for one in found["problems"]] == ["b.py", "b.py", "c.json", "a.py"]
    assert result(problem("b.py", 9))["summary"] == "refused: b.py:9:1: no"


def snapshot(*verdicts: str, warnings: tuple[str, ...] = ()) -> Snapshot:
    """A look at one GPU for each verdict."""
    gpus = tuple(
        Gpu(index, f"GPU-{index}", index, None, (), verdict, "gone" if verdict == "unknown" else None, ("why",))
        for index, verdict in enumerate(verdicts)
    )
    return Snapshot(gpus, "node", "", None, None, 0.1, warnings)


WISH = {"select": None, "count": None, "require": False, "idle_timeout": 0.0}


@pytest.mark.parametrize(
    ("found", "warnings"),
    [
        (snapshot("idle", "idle"), []),
        (snapshot("idle", warnings=("slow",)), ["slow"]),
        (snapshot("idle", "unknown"), ["GPUs: 1 of 2 idle; GPU 1 unknown: why"]),
        (snapshot(), ["GPUs: there is no GPU in the container"]),
    ],
)
def test_gpus_beside_the_check(found: Snapshot, warnings: list[str]) -> None:
    told = with_gpus(result(), {}, lambda _reading: found, WISH)
    assert told["warnings"] == warnings
    assert [gpu["verdict"] for gpu in told["gpus"]] == [gpu.verdict for gpu in found.gpus]
    refused = with_gpus(result(problem("a.py", 1)), {}, lambda _reading: found, WISH)
    assert (refused["failed"], refused["warnings"]) == (True, warnings)


BUSY = "GPUs: 1 of 2 idle; GPU 1 unknown: why"


@pytest.mark.parametrize(
    ("wish", "warnings"),
    [
        ({"select": [0]}, []),
        ({"count": 1}, []),
        ({"select": [1]}, ["GPUs: 0 of 1 idle; GPU 1 unknown: why"]),
        ({"count": 2}, ["GPUs: 1 of 2 idle where 2 are wanted; GPU 1 unknown: why"]),
        ({"select": "[?verdict == 'idle']"}, []),
        ({"select": "[?verdict == 'idle']", "count": 2}, [BUSY]),
        ({"require": True, "idle_timeout": 60.0}, [BUSY]),
    ],
)
def test_only_the_wanted_gpus_are_warned_of(wish: dict[str, Any], warnings: list[str]) -> None:
    told = with_gpus(result(), {}, lambda _reading: snapshot("idle", "unknown"), {**WISH, **wish})
    assert told["warnings"] == warnings
    assert "failed" not in told
    assert len(told["gpus"]) == 2


def test_a_run_of_ours_that_trains_is_no_alarm() -> None:
    training = eight({}, [process(900, 3, vmid=VMID, inside=44)], runs={"44": "r1"})
    assert with_gpus(result(), {}, lambda _reading: training, WISH)["warnings"] == []
    required = with_gpus(result(), {}, lambda _reading: training, {**WISH, "require": True, "idle_timeout": 9.0})
    assert required["warnings"] == ["GPUs: 7 of 8 idle; GPU 3 busy: opened by your run r1, no memory yet"]
    beside = [process(900, 3, vmid=VMID, inside=44), process(901, 4, vmid=201, inside=44)]
    assert with_gpus(result(), {}, lambda _reading: eight({}, beside, runs={"44": "r1"}), WISH)["warnings"]


def test_a_warning_says_when_the_deploy_will_fail() -> None:
    told = with_gpus(result(), {}, lambda _reading: snapshot("idle", "unknown"), {**WISH, "require": True})
    assert "will fail after the release went live" in told["warnings"][0]
    assert "failed" not in told


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"select": [0, 77]}, "option select: there is no GPU 77"),
        ({"select": 3}, "option select: 3 GPUs are wanted, and there are 2"),
        ({"count": 3}, "option count: 3 GPUs are wanted, and there are 2"),
        ({"select": "[?memory_total_mib > `1`]"}, "matches none of the GPUs here"),
    ],
)
def test_gpus_that_do_not_exist_refuse_the_deploy(wish: dict[str, Any], said: str) -> None:
    found = snapshot("idle", "idle", warnings=("slow",))
    told = with_gpus(result(), {}, lambda _reading: found, {**WISH, **wish})
    assert (told["failed"], told["code"], told["warnings"]) == (True, "option", ["slow"])
    assert told["summary"].startswith(f"refused: {said}" if "option" in said else "refused: option select")
    assert said in told["msg"]
    both = with_gpus(result(problem("a.py", 1)), {}, lambda _reading: found, {**WISH, **wish})
    assert (both["code"], both["summary"]) == ("refused", "refused: a.py:1:1: no")
    assert both["msg"].splitlines()[0] == "a.py:1:1: no"
    assert said in both["msg"]


def test_gpus_that_nvidia_smi_could_not_tell_refuse_nothing() -> None:
    found = replace(snapshot("unknown"), trouble=Trouble("timeout", "in the container: nvidia-smi did not answer"))
    told = with_gpus(result(), {}, lambda _reading: found, {**WISH, "select": "[?memory_total_mib > `1`]"})
    assert "failed" not in told
    assert told["warnings"] == ["GPUs: 0 of 1 idle; GPU 0 unknown: why"]


def test_gpus_that_could_not_be_read_cost_no_check() -> None:
    told = with_gpus(result(), {"error": "OSError: no"}, lambda _reading: snapshot(), WISH)
    assert told["warnings"] == ["the GPUs could not be read: OSError: no"]
    assert "failed" not in told


def test_unread_files_do_not_count_as_read() -> None:
    unread = [{"file": "big.json", "why": "larger"}]
    found = result(kind={"a.py": "python", "big.json": "json"}, unread=unread)
    assert found["files_checked"] == 1
    assert found["files_unread"] == unread
