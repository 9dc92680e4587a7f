"""The example of a whole cluster is one that Ansible reads, with no variable that nobody knows."""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

import pytest
import yaml
from ansible_collections.trainops.proxmox.plugins.plugin_utils.variables import known

from tests.artefacts import BIN, ROOT, run

EXAMPLE = ROOT / "inventories/example"
# Beside the options of the connection plugins: what Ansible itself reads of a host.
OF_ANSIBLE = {"ansible_connection"}


@pytest.fixture(scope="module")
def inventory() -> dict[str, Any]:
    """What ansible-inventory makes of the example; it must have nothing to complain of."""
    done = subprocess.run(
        [BIN / "ansible-inventory", "-i", EXAMPLE, "--list"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    loaded: dict[str, Any] = json.loads(done.stdout)
    return loaded


def variables(inventory: dict[str, Any], host: str) -> dict[str, Any]:
    """The variables of a host, as they are written."""
    found: dict[str, Any] = inventory["_meta"]["hostvars"][host]
    return found


def hosts(inventory: dict[str, Any], group: str) -> set[str]:
    """The hosts of a group and of the groups in it."""
    own = inventory.get(group, {})
    return set(own.get("hosts", [])).union(*(hosts(inventory, child) for child in own.get("children", [])))


def of_connections() -> set[str]:
    """The variables that the options of our connection read, among them all those of core's ssh."""
    shown = json.loads(run(BIN / "ansible-doc", "-t", "connection", "--json", "trainops.proxmox.pct"))
    options = shown["trainops.proxmox.pct"]["doc"]["options"].values()
    return {one["name"] for option in options for one in option.get("vars", [])}


def of_the_api() -> set[str]:
    """The variables by which the playbooks reach the Proxmox API."""
    files = (ROOT / "playbooks").rglob("*.yml")
    return {name for path in files for name in re.findall(r"\bproxmox_api_\w+", path.read_text())}


def test_every_container_has_what_a_deploy_needs(inventory: dict[str, Any]) -> None:
    needed = {"ansible_host", "ansible_user", "proxmox_vmid", "training_project", "training_root", "training_python"}
    containers = hosts(inventory, "training")
    assert len(containers) >= 6
    for host in containers:
        assert needed <= set(variables(inventory, host)), host
        assert variables(inventory, host)["ansible_connection"] == "trainops.proxmox.pct"
    places = [
        (variables(inventory, host)["ansible_host"], variables(inventory, host)["proxmox_vmid"]) for host in containers
    ]
    assert len(set(places)) == len(places)


def test_every_container_is_of_one_cluster_and_one_project(inventory: dict[str, Any]) -> None:
    for host in hosts(inventory, "training"):
        assert sum(host in hosts(inventory, group) for group in ("berlin", "munich")) == 1, host
        assert sum(host in hosts(inventory, group) for group in ("dflash", "vision")) == 1, host


def test_nodes_are_no_containers(inventory: dict[str, Any]) -> None:
    nodes = hosts(inventory, "nodes")
    assert nodes
    assert not nodes & hosts(inventory, "training")
    for host in nodes:
        assert variables(inventory, host)["ansible_connection"] == "ssh"
        assert "proxmox_vmid" not in variables(inventory, host)
    addresses = {variables(inventory, host).get("ansible_host", host) for host in nodes}
    assert addresses == {variables(inventory, host)["ansible_host"] for host in hosts(inventory, "training")}


def test_every_variable_is_known(inventory: dict[str, Any]) -> None:
    used = {name for host in inventory["_meta"]["hostvars"].values() for name in host}
    assert used - known() - of_connections() - of_the_api() - OF_ANSIBLE == set()


def test_every_secret_has_its_place_in_the_vault() -> None:
    secrets = yaml.safe_load((EXAMPLE / "group_vars/training/vault.example").read_text())
    files = [path for path in EXAMPLE.rglob("*.yml") if path.name != "vault.yml"]
    wanted = {name for path in files for name in re.findall(r"\{\{\s*(vault_\w+)", path.read_text())}
    assert wanted <= set(secrets)
    assert all(name.startswith("vault_") for name in secrets)


def test_the_playbooks_take_it() -> None:
    for playbook in ("deploy_training", "rollback_training", "gpu_status"):
        run(BIN / "ansible-playbook", "-i", EXAMPLE, "--syntax-check", f"trainops.proxmox.{playbook}")
