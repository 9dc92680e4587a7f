"""Large projects: a deploy of 300 MB beside the same bytes through a bare ssh to the node, and one of 20,000 files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from bench.deploys import SCRIPT, Edits, forget_connections, project
from bench.measure import Figure, Sample, run
from lab.api import Lab

MEGABYTES = 300
COUNT = 20_000
SSH = f"{MEGABYTES} MB: ssh node 'cat > /dev/null'"
ONE = "deploy of one file"
LARGE = f"deploy of {MEGABYTES} MB more"
FIRST = f"deploy of {COUNT} files, the first"
CHANGED = f"deploy of {COUNT} files, one changed"
UNCHANGED = f"deploy of {COUNT} files, unchanged"
_NUMBER = 300  # of the folder in the container


def measure(
    base: Path, lab: Lab, control: Path, rounds: int, environment: Mapping[str, str], say: Callable[[str], None]
) -> list[Figure]:
    """Time and memory of each; every byte is new in each round, and proven by sha256 in the container."""
    folder, many, edits = project(base / f"bench-{_NUMBER}", lab, 1, _NUMBER), base / f"bench-{COUNT}", Edits()
    play = ["ansible-playbook", "--limit", "ct200", "deploy_training.yml"]
    samples: dict[str, list[Sample]] = {name: [] for name in (SSH, ONE, LARGE, FIRST, CHANGED, UNCHANGED)}

    def take(name: str, argv: list[str], where: Path, stdin: Path | None = None) -> None:
        forget_connections(control)
        samples[name].append(run(argv, where, environment, stdin=stdin))

    weights = folder / "weights.bin"
    for number in range(rounds):
        say(f"large projects, round {number + 1} of {rounds}")
        weights.unlink(missing_ok=True)
        edits.edit(folder / SCRIPT)
        take(ONE, play, folder)
        _write_random(weights)
        take(SSH, [*lab.ssh_args("pve1"), "cat > /dev/null"], folder, stdin=weights)
        take(LARGE, play, folder)
    _write_many(project(many, lab, 1, COUNT))
    play += ["-e", f"training_max_files={COUNT + 10}"]
    take(FIRST, play, many)
    for number in range(rounds):
        say(f"{COUNT} files, round {number + 1} of {rounds}")
        edits.edit(many / SCRIPT)
        take(CHANGED, play, many)
        take(UNCHANGED, play, many)
    return [Figure(name, tuple(taken)) for name, taken in samples.items()]


def _write_random(path: Path) -> None:
    with open(path, "wb") as stream:
        for _ in range(MEGABYTES):
            stream.write(os.urandom(1_000_000))


def _write_many(folder: Path) -> None:
    """Beside the script, sources of a few lines in a hundred packages."""
    for number in range(COUNT - 1):
        package = folder / f"package_{number % 100}"
        package.mkdir(exist_ok=True)
        (package / f"module_{number}.py").write_text(f"def value() -> int:\n    return {number}\n")
