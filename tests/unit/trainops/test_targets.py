"""Containers and nodes as a person names them."""

from __future__ import annotations

import pytest

from trainops.errors import WrongTarget
from trainops.targets import Target, containers, looks_like_target, nodes, read_target


@pytest.mark.parametrize(
    ("text", "address", "user", "port", "vmid", "root"),
    [
        ("10.1.2.6", "10.1.2.6", None, None, None, None),
        ("root@10.1.2.6", "10.1.2.6", "root", None, None, None),
        ("root@10.1.2.6/200", "10.1.2.6", "root", None, 200, None),
        ("root@10.1.2.6/200:/root", "10.1.2.6", "root", None, 200, "/root"),
        ("root@10.1.2.6/200:/", "10.1.2.6", "root", None, 200, "/"),
        ("pve1/200:/opt//a b/", "pve1", None, None, 200, "/opt/a b"),
        ("ops@pve1.lan:2222/999999999:/srv/ü", "pve1.lan", "ops", 2222, 999999999, "/srv/ü"),
        ("root@[fd00::6]/200:/root", "fd00::6", "root", None, 200, "/root"),
        ("[fe80::1%eth0]:22", "fe80::1%eth0", None, 22, None, None),
        ("root@pve1/200:/a:b", "pve1", "root", None, 200, "/a:b"),
    ],
)
def test_a_target_is_read(
    text: str, address: str, user: str | None, port: int | None, vmid: int | None, root: str | None
) -> None:
    assert read_target(text) == Target(text, address, user, port, vmid, root)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is no target"),
        ("200", "is no target"),
        ("root@", "is no target"),
        ("root@-oProxyCommand=x/200:/root", "is no target"),
        ("a@b@c/200", "is no target"),
        ("root@pve1:/root", "needs the container before it"),
        ("root@pve1:200:/root", "needs the container before it"),
        ("root@pve1:0/200", "0 is no port"),
        ("root@pve1:70000/200", "70000 is no port"),
        ("root@pve1/", "'' is no container's id"),
        ("root@pve1/ct200:/root", "'ct200' is no container's id"),
        ("root@pve1/99:/root", "from 100"),
        ("root@pve1/²00:/root", "is no container's id"),
        ("root@pve1/200/root", "'200/root' is no container's id"),
        ("root@pve1/200:root", "must begin with /"),
        ("root@pve1/200:", "must begin with /"),
        ("root@pve1/200:/a\nb", "has characters that no target has"),
        ("root@\udcff/200", "has characters that no target has"),
        ("root@{{ 7*7 }}/200:/root", "is no target"),
        ("{{ 1 }}@pve1/200:/root", "is no target"),
        ("-oProxyCommand=x@pve1", "is no target"),
    ],
)
def test_what_is_wrong_with_a_target_is_said(text: str, said: str) -> None:
    with pytest.raises(WrongTarget, match=r"(?s)^.*$") as caught:
        read_target(text)
    assert said in str(caught.value)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("root@10.1.2.6/200:/root", True),
        ("root@10.1.2.6", True),
        ("root@pve1/ct200:/root", True),
        ("pve1/200:/root", True),
        ("pve1/200", True),
        ("scripts", False),
        ("/data/dflash/scripts", False),
        ("./root@x", False),
        ("data/v2", False),
        ("train.py", False),
    ],
)
def test_a_target_is_told_from_a_path(word: str, meant: bool) -> None:
    assert looks_like_target(word) is meant


def test_containers_become_an_inventory() -> None:
    targets = [read_target("root@pve1:2222/200:/root"), read_target("pve2/200:/srv"), read_target("pve2/210:/root")]
    assert containers(targets, {"training_project": "/p"}, need_root=True) == {
        "training": {
            "hosts": {
                "ct200_pve1_2222": {
                    "ansible_host": "pve1",
                    "ansible_user": "root",
                    "ansible_port": 2222,
                    "proxmox_vmid": 200,
                    "training_root": "/root",
                },
                "ct200_pve2": {"ansible_host": "pve2", "proxmox_vmid": 200, "training_root": "/srv"},
                "ct210": {"ansible_host": "pve2", "proxmox_vmid": 210, "training_root": "/root"},
            },
            "vars": {"ansible_connection": "trainops.proxmox.pct", "training_project": "/p"},
        }
    }


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["root@pve1"], "names no container"),
        (
            ["r3"],
            "'r3' is a run, and a container is named here: trainops status shows all runs; of one there",
        ),
        (["ct200"], "(a host of the inventory: --limit ct200)"),
        (["root@pve1/200"], "names no folder in the container: write root@pve1/200:/root"),
        (["root@pve1/200:/a", "pve1/200:/b"], "pve1/200 is named twice"),
    ],
)
def test_what_cannot_be_an_inventory_is_said(texts: list[str], said: str) -> None:
    with pytest.raises(WrongTarget) as caught:
        containers([read_target(text) for text in texts], {}, need_root=True)
    assert said in str(caught.value)


def test_nodes_become_an_inventory_each_once() -> None:
    targets = [read_target(text) for text in ("root@pve1/200:/root", "root@pve1", "pve2:2222", "pve2:2223")]
    assert nodes(targets) == {
        "nodes": {
            "hosts": {
                "pve1": {"ansible_host": "pve1", "ansible_user": "root"},
                "pve2_2222": {"ansible_host": "pve2", "ansible_port": 2222},
                "pve2_2223": {"ansible_host": "pve2", "ansible_port": 2223},
            },
            "vars": {"ansible_connection": "ssh"},
        }
    }
