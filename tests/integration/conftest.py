"""The journeys run on the one-machine lab: up before the first, and left up since a later start is quick."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.api import open_lab

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session", autouse=True)
def lab_is_up() -> None:
    """Start the lab, or repair it; every journey fails with the lab's own words when it cannot run here."""
    done = subprocess.run(
        [sys.executable, "-m", "lab", "up"],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.fail(f"python -m lab up: exit {done.returncode}\n{done.stdout}", pytrace=False)


@pytest.fixture(scope="module")
def quick_pct(lab_is_up: None) -> Iterator[None]:
    """The nodes' pct without its second of start-up, for journeys that call it often."""
    nodes = [open_lab().node(name) for name in ("pve1", "pve2")]
    for node in nodes:
        node.check(["sh", "-c", "echo '{\"startup\": 0}' > /etc/trainops-lab/pct.json"])
    yield
    for node in nodes:
        node.check(["rm", "/etc/trainops-lab/pct.json"])
