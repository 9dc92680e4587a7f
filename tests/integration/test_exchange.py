# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The exchange over the lab's nodes: what it carries, and what it says when an end is taken away."""

from __future__ import annotations

import hashlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.trainops.proxmox.plugins.plugin_utils import reader
from ansible_collections.trainops.proxmox.plugins.plugin_utils.enter import View
from ansible_collections.trainops.proxmox.plugins.plugin_utils.exchange import Frame, Request, exchange

from lab.api import open_lab
from tests.integration.connections import connect
from tests.integration.cuts import wait_for
from tests.operations import add_operations

PYTHON = "/root/venv/bin/python"
OPERATIONS = {
    "digest": """
import hashlib

def run(channel, params):
    channel.send("need", {})
    channel.receive("file")
    digest = hashlib.sha256()
    for data in channel.read_blob():
        digest.update(data)
    return {"sha256": digest.hexdigest()}
""",
    "wait": """
import os
import time

def run(channel, params):
    channel.send("here", {"pid": os.getpid()})
    time.sleep(600)
""",
    "loud": "def run(channel, params):\n    while True:\n        channel.send('more', {'x': 'y' * 10000})\n",
}


@pytest.fixture(autouse=True)
def operations(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real worker, with operations of these tests beside its own."""
    add_operations(monkeypatch, OPERATIONS)


def gone(vmid: int, pid: int) -> bool:
    return open_lab().container(vmid).run(["test", "-e", f"/proc/{pid}"]).returncode != 0


@pytest.mark.parametrize("way", ["lxc-attach", "pct"])
@pytest.mark.parametrize("host", ["ct200", "ct201", "ct210"])
def test_a_stream_arrives_as_it_was(host: str, way: str) -> None:
    block = bytes(range(256)) * 4096

    def answer(_frame: dict[str, Any]) -> Iterable[Frame]:
        yield Frame("file", {}, (block for _n in range(20)))

    reply = exchange(connect(host, proxmox_enter=way), Request("digest", {}, python=PYTHON), answer)
    assert reply.result["sha256"] == hashlib.sha256(block * 20).hexdigest()


def test_the_nodes_view_comes_with_it() -> None:
    view = View("uname -n; echo smi=$smi", "/opt/smi", 5)

    def answer(_frame: dict[str, Any]) -> Iterable[Frame]:
        yield Frame("file", {}, ())

    reply = exchange(connect("ct200"), Request("digest", {}, python=PYTHON, view=view), answer)
    assert reply.node_view == "pve1\nsmi=/opt/smi"


def test_an_exchange_is_one_session() -> None:
    with open_lab().counting("pve1") as sessions:
        exchange(connect("ct200"), Request("digest", {}, python=PYTHON), lambda _frame: [Frame("file", {}, ())])
        assert sessions() == 1


def test_no_python_is_named_with_the_option_that_sets_it() -> None:
    with pytest.raises(
        AnsibleConnectionFailure, match=r"in container 200 .*no Python at /opt/none/python: set training_python"
    ):
        exchange(connect("ct200"), Request("wait", {}, python="/opt/none/python"))


def test_an_answer_without_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(_frame: dict[str, Any]) -> Iterable[Frame]:
        time.sleep(0.001)
        return []

    with pytest.raises(AnsibleConnectionFailure, match="more answers than were asked for"):
        exchange(connect("ct200"), Request("loud", {}, python=PYTHON), answer)


def test_the_worker_in_the_container_ends_with_a_killed_controller(tmp_path: Path) -> None:
    script = tmp_path / "controller.py"
    script.write_text(f"""
from ansible.plugins.loader import init_plugin_loader
init_plugin_loader()
from ansible_collections.trainops.proxmox.plugins.plugin_utils import exchange as module
from ansible_collections.trainops.proxmox.plugins.plugin_utils import sources
from tests.integration.connections import connect
known = {{**sources.worker_sources(), "wait": {OPERATIONS["wait"]!r}}}
sources.worker_sources = lambda: known
def answer(frame):
    print(frame["pid"], flush=True)
    return []
module.exchange(connect("ct200"), module.Request("wait", {{}}, python={PYTHON!r}), answer)
""")
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, env=_environment(root)) as controller:
        if controller.stdout is None:
            pytest.fail("no pipe")
        worker = int(controller.stdout.readline())
        assert not gone(200, worker)
        controller.send_signal(signal.SIGKILL)
    wait_for(lambda: gone(200, worker))


def _environment(root: Path) -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": str(root)}


@pytest.fixture
def container_again() -> Iterator[None]:
    """Container 201, running again afterwards."""
    yield
    container = open_lab().container(201)
    if container.state() == "FROZEN":
        container.thaw()
    if container.state() != "RUNNING":
        container.start()


@pytest.mark.usefixtures("container_again")
def test_a_container_that_stops_midway_is_a_lost_worker() -> None:
    def answer(_frame: dict[str, Any]) -> Iterable[Frame]:
        open_lab().container(201).stop()
        return []

    with pytest.raises(AnsibleConnectionFailure, match="worker ended without a result"):
        exchange(connect("ct201"), Request("wait", {}, python=PYTHON), answer)


@pytest.mark.usefixtures("container_again")
def test_a_container_that_freezes_midway_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "SILENCE_SECONDS", 4.0)

    def answer(_frame: dict[str, Any]) -> Iterable[Frame]:
        open_lab().container(201).freeze()
        return []

    with pytest.raises(AnsibleConnectionFailure, match="no sign of life"):
        exchange(connect("ct201"), Request("wait", {}, python=PYTHON), answer)


@pytest.mark.usefixtures("container_again")
def test_a_frozen_container_is_not_entered() -> None:
    open_lab().container(201).freeze()
    with pytest.raises(AnsibleConnectionFailure, match=r"container 201 is frozen.*lxc-unfreeze -n 201"):
        exchange(connect("ct201"), Request("wait", {}, python=PYTHON))
