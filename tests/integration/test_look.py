# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Looking, read-only: at a node over its own connection, and at a container before the first deploy."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.api import Container, Lab, Node, open_lab
from tests.integration.steps import run_step

GPUS = "trainops.proxmox.gpu_info"
NODE = "trainops.proxmox.node_info"
SURVEY = "trainops.proxmox.training_survey"
DFLASH = Path(__file__).resolve().parents[2] / "examples" / "dflash"


@pytest.fixture
def lab() -> Lab:
    return open_lab()


def write_inventory(folder: Path, lab: Lab, containers: dict[str, dict[str, Any]] | None = None, **more: Any) -> str:
    """An inventory of the lab's nodes by several logins, and of containers (named, with their variables) on pve1."""
    options = f"-o UserKnownHostsFile={lab.known_hosts} -o StrictHostKeyChecking=yes -o IdentitiesOnly=yes"
    known = {
        "ansible_user": "root",
        "ansible_port": lab.instance.port,
        "ansible_ssh_private_key_file": str(lab.key),
        "ansible_ssh_common_args": options,
    }
    pve1, pve2 = lab.address("pve1"), lab.address("pve2")
    alone = "-o ControlPath=none"  # no session of another test is shared
    nodes: dict[str, dict[str, Any]] = {
        "root": {"ansible_host": pve1},
        "ops": {"ansible_host": pve1, "ansible_user": "ops"},
        "limited": {"ansible_host": pve1, "ansible_user": "limited"},
        "alone": {"ansible_host": pve1, "ansible_user": "limited", "ansible_ssh_common_args": f"{options} {alone}"},
        "pve2": {"ansible_host": pve2},
        "nobody": {"ansible_host": pve1, "ansible_user": "nobody2"},
        "down": {"ansible_host": pve1.rpartition(".")[0] + ".99"},
        "stranger": {
            "ansible_host": pve1,
            "ansible_ssh_common_args": f"-o UserKnownHostsFile=/dev/null -o StrictHostKeyChecking=yes {alone}",
        },
    }
    groups: dict[str, Any] = {
        "all": {"vars": known},
        "nodes": {"hosts": nodes, "vars": {"ansible_connection": "ssh"}},
        "training": {
            "hosts": {name: {"ansible_host": pve1, **values} for name, values in (containers or {}).items()},
            "vars": {"ansible_connection": "trainops.proxmox.pct", **more},
        },
    }
    if not containers:
        del groups["training"]
    path = folder / "inventory.yml"
    path.write_text(yaml.safe_dump(groups))
    return str(path)


def on_nodes(folder: Path, lab: Lab, module: str, hosts: str, **options: Any) -> dict[str, dict[str, Any]]:
    """The results of a step on nodes."""
    return run_step(folder, module, options, write_inventory(folder, lab), hosts)


def survey(folder: Path, lab: Lab, vmid: int, host: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    """The result of a survey of one container."""
    inventory = write_inventory(folder, lab, {"ct": {"proxmox_vmid": vmid, **(host or {})}})
    return run_step(folder, SURVEY, options, inventory, "ct")["ct"]


def playbook(folder: Path, lab: Lab, *words: str, **inventory: Any) -> subprocess.CompletedProcess[str]:
    """One of the collection's playbooks with the output that a person reads."""
    bin_folder = Path(sys.executable).parent
    return subprocess.run(
        [bin_folder / "ansible-playbook", "-i", write_inventory(folder, lab, **inventory), *words],
        cwd=folder,
        env={
            **os.environ,
            "PATH": f"{bin_folder}:{os.environ['PATH']}",
            "ANSIBLE_STDOUT_CALLBACK": "trainops.proxmox.summary",
            "ANSIBLE_NOCOLOR": "1",
            "LC_ALL": "C.UTF-8",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def shell(place: Node | Container, script: str) -> str:
    """What a script prints in a node or container; it must succeed."""
    done = place.run(["sh", "-c", script])
    assert done.returncode == 0, done
    return done.stdout.decode()


@contextlib.contextmanager
def changed(place: Node | Container, before: str, after: str) -> Iterator[None]:
    """A node or container in another state, and put back."""
    shell(place, before)
    try:
        yield
    finally:
        shell(place, after)


# What is new anywhere, but for what logging in and being started writes.
NEW = (
    "find / -xdev \\( -path /proc -o -path /sys -o -path /run -o -path /dev -o -path /var/log -o -path /tmp/before \\) "
    "-prune -o -newer /tmp/before -print"
)


@contextlib.contextmanager
def nothing_written(*places: Node | Container) -> Iterator[None]:
    """Fails when a file or folder of these places is newer than the block's begin."""
    for place in places:
        shell(place, "touch /tmp/before")
    yield
    for place in places:
        assert set(shell(place, NEW).split()) <= {"/tmp"}
        shell(place, "rm /tmp/before")


# The GPUs of a node


@pytest.mark.parametrize("login", ["root", "ops"])
def test_every_gpu_of_a_node_and_who_holds_it(lab: Lab, tmp_path: Path, login: str) -> None:
    with lab.hold(201, gpu=1, mib=2048), lab.hold(200, gpu=0), lab.hold("pve1", gpu=2, mib=300):
        result = on_nodes(tmp_path, lab, GPUS, login)[login]
        (process,) = result["gpus"][5]["processes"]
        command = lab.container(201).run(["cat", f"/proc/{process['pid']}/cmdline"]).stdout
    assert [gpu["uuid"] for gpu in result["gpus"]] == [gpu.uuid for gpu in lab.gpus(200)]
    assert (result["view"], result["view_reason"], result["changed"]) == ("node", "", False)
    assert [gpu["index"] for gpu in result["gpus"] if gpu["verdict"] == "busy"] == [0, 2, 5]
    assert (process["vmid"], process["container"], process["where"]) == (201, "train-b", "other")
    assert (process["memory_mib"], b"--mib\0002048" in command) == (2048, True)
    assert result["gpus"][0]["cause"] == "opened"
    assert result["gpus"][0]["processes"][0]["vmid"] == 200
    assert result["gpus"][2]["processes"][0]["where"] == "node"
    lines = result["table"].splitlines()
    assert lines[0] == "GPU  verdict  used MiB  holder"
    assert lines[6].startswith("  5  busy         2048  vmid 201 (train-b) pid ")
    assert max(map(len, lines)) <= 80


def test_a_login_that_may_nothing_is_told_as_far_as_it_sees(lab: Lab, tmp_path: Path) -> None:
    with lab.hold(201, gpu=1, mib=2048), lab.hold(200, gpu=0):
        result = on_nodes(tmp_path, lab, GPUS, "limited")["limited"]
    assert [gpu["index"] for gpu in result["gpus"] if gpu["verdict"] == "busy"] == [5]
    # nvidia-smi and the cgroups tell anybody who owns memory; the job without memory stays invisible.
    assert result["gpus"][5]["processes"][0]["vmid"] == 201
    assert result["view"] == "partial"
    assert "sudo -n does not allow sh" in result["view_reason"]
    assert result["summary"].endswith(", as far as this login sees")
    assert result["table"].splitlines()[-1].startswith("As far as this login sees: ")


def test_a_look_at_a_node_is_one_command_and_writes_nothing(lab: Lab, tmp_path: Path) -> None:
    with nothing_written(lab.node("pve2")), lab.counting("pve2") as sessions:
        found = on_nodes(tmp_path, lab, GPUS, "pve2")["pve2"]
        assert sessions() == 1
        looked = on_nodes(tmp_path, lab, NODE, "pve2")["pve2"]
        assert sessions() == 2
    assert found["summary"] == looked["gpu_summary"] == "2 of 2 idle, 0 MiB each, no holder"


@pytest.mark.parametrize("module", [GPUS, NODE])
def test_each_way_not_to_reach_a_node_has_its_sentence(lab: Lab, tmp_path: Path, module: str) -> None:
    found = on_nodes(tmp_path, lab, module, "nobody:down:stranger")
    assert {host: result["unreachable"] for host, result in found.items()} == dict.fromkeys(found, True)
    messages = {host: result["msg"] for host, result in found.items()}
    assert "refused the login (publickey,password): add your public key" in messages["nobody"]
    assert "does not answer: check ansible_host and ansible_port" in messages["down"]
    assert "is not in known_hosts: log in once by hand" in messages["stranger"]
    for message in messages.values():
        assert message.count("controller -> node: ") == 1
        assert message.count("ssh said: ") == 1
        assert "Data could not be sent" not in message


def test_a_node_without_nvidia_smi_has_its_sentence(lab: Lab, tmp_path: Path) -> None:
    node = lab.node("pve2")
    with changed(node, "mv /usr/bin/nvidia-smi /root/away", "mv /root/away /usr/bin/nvidia-smi"):
        # It has the device files all the same, so who holds the GPUs is seen, and what they have in use is not.
        with lab.hold(210, gpu=1, mib=300):
            result = on_nodes(tmp_path, lab, GPUS, "pve2")["pve2"]
        looked = on_nodes(tmp_path, lab, NODE, "pve2")["pve2"]
    assert {(gpu["verdict"], gpu["cause"]) for gpu in result["gpus"]} == {("unknown", "not-found")}
    assert "on the node: there is no nvidia-smi on the PATH" in result["summary"]
    assert [len(gpu["processes"]) for gpu in result["gpus"]] == [0, 1]
    assert result["gpus"][1]["processes"][0]["vmid"] == 210
    assert [one["vmid"] for one in looked["containers"]] == [210]


def test_a_login_shell_that_cannot_run_it_has_its_sentence(lab: Lab, tmp_path: Path) -> None:
    node = lab.node("pve1")
    with changed(node, "usermod -s /usr/sbin/nologin limited", "usermod -s /bin/bash limited"):
        result = on_nodes(tmp_path, lab, GPUS, "alone")["alone"]
    assert result["unreachable"]
    assert (
        "its login shell must be able to run /bin/sh. It said: This account is currently not available" in result["msg"]
    )


def test_become_takes_the_place_of_sudo(lab: Lab, tmp_path: Path) -> None:
    inventory = write_inventory(tmp_path, lab)
    text = Path(inventory).read_text().replace("ansible_user: ops", "ansible_user: ops\n      ansible_become: true")
    Path(inventory).write_text(text)
    result = run_step(tmp_path, NODE, {}, inventory, "ops")["ops"]
    assert (result["login"], result["view"]) == ("root", "node")
    Path(inventory).write_text(text.replace("ansible_user: ops", "ansible_user: limited"))
    refused = run_step(tmp_path, NODE, {}, inventory, "ops")["ops"]
    assert refused["failed"] or refused["unreachable"]
    assert "password" in refused["msg"]


def test_the_status_playbook_takes_nodes_and_containers(lab: Lab, tmp_path: Path) -> None:
    containers = {"ct200": {"proxmox_vmid": 200}}
    with lab.hold(201, gpu=1, mib=2048):
        words = ["trainops.proxmox.gpu_status", "-e", "training_hosts=root,ct200"]
        done = playbook(tmp_path, lab, *words, containers=containers)
    assert done.returncode == 0, done.stdout + done.stderr
    for host in ("root ", "ct200"):
        assert f"{host}  gpus     7 of 8 idle; GPU 5 busy: 2048 MiB held by vmid 201 (train-b) pid " in done.stdout


# A node and its containers


@pytest.mark.parametrize("login", ["root", "ops"])
def test_what_a_login_finds_on_a_node(lab: Lab, tmp_path: Path, login: str) -> None:
    result = on_nodes(tmp_path, lab, NODE, login)[login]
    assert (result["node"], result["login"], result["changed"]) == ("pve1", login, False)
    assert result["may_enter"] == ["lxc-attach", "pct"]
    shown = [
        (one["vmid"], one["name"], one["state"], one["unprivileged"], one["ostype"], one["gpus"], one["template"])
        for one in result["containers"]
    ]
    assert shown == [
        (200, "train-a", "running", False, "debian", list(range(8)), False),
        (201, "train-b", "running", True, "debian", [4, 5, 6, 7], False),
        (202, "spare", "stopped", False, "debian", [], False),
    ]
    assert [gpu["uuid"] for gpu in result["gpus"]] == [gpu.uuid for gpu in lab.gpus(200)]
    assert {gpu["memory_total_mib"] for gpu in result["gpus"]} == {143771}
    assert "warnings" not in result
    assert result["summary"] == f"pve1: 3 containers, 2 running; 8 GPUs, 8 idle; {login} may enter by lxc-attach"


def test_a_login_that_may_nothing_is_told_what_is_missing(lab: Lab, tmp_path: Path) -> None:
    result = on_nodes(tmp_path, lab, NODE, "limited")["limited"]
    assert result["may_enter"] == []
    assert [(one["vmid"], one["state"]) for one in result["containers"]] == [
        (200, "running"),
        (201, "running"),
        (202, "stopped"),
    ]
    assert {(one["name"], one["gpus"], one["unprivileged"]) for one in result["containers"]} == {(None, None, None)}
    assert len(result["gpus"]) == 8
    for words in ("may enter no container", "may not read the containers' configurations", "as far as this login sees"):
        assert any(words in warning for warning in result["warnings"]), words


def test_only_the_programs_that_sudo_allows(lab: Lab, tmp_path: Path) -> None:
    rule = (
        "echo 'limited ALL=(root) NOPASSWD: /usr/sbin/pct' > /etc/sudoers.d/limited; chmod 440 /etc/sudoers.d/limited"
    )
    with changed(
        lab.node("pve1"),
        rule.replace("/usr/sbin/pct", "$(command -v pct)").replace("'", '"'),
        "rm /etc/sudoers.d/limited",
    ):
        result = on_nodes(tmp_path, lab, NODE, "limited")["limited"]
    assert result["may_enter"] == ["pct"]
    assert "limited may enter by pct" in result["summary"]


def test_a_frozen_container_and_a_name_full_of_tricks(lab: Lab, tmp_path: Path) -> None:
    config = "/etc/pve/nodes/pve1/lxc/202.conf"
    lines = [
        "lock: backup",
        "template: 1",
        "hostname: \\033[31mred\\033[0m",
        "[old]",
        "hostname: was",
        "dev0: /dev/nvidia1",
    ]
    tricks = "printf '" + "".join(f"{line}\\n" for line in lines) + "'"
    lab.container(201).freeze()
    try:
        with changed(
            lab.node("pve1"),
            f"cp -p {config} /root/kept && sed -i /^hostname/d {config} && {tricks} >> {config}",
            f"cat /root/kept > {config} && rm /root/kept",
        ):
            result = on_nodes(tmp_path, lab, NODE, "root")["root"]
    finally:
        lab.container(201).thaw()
    frozen, odd = result["containers"][1:]
    assert frozen["state"] == "frozen"
    assert (odd["name"], odd["lock"], odd["template"]) == ("\\x1b[31mred\\x1b[0m", "backup", True)
    assert odd["gpus"] == []  # a snapshot gives nothing
    assert "\x1b" not in result["table"]


def test_a_machine_that_is_no_node_gets_one_sentence(tmp_path: Path) -> None:
    result = run_step(tmp_path, NODE, {}, "localhost,", "localhost", connection="local")["localhost"]
    assert (result["failed"], result["code"]) == (True, "no-node")
    assert "is no Proxmox VE node" in result["msg"]
    assert len(result["msg"].splitlines()) == 1


def test_a_container_is_no_node(lab: Lab, tmp_path: Path) -> None:
    inventory = write_inventory(tmp_path, lab, {"ct": {"proxmox_vmid": 200}})
    result = run_step(tmp_path, NODE, {}, inventory, "ct")["ct"]
    assert result["failed"]
    assert "this host is a container" in result["msg"]


# A container before the first deploy

TORCH = """
set -e
site=$(echo /root/venv/lib/python3*/site-packages)
mkdir "$site/torch" "$site/torch-2.8.0.dist-info"
echo 'raise SystemExit("imported")' > "$site/torch/__init__.py"
printf 'Metadata-Version: 2.1\\nName: torch\\nVersion: 2.8.0\\n' > "$site/torch-2.8.0.dist-info/METADATA"
"""
NO_TORCH = "rm -r /root/venv/lib/python3*/site-packages/torch*"


@pytest.mark.parametrize(
    ("vmid", "version", "init"), [(200, "3.11.", "init"), (201, "3.9.", "init"), (210, "3.11.", "systemd")]
)
def test_what_a_survey_finds(lab: Lab, tmp_path: Path, vmid: int, version: str, init: str) -> None:
    container = lab.container(vmid)
    node = "pve2" if vmid == 210 else "pve1"
    with changed(container, TORCH, NO_TORCH), nothing_written(container):
        result = survey(tmp_path, lab, vmid, {"ansible_host": lab.address(node)}, project=str(DFLASH))
    assert not result["failed"], result["msg"]
    assert (result["python"], result["root"], result["init"]) == ("/root/venv/bin/python", "/root", init)
    best, other = result["pythons"]
    assert (best["path"], best["torch"], best["environment"]) == ("/root/venv/bin/python", "2.8.0", True)
    assert best["version"].startswith(version)
    assert (other["path"], other["torch"], other["environment"]) == ("/usr/bin/python3", None, False)
    assert [gpu["uuid"] for gpu in result["gpus"]] == [gpu.uuid for gpu in lab.gpus(vmid)]
    assert (result["view"], result["changed"]) == ("node", False)
    assert result["disk_free_bytes"] > 0
    assert (result["name"], result["files"], result["big"]) == ("dflash", 4, [])
    assert "with torch 2.8.0 at /root/venv/bin/python; root /root; " in result["summary"]


def test_a_survey_is_two_commands(lab: Lab, tmp_path: Path) -> None:
    with lab.counting("pve1") as sessions:
        result = survey(tmp_path, lab, 200, project=str(DFLASH))
    assert not result["failed"]
    assert sessions() == 2


def test_the_root_is_where_the_project_is(lab: Lab, tmp_path: Path) -> None:
    container = lab.container(200)
    names = (
        "mkdir -p /workspace/run /opt/other/a && cd /workspace/run && touch dflash_model.py train_dflash_pipeline.py"
    )
    with changed(container, names + " && touch /opt/other/run.sh", "rm -r /workspace /opt/other"):
        found = survey(tmp_path, lab, 200, project=str(DFLASH))
        wished = survey(tmp_path, lab, 200, project=str(DFLASH), root="/srv")
        missing = survey(tmp_path, lab, 200, root="/srv/none")
    assert found["root"] == "/workspace/run"
    assert found["root_reason"] == "dflash_model.py, train_dflash_pipeline.py are there"
    assert [(one["path"], len(one["names"])) for one in found["roots"]] == [("/workspace/run", 2), ("/opt/other", 1)]
    assert (wished["root"], wished["root_reason"]) == ("/srv", "none of the project's names is there")
    assert missing["disk_free_bytes"] is None
    assert "does not exist in the container" in missing["root_reason"]


@pytest.mark.parametrize(
    ("vmid", "words"),
    [(202, "container 202 is stopped: start it with pct start 202"), (999, "there is no container 999")],
)
def test_a_container_that_cannot_be_entered_has_its_sentence(lab: Lab, tmp_path: Path, vmid: int, words: str) -> None:
    result = survey(tmp_path, lab, vmid)
    assert result["unreachable"]
    assert words in result["msg"]


def test_a_frozen_container_has_its_sentence(lab: Lab, tmp_path: Path) -> None:
    lab.container(200).freeze()
    try:
        result = survey(tmp_path, lab, 200)
    finally:
        lab.container(200).thaw()
    assert result["unreachable"]
    assert "container 200 is frozen" in result["msg"]


HIDE = "mkdir /away && mv /usr/bin/python3* /root/venv /away"
SHOW = "mv /away/venv /root/ && mv /away/python3* /usr/bin/ && rmdir /away"


def test_a_container_without_any_python_is_a_result(lab: Lab, tmp_path: Path) -> None:
    with changed(lab.container(200), HIDE, SHOW), lab.counting("pve1") as sessions:
        result = survey(tmp_path, lab, 200, project=str(DFLASH))
        assert sessions() == 1
    assert not result["failed"]
    assert (result["python"], result["pythons"], result["gpus"]) == (None, [], [])
    assert result["summary"].startswith("there is no Python in the container that could be used: install one")
    assert result["files"] == 4


def test_a_container_with_too_old_ones_says_which(lab: Lab, tmp_path: Path) -> None:
    old = (
        "cd /opt && mkdir -p py37/bin && printf '#!/bin/sh\\necho 3.7.3\\n' > py37/bin/python3 && chmod 755 py37/bin/*"
    )
    with changed(lab.container(200), f"{HIDE} && {old}", f"{SHOW} && rm -r /opt/py37"):
        result = survey(tmp_path, lab, 200)
    assert result["python"] is None
    assert [(one["path"], one["version"]) for one in result["pythons"]] == [("/opt/py37/bin/python3", "3.7.3")]
    assert "only Pythons older than 3.9 (3.7.3 at /opt/py37/bin/python3)" in result["summary"]


PLANTED = """
set -e
mkdir -p /workspace/venv/bin /opt/env/bin
printf '#!/bin/sh\\ntouch /started\\n' > /workspace/venv/bin/python
ln -s /usr/bin/python3 /opt/env/bin/python
echo 'home = /usr/bin' > /opt/env/pyvenv.cfg
chmod 755 /workspace/venv/bin/python
chown -R trainer /workspace/venv/bin/python
chown trainer /opt/env
"""


@pytest.mark.parametrize("system", [True, False])
def test_what_another_user_put_there_is_not_started(lab: Lab, tmp_path: Path, system: bool) -> None:
    container = lab.container(200)
    before, after = ("true", "true") if system else (HIDE, SHOW)
    with changed(container, f"{before}\n{PLANTED}", f"{after} && rm -r /workspace /opt/env"):
        result = survey(tmp_path, lab, 200)
        assert container.run(["test", "-e", "/started"]).returncode == 1
    paths = [one["path"] for one in result["not_started"]]
    # Without the system's Python the link in /opt leads nowhere.
    assert sorted(paths) == ["/opt/env/bin/python"] * system + ["/workspace/venv/bin/python"]
    assert not {one["path"] for one in result["pythons"]} & set(paths)
    if system:
        assert {one["why"] for one in result["not_started"]} == {"it or its environment belongs to trainer"}


def test_the_interpreter_that_is_wished_is_compared(lab: Lab, tmp_path: Path) -> None:
    with changed(lab.container(200), TORCH, NO_TORCH):
        system = survey(tmp_path, lab, 200, python="/usr/bin/python3")
    missing = survey(tmp_path, lab, 200, python="/opt/none/bin/python")
    assert system["python"] == "/usr/bin/python3"
    assert "/root/venv/bin/python has torch and /usr/bin/python3 has not" in system["msg"]
    assert missing["python"] == "/root/venv/bin/python"
    assert "/opt/none/bin/python does not run as a Python" in missing["msg"]


def test_options_that_cannot_be_used_are_named(lab: Lab, tmp_path: Path) -> None:
    for options, words in (
        ({"root": "here"}, "'here' must be an absolute path"),
        ({"project": "/nowhere/at/all"}, "/nowhere/at/all: No such file or directory"),
        ({"big_mib": 0}, "option big_mib: 0 cannot be"),
    ):
        result = survey(tmp_path, lab, 200, **options)
        assert (result["failed"], result["code"]) == (True, "option")
        assert words in result["msg"]


# All of it before a first deploy


def test_the_survey_playbook(lab: Lab, tmp_path: Path) -> None:
    project = tmp_path / "proj"
    (project / "data").mkdir(parents=True)
    (project / "train.py").write_text("print('new')\n")
    with open(project / "data" / "set.bin", "wb") as stream:
        stream.truncate(3 * 1024 * 1024 * 1024)
    containers = {"ct200": {"proxmox_vmid": 200}, "ct202": {"proxmox_vmid": 202}}
    with changed(lab.container(200), "echo old > /root/train.py", "rm /root/train.py"):
        words = ["trainops.proxmox.survey_training", "-l", "root,ct200,ct202", "-e", f"training_project={project}"]
        with nothing_written(lab.container(200)):
            done = playbook(tmp_path, lab, *words, containers=containers)
    assert "root   node     pve1: 3 containers, 2 running; 8 GPUs, 8 idle" in done.stdout, done.stdout + done.stderr
    assert "   200  running   train-a  0-7" in done.stdout
    assert "ct200  survey   Python 3.11.2 without torch at /root/venv/bin/python; root /root; " in done.stdout
    assert "root /root: train.py is there" in done.stdout
    assert "data/set.bin has 3.2 GB, more than 100 MiB: leave it out with training_exclude" in done.stdout
    assert 'would go live at /root, 1 changed, 13 B (what was there would be release "adopted")' in done.stdout
    assert "ct202  survey   UNREACHABLE  node -> container: on pve1" in done.stdout
    assert done.returncode == 4


def test_the_survey_playbook_without_containers_or_without_a_project(lab: Lab, tmp_path: Path) -> None:
    alone = playbook(tmp_path, lab, "trainops.proxmox.survey_training", "-l", "root")
    assert alone.returncode == 0, alone.stdout + alone.stderr
    assert "pve1: 3 containers" in alone.stdout
    assert "[WARNING]" not in alone.stderr
    bare = playbook(
        tmp_path, lab, "trainops.proxmox.survey_training", "-l", "ct200", containers={"ct200": {"proxmox_vmid": 200}}
    )
    assert bare.returncode == 0, bare.stdout + bare.stderr
    assert "ct200  No deploy was tried: there is no training_project" in bare.stdout
