# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The way into a container from localhost: which connection, whether the API is asked, and what it says."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.module_utils.api import ApiDenied, Container
from ansible_collections.trainops.proxmox.plugins.plugin_utils import way
from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import OptionError, StepError

LOCAL = SimpleNamespace(transport="local")
SSH = SimpleNamespace(transport="ssh")
PCT = SimpleNamespace(transport=way.PCT, open_session=None, get_option=lambda name: {"vmid": "200"}[name])
NONE = dict.fromkeys(way.API_ARGUMENT_SPEC) | {"api_port": 8006, "api_timeout": 35.0}
TOKEN = {"api_host": "pve1", "api_user": "a@pve", "api_token_id": "token", "api_token_secret": "s3cret"}


@pytest.mark.parametrize(("connection", "vmid", "inside"), [(PCT, None, True), (PCT, 200, True), (LOCAL, 200, False)])
def test_where_a_task_runs(connection: Any, vmid: int | None, inside: bool) -> None:
    assert way.is_inside(connection, vmid) is inside


@pytest.mark.parametrize(
    ("connection", "vmid", "text"),
    [
        (PCT, 201, "option vmid: this host is container 200 already .* not 201: leave vmid out, or delegate"),
        (LOCAL, None, "controller itself: set option vmid for a container, or .* with ansible.builtin.copy"),
        (SSH, None, "connection is 'ssh': set ansible_connection: trainops.proxmox.pct"),
        (SSH, 200, "connection is 'ssh'"),
    ],
)
def test_where_a_task_cannot_run(connection: Any, vmid: int | None, text: str) -> None:
    with pytest.raises(OptionError, match=text):
        way.is_inside(connection, vmid)


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOST", "PORT", "USER", "TOKEN_ID", "TOKEN_SECRET", "CA_PATH", "FINGERPRINT"):
        monkeypatch.delenv(f"PROXMOX_{name}", raising=False)


def test_the_api_by_options_and_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert way.api_options(NONE, {}) is None
    found = way.api_options({**NONE, **TOKEN}, TOKEN)
    assert found is not None
    assert (found.host, found.port, found.user, found.token_id) == ("pve1", 8006, "a@pve", "token")
    monkeypatch.setenv("PROXMOX_HOST", "pve9")
    assert way.api_options(NONE, {}) is None  # of another tool
    for name, value in (("TOKEN_ID", "b@pve!other"), ("TOKEN_SECRET", "other"), ("PORT", "8443")):
        monkeypatch.setenv(f"PROXMOX_{name}", value)
    found = way.api_options(NONE, {})
    assert found is not None
    assert (found.host, found.port, found.user, found.token_id) == ("pve9", 8443, "b@pve", "other")
    given = {**TOKEN, "api_port": 8007}
    found = way.api_options({**NONE, **given}, given)
    assert found is not None
    assert (found.host, found.port) == ("pve1", 8007)


def test_half_a_configuration_is_told() -> None:
    with pytest.raises(StepError, match="api_token_id") as caught:
        way.api_options({**NONE, "api_host": "pve1"}, {"api_host": "pve1"})
    assert caught.value.code == "api-options"


class Asked:
    """An API with one container."""

    container_is: Any = Container(200, "train", "pve1", "running", unprivileged=False, gpus=())
    addresses: Mapping[str, str] = MappingProxyType({})

    def __init__(self, options: Any) -> None:
        pass

    def container(self, vmid: int) -> Container:
        if isinstance(self.container_is, Exception):
            raise self.container_is
        found: Container = self.container_is
        return found

    def node_addresses(self) -> Mapping[str, str]:
        return self.addresses


@pytest.mark.parametrize(
    ("addresses", "address", "expected"),
    [({}, None, "pve1"), ({"pve1": "192.0.2.1"}, None, "192.0.2.1"), ({"pve1": "192.0.2.1"}, "gate", "gate")],
)
def test_which_address(
    monkeypatch: pytest.MonkeyPatch, addresses: dict[str, str], address: str | None, expected: str
) -> None:
    monkeypatch.setattr(way, "Api", type("Api", (Asked,), {"addresses": addresses}))
    options = way.api_options({**NONE, **TOKEN}, TOKEN)
    assert way.find_node(200, options, address) == way.Node("pve1", expected)


@pytest.mark.parametrize(
    ("container", "code", "text"),
    [
        (Container(200, "train", "pve1", "stopped"), "not-ready", "is stopped: start it with pct start 200"),
        (Container(200, "train", "pve1", "running", lock="migrate"), "not-ready", "is locked (migrate)"),
        (ApiDenied("the token is refused"), "api-denied", "the token is refused"),
    ],
)
def test_nobody_goes_where_nobody_can_work(
    monkeypatch: pytest.MonkeyPatch, container: Any, code: str, text: str
) -> None:
    monkeypatch.setattr(way, "Api", type("Api", (Asked,), {"container_is": container}))
    with pytest.raises(StepError) as caught:
        way.find_node(200, way.api_options({**NONE, **TOKEN}, TOKEN), None)
    assert (caught.value.code, text in caught.value.message, caught.value.details["vmid"]) == (code, True, 200)


def test_a_backup_is_only_told(monkeypatch: pytest.MonkeyPatch) -> None:
    locked = Container(200, "train", "pve1", "running", lock="backup", gpus=())
    monkeypatch.setattr(way, "Api", type("Api", (Asked,), {"container_is": locked}))
    (warning,) = way.find_node(200, way.api_options({**NONE, **TOKEN}, TOKEN), None).warnings
    assert "is locked (backup)" in warning


def test_without_the_api_an_address_is_needed() -> None:
    assert way.find_node(200, None, "192.0.2.1") == way.Node("", "192.0.2.1")
    with pytest.raises(OptionError, match="on which node container 200 is: set option node_address, or api_host"):
        way.find_node(200, None, None)


def test_the_connection_has_the_plays_ssh_options() -> None:
    variables = {
        "ansible_ssh_common_args": "{{ args }}",
        "ansible_host": "another",
        "ansible_port": 2222,
        "other": "{{",
    }
    made = way.connect(
        200,
        way.Node("pve1", "192.0.2.1"),
        way.Login("ann"),
        variables,
        lambda value: {"{{ args }}": "-J gate"}.get(value, value),
    )
    options = {name: made.get_option(name) for name in ("host", "vmid", "port", "ssh_common_args")}
    assert options == {"host": "192.0.2.1", "vmid": 200, "port": 2222, "ssh_common_args": "-J gate"}
    assert [part for part in made._ssh("true") if part in (b'User="ann"', b"Port=2222", b"192.0.2.1", b"gate")]
    assert made._login.user == "ann"
    port = way.connect(200, way.Node("", "h"), way.Login("root", 22), variables, str)
    assert port.get_option("port") == 22


def test_failures_name_the_options_of_the_task() -> None:
    text = "set ansible_host to that node's address, or correct proxmox_vmid and ansible_port"
    assert way.in_options(text) == "set node_address to that node's address, or correct vmid and node_port"
