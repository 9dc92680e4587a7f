# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pushes into the lab's containers: what arrives and what it costs, cuts and full disks, and the way from localhost."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.api import open_lab
from tests.integration.connections import inventory
from tests.integration.cuts import descendants, wait_for, workers
from tests.integration.inside import folder_in, inside, shell
from tests.integration.steps import run_step
from tests.integration.test_release import BIN
from tests.unit.releasing import write

HOSTS = {"ct200": 200, "ct201": 201}
PUSH = "trainops.proxmox.container_push"
ALL_BYTES = bytes(range(256)) * 5000

# Prints [path, kind, mode, user, group, sha256 or target] of everything below a folder.
SHOW = """
import grp, hashlib, json, os, pwd, stat, sys
found = []
for folder, folders, names in os.walk(sys.argv[1]):
    for name in sorted(folders + names):
        path = os.path.join(folder, name)
        info = os.lstat(path)
        kind = "link" if stat.S_ISLNK(info.st_mode) else "dir" if stat.S_ISDIR(info.st_mode) else "file"
        what = os.readlink(path) if kind == "link" else ""
        if kind == "file":
            with open(path, "rb") as stream:
                what = hashlib.sha256(stream.read()).hexdigest()
        mode = "" if kind == "link" else "%04o" % stat.S_IMODE(info.st_mode)
        owner = pwd.getpwuid(info.st_uid)[0] + ":" + grp.getgrgid(info.st_gid)[0]
        found.append([os.path.relpath(path, sys.argv[1]), kind, mode, owner, what])
print(json.dumps(sorted(found)))
"""


def show(vmid: int, folder: str) -> dict[str, list[str]]:
    return {path: rest for path, *rest in json.loads(inside(vmid, "python3", "-c", SHOW, folder))}


@pytest.fixture
def root(tmp_path: Path) -> Iterator[str]:
    """A folder in both containers, gone afterwards."""
    with folder_in(HOSTS.values(), tmp_path.name) as folder:
        yield folder


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder with files of all kinds, an empty folder and links."""
    folder = tmp_path / "source"
    files = {"all": ALL_BYTES, "empty": b"", "run.sh": b"echo\n", "d i r/ü 日本\n.txt": b"x", "d i r/-dash '\"$x": b"y"}
    write(folder, files)
    (folder / "run.sh").chmod(0o755)
    (folder / "none").mkdir()
    (folder / "d i r" / "link").symlink_to("../all")
    (folder / "dangling").symlink_to("no/such")
    return folder


def push(folder: Path, dest: str, src: str = "source", hosts: str = "ct200", **more: Any) -> dict[str, dict[str, Any]]:
    keywords = {name: more.pop(name) for name in ("check_mode", "diff") if name in more}
    return run_step(folder, PUSH, {"src": src, "dest": dest, **more}, inventory(), hosts, **keywords)


def test_what_arrives_in_both_kinds_of_container(tmp_path: Path, source: Path, root: str) -> None:
    options = {"owner": "trainer", "group": "www-data", "mode": "preserve", "directory_mode": "0750"}
    hosts = ",".join(HOSTS)
    predicted = push(tmp_path, root, hosts=hosts, check_mode=True, **options)
    assert [show(vmid, root) for vmid in HOSTS.values()] == [{}, {}]
    done = push(tmp_path, root, hosts=hosts, **options)
    for host, vmid in HOSTS.items():
        result = done[host]
        assert result["changed"], result
        assert result["summary"] == f"{root}/source: 7 files, 7 added, 3 folders made, 1.3 MB, sha256 proven"
        assert predicted[host]["summary"] == f"{root}/source: 7 files, would be 7 added, 3 folders made, 1.3 MB"
        assert predicted[host]["files"] == result["files"]
        found = show(vmid, root)
        promised = {file["path"]: file["sha256"] or file["target"] or "" for file in result["files"]}
        assert {f"{root}/{path}": rest[-1] for path, rest in found.items()} == promised
        assert {rest[2] for rest in found.values()} == {"trainer:www-data"}
        assert {rest[1] for rest in found.values() if rest[0] == "dir"} == {"0750"}
        assert found["source/run.sh"][1] == "0755"
        assert found["source/d i r/link"] == ["link", "", "trainer:www-data", "../all"]
        assert (result["vmid"], result["node"]) == (vmid, open_lab().address("pve1"))
    again = push(tmp_path, root, hosts=hosts, **options)
    assert [(result["changed"], result["bytes_sent"]) for result in again.values()] == [(False, 0)] * 2


@pytest.mark.parametrize("count", [1, 500])
def test_a_push_costs_one_session_for_any_number_of_files(tmp_path: Path, root: str, count: int) -> None:
    write(tmp_path / "source", {f"p{one % 7}/{one}": f"{one}\n" for one in range(count)})
    for change in ("first", "unchanged", "one"):
        if change == "one":
            write(tmp_path / "source", {"p0/0": "new\n"})
        with open_lab().counting("pve1") as sessions:
            result = push(tmp_path, root)["ct200"]
        assert result["changed"] is (change != "unchanged"), result
        assert sessions() == 1
        assert result["bytes_sent"] == {"first": result["bytes_sent"], "unchanged": 0, "one": 4}[change]


def test_the_diff_shows_text_sizes_and_modes(tmp_path: Path, root: str) -> None:
    write(tmp_path / "source", {"a.txt": "one\ntwo\n", "b.bin": b"\0" * 2000, "same": "same\n", "id_rsa": "key\n"})
    push(tmp_path, root, mode="0644")
    write(tmp_path / "source", {"a.txt": "one\n2\n", "b.bin": b"\xff" * 3000, "id_rsa": "other key\n"})
    result = push(tmp_path, root, mode="0600", check_mode=True, diff=True)["ct200"]
    parts = {part["after_header"].removeprefix(f"{root}/source/"): part for part in result["diff"]}
    assert (parts["a.txt"]["before"], parts["a.txt"]["after"]) == ("one\ntwo\n", "one\n2\n")
    assert parts["b.bin"]["before"] == "(2.0 kB, no text to show)\n"
    assert parts["b.bin"]["after"] == "(3.0 kB, no text to show)\n"
    assert "key" not in parts["id_rsa"]["before"] + parts["id_rsa"]["after"].replace("secrets", "")
    assert parts["same (mode and owner)"]["before"] == "mode 0644\nowner 0\ngroup 0\n"
    assert parts["same (mode and owner)"]["after"] == "mode 0600\nowner 0\ngroup 0\n"
    assert [rest[1] for path, rest in show(200, root).items() if path != "source"] == ["0644"] * 4


def test_a_file_is_found_where_ansible_looks_for_files(tmp_path: Path, root: str) -> None:
    write(tmp_path, {"files/limits.conf": "x\n"})
    result = push(tmp_path, f"{root}/new/", "limits.conf")["ct200"]
    assert (result["dest"], inside(200, "cat", f"{root}/new/limits.conf")) == (f"{root}/new/limits.conf", "x\n")
    result = push(tmp_path, root, "nowhere.conf")["ct200"]
    assert result["code"] == "option"
    assert "option src: there is no 'nowhere.conf' on the controller: correct it (searched: " in result["msg"]
    assert f"{tmp_path}/files/nowhere.conf" in result["msg"]


def test_links_at_the_destination(tmp_path: Path, root: str) -> None:
    write(tmp_path, {"f": "new\n"})
    shell(200, 'cd "$1"; echo precious >target; ln -s target f; mkdir d; ln -s d way', root)
    result = push(tmp_path, f"{root}/f", "f")["ct200"]
    assert result["warnings"] == [f"ct200: {root}/f was a link to target, which a file replaces"]
    assert shell(200, 'cd "$1"; cat target f; test ! -L f', root) == "precious\nnew\n"
    result = push(tmp_path, f"{root}/way", "f")["ct200"]
    assert result["summary"] == f"{root}/way/f (which is {root}/d/f) added, 4 B, sha256 proven"


def small(options: str) -> Callable[[str], Any]:
    return lambda root: shell(200, f'mount -t tmpfs -o {options} none "$1"', root)


def bind(root: str) -> None:
    shell(200, 'touch "$1/f"; mount --bind /etc/hostname "$1/f"', root)


@pytest.mark.parametrize("check_mode", [True, False])
@pytest.mark.parametrize(
    ("surprise", "dest", "code", "words"),
    [
        (small("size=1m"), "f", "no-space", "MB free, this push needs 2.1 MB: free space there"),
        (small("nr_inodes=1"), "f", "no-space", "0 inodes free, this push needs"),
        (small("ro"), "f", "read-only", "its file system is mounted read-only"),
        (bind, "f", "mount-point", "it is a mount point: something is mounted on that name: unmount it"),
        (lambda root: shell(200, 'mkdir -p "$1/f/f"', root), "f", "is-folder", "/f/f is a folder where a file goes"),
        (lambda root: None, "no/f", "no-parent", "/no does not exist in the container: create it first"),
        (lambda root: shell(200, 'mkfifo "$1/f"', root), "f", "special", "/f is a named pipe and is not replaced"),
    ],
)
def test_surprises_of_the_destination(
    tmp_path: Path, root: str, surprise: Callable[[str], Any], dest: str, code: str, words: str, check_mode: bool
) -> None:
    surprise(root)
    write(tmp_path, {"f": os.urandom(1 << 20) * 2})
    before = shell(200, 'ls -laR --time-style=full-iso "$1"', root)
    result = push(tmp_path, f"{root}/{dest}", "f", check_mode=check_mode)["ct200"]
    assert (result["failed"], result["code"]) == (True, code), result
    assert words in result["msg"], result["msg"]
    assert root in result["msg"]
    assert shell(200, 'ls -laR --time-style=full-iso "$1"', root) == before


# Holds a file open until it is told to let go, so that replacing it frees nothing.
HOLD = 'cd "$1"; exec 3<source/a; touch held; while test ! -e let-go; do sleep 0.05; done'


def test_a_disk_that_is_full_in_the_middle_of_a_file(tmp_path: Path, root: str) -> None:
    """The files before are in place, no half file stays, and the next push does the rest."""
    write(tmp_path / "source", {"a": b"1" * (3 << 20)})
    shell(200, 'mount -t tmpfs -o size=8m none "$1"', root)
    push(tmp_path, root)
    write(tmp_path / "source", {"a": b"2" * (3 << 20), "b": b"3" * (3 << 20)})
    attach = shlex.join(["lxc-attach", "-n", "200", "--", "sh", "-c", HOLD, "sh", root])
    with subprocess.Popen([*open_lab().ssh_args("pve1"), "--", attach]) as holding:
        wait_for(lambda: shell(200, 'ls "$1"', root).count("held"))
        result = push(tmp_path, root)["ct200"]
        shell(200, 'touch "$1/let-go"', root)
        holding.wait(timeout=60)
    assert (result["failed"], result["code"], result["changed"]) == (True, "no-space", True), result
    assert f"{root}/source/b: No space left on device: free space or inodes on its file system" in result["msg"]
    assert result["done"] == [f"{root}/source/a"]
    found = {path: rest[-1] for path, rest in show(200, root).items()}
    assert set(found) == {"source", "source/a", "held", "let-go"}
    assert found["source/a"] == hashlib.sha256(b"2" * (3 << 20)).hexdigest()
    assert push(tmp_path, root)["ct200"]["bytes_sent"] == 3 << 20


@pytest.mark.parametrize("victim", ["controller", "ssh", "worker"])
def test_a_cut_leaves_the_old_file_and_the_next_push_nothing_else(tmp_path: Path, root: str, victim: str) -> None:
    write(tmp_path, {"f": "old\n"})
    push(tmp_path, f"{root}/f", "f")
    write(tmp_path, {"f": os.urandom(1 << 20) * 300})
    playbook = tmp_path / "cut.yml"
    task = {PUSH: {"src": "f", "dest": f"{root}/f"}}
    playbook.write_text(yaml.safe_dump([{"hosts": "ct200", "gather_facts": False, "tasks": [task]}]))
    command = [str(part) for part in (sys.executable, BIN / "ansible-playbook", "-i", inventory(), playbook)]
    running = subprocess.Popen(
        command, cwd=tmp_path, env={**os.environ, "LC_ALL": "C.UTF-8"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    wait_for(lambda: shell(200, 'ls -A "$1" | grep trainops-push || true', root))
    if victim == "worker":
        shell(200, "kill -9 $(ps -eo pid,args | grep '[t]rainops_worker' | awk '{print $1}')")
    else:
        family = descendants(running.pid)
        for pid in family if victim == "controller" else [pid for pid in family if family[pid] == "ssh"]:
            os.kill(pid, signal.SIGKILL)
    said = running.communicate(timeout=120)[0].decode()
    if victim != "controller":
        assert running.returncode == 4, said  # unreachable: it never says that a file arrived
    wait_for(lambda: not workers(200))
    assert inside(200, "cat", f"{root}/f") == "old\n"
    write(tmp_path, {"f": "newer\n"})
    assert push(tmp_path, f"{root}/f", "f")["ct200"]["changed"]
    assert shell(200, 'cd "$1"; ls -A; cat f', root) == "f\nnewer\n"


def test_a_file_larger_than_the_memory_of_all_that_take_part(tmp_path: Path, root: str) -> None:
    """537 MB, with address space for less: 500 MB for each process here, 200 MB for the worker."""
    with (tmp_path / "f").open("wb") as stream:
        for _part in range(512):
            stream.write(os.urandom(1 << 20))
    limited = '#!/bin/sh\nulimit -v 200000\nexec /usr/bin/python3 "$@"\n'
    shell(200, 'printf %s "$2" >"$1/python"; chmod 755 "$1/python"', root, limited)
    ansible: list[str | Path] = [sys.executable, BIN / "ansible", "-i", inventory(), "ct200", "-m", PUSH]
    options = ["-a", f"src={tmp_path}/f dest={root}/f python={root}/python"]
    done = subprocess.run(
        ["sh", "-c", 'ulimit -v 500000; exec "$@"', "sh", *ansible, *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "added, 537 MB, sha256 proven" in done.stdout
    assert inside(200, "stat", "-c", "%s", f"{root}/f").strip() == str(512 << 20)


def test_who_the_container_does_not_have(tmp_path: Path, root: str) -> None:
    write(tmp_path, {"f": "x\n"})
    result = push(tmp_path, f"{root}/f", "f", hosts="ct201", owner="nobody-here")["ct201"]
    assert (result["code"], "the container has no user 'nobody-here'" in result["msg"]) == ("owner", True)
    result = push(tmp_path, f"{root}/f", "f", hosts="ct201", owner="70000")["ct201"]
    assert "option owner: 70000 is no id of this container, which has 0 to 65535" in result["msg"]


def test_a_folder_of_an_id_outside_of_an_unprivileged_container(tmp_path: Path, root: str) -> None:
    """As a bind mount from the node has it: root in there may not write, and is told why."""
    write(tmp_path, {"f": "x\n"})
    pid = open_lab().node("pve1").check(["lxc-info", "-n", "201", "-p", "-H"]).decode().strip()
    open_lab().node("pve1").check(["chown", "0:0", f"/proc/{pid}/root{root}"])
    try:
        for check_mode in (True, False):
            result = push(tmp_path, f"{root}/f", "f", hosts="ct201", check_mode=check_mode)["ct201"]
            assert result["code"] == "denied", result
            assert f"{root}: Permission denied: the worker runs as uid 0 of an unprivileged container" in result["msg"]
    finally:
        open_lab().node("pve1").check(["chown", "100000:100000", f"/proc/{pid}/root{root}"])


# --- from localhost


def api(**more: Any) -> dict[str, Any]:
    """The options of the lab's API."""
    found = open_lab().api
    login = {"api_user": found.user, "api_token_id": found.token_name, "api_token_secret": found.token_value}
    return {"api_host": found.host, "api_port": found.port, "ca_path": found.ca, **login, **more}


def from_localhost(folder: Path, dest: str, **options: Any) -> dict[str, Any]:
    """The result of a push on localhost with the lab's ssh options in its variables."""
    variables = yaml.safe_load(Path(inventory()).read_text())["training"]["vars"]
    local = {name: value for name, value in variables.items() if name.startswith("ansible_ssh_")}
    local |= {"ansible_connection": "local", "ansible_port": variables["ansible_port"]}
    local["ansible_python_interpreter"] = "{{ ansible_playbook_python }}"
    (folder / "inventory.yml").write_text(yaml.safe_dump({"all": {"hosts": {"localhost": local}}}))
    write(folder, {"f": "x\n"})
    keywords = {"check_mode": options.pop("check_mode")} if "check_mode" in options else {}
    options = {"src": "f", "dest": dest, **options}
    return run_step(folder, PUSH, options, str(folder / "inventory.yml"), "localhost", **keywords)["localhost"]


@pytest.mark.parametrize("vmid", [200, 201])
def test_from_localhost_with_the_api(tmp_path: Path, root: str, vmid: int) -> None:
    with open_lab().counting("pve1") as sessions:
        result = from_localhost(tmp_path, f"{root}/f", vmid=vmid, mode="0600", **api())
    assert (result["changed"], result["node"], result["vmid"]) == (True, "pve1", vmid), result
    assert sessions() == 1
    assert show(vmid, root)["f"][1] == "0600"
    assert not from_localhost(tmp_path, f"{root}/f", vmid=vmid, **api())["changed"]


def test_from_localhost_without_the_api(tmp_path: Path, root: str) -> None:
    address = open_lab().address("pve1")
    result = from_localhost(tmp_path, f"{root}/f", vmid=200, node_address=address)
    assert (result["changed"], result["node"]) == (True, address), result
    other = from_localhost(tmp_path, f"{root}/f", vmid=200, node_address=open_lab().address("pve2"))
    assert (other["code"], "lives on node pve1: give that node's address (node_address)" in other["msg"]) == (
        "unreachable",
        True,
    ), other


@pytest.mark.parametrize("check_mode", [True, False])
@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        ({"vmid": 202}, "not-ready", "container 202 (spare) on pve1 is stopped: start it with pct start 202"),
        ({"vmid": 299}, "api-not-found", "has no container 299: correct the vmid"),
        ({"vmid": 200, "api_token_secret": "wrong"}, "api-denied", ""),
        ({"vmid": 200, "api_host": "127.0.0.250"}, "api-unreachable", "127.0.0.250"),
        ({"vmid": 200, "src": "nowhere"}, "option", "there is no 'nowhere' on the controller"),
        ({}, "option", "this host is the controller itself: set option vmid for a container, or copy files here with"),
    ],
)
def test_nothing_is_sent_where_nobody_can_work(
    tmp_path: Path, options: dict[str, Any], code: str, text: str, check_mode: bool
) -> None:
    with open_lab().counting("pve1") as sessions:
        result = from_localhost(tmp_path, "/root/f", **{**api(), **options}, check_mode=check_mode)
    assert (result["failed"], result["code"], text in result["msg"]) == (True, code, True), result
    assert sessions() == 0
    assert api()["api_token_secret"] not in json.dumps(result)


def test_a_locked_container_is_left_alone(tmp_path: Path) -> None:
    node = open_lab().node("pve1")
    conf = "/etc/pve/nodes/pve1/lxc/200.conf"
    node.check(["sh", "-c", f"echo 'lock: migrate' >> {conf}"])
    try:
        with open_lab().counting("pve1") as sessions:
            result = from_localhost(tmp_path, "/root/f", vmid=200, **api())
    finally:
        node.check(["sed", "-i", "/^lock: /d", conf])
    assert (result["code"], "is locked (migrate)" in result["msg"], sessions()) == ("not-ready", True, 0), result


def test_vmid_on_a_host_that_is_a_container(tmp_path: Path, root: str) -> None:
    write(tmp_path, {"f": "x\n"})
    assert push(tmp_path, f"{root}/f", "f", vmid=200)["ct200"]["changed"]
    result = push(tmp_path, f"{root}/f", "f", vmid=201)["ct200"]
    assert (result["code"], "this host is container 200 already" in result["msg"]) == ("option", True), result


def test_a_task_delegated_to_localhost(tmp_path: Path, root: str) -> None:
    """The variables of the container's host say how to log in on its node."""
    write(tmp_path, {"f": "x\n"})
    local = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
    options = {"src": "f", "dest": f"{root}/f", "vmid": "{{ proxmox_vmid }}", "node_address": "{{ ansible_host }}"}
    keywords: dict[str, Any] = {"delegate_to": "localhost", "vars": local}
    for host, result in run_step(tmp_path, PUSH, options, inventory(), ",".join(HOSTS), **keywords).items():
        assert (result["changed"], result["vmid"]) == (True, HOSTS[host]), result
        assert inside(HOSTS[host], "cat", f"{root}/f") == "x\n"
