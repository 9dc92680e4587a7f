# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Releases in the lab's containers: adopted, switched, rolled back, their cost, and what cuts and full disks leave."""

from __future__ import annotations

import json
import os
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
from tests.integration.cuts import begun_release, descendants, wait_for, workers
from tests.integration.inside import folder_in, inside, shell
from tests.integration.steps import run_step
from tests.unit.releasing import Files, write

HOSTS = {"ct200": 200, "ct201": 201, "ct210": 210}
BIN = Path(sys.executable).parent

# Prints {path: [content, mode, uid]} of all files below a folder, links followed, our own folder and bytecode left out.
SHOW = """
import json, os, sys
found = {}
for folder, folders, names in os.walk(sys.argv[1], followlinks=True):
    folders[:] = [name for name in folders if name not in (".trainops", "__pycache__")]
    for name in names:
        path = os.path.join(folder, name)
        if os.path.exists(path):
            info = os.stat(path)
            with open(path, encoding="latin-1") as stream:
                found[os.path.relpath(path, sys.argv[1])] = [stream.read(), oct(info.st_mode & 0o7777), info.st_uid]
print(json.dumps(found))
"""


def show(vmid: int, root: str) -> dict[str, list[Any]]:
    """Content, mode and owner of what a reader in the container sees below the root."""
    found: dict[str, list[Any]] = json.loads(inside(vmid, "python3", "-c", SHOW, root))
    return found


def texts(vmid: int, root: str) -> dict[str, str]:
    return {path: content for path, (content, _mode, _owner) in show(vmid, root).items()}


@pytest.fixture
def root(tmp_path: Path) -> Iterator[str]:
    """A folder in every container, gone afterwards."""
    with folder_in(HOSTS.values(), tmp_path.name) as folder:
        yield folder


def release(folder: Path, root: str, hosts: str = "ct200", **options: Any) -> dict[str, dict[str, Any]]:
    """The results of releasing folder/project by host."""
    given = {"project": "project", "root": root, "name": "demo", **options}
    return run_step(folder, "trainops.proxmox.training_release", given, inventory(), hosts)


def roll_back(folder: Path, root: str, hosts: str = "ct200", **options: Any) -> dict[str, dict[str, Any]]:
    return release(folder, root, hosts, state="rolled_back", **options)


FIRST: Files = {"train.py": "import model\nprint(model.V)\n", "model.py": "V = 1\n", "conf/a.yml": "a: 1\n"}


def test_a_day_on_every_kind_of_container(tmp_path: Path, root: str) -> None:
    write(tmp_path / "project", {**FIRST, "inventory.yml": "all:\n"})
    (tmp_path / "project" / "run.sh").write_text("echo\n")
    (tmp_path / "project" / "run.sh").chmod(0o775)
    hosts = ",".join(HOSTS)
    there = 'cd "$1"; mkdir conf; echo "V = 0" >model.py; echo b >conf/b.yml; chmod 640 model.py; chown 1000 model.py'
    before = {}
    for vmid in HOSTS.values():
        shell(vmid, there + "; python3 -c 'import model'", root)
        before[vmid] = show(vmid, root)
    for result in release(tmp_path, root, hosts).values():
        assert (result["failed"], result["code"], f"{root}/conf has 1 file (2 B)" in result["msg"]) == (
            True,
            "hides",
            True,
        )
    found = release(tmp_path, root, hosts, adopt_folders=True)
    for host, vmid in HOSTS.items():
        result = found[host]
        assert result["changed"], result
        what = f"{result['release_id'][:7]} live at {root}, 3 added, 1 changed, 44 B, sha256 proven"
        assert result["summary"] == what + ' (what was there is release "adopted")'
        assert texts(vmid, root) == {**FIRST, "run.sh": "echo\n"}
        assert {mode for _text, mode, owner in show(vmid, root).values() if owner == 0} == {"0o644", "0o755"}
        # The bytecode of the old model.py is still there, and has the size of the new source.
        assert shell(vmid, 'cd "$1"; python3 -c "import model; print(model.V)"', root) == "1\n"
    assert len({result["release_id"] for result in found.values()}) == 1
    assert [result["summary"] for result in release(tmp_path, root, hosts).values()] == [
        f"{found['ct200']['release_id'][:7]} already live at {root}, nothing changed"
    ] * len(HOSTS)
    write(tmp_path / "project", {"model.py": "V = 2\n"})
    for result in release(tmp_path, root, hosts).values():
        assert (result["activation"], result["bytes_sent"]) == (3, 6)
    for host, result in roll_back(tmp_path, root, hosts).items():
        assert result["activation"] == 4
        assert shell(HOSTS[host], 'cd "$1"; python3 train.py', root) == "1\n"
    for host, result in roll_back(tmp_path, root, hosts, to="adopted").items():
        assert result["changed"]
        assert show(HOSTS[host], root) == before[HOSTS[host]]


# A run from before the first deploy: its log is open, its working folder is one of the project's, and it writes into
# both only once it is told to.
OLD_RUN = """
import os, sys, time
os.chdir(sys.argv[1] + "/conf")
log = open("run.log", "a")
print("started", file=log, flush=True)
while not os.path.exists(sys.argv[1] + "/go"):
    time.sleep(0.02)
print("went on", file=log, flush=True)
open("checkpoint.pt", "w").write("weights")
open(sys.argv[1] + "/gone", "w").close()
"""


def test_a_run_goes_on_with_what_a_first_deploy_displaces(tmp_path: Path, root: str) -> None:
    write(tmp_path / "project", {**FIRST, "conf/run.log": "that of the project\n"})
    start = 'mkdir "$1/conf"; setsid python3 -c "$2" "$1" </dev/null >/dev/null 2>&1 & until [ -s "$1/conf/run.log" ]'
    shell(200, start + "; do sleep 0.02; done", root, OLD_RUN)
    assert release(tmp_path, root)["ct200"]["adopted"] == "adopted"
    assert inside(200, "cat", f"{root}/conf/run.log") == "that of the project\n"
    inside(200, "touch", f"{root}/go")
    wait_for(lambda: shell(200, 'ls "$1"', root).count("gone"))
    assert inside(200, "cat", f"{root}/conf/run.log") == "that of the project\n"
    assert roll_back(tmp_path, root)["ct200"]["release_id"] == "adopted"
    assert inside(200, "cat", f"{root}/conf/run.log") == "started\nwent on\n"
    assert inside(200, "cat", f"{root}/conf/checkpoint.pt") == "weights"


def test_the_python_in_use_is_refused_as_part_of_the_project(tmp_path: Path, root: str) -> None:
    shell(200, 'python3 -m venv --without-pip "$1/env"', root)
    write(tmp_path / "project", {**FIRST, "env/settings.yml": "a: 1\n"})
    result = release(tmp_path, root, python=f"{root}/env/bin/python", adopt_folders=True)["ct200"]
    assert (result["failed"], result["code"]) == (True, "interpreter"), result
    assert f"{root}/env holds the Python that does this" in result["msg"]
    assert release(tmp_path, root, python=f"{root}/env/bin/python", exclude=["env/"])["ct200"]["changed"]


def test_check_mode_writes_nothing_in_the_container(tmp_path: Path, root: str) -> None:
    write(tmp_path / "project", FIRST)
    playbook = tmp_path / "check.yml"
    task = {"trainops.proxmox.training_release": {"project": "project", "root": root}, "check_mode": True, "diff": True}
    playbook.write_text(yaml.safe_dump([{"hosts": "ct201", "gather_facts": False, "tasks": [task]}]))
    before = shell(201, 'find "$1" -printf "%p %T@ %C@\n"', root)
    done = play(playbook, tmp_path)
    assert done.returncode == 0, done.stdout
    assert "+V = 1" in done.stdout
    assert shell(201, 'find "$1" -printf "%p %T@ %C@\n"', root) == before


def play(playbook: Path | str, cwd: Path, *more: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = f"{BIN}:{os.environ['PATH']}"
    return subprocess.run(
        [BIN / "ansible-playbook", "-i", inventory(), playbook, *more],
        cwd=cwd,
        env={**os.environ, "LC_ALL": "C.UTF-8", "PATH": path, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=300,
    )


def test_role_and_playbook(tmp_path: Path, root: str) -> None:
    write(tmp_path / "project", FIRST)
    playbook = tmp_path / "deploy.yml"
    roles = ["trainops.proxmox.syntax_check", "trainops.proxmox.deploy_scripts"]
    variables = {"training_project": "project", "training_root": root, "training_python": "/usr/bin/python3"}
    options = [part for name, value in variables.items() for part in ("-e", f"{name}={value}")]
    playbook.write_text(yaml.safe_dump([{"hosts": "ct201", "gather_facts": False, "roles": roles}]))
    one_line = {"ANSIBLE_STDOUT_CALLBACK": "trainops.proxmox.summary"}
    done = play(playbook, tmp_path, *options, **one_line)
    assert done.returncode == 0, done.stdout
    assert f"live at {root}, 3 added, 39 B, sha256 proven" in done.stdout
    manifest = json.loads(shell(201, 'cat "$1"/.trainops/project/releases/*.json', root))
    assert len(next(iter(manifest["checked"].values()))) == 2  # both sources passed, and that is kept
    write(tmp_path / "project", {"model.py": "V = 2\n"})
    assert play(playbook, tmp_path, *options).returncode == 0
    back = play("trainops.proxmox.rollback_training", tmp_path, "-l", "ct201", *options, **one_line)
    assert back.returncode == 0, back.stdout
    assert f"live again at {root}, 1 changed, sha256 proven (before: " in back.stdout
    assert texts(201, root)["model.py"] == "V = 1\n"
    to = ["-e", "training_rollback_to=77", "-l", "ct201"]
    refused = play("trainops.proxmox.rollback_training", tmp_path, *to, *options, **one_line)
    assert refused.returncode == 2
    assert "FAILED  77 is no activation and no release" in refused.stdout


@pytest.mark.parametrize("count", [1, 20, 500])
def test_a_release_costs_one_session_for_any_number_of_files(tmp_path: Path, root: str, count: int) -> None:
    write(tmp_path / "project", {f"p{one % 7}/m{one}.py": f"X = {one}\n" for one in range(count)})
    for change in ("first", "unchanged", "one"):
        if change == "one":
            write(tmp_path / "project", {"p0/m0.py": "X = 'new'\n"})
        with open_lab().counting("pve1") as sessions:
            result = release(tmp_path, root)["ct200"]
        assert result["changed"] is (change != "unchanged"), result
        assert sessions() == 1
    assert len(texts(200, root)) == count


@pytest.mark.parametrize("victim", ["controller", "ssh", "worker"])
def test_a_cut_leaves_what_was_live_and_no_lock(tmp_path: Path, root: str, victim: str) -> None:
    write(tmp_path / "project", FIRST)
    first = release(tmp_path, root)["ct200"]
    running = begun_release(tmp_path, root)
    if victim in ("controller", "ssh"):
        family = descendants(running.pid)
        for pid in family if victim == "controller" else [pid for pid in family if family[pid] == "ssh"]:
            os.kill(pid, signal.SIGKILL)
    else:
        shell(200, "kill -9 $(ps -eo pid,args | grep '[t]rainops_worker' | awk '{print $1}')")
    said = running.communicate(timeout=120)[0].decode()
    if victim != "controller":
        assert running.returncode == 4, said  # unreachable: it never says that a release is live
    wait_for(lambda: not workers(200))
    assert texts(200, root) == FIRST
    assert shell(200, 'readlink "$1"/.trainops/demo/current', root).strip() == f"releases/{first['release_id']}"
    result = release(tmp_path, root)["ct200"]
    assert result["changed"], result
    assert inside(200, "cat", f"{root}/model.py") == "V = 2\n"
    assert shell(200, 'ls -A "$1"/.trainops/demo/releases', root).count(".stage-") == 0


def mounted_tmpfs(options: str) -> Callable[[str], None]:
    return lambda root: (
        open_lab().container(200).run(["mount", "-t", "tmpfs", "-o", options, "none", root]).check_returncode()
    )


def bind_mount(root: str) -> None:
    shell(200, 'mkdir "$1/conf" && mount --bind /usr/share "$1/conf"', root)


@pytest.mark.parametrize(
    ("surprise", "code", "words"),
    [
        (mounted_tmpfs("size=1m,mode=755"), "no-space", "MB free, the release needs"),
        (mounted_tmpfs("nr_inodes=12,mode=755"), "no-space", "inodes free, the release needs"),
        (mounted_tmpfs("ro,mode=755"), "read-only", "mounted read-only"),
        (bind_mount, "conflict", "conf is a mount point: name it in training_shared"),
    ],
)
def test_surprises_of_the_target(tmp_path: Path, root: str, surprise: Any, code: str, words: str) -> None:
    surprise(root)
    write(tmp_path / "project", {**FIRST, "weights.bin": os.urandom(1 << 20) * 2})
    result = release(tmp_path, root)["ct200"]
    assert (result["failed"], result["code"]) == (True, code), result
    assert words in result["msg"]
    assert root in result["msg"]
    assert shell(200, 'cd "$1"; ls', root).split() in ([], ["conf"])


def odd_names(folder: Path) -> dict[str, bytes]:
    """Files whose names are all that Linux allows, written into a project; their contents by name."""
    names = [
        b"\xff\xfe.py",
        b"new\nline.txt",
        b"-rf",
        b'it\'s "quoted" $HOME `id`',
        "\u00e9".encode(),
        "e\u0301".encode(),
        b"\x1b[31mred",
        b"x" * 255,
        "\u00fc".encode() * 127,
        b"{{ training_root }}",
        b"*",
        b"no identifier.py",
        b" ",
        b"~x",
        b"\\n",
    ]
    contents = {os.fsdecode(name): b"V = 1\n" if name.endswith(b".py") else name for name in names}
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return contents


# Prints {path in hex: content in hex, link or folder} of all that is in a folder.
LIST = """
import json, os, sys
found = {}
for folder, folders, names in os.walk(os.fsencode(sys.argv[1])):
    for name in folders + names:
        path = os.path.join(folder, name)
        shown = os.path.relpath(path, os.fsencode(sys.argv[1])).hex()
        if os.path.islink(path):
            found[shown] = "link " + os.fsdecode(os.readlink(path))
        else:
            found[shown] = "dir" if os.path.isdir(path) else open(path, "rb").read().hex()
print(json.dumps(found))
"""


def test_any_name_and_a_deep_tree_on_every_kind_of_container(tmp_path: Path, root: str) -> None:
    project = tmp_path / "project"
    project.mkdir()
    contents = odd_names(project)
    (project / "empty\n").mkdir()
    (project / "every byte").write_bytes(bytes(range(256)))
    (project / "link").symlink_to("-rf")
    deep = Path(*["n" * 50] * 30)
    (project / deep).mkdir(parents=True)
    (project / deep / "leaf.py").write_bytes(b"V = 2\n")
    expected = {os.fsencode(name).hex(): content.hex() for name, content in contents.items()}
    expected |= {b"empty\n".hex(): "dir", b"every byte".hex(): bytes(range(256)).hex(), b"link".hex(): "link -rf"}
    expected |= {str(part).encode().hex(): "dir" for part in [deep, *deep.parents] if part != Path()}
    expected[bytes(deep / "leaf.py").hex()] = b"V = 2\n".hex()
    playbook = tmp_path / "deploy.yml"
    roles = ["trainops.proxmox.syntax_check", "trainops.proxmox.deploy_scripts"]
    play_ = {"hosts": ",".join(HOSTS), "gather_facts": False, "roles": roles}
    playbook.write_text(yaml.safe_dump([play_]))
    options = [
        "-e",
        "training_project=project",
        "-e",
        f"training_root={root}",
        "-e",
        "training_python=/usr/bin/python3",
    ]
    for callback, verbose in (("trainops.proxmox.summary", "-v"), ("ansible.builtin.default", "-vv")):
        done = play(playbook, tmp_path, *options, verbose, ANSIBLE_STDOUT_CALLBACK=callback)
        assert done.returncode == 0, done.stdout
        assert "Traceback" not in done.stdout
    for vmid in HOSTS.values():
        assert json.loads(inside(vmid, "python3", "-c", LIST, f"{root}/.trainops/project/current/")) == expected


def test_a_surprising_size_is_refused_by_the_check_before_anything_is_sent(tmp_path: Path, root: str) -> None:
    write(tmp_path / "project", {**FIRST, ".gitignore": "", "checkpoints/last.pt": ""})
    os.truncate(tmp_path / "project/checkpoints/last.pt", 1 << 40)
    playbook = tmp_path / "deploy.yml"
    roles = ["trainops.proxmox.syntax_check", "trainops.proxmox.deploy_scripts"]
    playbook.write_text(yaml.safe_dump([{"hosts": "ct200", "gather_facts": False, "roles": roles}]))
    options = [
        "-e",
        "training_project=project",
        "-e",
        f"training_root={root}",
        "-e",
        "training_python=/usr/bin/python3",
    ]
    one_line = {"ANSIBLE_STDOUT_CALLBACK": "trainops.proxmox.summary"}
    with open_lab().counting("pve1") as sessions:
        refused = play(playbook, tmp_path, *options, **one_line)
    assert (refused.returncode, sessions()) == (2, 0), refused.stdout
    assert "ct200  check    FAILED  this project has 1100 GB in 4 files" in refused.stdout
    assert "training_max_size (option max_size) allows (500 MB). The largest: checkpoints/last.pt" in refused.stdout
    assert "trainops deploy --max-size 1100GB" in refused.stdout
    left_out = ["-e", '{"training_exclude": ["./checkpoints/last.pt"]}', "-v"]
    done = play(playbook, tmp_path, *options, *left_out, **one_line)
    assert done.returncode == 0, done.stdout
    assert "left out, excluded by ./checkpoints/last.pt: checkpoints/last.pt" in done.stdout
    assert "left out, version control: .gitignore" in done.stdout


@pytest.mark.parametrize(("options", "words"), [("size=1m", "MB free"), ("nr_inodes=12", "inodes free")])
def test_an_unprivileged_container_has_its_space_checked_too(
    tmp_path: Path, root: str, options: str, words: str
) -> None:
    open_lab().container(201).run(
        ["mount", "-t", "tmpfs", "-o", f"{options},mode=755", "none", root]
    ).check_returncode()
    write(tmp_path / "project", {**FIRST, "weights.bin": os.urandom(1 << 20) * 2})
    for check_mode in (True, False):  # both know before anything is sent
        task = {"trainops.proxmox.training_release": {"project": "project", "root": root, "name": "demo"}}
        playbook = tmp_path / "space.yml"
        playbook.write_text(
            yaml.safe_dump([{"hosts": "ct201", "gather_facts": False, "check_mode": check_mode, "tasks": [task]}])
        )
        done = play(playbook, tmp_path, ANSIBLE_STDOUT_CALLBACK="trainops.proxmox.summary")
        assert done.returncode == 2, done.stdout
        assert words in done.stdout
        assert shell(201, 'ls -A "$1"', root) == ""


def test_a_large_file_streams_with_a_flat_memory(tmp_path: Path, root: str) -> None:
    write(tmp_path / "project", {"weights.bin": os.urandom(1 << 20) * 200})
    result = release(tmp_path, root)["ct200"]
    assert result["bytes_sent"] == 200 << 20, result
    assert inside(200, "sha256sum", f"{root}/weights.bin").split()[0] == result["files"][0]["sha256"]
