# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The API's questions, put to a server that answers as Proxmox VE does."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.module_utils import _api_http
from ansible_collections.trainops.proxmox.plugins.module_utils.api import (
    Api,
    ApiAnswer,
    ApiDenied,
    ApiError,
    ApiNotFound,
    Container,
    ready,
)
from fakepve import FakeVm

from lab.pve_mended import MendedPve
from tests.unit.api_servers import Certificate, Reply, certificate, cluster, odd, options, serving

# The server's loop ends with connections open that clients keep.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_api_http, "_PAUSES", (0.0, 0.0))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return certificate(tmp_path_factory.mktemp("tls"))


@dataclass
class Cluster:
    """A cluster that is served. ``change`` runs something in the server's thread."""

    pve: MendedPve
    change: Callable[[Callable[[], object]], None]
    ca_path: str

    def api(self, token: str = "lab") -> Api:
        return Api(options(self.pve.port, token_id=token, ca_path=self.ca_path))

    def asked(self) -> list[str]:
        """The paths that were asked."""
        return [path.removeprefix("/api2/json/") for _method, path, _body in self.pve.requests]


@pytest.fixture
def here(served: Certificate) -> Iterator[Cluster]:
    pve = cluster()
    with serving(pve, served) as change:
        yield Cluster(pve, change, str(served.authority))


def test_all_containers(here: Cluster) -> None:
    found = here.api().containers()
    assert [(one.vmid, one.node, one.status, one.unprivileged, one.gpus) for one in found] == [
        (200, "pve1", "running", True, ()),
        (202, "pve1", "running", True, ()),
        (210, "pve2", "running", True, ()),
    ]
    assert [one.vmid for one in here.api("narrow").containers()] == [200]


def test_one_container(here: Cluster) -> None:
    config = here.pve.ct(200).config
    here.change(lambda: config.update({"dev0": "/dev/nvidia0", "lock": "backup", "tags": "gpu;train"}))
    assert here.api("narrow").container(200) == Container(
        200, "train-200", "pve1", "running", "backup", False, ("gpu", "train"), True, ("/dev/nvidia0",)
    )


def test_a_container_that_is_not_there_and_one_that_may_not_be_seen(here: Cluster) -> None:
    with pytest.raises(ApiNotFound, match=r"has no container 999: correct the vmid"):
        here.api().container(999)
    for vmid in (202, 999):
        with pytest.raises(ApiDenied, match=rf"no VM.Audit on /vms/{vmid}. Grant it on a node: pveum acl modify"):
            here.api("narrow").container(vmid)


def test_a_privilege_counts_by_its_key_whatever_its_value(served: Certificate) -> None:
    replies = [Reply(), Reply(body='{"data": {"/vms/7": {"VM.Audit": 0}}}')]
    with odd(replies, served) as server, pytest.raises(ApiNotFound):
        Api(options(server.server_port, ca_path=str(served.authority))).container(7)


def test_a_virtual_machine(here: Cluster) -> None:
    here.change(lambda: here.pve.vms.append(FakeVm(100, "vm", node="pve1")))
    with pytest.raises(ApiNotFound, match=r"100 is a virtual machine on pve1: set the vmid to a container's id"):
        here.api().container(100)
    assert 100 not in [one.vmid for one in here.api().containers()]


def test_a_node_that_is_down(here: Cluster) -> None:
    here.change(lambda: here.pve.set_node_offline("pve2"))
    one = here.api().container(210)
    assert (one.status, one.unprivileged, one.gpus) == ("unknown", None, None)
    assert "node pve2 does not answer." in (ready(one) or "")
    assert "595 No route to host: bring it back" in (ready(one) or "")
    found = {one.vmid: one.status for one in here.api().containers()}
    assert found == {200: "running", 202: "running", 210: "unknown"}


def test_a_node_that_went_down_a_moment_ago(here: Cluster) -> None:
    path = "/nodes/pve2/lxc/210/status/current"
    here.change(lambda: here.pve.fail("GET", path, 595, "Connection refused"))
    one = here.api().container(210)
    assert (one.status, one.name) == ("unknown", "train-210")
    assert here.asked().count(path[1:]) == 3
    assert "nodes/pve2/lxc/210/config" not in here.asked()


def test_a_node_that_comes_back_between_two_attempts(here: Cluster) -> None:
    here.change(lambda: here.pve.fail("GET", "/nodes/pve2/lxc/210/status/current", 596, "Broken pipe", times=2))
    assert here.api().container(210).status == "running"


def test_a_silent_node_is_asked_about_one_container_of_many(here: Cluster) -> None:
    here.change(lambda: here.pve.set_node_offline("pve1"))
    assert [one.status for one in here.api().containers()] == ["unknown", "unknown", "running"]
    assert len([path for path in here.asked() if path.startswith("nodes/pve1/")]) == 1


def moved(vmid: int, node: str, name: str = "c") -> dict[str, Any]:
    return {"type": "lxc", "vmid": vmid, "node": node, "status": "running", "name": name}


GONE = Reply(500, '{"data":null,"message":"Configuration file \'nodes/a/lxc/7.conf\' does not exist\\n"}')


def data(value: object) -> Reply:
    return Reply(body=json.dumps({"data": value}))


def test_a_container_that_moves_between_two_questions_is_found_again(served: Certificate) -> None:
    replies = [data([moved(7, "a")]), GONE, data([moved(7, "b")]), data({"status": "stopped"}), data({})]
    with odd(replies, served) as server:
        one = Api(options(server.server_port, ca_path=str(served.authority))).container(7)
        assert (one.node, one.status, one.name) == ("b", "stopped", "c")
        assert server.asked[3] == "/api2/json/nodes/b/lxc/7/status/current"


def test_a_container_that_is_nowhere_is_looked_for_twice(served: Certificate) -> None:
    with odd([data([moved(7, "a")]), GONE, data([moved(7, "a")]), GONE], served) as server:
        with pytest.raises(ApiNotFound, match=r"container 7 \(c\) on a is being moved or removed right now: try again"):
            Api(options(server.server_port, ca_path=str(served.authority))).container(7)
        assert len(server.asked) == 4


def test_numbers_may_be_strings(served: Certificate) -> None:
    row = {**moved(7, "a"), "vmid": "7", "template": "0"}
    now = {"status": "running", "vmid": "7", "template": "1"}
    with odd([data([row]), data(now), data({"unprivileged": "1"})], served) as server:
        one = Api(options(server.server_port, ca_path=str(served.authority))).container(7)
    assert (one.vmid, one.template, one.unprivileged) == (7, True, True)


@pytest.mark.parametrize("strange", ['{"data": null}', '{"data": {}}', '{"data": [1]}', '{"data": [{"type": "lxc"}]}'])
def test_data_of_another_form(strange: str, served: Certificate) -> None:
    with odd([Reply(body=strange)], served) as server:
        api = Api(options(server.server_port, ca_path=str(served.authority)))
        with pytest.raises(ApiAnswer, match=r"answers /cluster/resources in a form that is not known"):
            api.containers()


def test_the_addresses_of_nodes(here: Cluster) -> None:
    assert here.api().node_addresses() == {"pve1": "10.1.2.6", "pve2": "10.1.2.7"}
    assert here.api("narrow").node_addresses() == {}


def test_a_wrong_secret(here: Cluster, served: Certificate) -> None:
    wrong = options(here.pve.port, token_secret="wrong-secret", ca_path=str(served.authority))
    with pytest.raises(ApiError) as caught:
        Api(wrong).containers()
    assert "refuses the token automation@pve!lab (Authentication failed!)" in caught.value.message
    assert "wrong-secret" not in caught.value.message
