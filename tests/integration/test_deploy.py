# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The whole job on the lab: by ansible-playbook, by the command and from Python, at what cost, and what it leaves."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import trainops
from lab import example
from lab.api import Lab, open_lab
from tests.integration.steps import play
from tests.unit.trainops.folders import until
from trainops import Reason

BIN = Path(sys.executable).parent
ROOT = Path(__file__).resolve().parents[2]
VMIDS = (200, 201, 210)
HOSTS = tuple(f"ct{vmid}" for vmid in VMIDS)
PLAYBOOK = "trainops.proxmox.deploy_training"


@pytest.fixture
def lab(lab_is_up: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """The lab, reached by connections that no other test has opened; no setting of the user's environment counts."""
    for name in [name for name in os.environ if name.startswith("ANSIBLE_")]:
        monkeypatch.delenv(name)
    # A short path: a socket's must have fewer than 108 characters.
    with tempfile.TemporaryDirectory(prefix="cp-") as folder:
        monkeypatch.setenv("ANSIBLE_SSH_CONTROL_PATH_DIR", folder)
        yield open_lab()
        for socket in Path(folder).glob("pct-*"):
            subprocess.run(["ssh", "-O", "exit", "-S", socket, "unused"], capture_output=True, check=False)


@pytest.fixture
def root(lab: Lab, request: pytest.FixtureRequest) -> Iterator[str]:
    """A folder of the test's own in each container."""
    path = f"/srv/{request.node.name.partition('[')[0]}"
    for vmid in VMIDS:
        lab.container(vmid).run(["mkdir", "-p", path]).check_returncode()
    yield path
    for vmid in VMIDS:
        lab.container(vmid).run(["rm", "-rf", path])


@pytest.fixture
def folder(lab: Lab, root: str, tmp_path: Path) -> Path:
    """A user's folder: the example, whose scripts go to the test's own folder in each container."""
    copied = example.copy(tmp_path / "dflash", lab)
    inventory = copied / "inventory.yml"
    inventory.write_text(inventory.read_text().replace("training_root: /root\n", f"training_root: {root}\n"))
    return copied


def shown(output: str, step: str) -> dict[str, str]:
    """What the lines of a step say, by host."""
    rows = [line.split(None, 2) for line in output.splitlines()]
    return {row[0]: row[2] for row in rows if len(row) == 3 and row[1] == step}


def inside(lab: Lab, vmid: int, *argv: str) -> bytes:
    """What a command in a container prints; empty when it fails."""
    done = lab.container(vmid).run(argv)
    return done.stdout if done.returncode == 0 else b""


def is_live(lab: Lab, folder: Path, root: str, vmid: int) -> bool:
    """Whether the folder's scripts are, byte by byte, what the container has under its root."""
    names = ("dflash_model.py", "train_dflash_pipeline.py", "config.toml", "run.sh")
    return all(inside(lab, vmid, "cat", f"{root}/{name}") == (folder / name).read_bytes() for name in names)


def test_check_release_gpus_on_every_host(lab: Lab, folder: Path, root: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    output = play(folder, "deploy_training.yml", ANSIBLE_LOG_PATH=str(log))
    for step, text in (("check", "2 files compile"), ("release", f"live at {root}"), ("gpus", "idle")):
        lines = shown(output, step)
        assert sorted(lines) == sorted(HOSTS), output
        assert all(text in line for line in lines.values()), output
    assert len(output.splitlines()) == 9
    assert all(line in log.read_text() for line in output.splitlines())
    assert all(is_live(lab, folder, root, vmid) for vmid in VMIDS)
    assert not [name for name in inside(lab, 200, "ls", root).split() if name in (b"inventory.yml", b"ansible.cfg")]


@pytest.mark.parametrize("playbook", [PLAYBOOK, str(ROOT / "playbooks/deploy_training.yml"), "deploy_training.yml"])
def test_the_playbook_by_each_of_its_names(lab: Lab, folder: Path, root: str, playbook: str) -> None:
    output = play(folder, playbook, "--limit", "ct200")
    assert shown(output, "release")["ct200"].startswith(trainops_id(lab, root))
    assert is_live(lab, folder, root, 200)


def trainops_id(lab: Lab, root: str) -> str:
    """The short id of what is live in container 200."""
    target = inside(lab, 200, "readlink", f"{root}/.trainops/dflash/current").decode()
    return Path(target.strip()).name[:7]


@pytest.mark.parametrize("files", [1, 20, 500])
def test_remote_commands_of_a_deploy(lab: Lab, folder: Path, root: str, files: int) -> None:
    for number in range(files - 1):
        (folder / f"module_{number}.py").write_text(f"def value():\n    return {number}\n")
    if files == 1:
        for name in ("config.toml", "run.sh", "train_dflash_pipeline.py"):
            (folder / name).unlink()
    arguments = (PLAYBOOK, "--limit", "ct200")
    for change, most, text in (("first", 4, "added"), ("edited", 4, "1 changed"), ("unchanged", 3, "nothing changed")):
        if change == "edited":
            (folder / "dflash_model.py").write_text((folder / "dflash_model.py").read_text() + "# edited\n")
        with lab.counting("pve1") as sessions:
            output = play(folder, *arguments)
        assert text in shown(output, "release")["ct200"]
        assert 1 <= sessions() <= most, (change, sessions())


def test_check_mode_predicts_and_changes_nothing(lab: Lab, folder: Path, root: str) -> None:
    output = play(folder, "deploy_training.yml", "--check", "--limit", "ct200")
    predicted = shown(output, "release")["ct200"]
    assert "would go live" in predicted
    assert inside(lab, 200, "ls", "-A", root) == b""
    assert (
        predicted.split()[0]
        == shown(play(folder, "deploy_training.yml", "--limit", "ct200"), "release")["ct200"].split()[0]
    )


def test_one_bad_host_does_not_stop_the_others(lab: Lab, folder: Path, root: str) -> None:
    inventory = yaml.safe_load((folder / "inventory.yml").read_text())
    hosts = inventory["training"]["hosts"]
    hosts["ct202"] = {**hosts["ct200"], "proxmox_vmid": 202}  # stopped
    hosts["nowhere"] = {**hosts["ct200"], "ansible_host": "127.0.0.99"}
    hosts["plain"] = {**hosts["ct200"], "ansible_connection": "ssh"}
    hosts["unset"] = {name: value for name, value in hosts["ct200"].items() if name != "proxmox_vmid"}
    (folder / "inventory.yml").write_text(yaml.safe_dump(inventory))
    result = trainops.deploy(cwd=folder)
    assert result.reason is Reason.FAILED
    assert all(result.hosts[host].ok for host in HOSTS)
    for host, unreachable, text in (
        ("ct202", True, "container 202 is stopped: start it with pct start 202"),
        ("nowhere", True, "127.0.0.99 does not answer"),
        ("plain", False, "set ansible_connection: trainops.proxmox.pct"),
        ("unset", False, "this host has no proxmox_vmid"),
    ):
        step = result.hosts[host].steps[-1]
        assert step.unreachable is unreachable
        assert text in step.summary
        assert text in result.message
        assert f"{host:<7}  check    UNREACHABLE" in result.output or not unreachable
    assert "2 of 7 hosts failed: plain, unset\n2 of 7 hosts unreachable: ct202, nowhere" in result.output


def test_nothing_is_done_before_the_settings_are_complete(lab: Lab, folder: Path) -> None:
    text = (folder / "inventory.yml").read_text()
    (folder / "inventory.yml").write_text("\n".join(line for line in text.splitlines() if "training_" not in line))
    with lab.counting("pve1") as sessions:
        output = play(folder, PLAYBOOK, "--limit", "ct200", status=2)
    assert sessions() == 0
    assert "this host has no training_project, training_root: set it in the inventory" in output


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"training_gpus": [0, 77]}, "there is no GPU 77 among those here"),
        ({"training_gpus": 99}, "99 GPUs are wanted, and there are"),
        ({"training_gpu_count": 9}, "9 GPUs are wanted, and there are"),
        ({"training_gpus": "[?memory_total_mib > `999999`]"}, "matches none of the GPUs here"),
        ({"training_gpus": "[?x", "training_check_gpus": False}, "no valid JMESPath expression"),
        ({"training_idle_timeout": -1}, "must be a number and at least 0"),
    ],
)
def test_wrong_gpu_options_are_found_before_anything_goes_live(
    lab: Lab, folder: Path, root: str, given: dict[str, Any], said: str
) -> None:
    result = trainops.deploy(cwd=folder, limit="ct200", extravars=given)
    (step,) = result.hosts["ct200"].steps
    assert (step.step, step.failed) == ("check", True)
    assert said in step.summary
    assert set(given) & set(step.summary.replace(":", "").split()), "which variable is wrong"
    assert inside(lab, 200, "ls", "-A", root) == b""


def test_a_misspelt_variable_is_found_before_anything_moves(lab: Lab, folder: Path, root: str) -> None:
    said = "training_rollback_too is no variable of trainops: did you mean training_rollback_to?"
    with lab.counting("pve1") as sessions:
        for run in (trainops.deploy, trainops.rollback):
            result = run(cwd=folder, limit="ct200", extravars={"training_rollback_too": 1})
            assert said in result.message
        assert sessions() == 0
    allowed = {"training_rate": 1, "training_own_variables": ["training_rate"]}
    assert trainops.deploy(cwd=folder, limit="ct200", extravars=allowed).ok


def test_typed_results_and_rollback_from_python(lab: Lab, folder: Path, root: str) -> None:
    first = trainops.deploy(cwd=folder, limit="ct200")
    assert (first.ok, first.reason) == (True, Reason.OK)
    (model,) = (step for step in [first.hosts["ct200"].step("release")] if step)
    assert model.changed
    assert {file["action"] for file in model.values["files"]} == {"added"}
    gpus = value(first, "gpus", "gpus")
    assert [gpu["uuid"] for gpu in gpus] == [gpu.uuid for gpu in lab.gpus(200)]
    (folder / "dflash_model.py").write_text((folder / "dflash_model.py").read_text() + "# edited\n")
    second = trainops.deploy(cwd=folder, limit="ct200")
    assert value(second, "release", "previous_release_id") == value(first, "release", "release_id")
    back = trainops.rollback(cwd=folder, limit="ct200")
    assert back.ok
    assert back.hosts["ct200"].changed
    assert value(back, "release", "release_id") == value(first, "release", "release_id")


def value(result: trainops.Result, step: str, name: str) -> Any:
    """One value of a step on ct200."""
    found = result.hosts["ct200"].step(step)
    assert found is not None, result.output
    return found.values[name]


@pytest.mark.parametrize("how", ["cancel", "timeout"])
def test_an_ended_deploy_leaves_nothing_anywhere(
    lab: Lab, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    private = tmp_path / "private"
    private.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(private))
    cancel = threading.Event()

    def heard(text: str) -> None:
        if "waiting" in text and how == "cancel":
            cancel.set()

    wait = {"training_require_idle": True, "training_idle_timeout": 600}
    before = ours_inside(lab)  # such as the supervisors of other tests' runs
    with lab.hold(201, gpu=1, mib=500):
        result = trainops.deploy(
            cwd=folder,
            limit="ct200",
            extravars=wait,
            cancel=cancel,
            on_output=heard,
            timeout=60 if how == "timeout" else 180,
        )
    assert result.reason is (Reason.CANCELED if how == "cancel" else Reason.DEADLINE)
    assert "gpus     waiting 10 s of 600 s: 7 of 8 idle" in result.output
    assert list(private.iterdir()) == []
    assert until(lambda: not ours(), 60), ours()
    assert until(lambda: ours_inside(lab) <= before, 60), ours_inside(lab) - before


def ours_inside(lab: Lab) -> set[bytes]:
    """The processes in container 200 whose command line names us, with their ids."""
    return set(inside(lab, 200, "sh", "-c", "grep -l train[o]ps /proc/[0-9]*/cmdline || true").splitlines())


def ours() -> set[str]:
    """The processes on this machine that belong to this test's runs or to their connections, by the unique folder."""
    unique = os.environ["ANSIBLE_SSH_CONTROL_PATH_DIR"].encode()
    found = set()
    for path in Path("/proc").glob("[0-9]*"):
        if int(path.name) == os.getpid():
            continue
        try:
            command = (path / "cmdline").read_bytes()
            if unique in command or unique in (path / "environ").read_bytes():
                found.add(f"{path.name} {command.decode('utf-8', 'replace')}")
        except OSError:
            continue
    return found


def test_the_command_prints_the_lines_as_they_come(lab: Lab, folder: Path) -> None:
    """A wait is told every ten seconds, through a pipe too, while it lasts."""
    argv = [
        str(BIN / "trainops"),
        "deploy",
        "-l",
        "ct200",
        "-e",
        "training_require_idle=true training_idle_timeout=300",
    ]
    with contextlib.ExitStack() as holder:
        holder.enter_context(lab.hold(201, gpu=1, mib=500))
        process = subprocess.Popen(argv, cwd=folder, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if "waiting" in line:
                holder.close()
        assert process.wait() == 0, lines
    warnings = [line for line in lines if line.startswith("[WARNING]: ct200: ")]
    assert "GPU 5 busy" in "".join(warnings)
    steps = [line.split()[1] for line in lines if line.startswith("ct200")]
    assert steps == ["check", "release", "gpus", "gpus"]
    assert "8 of 8 idle" in lines[-1]
