# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Proxmox VE API asked: by the module itself, and by a deploy before it does anything."""

from __future__ import annotations

import contextlib
import hashlib
import os
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab import example
from lab.api import Lab, open_lab
from tests.integration.steps import play, run_step

BIN = Path(sys.executable).parent
MODULE = "trainops.proxmox.container_info"


@pytest.fixture
def lab(lab_is_up: None, monkeypatch: pytest.MonkeyPatch) -> Lab:
    for name in [name for name in os.environ if name.startswith(("ANSIBLE_", "PROXMOX_"))]:
        monkeypatch.delenv(name)
    return open_lab()


def fingerprint(lab: Lab) -> str:
    """That of the certificate which the API shows."""
    der = ssl.PEM_cert_to_DER_cert(Path(lab.api.ca).read_text())
    return hashlib.sha256(der).hexdigest()


def login(lab: Lab) -> dict[str, Any]:
    """The module's options that reach the lab's API with its own token."""
    api = lab.api
    return {
        "api_host": api.host,
        "api_user": api.user,
        "api_token_id": api.token_name,
        "api_token_secret": api.token_value,
        "ca_path": api.ca,
    }


def narrow(lab: Lab) -> dict[str, Any]:
    """The same with the token that knows of 200 and 202 alone."""
    full_id = f"{lab.api.user}!narrow"
    return {**login(lab), "api_user": None, "api_token_id": full_id, "api_token_secret": lab.api.narrow_value}


def asked(folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    """The module's result on localhost."""
    inventory = folder / "localhost.yml"
    interpreter = {"ansible_python_interpreter": "{{ ansible_playbook_python }}"}
    inventory.write_text(yaml.safe_dump({"all": {"hosts": {"localhost": interpreter}}}))
    given = {name: value for name, value in options.items() if value is not None}
    return run_step(folder, MODULE, given, str(inventory), connection="local")["localhost"]


@contextlib.contextmanager
def locked(lab: Lab, node: str, vmid: int, lock: str) -> Iterator[None]:
    """The container is locked, as an operation of Proxmox VE locks it."""
    conf = lab.instance.pve / "nodes" / node / "lxc" / f"{vmid}.conf"
    before = conf.read_text()
    conf.write_text(f"{before}lock: {lock}\n")
    try:
        yield
    finally:
        conf.write_text(before)


def test_a_container_by_ca_and_by_fingerprint(lab: Lab, tmp_path: Path) -> None:
    ways: tuple[dict[str, Any], ...] = ({}, {"ca_path": None, "api_fingerprint": fingerprint(lab)})
    results = [asked(tmp_path, {**login(lab), **way, "vmid": 201, "ready": True}) for way in ways]
    assert results[0]["containers"] == results[1]["containers"]
    (one,) = results[0]["containers"]
    assert results[0]["summary"] == "running on pve1, not locked"
    assert results[0]["changed"] is False
    assert one["gpus"] == [f"/dev/nvidia{minor}" for minor in (4, 5, 6, 7)]
    assert (one["name"], one["unprivileged"], one["node_address"]) == ("train-b", True, lab.address("pve1"))


def test_all_containers_that_the_token_may_see(lab: Lab, tmp_path: Path) -> None:
    everything = asked(tmp_path, login(lab))
    assert [row["vmid"] for row in everything["containers"]] == [200, 201, 202, 210]
    assert everything["summary"] == "4 containers, 3 running"
    assert len(everything["containers"][0]["gpus"]) == 8
    little = asked(tmp_path, narrow(lab))
    assert [(row["vmid"], row["node_address"]) for row in little["containers"]] == [(200, None), (202, None)]


@pytest.mark.parametrize(
    ("changed", "code", "said"),
    [
        (
            {"api_token_secret": "00000000-0000-0000-0000-000000000000"},
            "denied",
            "refuses the token automation@pve!lab",
        ),
        ({"ca_path": None}, "untrusted", "does not trust: set ca_path"),
        (
            {"ca_path": None, "api_fingerprint": "ab" * 32},
            "untrusted",
            "shows another certificate than api_fingerprint",
        ),
        ({"ca_path": "/nope.pem"}, "options", "/nope.pem cannot be read: No such file or directory"),
        ({"api_host": None}, "options", "cannot be asked without api_host"),
        ({"api_port": 1}, "unreachable", "does not accept connections: check api_host"),
        ({"vmid": 999}, "not-found", "has no container 999: correct the vmid"),
        ({"vmid": 202}, "not-ready", "container 202 (spare) on pve1 is stopped: start it with pct start 202 there"),
        ({"vmid": None}, None, "ready is True but all of the following are missing: vmid"),
    ],
)
def test_a_question_that_fails(changed: dict[str, Any], code: str | None, said: str, lab: Lab, tmp_path: Path) -> None:
    result = asked(tmp_path, {**login(lab), "vmid": 200, "ready": True, **changed})
    assert result["failed"], result
    assert said in result["msg"]
    assert result.get("code") == code


def test_a_container_that_the_token_may_not_see(lab: Lab, tmp_path: Path) -> None:
    for vmid in (201, 999):
        result = asked(tmp_path, {**narrow(lab), "vmid": vmid})
        assert result["failed"]
        assert f"it has no VM.Audit on /vms/{vmid}. Grant it on a node: pveum acl modify /vms/{vmid}" in result["msg"]


def test_locks_stop_or_warn(lab: Lab, tmp_path: Path) -> None:
    options = {**login(lab), "vmid": 201, "ready": True}
    with locked(lab, "pve1", 201, "migrate"):
        result = asked(tmp_path, options)
        assert result["failed"]
        assert "is locked (migrate): it is being moved to another node" in result["msg"]
        assert not asked(tmp_path, {**options, "ready": False}).get("failed")
    with locked(lab, "pve1", 201, "backup"):
        result = asked(tmp_path, options)
        assert result["summary"] == "running on pve1, locked (backup)"
        assert "a backup of it is being made" in str(result["warnings"])


def test_a_node_that_is_down(lab: Lab, tmp_path: Path) -> None:
    with lab.cut_off("pve2"):
        result = asked(tmp_path, {**login(lab), "vmid": 210, "ready": True})
        assert result["failed"]
        assert "cannot be looked at: node pve2 does not answer." in result["msg"]
        assert "595 No route to host" in result["msg"]
        assert asked(tmp_path, login(lab))["summary"] == "4 containers, 2 running"


# --- a deploy, and a rollback


@pytest.fixture
def root(lab: Lab, request: pytest.FixtureRequest) -> Iterator[str]:
    """A folder of the test's own in the containers that the tests deploy to."""
    path = f"/srv/{request.node.name.partition('[')[0]}"
    for vmid in (200, 201):
        lab.container(vmid).run(["mkdir", "-p", path]).check_returncode()
    yield path
    for vmid in (200, 201):
        lab.container(vmid).run(["rm", "-rf", path])


@pytest.fixture
def folder(lab: Lab, root: str, tmp_path: Path) -> Path:
    """A user's folder whose inventory knows the API; the secret is in a file of its own, as a vault would be."""
    copied = example.copy(tmp_path / "dflash", lab)
    inventory = copied / "inventory.yml"
    inventory.write_text(inventory.read_text().replace("training_root: /root\n", f"training_root: {root}\n"))
    known = {f"proxmox_api_{name.removeprefix('api_')}": value for name, value in login(lab).items()}
    known["proxmox_api_token_secret"] = "{{ vault_secret }}"
    (copied / "group_vars/training").mkdir(parents=True)
    (copied / "group_vars/training/api.yml").write_text(yaml.safe_dump(known))
    (copied / "group_vars/training/vault.yml").write_text(yaml.safe_dump({"vault_secret": lab.api.token_value}))
    return copied


def test_a_deploy_asks_first(lab: Lab, folder: Path, root: str) -> None:
    lines = play(folder, "deploy_training.yml", "--limit", "ct200").splitlines()
    assert lines[0] == "ct200  state    running on pve1, not locked"
    assert [line.split()[1] for line in lines] == ["state", "check", "release", "gpus"]
    assert lab.container(200).run(["grep", "-rl", lab.api.token_value, root]).stdout == b""
    with lab.counting("pve1") as sessions:
        assert play(folder, "deploy_training.yml", "--limit", "ct200", "--check").count("state    running") == 1
        assert sessions() > 0
    for playbook in ("rollback_training", "eject_training"):
        arguments = ("--limit", "ct200", "-e", "proxmox_vmid=202")
        refused = play(folder, f"trainops.proxmox.{playbook}", *arguments, status=2)
        assert "ct200  state    FAILED  container 202 (spare) on pve1 is stopped" in refused


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["proxmox_vmid=202"], "container 202 (spare) on pve1 is stopped: start it with pct start 202 there"),
        (["proxmox_vmid=999"], "has no container 999: correct the vmid"),
        (
            ["ansible_host=PVE2"],
            "container 200 is on node pve1 (PVE1), and PVE2 leads to pve2: set ansible_host to PVE1",
        ),
        (["proxmox_api_token_secret="], "cannot be asked without api_token_secret (variable proxmox_api_token_secret)"),
        (["proxmox_api_ca_path=", f"proxmox_api_fingerprint={'ab' * 32}"], "shows another certificate than"),
    ],
)
def test_a_deploy_that_is_refused_opens_no_session(arguments: list[str], said: str, lab: Lab, folder: Path) -> None:
    def real(text: str) -> str:
        return text.replace("PVE1", lab.address("pve1")).replace("PVE2", lab.address("pve2"))

    extra = [part for argument in arguments for part in ("-e", real(argument))]
    with lab.counting("pve1") as first, lab.counting("pve2") as second:
        output = play(folder, "deploy_training.yml", "--limit", "ct200", *extra, status=2)
        assert first() + second() == 0
    lines = output.splitlines()
    assert lines[0].startswith("ct200  state    FAILED  ")
    assert real(said) in lines[0]
    assert lines[1:] == ["1 of 1 host failed: ct200"]


def test_one_container_is_refused_and_the_others_go_on(lab: Lab, folder: Path) -> None:
    with locked(lab, "pve1", 201, "rollback"):
        output = play(folder, "deploy_training.yml", "--limit", "ct200,ct201", status=2)
    assert "ct201  state    FAILED  container 201 (train-b) on pve1 is locked (rollback)" in output
    assert "ct200  release  " in output
    assert "ct201  check" not in output


def test_without_an_api_nothing_is_asked(lab: Lab, folder: Path) -> None:
    output = play(folder, "deploy_training.yml", "--limit", "ct200", "-e", "proxmox_api_host=")
    assert [line.split()[1] for line in output.splitlines()] == ["check", "release", "gpus"]


def test_the_login_may_come_from_the_environment(lab: Lab, folder: Path) -> None:
    (folder / "group_vars/training/api.yml").write_text(
        yaml.safe_dump({"proxmox_api_host": lab.api.host, "proxmox_api_fingerprint": fingerprint(lab)})
    )
    environment = {
        "PROXMOX_USER": lab.api.user,
        "PROXMOX_TOKEN_ID": lab.api.token_name,
        "PROXMOX_TOKEN_SECRET": lab.api.token_value,
    }
    output = play(folder, "deploy_training.yml", "--limit", "ct200", status=0, **environment)
    assert output.startswith("ct200  state    running on pve1")


def test_a_relative_ca_path_counts_from_the_current_folder(lab: Lab, folder: Path) -> None:
    (folder / "ca.pem").write_bytes(Path(lab.api.ca).read_bytes())
    output = play(folder, "deploy_training.yml", "--limit", "ct200", "-e", "proxmox_api_ca_path=./ca.pem")
    assert output.startswith("ct200  state    running on pve1")


@pytest.mark.parametrize(
    ("callback", "arguments", "status"),
    [
        ("trainops.proxmox.summary", [], 0),
        ("default", [], 0),
        ("default", ["-e", "proxmox_vmid=202"], 2),
        ("trainops.proxmox.summary", ["-e", "proxmox_api_port=1"], 2),
    ],
)
def test_the_secret_is_shown_nowhere(
    callback: str, arguments: list[str], status: int, lab: Lab, folder: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    environment = {
        "ANSIBLE_STDOUT_CALLBACK": callback,
        "ANSIBLE_LOG_PATH": str(log),
        "ANSIBLE_DISPLAY_TRACEBACK": "always",
        "ANSIBLE_INJECT_INVOCATION": "1",
    }
    output = play(folder, "deploy_training.yml", "--limit", "ct200", "-vvv", *arguments, status=status, **environment)
    assert "config file = " in output
    assert "VALUE_SPECIFIED_IN_NO_LOG_PARAMETER" in output
    assert lab.api.token_value not in output
    assert lab.api.token_value not in log.read_text()


def test_a_refused_token_is_not_shown_either(lab: Lab, folder: Path) -> None:
    wrong = "11111111-2222-3333-4444-555555555555"
    (folder / "group_vars/training/vault.yml").write_text(yaml.safe_dump({"vault_secret": wrong}))
    with lab.counting("pve1") as sessions:
        output = play(folder, "deploy_training.yml", "--limit", "ct200", "-vvv", status=2)
        assert sessions() == 0
    assert "refuses the token automation@pve!lab (Authentication failed!): either its secret is wrong" in output
    assert wrong not in output
