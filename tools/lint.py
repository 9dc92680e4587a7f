#!/usr/bin/env python3
"""Run every static check, two at a time, and print what the failing ones say: `make lint` or `tools/lint.py NAME…`."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TYPED = ("bench", "lab", "plugins", "tests", "tools", "trainops")
UNKNOWN_NAMES = ("--disallow-unknown-collection-refs",)  # no reference may lead to what is not there


@dataclass(frozen=True)
class Outcome:
    """What one check said: its exit status, everything it printed, and how long it took in seconds."""

    name: str
    status: int
    output: str
    seconds: float


def typed_folders(root: Path) -> list[str]:
    """Return the folders that mypy checks: those of `TYPED` that hold Python files (mypy refuses an empty one)."""
    return [name for name in TYPED if next((root / name).rglob("*.py"), None)]


def checks(root: Path) -> dict[str, Sequence[str]]:
    """Return the checks by name, the slowest first so that two cores finish together."""
    python = sys.executable
    return {
        "ansible-test": (python, "tools/sanity.py"),
        "ansible-lint": ("ansible-lint", "--nocolor", "-q"),
        "mypy": ("mypy", *typed_folders(root)),
        "plugin docs": ("antsibull-docs", "lint-collection-docs", "--plugin-docs", *UNKNOWN_NAMES, "."),
        "yamllint": ("yamllint", "--strict", "."),
        "ruff check": ("ruff", "check", "--no-fix"),
        "ruff format": ("ruff", "format", "--check"),
        "changelog": ("antsibull-changelog", "lint"),
    }


def environment(base: Mapping[str, str]) -> dict[str, str]:
    """Return `base` with the tools of this interpreter's environment first on PATH and plain, unbuffered output."""
    path = os.pathsep.join((str(Path(sys.executable).parent), base.get("PATH", os.defpath)))
    return {**base, "PATH": path, "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}


def run(name: str, argv: Sequence[str]) -> Outcome:
    """Run one check in the repository's root with its output collected in the order it was written."""
    start = time.monotonic()
    done = subprocess.run(
        argv,
        cwd=ROOT,
        env=environment(os.environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    return Outcome(name, done.returncode, done.stdout, time.monotonic() - start)


def report(outcome: Outcome) -> str:
    """Return one line for a passed check, the line and all its output for a failed one."""
    verdict = "ok" if outcome.status == 0 else f"FAILED (exit {outcome.status})"
    line = f"lint: {outcome.name:<14}{verdict}, {outcome.seconds:.1f} s"
    return line if outcome.status == 0 else f"{line}\n{outcome.output.rstrip()}"


def main(names: Sequence[str]) -> int:
    """Run the checks `names` (all when empty); return 0 when all passed, 1 when one failed, 2 for a wrong name."""
    known = checks(ROOT)
    if unknown := [name for name in names if name not in known]:
        print(f"lint: no check {', '.join(unknown)}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    failed = []
    with ThreadPoolExecutor(max_workers=2) as pool:
        jobs = [pool.submit(run, name, argv) for name, argv in known.items() if not names or name in names]
        for job in as_completed(jobs):
            outcome = job.result()
            print(report(outcome), flush=True)
            if outcome.status != 0:
                failed.append(outcome.name)
    if failed:
        print(f"lint: failed: {', '.join(failed)}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
