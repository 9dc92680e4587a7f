"""Run commands, take their time and the memory of the controller's process."""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


class BenchError(Exception):
    """A measured command did not do what it should."""


@dataclass(frozen=True)
class Sample:
    """One run of a command: wall-clock seconds, the largest resident memory of one of its processes in MiB, output."""

    seconds: float
    memory_mib: float
    output: str


def run(argv: Sequence[str], folder: Path, environment: Mapping[str, str], stdin: Path | None = None) -> Sample:
    """Run a command to its end. Raises BenchError when it fails."""
    with open(stdin or os.devnull, "rb") as source, tempfile.TemporaryFile() as output:
        started = time.perf_counter()
        process = subprocess.Popen(argv, cwd=folder, env=environment, stdin=source, stdout=output, stderr=output)
        _pid, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        said = output.read().decode("utf-8", "replace")
    if process.returncode != 0:
        raise BenchError(f"{' '.join(argv)} ended with {process.returncode}:\n{said}")
    return Sample(seconds, usage.ru_maxrss / 1024, said)


@dataclass(frozen=True)
class Figure:
    """The samples of one case, in the order of the rounds."""

    name: str
    samples: tuple[Sample, ...]

    @property
    def median(self) -> float:
        """Seconds."""
        return statistics.median(sample.seconds for sample in self.samples)

    @property
    def range(self) -> tuple[float, float]:
        """The shortest and the longest, in seconds."""
        seconds = [sample.seconds for sample in self.samples]
        return min(seconds), max(seconds)

    @property
    def memory_mib(self) -> float:
        """The largest of all rounds, in MiB."""
        return max(sample.memory_mib for sample in self.samples)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; all columns but the first are numbers."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
