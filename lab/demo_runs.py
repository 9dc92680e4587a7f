# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The demo's acts about a run: launched, not disturbed by a deploy, crashed and explained, stopped, gone on with."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from typing import Any

from . import example
from .api import Container, Lab
from .show import Show, ShowError

HOST, VMID = "ct200", 200
OTHER, OTHER_VMID = "ct210", 210  # where systemd is the init
ROOT = "/root"
RUNS = f"{ROOT}/.trainops/dflash/runs"
STEP = re.compile(r"\bstep (\d+) loss [\d.]+ tokens/s \d+")
_LOST = 'RuntimeError("CUDA error: an illegal memory access was encountered")'
_DOC = '        """One step of gradient descent."""\n'
_EDITS = (
    ("import math\n", "import math\nimport os\n"),
    (_DOC, f'{_DOC}        if os.path.exists("crash-now"):\n            raise {_LOST}\n'),
)


def play(show: Show, lab: Lab) -> None:
    """All of them, in a folder that was deployed, while no GPU is held."""
    example.hold_gpus(show.folder)
    launched(show, lab)
    deployed_meanwhile(show, lab)
    crashed(show, lab)
    stopped(show, lab)
    gone_on(show, lab)


def launched(show: Show, lab: Lab) -> None:
    """Detached, on all GPUs of a container."""
    show.act("Launched: the first steps arrive")
    container = lab.container(VMID)
    output = show.run("trainops", "launch", "--limit", HOST)
    show.claim("run r1 on all eight GPUs", "run r1 of " in output and "GPUs 0-7" in output, output)
    show.claim("its first step was shown", STEP.search(output) is not None, output)
    pid = _record(container, "r1", "started.json")["process"]["pid"]
    command = _inside(container, "cat", f"/proc/{pid}/cmdline").replace("\0", " ")
    show.claim(
        f"process {pid} runs the release by its real path", f"{ROOT}/.trainops/dflash/releases/" in command, command
    )
    above = _above(container, pid)
    show.claim(f"above it are its supervisor and the container's init: {above}", above[1:] == [1], above)
    show.claim("each GPU has 5000 MiB in use", _used(container) == [5000] * 8, _used(container))


def deployed_meanwhile(show: Show, lab: Lab) -> None:
    """The daily case: the next release goes live while a run trains."""
    show.act("A deploy while it trains: no alarm, and the run is not disturbed")
    container = lab.container(VMID)
    before = _record(container, "r1", "run.json")["release"], _last_step(container, "r1")
    script = show.folder / "dflash_model.py"
    script.write_text(script.read_text() + "# for the next run\n")
    output = show.run("trainops", "deploy", "--limit", HOST)
    show.claim("the GPUs are held by our run r1", "held by your run r1" in output, output)
    live = _inside(container, "readlink", f"{ROOT}/.trainops/dflash/current")
    show.claim("another release is live", not live.strip().endswith(before[0]), (live, before))
    show.claim("the run goes on", _last_step(container, "r1") > before[1], before)
    output = show.run("trainops", "launch", "--limit", HOST, status=1)
    show.claim("a second launch is refused, r1 has the GPUs", "FAILED" in output and "r1" in output, output)
    output = show.run("trainops", "status")
    show.claim("and is in the table", re.search(rf"^{HOST} +r1 +running ", output, re.MULTILINE) is not None, output)


@dataclass
class _Watcher:
    """Crashes the run once its steps are seen, and notes when its end was reported."""

    container: Container
    asked: bool = False
    reported: float = 0.0

    def __call__(self, line: str) -> None:
        if not self.asked and STEP.search(line):
            self.asked = True
            _inside(self.container, "touch", f"{ROOT}/crash-now")
        if "died" in line and not self.reported:
            self.reported = time.time()


def crashed(show: Show, lab: Lab) -> None:
    """On the container with systemd, by an edit that waits for a file."""
    show.act("A crash: reported at once, with its traceback")
    container, script = lab.container(OTHER_VMID), show.folder / "dflash_model.py"
    good = script.read_text()
    text = good
    for old, new in _EDITS:
        text = text.replace(old, new, 1)
    script.write_text(text)
    line = text.splitlines().index(f"            raise {_LOST}") + 1
    show.run("trainops", "deploy", "--limit", OTHER)
    show.run("trainops", "launch", "--limit", OTHER)
    watcher = _Watcher(container)
    output = show.run("trainops", "logs", "-f", "--limit", OTHER, status=1, on_line=watcher)
    crash = float(_inside(container, "stat", "-c", "%.3Y", f"{RUNS}/r1/exit.json"))
    after = watcher.reported - crash
    show.claim(f"reported {after:.2f} s after it, within 2 s", watcher.reported > 0 and after < 2, output)
    traceback = f'{script.name}", line {line}, in update' in output and _LOST.split('"')[1] in output
    show.claim(f"with its traceback: {script.name}, line {line}", traceback, output)
    show.claim("and how it ended: exit 1", "exit 1" in output, output)
    output = show.run("trainops", "why", "--limit", OTHER)
    show.claim("trainops why begins with the error", _LOST.split('"')[1] in output.splitlines()[0], output)
    show.claim("its GPUs are idle again", _used(container) == [0] * 2, _used(container))
    script.write_text(good)


def stopped(show: Show, lab: Lab) -> None:
    """With time for a checkpoint."""
    show.act("Stopped: a checkpoint, no process left, the GPUs idle again")
    container = lab.container(VMID)
    mark = f"TRAINOPS_RUN={_record(container, 'r1', 'run.json')['token']}"
    show.claim("until now there are processes with its mark", _marked(container, mark) != [])
    output = show.run("trainops", "stop", "--limit", HOST)
    show.claim("r1 was stopped and left with 0", "r1 was stopped" in output and "exit 0" in output, output)
    said = _inside(container, "tail", "-n", "1", f"{RUNS}/r1/log").strip()
    show.claim(f"its last words: {said}", said.startswith("stopped at step "), said)
    saved = json.loads(_inside(container, "cat", f"{ROOT}/checkpoints/dflash.json"))["step"]
    show.claim(f"the checkpoint is of step {saved}", f"stopped at step {saved}," in said, said)
    show.claim("no process with its mark is left", _marked(container, mark) == [], _marked(container, mark))
    output = show.run("trainops", "gpus", "--limit", HOST)
    show.claim("8 of 8 GPUs are idle", "8 of 8 idle" in output and _used(container) == [0] * 8, output)


def gone_on(show: Show, lab: Lab) -> None:
    """As the stopped run was started, from its checkpoint."""
    show.act("Launched again as r1 was: it goes on from the checkpoint")
    container = lab.container(VMID)
    output = show.run("trainops", "launch", "--like", "r1", "--limit", HOST)
    show.claim("run r2", "run r2 of " in output, output)
    log = _inside(container, "cat", f"{RUNS}/r2/log")
    resumed = re.search(r"^resumed at step \d+ ", log, re.MULTILINE)
    show.claim(f"it {resumed[0]}of r1" if resumed else "it resumed", resumed is not None, log)
    show.run("trainops", "stop", "--limit", HOST)


def _inside(container: Container, *argv: str) -> str:
    """What a command in the container prints."""
    done = container.run(argv)
    if done.returncode != 0:
        raise ShowError(f"{' '.join(argv)} in {container.vmid}: {done.stderr.decode(errors='replace')}")
    return done.stdout.decode()


def _record(container: Container, run: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_inside(container, "cat", f"{RUNS}/{run}/{name}"))
    return found


def _last_step(container: Container, run: str) -> int:
    steps = STEP.findall(_inside(container, "tail", "-n", "5", f"{RUNS}/{run}/log"))
    return int(steps[-1]) if steps else 0


def _used(container: Container) -> list[int]:
    """Memory in use by GPU, MiB, as nvidia-smi says in the container."""
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    return [int(line) for line in _inside(container, *query).split()]


def _above(container: Container, pid: int) -> list[int]:
    """The parent of a process, its parent, and so on to what has none in the container."""
    found = []
    while pid > 1:
        pid = int(_inside(container, "cat", f"/proc/{pid}/stat").rpartition(")")[2].split()[1])
        found.append(pid)
    return found


def _marked(container: Container, mark: str) -> list[str]:
    """The processes whose environment has a mark."""
    script = 'grep -slxzF "$1" /proc/[0-9]*/environ || true'
    return _inside(container, "sh", "-c", script, "sh", mark).split()
