"""Runs: from launch to run id, from crash to report, from the freed GPU to the verdict, and how long a stop takes."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from bench.deploys import EMPTY
from bench.measure import BenchError, Figure, Sample, run
from lab import example
from lab.api import Lab

ATTACH = "bare: ssh node 'lxc-attach … nohup … &'"
LAUNCH = "launch, to the run's id and the end of the command"
CRASH = "crash, to its report by logs -f"
FREED = "GPU freed, to the verdict of gpu_idle, which looks every 5 s"
STOP = "stop, until no process is left and the GPUs are free"
_ROOT = "/srv/bench-run"
_RUNS = f"{_ROOT}/.trainops/bench-run/runs"
_NOW = f"{_ROOT}/crash-now"
_COMMAND = f"""\
    training_command:
      - bash
      - -c
      - echo ready; until [ -e {_NOW} ] || ! [ -d {_ROOT} ]; do sleep 0.01; done; echo crashing; exit 3
"""
_BARE = "lxc-attach -n 200 -- sh -c 'cd /srv; nohup setsid sleep 1 >/dev/null 2>&1 </dev/null & echo $!'"


def project(folder: Path, lab: Lab) -> Path:
    """A user's folder with one script, deployed to a folder of its own in container 200."""
    example.copy(folder, lab)
    for name in ("dflash_model.py", "train_dflash_pipeline.py", "config.toml", "run.sh"):
        (folder / name).unlink()
    (folder / "train.py").write_text("print('trains')\n")
    inventory = folder / "inventory.yml"
    text = inventory.read_text().replace("training_root: /root\n", f"training_root: {_ROOT}\n")
    inventory.write_text(text.replace("    training_script: train_dflash_pipeline.py\n", _COMMAND))
    (folder / "empty.yml").write_text("- hosts: training\n  gather_facts: false\n  tasks: []\n")
    (folder / "idle.yml").write_text(
        "- hosts: training\n  gather_facts: false\n  tasks:\n"
        "    - trainops.proxmox.gpu_idle: {timeout: 60, python: /usr/bin/python3}\n"
    )
    _inside(lab, "mkdir", "-p", _ROOT)
    return folder


def measure(
    folder: Path, lab: Lab, rounds: int, environment: Mapping[str, str], say: Callable[[str], None]
) -> list[Figure]:
    """Time of each; as in a user's day the connection stays open between commands. The first round does not count."""
    only = ["--limit", "ct200"]
    run(["trainops", "deploy", *only], folder, environment)
    samples: dict[str, list[Sample]] = {name: [] for name in (EMPTY, ATTACH, LAUNCH, STOP, CRASH, FREED)}
    for number in range(rounds + 1):
        say(f"runs, round {number} of {rounds}" + (" (not counted)" if number == 0 else ""))
        _inside(lab, "rm", "-f", _NOW)
        taken = {EMPTY: run(["ansible-playbook", *only, "empty.yml"], folder, environment)}
        taken[ATTACH] = run([*lab.ssh_args("pve1"), _BARE], folder, environment)
        taken[LAUNCH] = run(["trainops", "launch", "--no-follow", *only], folder, environment)
        taken[STOP] = run(["trainops", "stop", *only], folder, environment)
        run(["trainops", "launch", "--no-follow", *only], folder, environment)
        taken[CRASH] = _crash(folder, lab, environment)
        taken[FREED] = _freed(folder, lab, environment)
        if number:
            for name, sample in taken.items():
                samples[name].append(sample)
    return [Figure(name, tuple(each)) for name, each in samples.items()]


def _crash(folder: Path, lab: Lab, environment: Mapping[str, str]) -> Sample:
    """The run is followed, crashes, and the line that says so is waited for: seconds since its process ended."""
    reported, said, asked = 0.0, [], False
    argv = ["trainops", "logs", "-f", "--limit", "ct200"]
    with subprocess.Popen(argv, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as process:
        if process.stdout is None:
            raise BenchError("no output")
        for line in process.stdout:
            said.append(line)
            if "ready" in line and not asked:
                asked = True
                _inside(lab, "touch", _NOW)
            if "exit 3" in line and not reported:
                reported = time.time()
    if not reported:
        raise BenchError(f"{' '.join(argv)} did not report the crash:\n{''.join(said)}")
    last = _inside(lab, "cat", f"{_RUNS}/last").strip()
    ended = float(_inside(lab, "stat", "-c", "%.3Y", f"{_RUNS}/r{last}/log"))  # its last word, right before its end
    return Sample(reported - ended, 0, "".join(said))


def _freed(folder: Path, lab: Lab, environment: Mapping[str, str]) -> Sample:
    """A held GPU is waited for by gpu_idle and then freed: seconds from there to the end of the command."""
    argv = ["ansible-playbook", "--limit", "ct200", "idle.yml"]
    said, freed = [], 0.0
    with contextlib.ExitStack() as hold:
        hold.enter_context(lab.hold(200, gpu=0, mib=1000))
        with subprocess.Popen(argv, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as process:
            if process.stdout is None:
                raise BenchError("no output")
            for line in process.stdout:
                said.append(line)
                if "waiting" in line and not freed:
                    hold.close()
                    freed = time.time()
    if process.returncode != 0 or not freed:
        raise BenchError(f"{' '.join(argv)} did not wait for the GPU:\n{''.join(said)}")
    return Sample(time.time() - freed, 0, "".join(said))


def _inside(lab: Lab, *argv: str) -> str:
    done = lab.container(200).run(argv)
    if done.returncode != 0:
        raise BenchError(f"{' '.join(argv)} in 200: {done.stderr.decode(errors='replace')}")
    return done.stdout.decode()
