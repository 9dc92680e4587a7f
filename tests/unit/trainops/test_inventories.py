"""Inventories are looked at before Ansible reads them: what it would warn of and go on without is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trainops.errors import InventoryNotFound, WrongInventory
from trainops.inventories import configured, named, require_readable

GOOD = {
    "groups": "---\ntraining:\n  hosts:\n    ct200: {ansible_host: 10.1.2.6}\n    ct201:\n  vars:\n    a: [1, 2]\n",
    "a range, a merge and a child": (
        "common: &common\n  vars: &vars {a: 1}\nall:\n  children:\n    training:\n      hosts:\n        ct[200:210]:\n"
        "          <<: *vars\n    other:\n"
    ),
    "tags of Ansible": "training:\n  hosts:\n    ct200:\n      word: !unsafe '{{'\n      key: !vault |\n        $A\n",
    "a whole vault": "$ANSIBLE_VAULT;1.1;AES256\n3132\n",
    "an inventory plugin": "plugin: ansible.builtin.constructed\ngroups: [a]\nstrict: true\n",
    "one host as a word": "training:\n  hosts: ct200\n",
    "nothing": "",
}
BAD = {
    "training:\n  hosts:\n   ct200: {ansible_host: 10.1.2.6\n  vars: x\n": "4:7: this is no YAML: while parsing a flow",
    "training:\n\thosts:\n": "2:1: this is no YAML: while scanning for the next token found",
    "training:\n  hosts:\n    ct200:\n     - a\n": "4:6: host ct200 must be a mapping of its variables",
    "training:\n  hosts:\n    - ct200\n": "3:5: hosts of group training must be a mapping, a name and a colon on each",
    "training:\n  vars: x\n": "2:9: vars of group training must be a mapping",
    "training:\n  children:\n    inner:\n      hosts: [a]\n": "4:14: hosts of group inner must be a mapping",
    "- ct200\n": "1:1: an inventory is a mapping of groups: begin with `training:` and `hosts:`",
    "training: [ct200]\n": "1:11: group training must be a mapping of hosts, vars, children",
    "a: &b [*b\n": "this is no YAML: ",
    "a: 1\n---\nb: 2\n": "this is no YAML: expected a single document",
    "a: \x01\n": "this is no YAML: ",
}


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD)
def test_what_ansible_reads_passes(tmp_path: Path, text: str) -> None:
    path = tmp_path / "inventory.yml"
    path.write_text(text)
    require_readable([str(path), "ct200,ct201"])
    if text and not text.startswith(("$", "plugin")):
        argv: list[str | Path] = [Path(sys.executable).with_name("ansible-inventory"), "-i", path, "--list"]
        environment = {**os.environ, "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "1", "LC_ALL": "C.UTF-8"}
        if "!vault" not in text:
            subprocess.run(argv, env=environment, check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize(("text", "said"), BAD.items())
def test_what_ansible_would_go_on_without_is_refused_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "hosts.yaml"
    path.write_text(text)
    with pytest.raises(WrongInventory) as caught:
        require_readable([str(path)])
    assert str(caught.value).startswith(f"{path}:")
    assert said in str(caught.value)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "hosts.yml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(WrongInventory, match=f"^{path}: it is no text in UTF-8"):
        require_readable([str(path)])


@pytest.mark.parametrize("name", ["hosts", "hosts.ini", "run.yml"])
def test_other_forms_are_ansibles(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("[training]\nct200\n")
    path.chmod(0o755)
    require_readable([str(path), str(tmp_path)])


def test_a_folders_configuration_names_them(tmp_path: Path) -> None:
    (tmp_path / "ansible.cfg").write_text("[defaults]\ninventory = a.yml, /b/c.yml ; mine\nx = %(y)s\n")
    assert configured(tmp_path, {}) == [str(tmp_path / "a.yml"), "/b/c.yml"]
    assert configured(tmp_path, {"ANSIBLE_INVENTORY": "x"}) == []
    assert configured(tmp_path / "none", {}) == []


def test_a_configuration_that_is_none_is_left_to_ansible(tmp_path: Path) -> None:
    (tmp_path / "ansible.cfg").write_text("inventory = a.yml\n")
    assert configured(tmp_path, {}) == []


def test_sources_that_are_not_there_are_refused(tmp_path: Path) -> None:
    assert named(["ct200,", "/"], tmp_path) == ["ct200,", "/"]
    with pytest.raises(InventoryNotFound, match="there is no inventory"):
        named("gone.yml", tmp_path)
