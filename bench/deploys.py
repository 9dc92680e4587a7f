"""Deploys beside the bare commands: the cases, and what is done before each run so that every run is alike."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.measure import Figure, Sample, run
from lab import example
from lab.api import Lab

COUNTS = (1, 20, 500)
BARE_PCT = "bare commands with pct"
BARE_ATTACH = "bare commands with lxc-attach"
EMPTY = "empty play"
SCRIPT = "train.py"
_FUNCTION = '''
def layer_{number}(values: list[float], scale: float = {number}.5) -> list[float]:
    """Scale and clip the values of layer {number}."""
    return [max(-1.0, min(1.0, value * scale)) for value in values if value is not None]
'''
_BARE = """
set -e
python3 -c "import ast; ast.parse(open('train.py').read())"
$SCP train.py $LOGIN:/tmp/
$SSH $LOGIN '$PUSH'
$SSH $LOGIN '$EXEC nvidia-smi --query-gpu=index,memory.used --format=csv,noheader'
"""


def deployed(count: int, what: str) -> str:
    """The name of a case of ours."""
    return f"deploy, {count} {'file' if count == 1 else 'files'}, {what}"


@dataclass(frozen=True)
class Case:
    """A command that is measured, and what makes ready for it, which is not."""

    name: str
    argv: list[str]
    folder: Path
    ready: Callable[[], None]


def source(number: int) -> str:
    """A Python file of about 20 kB."""
    return "".join(_FUNCTION.format(number=number * 1000 + index) for index in range(90))


def project(folder: Path, lab: Lab, count: int, number: int = 0) -> Path:
    """A user's folder with ``count`` Python files of 20 kB that goes to a folder of its own in container 200.

    ``number`` (``count`` by default) tells that folder from those of others.
    """
    example.copy(folder, lab)
    for name in ("dflash_model.py", "train_dflash_pipeline.py", "config.toml", "run.sh"):
        (folder / name).unlink()
    (folder / SCRIPT).write_text(source(0))
    for one in range(1, count):
        (folder / f"module_{one}.py").write_text(source(one))
    inventory = folder / "inventory.yml"
    root = f"/srv/bench-{number or count}"
    inventory.write_text(inventory.read_text().replace("training_root: /root\n", f"training_root: {root}\n"))
    lab.container(200).run(["mkdir", "-p", root]).check_returncode()
    return folder


class Edits:
    """Changes one file, each time to something that was not there before."""

    def __init__(self) -> None:
        self._number = 0

    def edit(self, path: Path) -> None:
        """Append a comment to the file."""
        self._number += 1
        path.write_text(path.read_text() + f"# edit {self._number}\n")


def cases(base: Path, lab: Lab, control: Path) -> list[Case]:
    """All cases, in the order of a round. ``control`` is where ssh keeps its shared connections."""
    folders = {count: project(base / f"bench-{count}", lab, count) for count in COUNTS}
    edits, cold = Edits(), lambda: forget_connections(control)
    play = ["ansible-playbook", "--limit", "ct200"]
    one, empty = folders[1], example.copy(base / "empty", lab)
    (empty / "empty.yml").write_text("- hosts: training\n  gather_facts: false\n  tasks: []\n")

    def changed(count: int, ready: Callable[[], None]) -> Callable[[], None]:
        def prepare() -> None:
            edits.edit(folders[count] / SCRIPT)
            ready()

        return prepare

    bare = [
        Case(BARE_PCT, ["sh", "-c", bare_commands(lab, "pct")], one, cold),
        Case(BARE_ATTACH, ["sh", "-c", bare_commands(lab, "lxc-attach")], one, cold),
        Case(EMPTY, [*play, "empty.yml"], empty, cold),
    ]
    ours = []
    for count, folder in folders.items():
        argv = [*play, "deploy_training.yml"]
        ours += [
            Case(deployed(count, "one changed"), argv, folder, changed(count, cold)),
            Case(deployed(count, "unchanged"), argv, folder, cold),
        ]
    warm = [
        Case(deployed(1, "one changed, again within a minute"), argv, one, changed(1, lambda: None)),
        Case(deployed(1, "unchanged, again within a minute"), argv, one, lambda: None),
    ]
    return [*bare, *ours[:2], *warm, *ours[2:]]


def bare_commands(lab: Lab, way: str) -> str:
    """What people type without us, as DESIGN has it, without its sleep; each ssh a connection of its own."""
    *ssh, login = lab.ssh_args("pve1")
    scp = ["scp", *ssh[1:]]
    push = "pct push 200 /tmp/train.py /root/train.py"
    execute = "pct exec 200 --"
    if way == "lxc-attach":
        push = 'lxc-attach -n 200 -- sh -c "cat > /root/train.py" < /tmp/train.py'
        execute = "lxc-attach -n 200 --"
    text = _BARE
    for name, value in (
        ("$SCP", shlex.join(scp)),
        ("$SSH", shlex.join(ssh)),
        ("$LOGIN", login),
        ("$PUSH", push),
        ("$EXEC", execute),
    ):
        text = text.replace(name, value)
    return text


def forget_connections(control: Path) -> None:
    """Close the shared connections, so that the next run begins without one, as the first of a day does."""
    for socket in control.glob("pct-*"):
        subprocess.run(["ssh", "-O", "exit", "-S", socket, "unused"], capture_output=True, check=False)


def measure(cases: list[Case], rounds: int, environment: Mapping[str, str], say: Callable[[str], None]) -> list[Figure]:
    """Run all cases once a round, so that a busy moment of the machine meets them all; the first does not count."""
    samples: dict[str, list[Sample]] = {case.name: [] for case in cases}
    for number in range(rounds + 1):
        say(f"round {number} of {rounds}" + (" (not counted)" if number == 0 else ""))
        for case in cases:
            case.ready()
            sample = run(case.argv, case.folder, environment)
            if number:
                samples[case.name].append(sample)
    return [Figure(name, tuple(taken)) for name, taken in samples.items()]
