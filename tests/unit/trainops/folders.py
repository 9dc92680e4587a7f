"""Folders of a user, with plays that need no container."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

INVENTORY = """
all:
  hosts: {one: {}, two: {}}
  vars: {ansible_connection: local, ansible_python_interpreter: "{{ ansible_playbook_python }}"}
"""


def user_folder(path: Path, tasks: str, name: str = "deploy_training", inventory: str = INVENTORY) -> Path:
    """A folder with an inventory of two local hosts, an ansible.cfg and one playbook with ``tasks``."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "inventory.yml").write_text(inventory)
    (path / "ansible.cfg").write_text("[defaults]\ninventory = inventory.yml\n")
    body = "".join(f"    {line}\n" for line in dedent(tasks).strip().splitlines())
    (path / f"{name}.yml").write_text(f"- hosts: all\n  gather_facts: false\n  tasks:\n{body}")
    return path


def until(condition: Callable[[], bool], seconds: float = 30.0) -> bool:
    """Wait for ``condition``; False when it did not come true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def runs(word: str) -> bool:
    """Whether a living process has ``word`` as one of its arguments."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in path.read_bytes().split(b"\0"):
                return True
        except OSError:
            continue
    return False
