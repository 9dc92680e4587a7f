"""The journeys run on the one-machine lab: up before the first, and left up since a later start is quick."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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
