# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the API tells of a container, as values, and whether one can work in it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.module_utils._api_container import (
    Container,
    container,
    elsewhere,
    gpus,
    ready,
    truth,
    warnings,
)

RUNNING = Container(200, "train-a", "pve1", "running", gpus=())
# Those of PVE::LXC::Config.
HARMFUL = {"create", "destroyed", "disk", "migrate", "mounted", "rollback"}
HARMLESS = {"backup", "fstrim", "snapshot", "snapshot-delete"}


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (
            {"vmid": "200", "node": "pve1", "status": "running", "template": "0", "name": "a", "tags": "gpu;x"},
            Container(200, "a", "pve1", "running", tags=("gpu", "x")),
        ),
        (
            {"vmid": 9, "node": "n", "status": "stopped", "template": 1, "lock": "backup", "tags": ""},
            Container(9, "", "n", "stopped", "backup", True),
        ),
        ({"vmid": 9, "node": "n", "status": "unknown"}, Container(9, "", "n", "unknown")),
        ({"vmid": 9, "node": "n"}, Container(9, "", "n", "unknown")),
    ],
)
def test_a_row(row: dict[str, Any], expected: Container) -> None:
    assert container(row) == expected


@pytest.mark.parametrize("row", [{}, {"vmid": 1}, {"vmid": "x", "node": "n"}, {"vmid": None, "node": "n"}])
def test_a_row_that_is_none(row: dict[str, Any]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        container(row)


@pytest.mark.parametrize(
    ("value", "expected"), [(1, True), ("1", True), (True, True), (0, False), ("0", False), (None, False), ("", False)]
)
def test_a_boolean(value: object, expected: bool) -> None:
    assert truth(value) is expected


def raw(*lines: str) -> list[list[str]]:
    return [line.split(": ", 1) for line in lines]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, ()),
        ({"dev0": "/dev/nvidia0,gid=44", "dev1": "/dev/nvidiactl", "dev2": "/dev/nvidia-uvm"}, ("/dev/nvidia0",)),
        ({"dev10": "/dev/nvidia2", "dev9": "/dev/nvidia1", "dev0": "path=/dev/nvidia0,mode=0660"}, ("0", "1", "2")),
        ({"dev0": "/dev/nvidia-caps/nvidia-cap1,mode=0666"}, ("/dev/nvidia-caps/nvidia-cap1",)),
        ({"dev0": "/dev/ttyUSB0", "device": "x", "description": "dev0: /dev/nvidia0"}, ()),
        (
            {
                "lxc": raw(
                    "lxc.cgroup2.devices.allow: c 195:* rwm", "lxc.mount.entry: /dev/nvidia3 dev/nvidia3 none bind"
                )
            },
            ("/dev/nvidia3",),
        ),
        ({"lxc": raw("lxc.mount.entry: /dev/dri dev/dri none bind,optional,create=dir")}, ("/dev/dri",)),
        ({"lxc": raw("lxc.mount.entry: /dev/dri/ dev/dri none bind"), "dev0": "/dev/kfd"}, ("/dev/kfd", "/dev/dri")),
        ({"lxc": raw("lxc.mount.entry: /data data none bind", "lxc.mount.entry: ")}, ()),
        ({"dev0": "/dev/nvidia0", "lxc": raw("lxc.mount.entry: /dev/nvidia0 dev/nvidia0 none bind")}, ("0",)),
        (
            {
                "lxc": raw(
                    "lxc.hook.mount: /usr/share/lxc/hooks/nvidia",
                    "lxc.environment: NVIDIA_VISIBLE_DEVICES=all",
                    "lxc.environment: NVIDIA_DRIVER_CAPABILITIES=compute,utility",
                )
            },
            ("NVIDIA_VISIBLE_DEVICES=all",),
        ),
        (
            {
                "lxc": raw("lxc.hook.mount: /usr/share/lxc/hooks/nvidia"),
                "env": "A=1\0NVIDIA_VISIBLE_DEVICES=0,1\0B=2",
            },
            ("NVIDIA_VISIBLE_DEVICES=0,1",),
        ),
        ({"lxc": raw("lxc.environment: NVIDIA_VISIBLE_DEVICES=all")}, ()),
        (
            {"lxc": raw("lxc.hook.mount: /usr/share/lxc/hooks/nvidia", "lxc.environment: NVIDIA_VISIBLE_DEVICES=none")},
            (),
        ),
    ],
)
def test_the_gpus_of_a_config(config: dict[str, Any], expected: tuple[str, ...]) -> None:
    assert gpus(config) == tuple(f"/dev/nvidia{name}" if name.isdigit() else name for name in expected)


@pytest.mark.parametrize("lock", [*sorted(HARMFUL | HARMLESS), "one-of-tomorrow"])
def test_locks(lock: str) -> None:
    one = replace(RUNNING, lock=lock)
    if lock in HARMLESS:
        assert ready(one) is None
        assert warnings(one)[0].startswith(f"container 200 (train-a) on pve1 is locked ({lock}): ")
    else:
        told = ready(one) or ""
        assert told.startswith(f"container 200 (train-a) on pve1 is locked ({lock}): ")
        assert told.endswith("pct unlock 200 lifts the lock")


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (RUNNING, None),
        (replace(RUNNING, status="stopped"), "container 200 (train-a) on pve1 is stopped: start it with pct start 200"),
        (replace(RUNNING, status="stopped", lock="backup"), "is stopped and locked (backup): a backup"),
        (replace(RUNNING, status="stopped", template=True), "is a template, which never runs"),
        (
            Container(200, "", "pve1", "unknown", unknown_because="node pve1 does not answer"),
            "container 200 on pve1 cannot be looked at: node pve1 does not answer",
        ),
    ],
)
def test_ready(one: Container, said: str | None) -> None:
    told = ready(one)
    assert told is None if said is None else said in (told or "")


def test_a_config_that_was_not_read_is_a_warning() -> None:
    assert warnings(RUNNING) == []
    assert warnings(replace(RUNNING, gpus=None, unknown_because="why")) == [
        "container 200 (train-a) on pve1: its config could not be read: why"
    ]


@pytest.mark.parametrize(
    ("address", "addresses", "said"),
    [
        ("10.1.2.6", {"pve1": "10.1.2.6", "pve2": "10.1.2.7"}, None),
        ("10.1.2.7", {"pve1": "10.1.2.6", "pve2": "10.1.2.7"}, "10.1.2.7 leads to pve2: set ansible_host to 10.1.2.6"),
        ("10.1.2.7", {"pve2": "10.1.2.7"}, "set ansible_host to the address of pve1"),
        ("192.0.2.1", {"pve1": "10.1.2.6", "pve2": "10.1.2.7"}, None),
        ("pve2.example.com", {"pve1": "10.1.2.6", "pve2": "10.1.2.7"}, "leads to pve2"),
        ("pve1", {"pve1": "10.1.2.6", "pve2": "10.1.2.7"}, None),
        ("gateway", {"pve1": "10.1.2.6", "pve2": "10.1.2.7"}, None),
        ("10.1.2.9", {"pve1": "10.1.2.6", "10": "10.1.2.7"}, None),
        ("10.1.2.7", {}, None),
    ],
)
def test_elsewhere(address: str, addresses: dict[str, str], said: str | None) -> None:
    told = elsewhere(RUNNING, address, addresses)
    assert told is None if said is None else said in (told or "")
