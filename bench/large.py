"""Large projects: a deploy of a large file beside the same bytes through a bare ssh to the node, and of many files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench.deploys import SCRIPT, Edits, forget_connections, project
from bench.measure import Figure, Sample, run
from lab.api import Lab

SSH = "the same bytes: ssh node 'cat > /dev/null'"
ONE = "deploy of one file"
LARGE = "deploy of one large file more"
FIRST = "deploy of many files, the first"
CHANGED = "deploy of many files, one changed"
UNCHANGED = "deploy of many files, unchanged"
_NUMBER = 300  # of the folder in the container
_PLAY = ("ansible-playbook", "--limit", "ct200", "deploy_training.yml")

#: Runs a command in a folder for a case, with a first connection to the node, and keeps what it took.
Take = Callable[..., None]


def measure(
    base: Path,
    lab: Lab,
    control: Path,
    rounds: int,
    environment: Mapping[str, str],
    say: Callable[[str], None],
    megabytes: int,
    count: int,
) -> list[Figure]:
    """Time and memory of each; every byte is new in each round, and proven by sha256 in the container.

    ``megabytes`` is the size of the large file, ``count`` the number of many files; 0 leaves these cases out.
    """
    samples: dict[str, list[Sample]] = {}

    def take(name: str, argv: Sequence[str], where: Path, stdin: Path | None = None) -> None:
        forget_connections(control)
        samples.setdefault(name, []).append(run(list(argv), where, environment, stdin=stdin))

    if megabytes:
        folder = project(base / f"bench-{_NUMBER}", lab, 1, _NUMBER)
        _one_large(folder, [*lab.ssh_args("pve1"), "cat > /dev/null"], megabytes, rounds, take, say)
    if count:
        _many(project(base / f"bench-{count}", lab, 1, count), count, rounds, take, say)
    return [Figure(name, tuple(taken)) for name, taken in samples.items()]


def _one_large(
    folder: Path, bare: Sequence[str], megabytes: int, rounds: int, take: Take, say: Callable[[str], None]
) -> None:
    weights, edits = folder / "weights.bin", Edits()
    play = [*_PLAY, "-e", f"training_max_size={megabytes + 100}MB"]
    for number in range(rounds):
        say(f"{megabytes} MB, round {number + 1} of {rounds}")
        weights.unlink(missing_ok=True)
        edits.edit(folder / SCRIPT)
        take(ONE, play, folder)
        _write_random(weights, megabytes)
        take(SSH, bare, folder, stdin=weights)
        take(LARGE, play, folder)


def _many(folder: Path, count: int, rounds: int, take: Take, say: Callable[[str], None]) -> None:
    _write_many(folder, count)
    edits = Edits()
    play = [*_PLAY, "-e", f"training_max_files={count + 10}"]
    take(FIRST, play, folder)
    for number in range(rounds):
        say(f"{count} files, round {number + 1} of {rounds}")
        edits.edit(folder / SCRIPT)
        take(CHANGED, play, folder)
        take(UNCHANGED, play, folder)


def _write_random(path: Path, megabytes: int) -> None:
    with open(path, "wb") as stream:
        for _ in range(megabytes):
            stream.write(os.urandom(1_000_000))
        stream.flush()
        os.fsync(stream.fileno())  # or the disk would be busy with it while a case is measured


def _write_many(folder: Path, count: int) -> None:
    """Beside the script, sources of a few lines in a hundred packages."""
    for number in range(count - 1):
        package = folder / f"package_{number % 100}"
        package.mkdir(exist_ok=True)
        (package / f"module_{number}.py").write_text(f"def value() -> int:\n    return {number}\n")
