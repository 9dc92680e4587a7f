# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""GPUs of the lab, shared by containers: who sees what of a process that holds memory."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lab import spec
from lab.containers import Container, containers
from lab.holding import held
from lab.nodes import Node

from .pct_cases import Driver, node

MEMORY = ["nvidia-smi", "--query-gpu=uuid,memory.used", "--format=csv,noheader,nounits"]
APPS = ["nvidia-smi", "--query-compute-apps=gpu_uuid,pid,used_memory", "--format=csv,noheader,nounits"]


def container(vmid: int) -> Container:
    return next(one for one in containers(node().lab) if one.vmid == vmid)


def ask(place: Node | Container, argv: list[str]) -> list[list[str]]:
    done = place.run(argv)
    assert done.returncode == 0, done.stderr
    return [line.split(", ") for line in done.stdout.decode().splitlines()]


def memory(place: Node | Container) -> dict[str, int]:
    """MiB in use by GPU, of those that are in use."""
    return {uuid: int(used) for uuid, used in ask(place, MEMORY) if used != "0"}


def uuid_of(vmid: int, index: int) -> str:
    return spec.container_gpus(spec.container_spec(vmid))[index].uuid


@pytest.fixture(autouse=True)
def nothing_held() -> None:
    """What follows counts from idle GPUs."""
    assert memory(node()) == {}


@contextmanager
def holding(place: Node | Container, *options: str) -> Iterator[int]:
    """PID of a holder as it knows itself."""
    with held(place, options) as line:
        match = re.search(r"as process (\d+)$", line)
        assert match, line
        yield int(match[1])


def node_pid(vmid: int, inside: int) -> int:
    """PID on the node of a process of a container, checked against /proc as a person would."""
    ((_, pid, _),) = ask(node(), APPS)
    status = node().check(["cat", f"/proc/{pid}/status"]).decode()
    assert re.search(rf"^NSpid:\s+{pid}\s+{inside}$", status, re.MULTILINE)
    groups = node().check(["cat", f"/proc/{pid}/cgroup"]).decode()
    assert re.search(rf":/lxc/{vmid}(/ns)?(/.*)?$", groups, re.MULTILINE)
    return int(pid)


def test_a_holder_in_201_is_memory_without_a_process_on_200_and_has_a_name_on_the_node() -> None:
    uuid = uuid_of(201, 1)
    with holding(container(201), "--gpu", "1", "--mib", "2048") as inside:
        # inside 201: listed with its own PID
        assert ask(container(201), APPS) == [[uuid, str(inside), "2048"]]
        # inside 200, which shares the GPU: the memory counts, nobody is listed
        assert memory(container(200)) == {uuid: 2048}
        assert ask(container(200), APPS) == []
        # on the node: listed with the node's PID, which leads to the container
        pid = node_pid(201, inside)
        assert ask(node(), APPS) == [[uuid, str(pid), "2048"]]
    assert memory(node()) == {}


def test_holders_of_two_containers_on_one_gpu_add_up() -> None:
    uuid = uuid_of(201, 0)
    (index,) = [gpu.index for gpu in spec.container_gpus(spec.container_spec(200)) if gpu.uuid == uuid]
    with holding(container(201), "--gpu", "0", "--mib", "1000") as other:
        with holding(container(200), "--gpu", str(index), "--mib", "24") as own:
            assert memory(container(200)) == memory(container(201)) == memory(node()) == {uuid: 1024}
            assert ask(container(200), APPS) == [[uuid, str(own), "24"]]
            assert ask(container(201), APPS) == [[uuid, str(other), "1000"]]
            assert sorted(row[2] for row in ask(node(), APPS)) == ["1000", "24"]
        assert memory(container(200)) == {uuid: 1000}


def test_a_holder_on_the_node_is_nobody_inside() -> None:
    uuid = uuid_of(200, 3)
    with holding(node(), "--gpu", "3", "--mib", "512") as pid:
        assert ask(node(), APPS) == [[uuid, str(pid), "512"]]
        assert (memory(container(200)), ask(container(200), APPS)) == ({uuid: 512}, [])


def test_memory_is_free_as_soon_as_its_holder_is_killed(driver: Driver) -> None:
    with holding(container(201), "--gpu", "2", "--mib", "100") as inside:
        pid = node_pid(201, inside)
        driver.call("kill_and_wait", pid=pid, signal=signal.SIGKILL.name)
        assert memory(node()) == {}


def test_a_job_in_its_first_seconds_shows_only_in_its_open_files(driver: Driver) -> None:
    gpu = spec.container_gpus(spec.container_spec(201))[1]
    with holding(container(201), "--gpu", "1", "--no-memory") as inside:
        for place in (container(200), container(201), node()):
            assert (memory(place), ask(place, APPS)) == ({}, [])
        own = container(201).run(["sh", "-c", f"readlink /proc/{inside}/fd/* | grep nvidia | sort -u"]).stdout.decode()
        assert own.split() == ["/dev/nvidia-uvm", f"/dev/nvidia{gpu.minor}", "/dev/nvidiactl"]
        seen = driver.call("in_shell", ct=201, script="readlink /proc/*/fd/* | grep ^/dev/nvidia | sort -u")
        assert seen.split() == own.split()


@pytest.mark.parametrize("vmid", [200, 201, 210])
def test_each_container_has_its_gpus_counted_from_0(vmid: int) -> None:
    given = spec.container_gpus(spec.container_spec(vmid))
    lines = container(vmid).run(["nvidia-smi", "-L"]).stdout.decode().splitlines()
    assert lines == [f"GPU {index}: {gpu.name} (UUID: {gpu.uuid})" for index, gpu in enumerate(given)]
