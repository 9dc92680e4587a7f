"""Measure on the lab and print Markdown tables: python -m bench [--rounds N] [--run-rounds N] [--copy-rounds N] …"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import os
import platform
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench import copies, deploys, large, runs
from bench.measure import BenchError, Figure, table
from lab import example
from lab.api import Lab, LabError, bring_up
from lab.node.pct_standin.settings import STARTUP


def main() -> None:
    """Run the measurements; exits with 1 when a measured command fails."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.partition(":")[0])
    parser.add_argument(
        "--rounds", type=int, default=9, metavar="N", help="runs of each deploy (medians are printed); 0: none"
    )
    parser.add_argument("--run-rounds", type=int, default=9, metavar="N", help="launches, crashes and stops; 0: none")
    parser.add_argument("--copy-rounds", type=int, default=3, metavar="N", help="runs of each large copy; 0: none")
    parser.add_argument("--large-rounds", type=int, default=5, metavar="N", help="deploys of large projects; 0: none")
    parser.add_argument("--megabytes", type=int, default=300, metavar="N", help="size of the large file; 0: none")
    parser.add_argument("--files", type=int, default=20_000, metavar="N", help="number of many files; 0: none")
    options = parser.parse_args()
    try:
        lab = bring_up()
        # Short paths: a socket's must have fewer than 108 characters.
        with tempfile.TemporaryDirectory(prefix="bench-") as base, tempfile.TemporaryDirectory(prefix="cp-") as control:
            _measure(options, lab, Path(base), Path(control))
    except (BenchError, LabError) as error:
        sys.exit(f"bench: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


def _measure(options: argparse.Namespace, lab: Lab, base: Path, control: Path) -> None:
    try:
        print(_machine(), flush=True)
        environment = _environment(control)
        if options.rounds:
            with _silent_shell(lab):
                figures = deploys.measure(deploys.cases(base, lab, control), options.rounds, environment, _say)
            print("\n" + deploy_table(figures), flush=True)
        if options.run_rounds:
            figures = runs.measure(runs.project(base / "bench-run", lab), lab, options.run_rounds, environment, _say)
            print("\n" + run_table(figures), flush=True)
        if options.copy_rounds:
            folder = example.copy(base / "bench-copies", lab)
            copied = copies.measure(folder, lab, options.copy_rounds, environment, _say)
            print("\n" + copy_table(copied), flush=True)
        if options.large_rounds:
            sizes = (options.megabytes, options.files)
            deployed = large.measure(base, lab, control, options.large_rounds, environment, _say, *sizes)
            print(f"\n{sizes[0]} MB, {sizes[1]} files:\n\n{large_table(deployed)}", flush=True)
    finally:
        deploys.forget_connections(control)
        lab.container(200).run(["sh", "-c", "rm -rf /srv/bench-* /srv/big /srv/byte /root/train.py"])
        lab.node("pve1").run(["rm", "-f", "/tmp/train.py"])


@contextlib.contextmanager
def _silent_shell(lab: Lab) -> Iterator[None]:
    """The lab's root greets whoever logs in, as some do; scp, one of the bare commands, fails on that."""
    node = lab.node("pve1")
    node.check(["mv", "/root/.bashrc", "/root/.bashrc-away"])
    try:
        yield
    finally:
        node.check(["mv", "/root/.bashrc-away", "/root/.bashrc"])


def _say(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)


def _environment(control: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    return {**kept, "PATH": path, "LC_ALL": "C.UTF-8", "ANSIBLE_SSH_CONTROL_PATH_DIR": str(control)}


def _machine() -> str:
    core = importlib.metadata.version("ansible-core")
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return (
        f"{os.cpu_count()} cores (load {load} at the start), Python {platform.python_version()}, ansible-core {core}; "
        f"the lab's pct takes {STARTUP:g} s of CPU to start, as the real one does."
    )


def deploy_table(figures: Sequence[Figure]) -> str:
    """Every case with its time in seconds and its ratios to the bare commands and to the deploy of one file."""
    medians = {figure.name: figure.median for figure in figures}
    one = medians[deploys.deployed(1, "one changed")]
    rows = []
    for figure in figures:
        low, high = figure.range
        ratios = (figure.median / base for base in (medians[deploys.BARE_PCT], medians[deploys.BARE_ATTACH], one))
        rows.append(
            [figure.name, f"{figure.median:.2f}", f"{low:.2f}–{high:.2f}", *(f"{ratio:.2f}" for ratio in ratios)]
        )
    header = [f"median of {len(figures[0].samples)}", "s", "from–to", "÷ pct", "÷ lxc-attach", "÷ one file changed"]
    return table(header, rows)


def run_table(figures: Sequence[Figure]) -> str:
    """Every case with its time in seconds."""
    rows = []
    for figure in figures:
        low, high = figure.range
        rows.append([figure.name, f"{figure.median:.2f}", f"{low:.2f}–{high:.2f}"])
    return table([f"median of {len(figures[0].samples)}", "s", "from–to"], rows)


def copy_table(figures: Sequence[Figure]) -> str:
    """Every way with its time, the controller's memory, and the ratio to bare ssh plus the copy of one byte."""
    medians = {figure.name: figure.median for figure in figures}
    base = medians[copies.SSH] + medians[copies.COPY_BYTE]
    rows = []
    for figure in figures:
        ratio = f"{figure.median / base:.2f}" if figure.name in (copies.COPY, copies.FETCH) else ""
        rows.append([figure.name, f"{figure.median:.2f}", ratio, f"{figure.memory_mib:.0f}"])
    header = [f"median of {len(figures[0].samples)}", "s", "÷ (ssh + copy of one byte)", "peak memory, MiB"]
    return table(header, rows)


def large_table(figures: Sequence[Figure]) -> str:
    """Every case with its time, what it takes beyond a deploy of one file as ratio to bare ssh, and its memory."""
    medians = {figure.name: figure.median for figure in figures}
    rows = []
    for figure in figures:
        low, high = figure.range
        ratio = ""
        if figure.name == large.LARGE:
            ratio = f"{(figure.median - medians[large.ONE]) / medians[large.SSH]:.2f}"
        rows.append([figure.name, f"{figure.median:.2f}", f"{low:.2f}–{high:.2f}", ratio, f"{figure.memory_mib:.0f}"])
    header = ["median", "s", "from–to", "(it - one file) ÷ ssh", "peak memory, MiB"]
    return table(header, rows)


if __name__ == "__main__":
    main()
