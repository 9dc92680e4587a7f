"""What the repository is delivered as, built once for all tests: sdist, wheel and Galaxy tarball."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent


def run(*argv: str | Path, env: dict[str, str] | None = None) -> str:
    """Run a command in the repository and return its output; show all of it when it fails."""
    done = subprocess.run(
        list(map(str, argv)), cwd=ROOT, env={**os.environ, **(env or {})}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def python_artefacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel that is built from it."""
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out)
    return out


@pytest.fixture(scope="session")
def wheel(python_artefacts: Path) -> Path:
    """The wheel."""
    (path,) = python_artefacts.glob("trainops-*.whl")
    return path


@pytest.fixture(scope="session")
def tarball(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Galaxy tarball."""
    out = tmp_path_factory.mktemp("galaxy")
    run(BIN / "ansible-galaxy", "collection", "build", "--output-path", out)
    (path,) = out.glob("trainops-proxmox-*.tar.gz")
    return path
