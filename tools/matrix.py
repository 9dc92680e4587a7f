#!/usr/bin/env python3
"""Run the whole test suite once for each pair of Python and ansible-core that is supported: `make test-matrix`.

Each pair has an environment of its own under .cache/matrix; .venv stays as it is. Arguments go to pytest, and then
molecule is left out: `make test-matrix PYTEST_ARGS="tests/unit -k version"`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Pair:
    """A Python, as in "3.11", and an ansible-core, as in "2.19"."""

    python: str
    core: str

    @property
    def name(self) -> str:
        """What a person reads."""
        return f"ansible-core {self.core} on Python {self.python}"

    @property
    def folder(self) -> str:
        """Where its environment is, from the repository's root."""
        return f".cache/matrix/py{self.python}-core{self.core}"

    @property
    def requirement(self) -> str:
        """What pip installs beside the packages of pyproject.toml."""
        return f"ansible-core=={self.core}.*"


# The oldest that the collection takes, and the newest.
PAIRS = (Pair("3.11", "2.19"), Pair("3.13", "2.21"))


@dataclass(frozen=True)
class Outcome:
    """What a pair came to: the name of each part that ran with its exit status, and seconds in all."""

    pair: Pair
    statuses: Mapping[str, int]
    seconds: float


def parts(pair: Pair, arguments: Sequence[str]) -> dict[str, list[str]]:
    """Return what runs for a pair, by name: its set-up, pytest, and without arguments molecule too."""
    tools = Path(ROOT, pair.folder, "bin")
    found = {
        "set-up": [str(ROOT / "tools/setup"), "venv", pair.python, pair.folder, pair.requirement],
        "pytest": [str(tools / "python"), "-m", "pytest", *arguments],
    }
    return found if arguments else {**found, "molecule": [str(tools / "molecule"), "test", "--all"]}


def environment(pair: Pair, base: Mapping[str, str]) -> dict[str, str]:
    """Return `base` with the tools of the pair's environment first on PATH, and without those of another one."""
    others = {str(ROOT / ".venv" / "bin"), str(Path(base.get("VIRTUAL_ENV") or ROOT / ".venv", "bin"))}
    folders = [name for name in base.get("PATH", os.defpath).split(os.pathsep) if name not in others]
    kept = {name: value for name, value in base.items() if name not in ("VIRTUAL_ENV", "PYTHONHOME", "PYTHONPATH")}
    return {**kept, "PATH": os.pathsep.join((str(ROOT / pair.folder / "bin"), *folders)), "LC_ALL": "C.UTF-8"}


def run(pair: Pair, arguments: Sequence[str]) -> Outcome:
    """Run a pair's parts in their order, their output passed on; without its set-up nothing else of it runs."""
    start = time.monotonic()
    statuses: dict[str, int] = {}
    for name, argv in parts(pair, arguments).items():
        print(f"matrix: {pair.name}: {name}", flush=True)
        done = subprocess.run(argv, cwd=ROOT, env=environment(pair, os.environ), stdin=subprocess.DEVNULL, check=False)
        statuses[name] = done.returncode
        if name == "set-up" and done.returncode != 0:
            break
    return Outcome(pair, statuses, time.monotonic() - start)


def failed(outcome: Outcome) -> bool:
    """Whether anything of a pair did not end well."""
    return any(outcome.statuses.values())


def report(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the lines at the end: a pair in each, with what failed of it."""
    width = max(len(outcome.pair.name) for outcome in outcomes)
    lines = []
    for outcome in outcomes:
        bad = [f"{name} (exit {status})" for name, status in outcome.statuses.items() if status]
        verdict = "FAILED: " + ", ".join(bad) if bad else "ok: " + ", ".join(outcome.statuses)
        lines.append(f"matrix: {outcome.pair.name:<{width}}  {verdict}, {outcome.seconds:.0f} s")
    return lines


def main(arguments: Sequence[str]) -> int:
    """Run all pairs, the second also when the first failed; return 0 when everything of all passed, otherwise 1."""
    outcomes = [run(pair, arguments) for pair in PAIRS]
    print("\n".join(report(outcomes)), flush=True)
    return 1 if any(map(failed, outcomes)) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
