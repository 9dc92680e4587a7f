# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What container_info returns, and when it refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ansible_collections.trainops.proxmox.plugins.module_utils._api_container import Container
from ansible_collections.trainops.proxmox.plugins.module_utils._container_info import count, look, state

ONE = Container(200, "train-a", "pve1", "running", tags=("gpu",), unprivileged=False, gpus=("/dev/nvidia0",))
STOPPED = Container(202, "spare", "pve2", "stopped", gpus=())


class Known:
    """An API that knows these."""

    def __init__(self, *containers: Container) -> None:
        self.known = list(containers)

    def containers(self) -> list[Container]:
        return self.known

    def container(self, vmid: int) -> Container:
        return next(one for one in self.known if one.vmid == vmid)

    def node_addresses(self) -> dict[str, str]:
        return {"pve1": "10.1.2.6", "pve2": "10.1.2.7"}


def test_one() -> None:
    found = look(Known(ONE), 200, True, "10.1.2.6")
    assert (found.refusal, found.warnings, found.summary) == ("", [], "running on pve1, not locked")
    assert found.containers == [
        {
            "vmid": 200,
            "name": "train-a",
            "node": "pve1",
            "node_address": "10.1.2.6",
            "status": "running",
            "lock": None,
            "template": False,
            "tags": ["gpu"],
            "unprivileged": False,
            "gpus": ["/dev/nvidia0"],
        }
    ]


@pytest.mark.parametrize(
    ("vmid", "must_be_ready", "address", "code", "said"),
    [
        (202, True, None, "not-ready", "container 202 (spare) on pve2 is stopped"),
        (202, True, "10.1.2.6", "not-ready", "container 202 (spare) on pve2 is stopped"),
        (202, False, None, "", ""),
        (202, False, "10.1.2.6", "other-node", "container 202 is on node pve2 (10.1.2.7), and 10.1.2.6 leads to pve1"),
        (200, True, "10.1.2.7", "other-node", "set ansible_host to 10.1.2.6"),
    ],
)
def test_refusals(vmid: int, must_be_ready: bool, address: str | None, code: str, said: str) -> None:
    found = look(Known(ONE, STOPPED), vmid, must_be_ready, address)
    assert said in found.refusal
    assert bool(found.refusal) is bool(said)
    assert not said or found.code == code
    assert found.containers[0]["vmid"] == vmid


def test_a_harmless_lock_is_a_warning() -> None:
    found = look(Known(replace(ONE, lock="backup")), 200, True, None)
    assert found.refusal == ""
    assert "is locked (backup)" in found.warnings[0]
    assert found.summary == "running on pve1, locked (backup)"


def test_all() -> None:
    found = look(Known(ONE, replace(STOPPED, gpus=None)), None, False, None)
    assert [row["vmid"] for row in found.containers] == [200, 202]
    assert found.warnings == ["container 202 (spare) on pve2: its config could not be read"]
    assert found.summary == "2 containers, 1 running"


@pytest.mark.parametrize(
    ("one", "told"),
    [
        (replace(ONE, lock="migrate"), "running on pve1, locked (migrate)"),
        (replace(STOPPED, template=True), "template on pve2, not locked"),
        (replace(ONE, status="unknown"), "state unknown on pve1, not locked"),
    ],
)
def test_state(one: Container, told: str) -> None:
    assert state(one) == told


def test_count() -> None:
    assert count([]) == "no container that the token may see"
    assert count([STOPPED]) == "1 container, 0 running"
