"""A playbook that finds no host to work on has not succeeded, whatever prints its lines."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent
PLAYBOOKS = sorted(path.stem for path in (Path(__file__).resolve().parents[3] / "playbooks").glob("*.yml"))
# Hosts that no step can be done on: a playbook that goes on ends with another sentence.
INVENTORY = """
training: {hosts: {one: {ansible_connection: local}}}
other: {hosts: {two: {ansible_connection: local}}}
empty: {}
"""


def play(
    folder: Path, playbook: str, *arguments: str, callback: str = "default", inventory: str = "inventory.yml"
) -> subprocess.CompletedProcess[str]:
    """Run one of the collection's playbooks."""
    (folder / "inventory.yml").write_text(INVENTORY)
    argv = [str(BIN / "ansible-playbook"), "-i", inventory, f"trainops.proxmox.{playbook}", *arguments]
    env = {**os.environ, "ANSIBLE_STDOUT_CALLBACK": callback, "ANSIBLE_NOCOLOR": "1", "LC_ALL": "C.UTF-8"}
    return subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("playbook", PLAYBOOKS)
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-e", "training_hosts=trianing"], "no host matches trianing, so nothing was done"),
        (["-e", "training_hosts=empty"], "no host matches empty, so nothing was done"),
        (["-e", '{"training_hosts": ["empty", "nope"]}'], "no host matches empty,nope, so nothing was done"),
        (["-l", "two"], "no host matches training within the limit two, so nothing was done"),
    ],
)
def test_no_host_is_an_error_with_one_sentence(tmp_path: Path, playbook: str, arguments: list[str], said: str) -> None:
    done = play(tmp_path, playbook, *arguments)
    assert done.returncode != 0
    assert said in done.stdout + done.stderr
    assert "PLAY" not in done.stdout


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_without_an_inventory_only_the_syntax_is_right(tmp_path: Path, playbook: str) -> None:
    (tmp_path / "empty").touch()
    done = play(tmp_path, playbook, inventory="empty")
    assert done.returncode != 0
    assert (
        "there is no inventory that could be read, so nothing was done: give one with -i" in done.stdout + done.stderr
    )
    assert play(tmp_path, playbook, "--syntax-check", inventory="empty").returncode == 0


def test_the_summary_says_it_too(tmp_path: Path) -> None:
    done = play(tmp_path, PLAYBOOKS[0], "-e", "training_hosts=nope", callback="trainops.proxmox.summary")
    assert done.returncode != 0
    assert (done.stdout + done.stderr).count("no host matches nope") == 1


@pytest.mark.parametrize(
    "arguments",
    [[], ["-l", "one"], ["-l", "!two"], ["-l", "@hosts"], ["-e", "training_hosts=other:training"], ["-l", "tr*"]],
)
def test_hosts_that_match_are_worked_on(tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "hosts").write_text("one\n")
    done = play(tmp_path, "deploy_training", "--list-hosts", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\n      one\n" in done.stdout
