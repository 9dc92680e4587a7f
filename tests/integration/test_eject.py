# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ejecting in the lab's containers: the folder before the first deploy and after the eject, and a run meanwhile."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.connections import inventory
from tests.integration.cuts import wait_for
from tests.integration.inside import folder_in, shell
from tests.integration.steps import run_step
from tests.unit.releasing import Files, write

HOSTS = {"ct200": 200, "ct201": 201}
BIN = Path(sys.executable).parent
FIRST: Files = {"train.py": "import model\nprint(model.V)\n", "model.py": "V = 1\n", "conf/a.yml": "a: 1\n"}
SECOND: Files = {"model.py": "V = 2\n"}
# Everything below a folder, no link followed: path, type, mode, owner and group, a link's target; then the contents.
LIST = """
cd "$1"
find . -mindepth 1 -printf '%P %y %m %U:%G %l\\n' | LC_ALL=C sort
find . -type f -exec sha256sum {} + | LC_ALL=C sort
"""
THERE = """
cd "$1"; mkdir -p conf data sub; echo 'V = 0' >model.py; echo b >conf/b.yml; echo d >data/set.bin; echo s >sub/x
ln -s ../data/set.bin conf/set; ln -s sub/x link; chmod 640 model.py; chown 1000:1000 model.py; chmod 700 conf
"""


def listing(vmid: int, root: str) -> str:
    return shell(vmid, LIST, root)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[str]:
    """A folder in both containers, gone afterwards."""
    with folder_in(HOSTS.values(), tmp_path.name) as folder:
        yield folder


def step(folder: Path, root: str, hosts: str = ",".join(HOSTS), **options: Any) -> dict[str, dict[str, Any]]:
    given = {"root": root, "name": "demo", **options}
    found = run_step(folder, "trainops.proxmox.training_release", given, inventory(), hosts)
    assert not any(result["failed"] for result in found.values()), found
    return found


def release(folder: Path, root: str, **options: Any) -> dict[str, dict[str, Any]]:
    return step(folder, root, project="project", adopt_folders=True, **options)


def test_back_to_what_was_there_before_the_first_deploy(tmp_path: Path, root: str) -> None:
    write(tmp_path / "project", FIRST)
    before = {}
    for vmid in HOSTS.values():
        shell(vmid, THERE, root)
        before[vmid] = listing(vmid, root)
    release(tmp_path, root)
    write(tmp_path / "project", SECOND)
    release(tmp_path, root)
    for vmid in HOSTS.values():
        shell(vmid, 'cd "$1"; python3 train.py', root)  # its bytecode is in the release
        assert listing(vmid, root) != before[vmid]
    step(tmp_path, root, state="rolled_back", to="adopted")
    for host, result in step(tmp_path, root, state="ejected").items():
        assert listing(HOSTS[host], root) == before[HOSTS[host]]
        assert (result["changed"], result["previous_release_id"], result["foreign"]) == (True, "adopted", []), result
        assert result["summary"].startswith(f"adopted became plain files at {root}, 2 files, 8 B, sha256 proven; ")
    for result in step(tmp_path, root, state="ejected").values():
        assert (result["changed"], result["summary"]) == (False, f"there is nothing of demo at {root}, nothing changed")


def test_what_is_live_is_plain_and_the_next_deploy_adopts_it(tmp_path: Path, root: str) -> None:
    write(tmp_path / "project", FIRST)
    for vmid in HOSTS.values():
        shell(vmid, 'mkdir "$1/data"; echo d >"$1/data/set.bin"', root)
    release(tmp_path, root, shared=["data"])
    inodes = {vmid: shell(vmid, 'cd "$1"; stat -Lc %i train.py conf data conf/a.yml', root) for vmid in HOSTS.values()}
    step(tmp_path, root, state="ejected")
    for vmid in HOSTS.values():
        assert shell(vmid, 'cd "$1"; stat -c %i train.py conf data conf/a.yml', root) == inodes[vmid]  # nothing copied
        assert shell(vmid, 'cd "$1"; find . -type l; ls -A; cat data/set.bin; python3 -B train.py', root).split() == [
            *("conf", "data", "model.py", "train.py"),
            *("d", "1"),
        ]
    write(tmp_path / "project", SECOND)
    for host, result in release(tmp_path, root, shared=["data"]).items():
        assert (result["adopted"], shell(HOSTS[host], 'cd "$1"; python3 -B train.py', root)) == ("adopted", "2\n")
    step(tmp_path, root, state="rolled_back", to="adopted")
    for host in step(tmp_path, root, state="ejected"):
        assert shell(HOSTS[host], 'cd "$1"; find . -type l; python3 -B train.py', root) == "1\n"


# It opens its log by the path that everybody knows, and goes on writing and reading once it is told to.
RUN = """
import os, sys, time
os.chdir(sys.argv[1])
log = open("conf/run.log", "a")
print("started", file=log, flush=True)
while not os.path.exists("go"):
    open("conf/a.yml").close()
    open("model.py").close()
    os.listdir("conf")
print("went on", file=log, flush=True)
os.rename("go", "gone")
"""


def test_a_run_reads_and_writes_on_while_names_become_plain(tmp_path: Path, root: str) -> None:
    write(tmp_path / "project", FIRST)
    release(tmp_path, root)
    start = 'cd "$1"; setsid python3 -c "$2" "$1" </dev/null >/dev/null 2>errors & until [ -s "$1/conf/run.log" ]'
    for vmid in HOSTS.values():
        shell(vmid, start + "; do sleep 0.02; done", root, RUN)
    step(tmp_path, root, state="ejected")
    for vmid in HOSTS.values():
        shell(vmid, 'touch "$1/go"', root)
        wait_for(functools.partial(has_gone, vmid, root))
        assert shell(vmid, 'cd "$1"; cat conf/run.log errors; ls -A', root).split() == [
            *("started", "went", "on"),
            *("conf", "errors", "gone", "model.py", "train.py"),
        ]


def has_gone(vmid: int, root: str) -> bool:
    return "gone" in shell(vmid, 'ls "$1"', root).split()


def play(folder: Path, root: str, playbook: str, *more: str) -> subprocess.CompletedProcess[str]:
    """One of the collection's playbooks on container 201, with the lines that a person reads."""
    variables = json.dumps({"training_project": "project", "training_root": root, "training_name": "demo"})
    argv = [str(BIN / "ansible-playbook"), "-i", inventory(), f"trainops.proxmox.{playbook}", "-l", "ct201"]
    path = f"{BIN}:{os.environ['PATH']}"
    return subprocess.run(
        [*argv, "-e", variables, *more],
        cwd=folder,
        env={**os.environ, "LC_ALL": "C.UTF-8", "PATH": path, "ANSIBLE_STDOUT_CALLBACK": "trainops.proxmox.summary"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=300,
    )


def test_the_playbook_foretells_does_and_has_nothing_left_to_do(tmp_path: Path, root: str) -> None:
    write(tmp_path / "project", FIRST)
    release(tmp_path, root, hosts="ct201")
    shell(201, 'cd "$1"; echo "V = 3" >model.py; rm train.py; echo mine >train.py', root)
    before = listing(201, root)
    foretold = play(tmp_path, root, "eject_training", "--check", "--diff")
    assert (foretold.returncode, listing(201, root)) == (0, before), foretold.stdout
    assert "-conf -> .trainops/demo/current/conf" in foretold.stdout
    assert "+conf/" in foretold.stdout
    assert f"would become plain files at {root}, 2 files, 11 B" in foretold.stdout
    done = play(tmp_path, root, "eject_training")
    assert done.returncode == 0, done.stdout
    assert "; what was altered since the deploy stays as it is: model.py; " in done.stdout
    assert f"{root}/train.py is not the project's link but a file: it stays as it is" in " ".join(done.stdout.split())
    assert shell(201, 'cd "$1"; ls -A; cat model.py train.py; find . -type l', root) == (
        "conf\nmodel.py\ntrain.py\nV = 3\nmine\n"
    )
    again = play(tmp_path, root, "eject_training")
    assert again.returncode == 0, again.stdout
    assert f"there is nothing of demo at {root}, nothing changed" in again.stdout


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["-e", "training_root=/srv/nowhere"], "/srv/nowhere does not exist: create it in the container"),
        (["-e", "training_naem=x"], "training_naem is no variable of trainops: did you mean training_name?"),
        (["-e", "training_root=srv"], "training_root (option root): 'srv' must be an absolute path"),
        (["-e", "training_python=/no/python"], "/no/python"),
        (["-e", "ansible_connection=ssh"], "this host is reached over ssh and not as a container"),
    ],
)
def test_wrong_input_gets_one_clear_sentence(tmp_path: Path, root: str, more: list[str], said: str) -> None:
    done = play(tmp_path, root, "eject_training", *more)
    assert done.returncode in (2, 4), done.stdout
    assert said in " ".join(done.stdout.split())
