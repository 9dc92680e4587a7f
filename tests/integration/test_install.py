"""Each way of installing leaves something that works, in a home where nothing of this checkout is to be found."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.artefacts import ROOT
from tests.integration.installing import BIN, PYTHON, Place, check_play

VERSION = yaml.safe_load((ROOT / "galaxy.yml").read_text())["version"]
UV = BIN / "uv"
NEEDED = "trainops.proxmox needs ansible-core 2.19 or newer, and this is {}"


def ansible_works(place: Place, collection: Path) -> None:
    """Ansible lists the collection as below ``collection``, shows its docs, and runs a step of it."""
    listed = place.said("ansible-galaxy", "collection", "list")
    assert ["trainops.proxmox", VERSION] in [line.split() for line in listed.splitlines()]
    assert str(ROOT) not in listed
    shown = json.loads(place.said("ansible-doc", "--json", "trainops.proxmox.training_release"))
    docs = shown["trainops.proxmox.training_release"]["doc"]
    assert Path(docs["filename"]).is_relative_to(collection)
    assert docs["options"]["project"]
    checked = place.said("ansible-playbook", "check.yml", ANSIBLE_STDOUT_CALLBACK="trainops.proxmox.summary")
    assert "localhost  check    1 file compiles, imports resolve" in checked


def command_works(place: Place) -> None:
    """The command says what it is, and runs a playbook with nothing else of its environment on PATH."""
    assert place.said("trainops", "--version").split()[-1] == VERSION
    assert "deploy" in place.said("trainops", "--help")
    result = json.loads(place.said("trainops", "deploy", "--json"))
    assert result["ok"], result
    assert result["hosts"]["localhost"]["steps"][0]["step"] == "check", result


def environment(place: Place, *packages: str | Path) -> Path:
    """A virtual environment with these packages, installed by uv since that takes no time; returns its folder."""
    folder = place.folder / "venv"
    place.said(UV, "venv", "--quiet", "--python", PYTHON, folder)
    place.said(UV, "pip", "install", "--quiet", "--python", folder / "bin/python", *packages)
    return folder


def test_uv_tool(tmp_path: Path, wheel: Path) -> None:
    place = Place.made(tmp_path)
    place.said(UV, "tool", "install", "--quiet", "--python", PYTHON, wheel)
    assert [path.name for path in place.bin.iterdir() if path.name.startswith("ansible")] == []
    command_works(place)
    place.said(
        UV,
        "tool",
        "install",
        "--quiet",
        "--force",
        "--python",
        PYTHON,
        "--with-executables-from",
        "ansible-core",
        wheel,
    )
    ansible_works(place, tmp_path / "home/.local/share/uv/tools/trainops")


def test_pipx(tmp_path: Path, wheel: Path) -> None:
    place = Place.made(tmp_path)
    place.said(BIN / "pipx", "install", "--quiet", "--python", PYTHON, "--include-deps", wheel)
    command_works(place)
    ansible_works(place, tmp_path / "home")


def test_pip_in_a_virtual_environment(tmp_path: Path, wheel: Path) -> None:
    place = Place.made(tmp_path, "venv/bin")
    place.said(PYTHON, "-m", "venv", tmp_path / "venv")
    place.said("pip", "install", "--quiet", wheel)
    command_works(place)
    ansible_works(place, tmp_path / "venv")


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory, tarball: Path) -> Place:
    """An Ansible that somebody has already, and the collection installed beside it: without our Python package."""
    place = Place.made(tmp_path_factory.mktemp("beside"), "venv/bin")
    environment(place, "ansible-core>=2.19")
    place.said("ansible-galaxy", "collection", "install", tarball)
    return place


def test_tarball_beside_an_ansible(beside: Place) -> None:
    ansible_works(beside, beside.folder / "home/.ansible/collections")
    assert not (beside.bin / "trainops").exists()


def test_what_needs_jmespath_says_so(beside: Place) -> None:
    (beside.project / "select.yml").write_text(check_play(select='"[?memory_total_mib >= `80000`]"'))
    done = beside.run("ansible-playbook", "select.yml", ANSIBLE_STDOUT_CALLBACK="trainops.proxmox.summary")
    assert done.returncode == 2
    assert "needs the Python package jmespath on the controller: pip install jmespath" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_what_needs_proxmoxer_says_so(beside: Place) -> None:
    options = "vmid=200 api_host=127.0.0.1 api_token_id=automation@pve!ansible api_token_secret=12345678-0000"
    done = beside.run("ansible", "localhost", "-m", "trainops.proxmox.container_info", "-a", options)
    output = done.stdout + done.stderr
    assert done.returncode == 2
    assert re.search(r"the required Python library \((proxmoxer|requests)\)", output), output
    assert not [word for word in ("Traceback", "12345678-0000") if word in output], output


@pytest.fixture(scope="module", params=["2.16", "2.18"])
def too_old(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, tarball: Path) -> Place:
    """The collection beside an ansible-core that is too old for it."""
    place = Place.made(tmp_path_factory.mktemp(f"core{request.param}"), "venv/bin")
    environment(place, f"ansible-core=={request.param}.*")
    place.said("ansible-galaxy", "collection", "install", tarball)
    return place


INVENTORY = """\
training:
  hosts:
    ct200: {ansible_host: 127.0.0.1, proxmox_vmid: 200}
  vars:
    ansible_connection: trainops.proxmox.pct
    training_project: scripts
    training_root: /root
"""
CONNECTION = """\
- hosts: training
  gather_facts: false
  tasks:
    - ansible.builtin.command: "true"
"""


@pytest.mark.parametrize("callback", ["default", "trainops.proxmox.summary"])
@pytest.mark.parametrize(
    "playbook", ["check.yml", "connection.yml", "trainops.proxmox.deploy_training", "trainops.proxmox.gpu_status"]
)
def test_an_old_ansible_is_told_in_one_sentence(too_old: Place, playbook: str, callback: str) -> None:
    found = core_version(too_old)
    (too_old.project / "cluster.yml").write_text(INVENTORY)
    (too_old.project / "connection.yml").write_text(CONNECTION)
    done = too_old.run("ansible-playbook", "-i", "cluster.yml", playbook, ANSIBLE_STDOUT_CALLBACK=callback)
    output = done.stdout + done.stderr
    assert done.returncode != 0
    assert output.count(NEEDED.format(found)) == 1, output
    assert f"{too_old.bin}/python" in output
    assert "-m pip install --upgrade 'ansible-core>=2.19'" in output
    assert not [word for word in ("Traceback", "probably a bug", "cannot import") if word in output], output


def core_version(place: Place) -> str:
    """The version of the ansible-core of a place, as in "2.18.9"."""
    return place.said("python", "-c", "from ansible.release import __version__; print(__version__)").strip()


def test_the_command_tells_it_too(tmp_path: Path, wheel: Path) -> None:
    place = Place.made(tmp_path, "venv/bin")
    environment(place, wheel)
    place.said(UV, "pip", "install", "--quiet", "--python", place.bin / "python", "ansible-core==2.18.*")
    found = core_version(place)
    assert place.said("trainops", "--version").split()[-1] == VERSION
    node = "root@127.0.0.1"
    for argv in (
        ["deploy"],
        ["check"],
        ["rollback"],
        ["gpus", node],
        ["init", node],
        ["deploy", "scripts", f"{node}/200:/x"],
    ):
        done = place.run("trainops", *argv)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("trainops: " + NEEDED.format(found))
        assert len(done.stderr.splitlines()) == 1
    told = json.loads(place.run("trainops", "deploy", "--json").stdout)
    assert told["message"].startswith(NEEDED.format(found))
