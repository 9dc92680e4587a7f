# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs on containers of the lab: the step over a real connection, without the seconds that a playbook takes."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.trainops.proxmox.plugins.action.training_run import ActionModule
from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import StepError
from ansible_collections.trainops.proxmox.plugins.plugin_utils.spec import argument_spec

from lab.api import open_lab
from tests.integration.connections import connect
from tests.unit.trainops.folders import until

PLACES = {"ct200": ("pve1", 200), "ct201": ("pve1", 201), "ct210": ("pve2", 210)}

# What a run does, by its arguments.
TRAIN = r"""
import json, os, signal, subprocess, sys, time

what = sys.argv[1]
print(json.dumps({"path": sys.path[:1], "file": __file__, "cwd": os.getcwd(), "argv": sys.argv[1:],
                  "env": dict(os.environ), "sid": os.getsid(0), "pid": os.getpid()}), flush=True)
if what == "exit":
    sys.exit(int(sys.argv[2]))
if what == "signal":
    os.kill(os.getpid(), int(sys.argv[2]))
if what == "fill":
    blob, written = b"x" * 65536, 0
    try:
        while True:
            written += os.write(1, blob)
    except OSError as error:
        sys.exit(3)
if what == "ignore":
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
if what == "save":
    def save(number, frame):
        print("saved", flush=True)
        sys.exit(0)
    signal.signal(signal.SIGTERM, save)
if what == "daemon":
    # A child in a session of its own whose parent is gone.
    code = "import os, time; os.setsid(); os.fork() and os._exit(0); print('daemon', flush=True); time.sleep(3600)"
    subprocess.run([sys.executable, "-c", code])
step = 0
while True:
    step += 1
    print("step %d loss %.3f" % (step, 1 / step), flush=True)
    time.sleep(0.05)
"""


@dataclass(frozen=True)
class Place:
    """A project in a container."""

    host: str
    root: str
    name: str | None = "demo"

    @property
    def vmid(self) -> int:
        return PLACES[self.host][1]

    def step(self, state: str, check_mode: bool = False, **options: Any) -> dict[str, Any]:
        """The result of the step; a refusal too, as the values that Ansible would get."""
        given = {"state": state, "root": self.root, "name": self.name, **options}
        spec = argument_spec("training_run")
        checked = ArgumentSpecValidator(spec["argument_spec"]).validate(given)
        assert not checked.error_messages, checked.error_messages
        connection = connect(self.host)
        task: Any = types.SimpleNamespace(check_mode=check_mode, diff=False, action="training_run", async_val=0)
        task.get_ds = dict  # no option of it is set from a variable
        unused: Any = None  # what the step itself needs of Ansible is the task and its connection
        action = ActionModule(task, connection, unused, unused, unused, unused)
        try:
            hostvars = types.SimpleNamespace(raw_get=lambda _host: {})
            task_vars = {"inventory_hostname": self.host, "hostvars": hostvars}
            return action.step(checked.validated_parameters, task_vars)
        except StepError as error:
            return {**error.details, "failed": True, "code": error.code, "msg": error.message}

    def start(self, *args: str, **options: Any) -> dict[str, Any]:
        """Start train.py, without GPUs unless some are selected."""
        return self.step("started", **{"script": "train.py", "args": list(args), "select": 0, **options})

    def stop(self, run: str | None = None, **options: Any) -> dict[str, Any]:
        return self.step("stopped", run=run, **options)

    def ended(self, run: str) -> dict[str, Any]:
        """The run once it is over."""
        assert until(lambda: self.look(run)["state"] not in ("starting", "running"), 60), self.look(run)
        return self.look(run)

    def runs(self) -> list[dict[str, Any]]:
        """The latest run first."""
        found: list[dict[str, Any]] = self.step("listed", lines=50)["runs"]
        return found

    def look(self, run: str) -> dict[str, Any]:
        return next(one for one in self.runs() if one["run"] == run)

    def inside(self, *argv: str, stdin: bytes = b"") -> str:
        """What a command in the container prints."""
        done = open_lab().container(self.vmid).run(argv, stdin=stdin)
        assert done.returncode == 0, (argv, done.stderr)
        return done.stdout.decode()

    def python(self, code: str, *argv: str) -> str:
        return self.inside("/usr/bin/python3", "-c", code, *argv)

    def members(self, run: str) -> list[int]:
        """The processes that have a run's mark in their environment."""
        code = (
            "import glob, sys\n"
            "for path in glob.glob('/proc/[0-9]*/environ'):\n"
            "    try: words = open(path, 'rb').read().split(b'\\0')\n"
            "    except OSError: continue\n"
            "    if b'TRAINOPS_RUN_ID=' + sys.argv[1].encode() in words: print(path.split('/')[2])\n"
        )
        return [int(pid) for pid in self.python(code, run).split()]


def first_line(log: str) -> Mapping[str, Any]:
    """What train.py says of itself."""
    import json

    line: Mapping[str, Any] = json.loads(log.splitlines()[0])
    return line
