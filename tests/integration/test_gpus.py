# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The GPUs of the lab's containers: who holds what, waiting for them, and what nvidia-smi may do wrong."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils import nvidia_smi
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_look import look
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_result import info_result

from lab.api import Lab, open_lab
from tests.integration.connections import connect, inventory
from tests.integration.steps import run_step

INFO = "trainops.proxmox.gpu_info"
IDLE = "trainops.proxmox.gpu_idle"
SMI = "/usr/bin/nvidia-smi"


@pytest.fixture
def lab() -> Lab:
    return open_lab()


def info(host: str = "ct200", **options: Any) -> dict[str, Any]:
    """What gpu_info returns for a host: over its real connection, without the seconds that a playbook takes."""
    defaults = {"nvidia_smi": "nvidia-smi", "nvidia_smi_timeout": 30, "node_view": True, "memory_mib": 64}
    return info_result(look(connect(host), {**defaults, "python": None, **options}))


@pytest.fixture
def idle(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """The result of gpu_idle on one host, by default of a single look."""
    return lambda host="ct200", **options: run_step(tmp_path, IDLE, {"timeout": 0, **options}, inventory(), host)[host]


@contextlib.contextmanager
def fault(lab: Lab, vmid: int | None, **what: Any) -> Iterator[None]:
    """A fault of the nvidia-smi in a container of pve1, or on pve1 itself."""
    place = lab.node("pve1").folder / ("etc" if vmid is None else f"lxc/{vmid}/etc")
    path = place / "nvidia-smi.faults.json"
    path.write_text(json.dumps(what))
    try:
        yield
    finally:
        path.unlink()


def busy(result: dict[str, Any]) -> list[int]:
    return [gpu["index"] for gpu in result["gpus"] if gpu["verdict"] == "busy"]


def causes(result: dict[str, Any]) -> set[tuple[str, str | None]]:
    return {(gpu["verdict"], gpu["cause"]) for gpu in result["gpus"]}


def test_an_expression_over_the_state_is_waited_for(lab: Lab, idle: Callable[..., dict[str, Any]]) -> None:
    wanted = {"select": "[?verdict == 'idle']", "count": 2, "require": False}
    with lab.hold(210, gpu=0, mib=500):
        result = idle("ct210", **wanted)
    assert (result["idle"], result["indexes"]) == (False, [])
    assert result["summary"].startswith("too few GPUs match option select now; 1 of 2 idle; GPU 0 busy")
    assert idle("ct210", timeout=30, interval=0.5, **wanted)["indexes"] == [0, 1]
    missing = idle("ct210", **{**wanted, "count": 3})
    assert (missing["failed"], missing["code"]) == (True, "option")


def test_every_container_shows_its_own_gpus(lab: Lab, tmp_path: Path) -> None:
    found = run_step(tmp_path, INFO, {}, inventory(), "training")
    assert set(found) == {"ct200", "ct201", "ct210"}
    for host, result in found.items():
        expected = lab.gpus(int(host.removeprefix("ct")))
        assert [gpu["uuid"] for gpu in result["gpus"]] == [gpu.uuid for gpu in expected]
        assert [gpu["minor"] for gpu in result["gpus"]] == [gpu.minor for gpu in expected]
        assert [gpu["memory_total_mib"] for gpu in result["gpus"]] == [gpu.total_mib for gpu in expected]
        assert causes(result) == {("idle", None)}
        assert (result["view"], result["changed"]) == ("node", False)
        assert result["summary"] == f"{len(expected)} of {len(expected)} idle, 0 MiB each, no holder"


def test_a_hold_from_another_container_is_named_by_the_node(lab: Lab) -> None:
    with lab.hold(201, gpu=1, mib=2048):
        result = info()
        assert busy(result) == [5]
        assert [gpu["uuid"] for gpu in lab_gpus(result, 5)] == [lab.gpus(201)[1].uuid]
        (process,) = result["gpus"][5]["processes"]
        assert (process["vmid"], process["container"], process["where"]) == (201, "train-b", "other")
        assert process["memory_mib"] == 2048
        command = lab.container(201).run(["cat", f"/proc/{process['pid']}/cmdline"]).stdout
        assert b"hold\0--gpu\0001\0--mib\0002048" in command
        status = lab.node("pve1").check(["cat", f"/proc/{process['node_pid']}/status"]).decode()
        assert f"NSpid:\t{process['node_pid']}\t{process['pid']}\n" in status
        age = time.time() - hold_started(lab, process["node_pid"])
        assert abs(age - process["age_seconds"]) < 60
        own = info("ct201")
        assert busy(own) == [1]
        assert own["gpus"][1]["processes"][0]["where"] == "here"
        assert own["gpus"][1]["processes"][0]["pid"] == process["pid"]


def lab_gpus(result: dict[str, Any], *indexes: int) -> list[dict[str, Any]]:
    return [result["gpus"][index] for index in indexes]


def hold_started(lab: Lab, pid: int) -> float:
    """When a process of pve1 was started, by the time stamp of its folder in /proc."""
    return float(lab.node("pve1").check(["stat", "-c", "%Y", f"/proc/{pid}"]))


def test_a_job_without_memory_yet_is_seen_by_the_node_alone(lab: Lab) -> None:
    with lab.hold(201, gpu=0):
        result = info()
        assert busy(result) == [4]
        assert result["gpus"][4]["cause"] == "opened"
        assert "opened by vmid 201 (train-b) pid " in result["summary"]
        inside = info(node_view=False)
        assert busy(inside) == []
        assert inside["summary"].endswith(", as seen from inside")
        assert busy(info("ct201", node_view=False)) == [0]


def test_a_process_of_the_node_itself_is_a_holder(lab: Lab) -> None:
    with lab.hold("pve1", gpu=2, mib=300):
        result = info()
        assert busy(result) == [2]
        (process,) = result["gpus"][2]["processes"]
        assert (process["where"], process["vmid"], process["pid"]) == ("node", None, None)
        assert "held by the node's pid " in result["summary"]


def test_another_node_does_not_matter(lab: Lab) -> None:
    with lab.hold(210, gpu=0, mib=300):
        assert busy(info()) == []
        assert busy(info("ct210")) == [0]


def test_from_inside_memory_of_others_counts_and_has_no_name(lab: Lab) -> None:
    with lab.hold(201, gpu=1, mib=2048):
        result = info(node_view=False)
    assert busy(result) == [5]
    assert result["gpus"][5]["processes"] == []
    assert result["view"] == "inside"
    assert "GPU 5 busy: 2048 MiB held from outside this container" in result["summary"]


@pytest.mark.parametrize("step", [INFO, IDLE])
def test_a_look_is_one_session(lab: Lab, tmp_path: Path, step: str) -> None:
    with lab.counting("pve1") as sessions:
        result = run_step(tmp_path, step, {}, inventory(), "ct200")["ct200"]
    assert not result["failed"]
    assert sessions() == 1


def test_it_returns_once_the_gpus_are_released(lab: Lab, idle: Callable[..., dict[str, Any]]) -> None:
    results: list[dict[str, Any]] = []
    waiting = threading.Thread(target=lambda: results.append(idle(timeout=120, interval=0.5)))
    with lab.counting("pve1") as sessions:
        with lab.hold(201, gpu=1, mib=2048):
            waiting.start()
            deadline = time.monotonic() + 60
            while sessions() < 2 and time.monotonic() < deadline:
                time.sleep(0.1)
            assert waiting.is_alive()
            assert results == []
        waiting.join(timeout=100)
    (result,) = results
    assert result["idle"] is True
    # Busy at least once, then two looks in a row that found it idle.
    assert result["looks"] >= 3
    assert len(result["uuids"]) == 8


def test_busy_gpus_fail_with_a_table_or_are_reported(lab: Lab, idle: Callable[..., dict[str, Any]]) -> None:
    with lab.hold(201, gpu=1, mib=2048):
        failed = idle()
        reported = idle(require=False)
        others = idle(select=[0, 1], count=2)
        chosen = idle(select="[?memory_total_mib >= `80000` && index >= `4`]", count=2)
    assert (failed["failed"], failed["code"], failed["idle"]) == (True, "gpus-busy", False)
    lines = failed["msg"].splitlines()
    assert lines[1] == "GPU  verdict  used MiB  holder"
    assert "vmid 201 (train-b) pid " in lines[7]
    assert max(map(len, lines[1:-1])) <= 100
    assert (reported["failed"], reported["idle"], reported["changed"]) == (False, False, False)
    assert others["indexes"] == [0, 1]
    assert chosen["indexes"] == [4, 6]
    assert chosen["uuids"] == [lab.gpus(200)[4].uuid, lab.gpus(200)[6].uuid]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"select": [9]}, "select: there is no GPU 9"),
        ({"select": "[?index >== `1`]"}, "no valid JMESPath expression"),
        ({"count": 9}, "9 GPUs are wanted"),
        ({"interval": 0}, "interval: 0 cannot be"),
        ({"nvidia_smi_timeout": 0}, "option nvidia_smi_timeout: 0 cannot be"),
        ({"timeout": "soon"}, "timeout"),
    ],
)
def test_an_option_that_cannot_be_used_is_named(
    idle: Callable[..., dict[str, Any]], options: dict[str, Any], words: str
) -> None:
    result = idle(require=False, **options)
    assert (result["failed"], result["code"]) == (True, "option")
    assert words in result["msg"]


@pytest.mark.parametrize("hang", [True, "hard"])
def test_an_nvidia_smi_that_hangs_is_unknown_and_the_node_is_shown(lab: Lab, hang: bool | str) -> None:
    with fault(lab, 200, hang=hang), lab.hold(201, gpu=1, mib=2048):
        result = info(nvidia_smi_timeout=1)
    assert causes(result) == {("unknown", "timeout")}
    assert [gpu["uuid"] for gpu in result["gpus"]] == [gpu.uuid for gpu in lab.gpus(200)]
    assert "did not answer within 1 s" in result["summary"]
    assert result["gpus"][5]["reasons"][1] == "the node reads 2048 MiB used, 1 process holds it"
    assert result["gpus"][0]["reasons"][1] == "the node reads 0 MiB used, no holder"
    assert lab.container(200).run(["pgrep", "-f", "nvidia-smi"]).stdout == b""


@pytest.mark.parametrize(
    ("what", "cause", "words"),
    [
        (
            {"exit": 255, "stdout": "Failed to initialize NVML: Unknown Error\n"},
            "nvml-unknown-error",
            "Restart the container",
        ),
        (
            {
                "exit": 18,
                "stdout": "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.126\n",
            },
            "version-mismatch",
            "library 580.126",
        ),
        ({"drop_field": "mig.mode.current"}, "format", "mig.mode.current"),
        ({"match": "query-compute-apps", "stdout": "gpu, pid\n", "exit": 0}, "format", "gpu_uuid, pid"),
        ({"match": "query-gpu", "truncate": 300}, "format", "columns"),
        ({"values": {"memory.used": "[Insufficient Permissions]"}}, "memory-not-shown", "Insufficient Permissions"),
    ],
)
def test_what_cannot_be_read_with_certainty_is_unknown_and_never_idle(
    lab: Lab, what: dict[str, Any], cause: str, words: str
) -> None:
    with fault(lab, 200, **what):
        result = info()
    assert causes(result) == {("unknown", cause)}
    assert words in result["table"]


def test_a_lasting_failure_is_not_waited_for(lab: Lab, idle: Callable[..., dict[str, Any]]) -> None:
    with fault(lab, 200, exit=255, stdout="Failed to initialize NVML: Unknown Error\n"):
        result = idle(timeout=600)
    assert (result["failed"], result["code"], result["looks"]) == (True, "gpus-unknown", 1)
    assert "Restart the container" in result["msg"]


def test_a_slow_nvidia_smi_is_told_with_the_known_causes(lab: Lab) -> None:
    with fault(lab, 200, delay=5.2, match="query-gpu", values={"persistence_mode": "Disabled"}):
        result = info()
    assert result["seconds"] > 5
    assert any("persistence mode off" in warning and "took 5." in warning for warning in result["warnings"])
    assert causes(result) == {("idle", None)}


def test_holders_are_found_though_the_nodes_nvidia_smi_hangs(lab: Lab) -> None:
    with fault(lab, None, hang="hard"), lab.hold(201, gpu=1, mib=2048):
        result = info(nvidia_smi_timeout=2)
    assert busy(result) == [5]
    assert result["gpus"][5]["processes"][0]["vmid"] == 201
    assert result["view"] == "node"
    assert any(warning.startswith("on the node: nvidia-smi did not answer") for warning in result["warnings"])


def test_the_path_of_nvidia_smi_can_be_set(lab: Lab) -> None:
    container = lab.container(200)
    assert container.run(["sh", "-c", f"mkdir -p /opt/gpu && cp {SMI} /opt/gpu/smi"]).returncode == 0
    try:
        result = info(nvidia_smi="/opt/gpu/smi")
    finally:
        container.run(["rm", "-r", "/opt/gpu"])
    assert causes(result) == {("idle", None)}
    assert result["view"] == "node"
    missing = info(nvidia_smi="/opt/gpu/smi")
    assert causes(missing) == {("unknown", "not-found")}
    assert "there is no /opt/gpu/smi: set option nvidia_smi" in missing["summary"]


def test_a_login_with_sudo_sees_as_much_as_root(lab: Lab, tmp_path: Path) -> None:
    with lab.hold(201, gpu=1):
        result = as_user(tmp_path, "ops")
    assert (busy(result), result["view"]) == ([5], "node")


def test_a_login_that_may_only_enter_containers_says_what_it_cannot_see(lab: Lab, tmp_path: Path) -> None:
    rule = "limited ALL=(root) NOPASSWD: /usr/bin/lxc-attach, /usr/bin/lxc-info"
    node = lab.node("pve1")
    node.check(["sh", "-c", f"echo '{rule}' > /etc/sudoers.d/limited && chmod 440 /etc/sudoers.d/limited"])
    try:
        with lab.hold(201, gpu=1, mib=2048), lab.hold(201, gpu=2):
            result = as_user(tmp_path, "limited")
    finally:
        node.check(["rm", "/etc/sudoers.d/limited"])
    assert (busy(result), result["view"]) == ([5], "inside")
    # nvidia-smi and the cgroups tell anybody who owns memory; the job without memory stays invisible.
    assert result["gpus"][5]["processes"][0]["vmid"] == 201
    assert "sudo -n does not allow sh" in result["view_reason"]
    assert "as seen from inside" in result["summary"]


def test_the_controllers_own_gpus_are_read_without_a_container(tmp_path: Path) -> None:
    header = nvidia_smi.GPU_QUERY.partition("=")[2].replace(",", ", ").replace("memory.total", "memory.total [MiB]")
    for name, unit in (("memory.used", "MiB"), ("memory.free", "MiB"), ("utilization.gpu", "%")):
        header = header.replace(name, f"{name} [{unit}]")
    tool = tmp_path / "nvidia-smi"
    tool.write_text(
        "#!/bin/sh\n"
        "case $1 in --query-compute*) echo 'gpu_uuid, pid, used_gpu_memory [MiB], process_name'; exit ;; esac\n"
        f"echo '{header}'\n"
        "echo '0, GPU-1, 00000000:18:00.0, 100 MiB, 5 MiB, 95 MiB, 0 %, 30, [N/A], Enabled, 580.1, NVIDIA H200'\n"
    )
    tool.chmod(0o755)
    options = {"nvidia_smi": str(tool)}
    result = run_step(tmp_path, INFO, options, "localhost,", "localhost", connection="local")["localhost"]
    assert [(gpu["uuid"], gpu["verdict"]) for gpu in result["gpus"]] == [("GPU-1", "idle")]
    assert (result["view"], result["view_reason"]) == ("inside", "the node was not asked")
    tool.unlink()
    missing = run_step(tmp_path, INFO, options, "localhost,", "localhost", connection="local")["localhost"]
    assert (missing["failed"], missing["code"]) == (True, "not-found")
    assert f"there is no {tool}: set option nvidia_smi" in missing["msg"]


def as_user(folder: Path, user: str) -> dict[str, Any]:
    """The result of gpu_info on ct200 with another login on the node."""
    own = folder / "hosts.yml"
    own.write_text(Path(inventory()).read_text().replace("ansible_user: root", f"ansible_user: {user}"))
    return run_step(folder, INFO, {}, str(own), "ct200")["ct200"]


def playbook(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A playbook with the output that a person reads."""
    bin_folder = Path(sys.executable).parent
    return subprocess.run(
        [bin_folder / "ansible-playbook", "-i", inventory(), *words],
        cwd=folder,
        env={
            **os.environ,
            "PATH": f"{bin_folder}:{os.environ['PATH']}",
            "ANSIBLE_STDOUT_CALLBACK": "trainops.proxmox.summary",
            "ANSIBLE_NOCOLOR": "1",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_the_status_playbook_prints_a_table(lab: Lab, tmp_path: Path) -> None:
    with lab.hold(201, gpu=1, mib=2048):
        done = playbook(tmp_path, "trainops.proxmox.gpu_status", "-l", "ct200")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ct200  gpus     7 of 8 idle; GPU 5 busy: 2048 MiB held by vmid 201 (train-b) pid " in done.stdout
    assert "  5  busy         2048  vmid 201 (train-b) pid " in done.stdout
    assert "{" not in done.stdout


@pytest.fixture
def role(tmp_path: Path) -> Path:
    """A folder with a playbook of the role."""
    (tmp_path / "idle.yml").write_text(
        "- hosts: training\n  gather_facts: false\n  roles: [trainops.proxmox.gpu_idle]\n"
    )
    return tmp_path


def test_the_role_reports_and_only_fails_when_it_must(lab: Lab, role: Path) -> None:
    with lab.hold(201, gpu=1, mib=2048):
        reported = playbook(role, "idle.yml")
        refused = playbook(role, "idle.yml", "-l", "ct200", "-e", "training_require_idle=true")
        chosen = playbook(
            role, "idle.yml", "-l", "ct200", "-e", '{"training_gpus": [4, 5, 6], "training_gpu_count": 2}'
        )
    assert reported.returncode == 0, reported.stdout + reported.stderr
    assert "ct210  gpus     2 of 2 idle, 0 MiB each, no holder" in reported.stdout
    assert refused.returncode == 2
    assert "ct200  gpus     FAILED  7 of 8 idle; GPU 5 busy: 2048 MiB held by vmid 201" in refused.stdout
    assert refused.stdout.count("7 of 8 idle") == 1
    assert "  5  busy         2048  vmid 201 (train-b) pid " in refused.stdout
    assert "{" not in refused.stdout
    assert "ct200  gpus     GPUs 4, 6 of 3 chosen" in chosen.stdout


def test_a_long_wait_prints_a_line_every_ten_seconds(lab: Lab, role: Path) -> None:
    with lab.hold(201, gpu=1, mib=2048):
        words = ["-l", "ct200", "-e", "training_require_idle=true", "-e", "training_idle_timeout=11"]
        waited = playbook(role, "idle.yml", *words)
        checked = playbook(role, "idle.yml", *words, "--check")
    assert "ct200  gpus     waiting 1" in waited.stdout
    assert " s of 11 s: 7 of 8 idle; GPU 5 busy: 2048 MiB held by vmid 201 (train-b)" in waited.stdout
    assert "; waited 1" in waited.stdout
    assert "waiting" not in checked.stdout
    assert "FAILED  7 of 8 idle" in checked.stdout
