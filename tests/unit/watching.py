# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A run whose records are written by hand around a real process, and a channel that keeps what is sent."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.supervise import (
    boot,
    exit_record,
    iso,
    start_of,
)

RELEASE = "7c1e09a0" * 8


class Sent:
    """The side of a channel that an operation writes to."""

    def __init__(self) -> None:
        self.frames: list[dict[str, Any]] = []

    def send(self, kind: str, body: dict[str, Any]) -> None:
        self.frames.append(json.loads(json.dumps(dict(body, kind=kind), allow_nan=False)))

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [frame for frame in self.frames if frame["kind"] == kind]

    @property
    def lines(self) -> list[str]:
        return [line for frame in self.of("lines") for line in frame["lines"]]


class MadeRun:
    """The folder of one run below a root, as launch and supervisor leave it."""

    def __init__(self, root: Path, run: str = "r1", name: str = "demo", **record: Any) -> None:
        self.root = root
        self.run = run
        self.folder = root / ".trainops" / name / "runs" / run
        self.folder.mkdir(parents=True)
        now = time.time()
        self._write(
            "run.json",
            {
                "format": 1,
                "run": run,
                "project": name,
                "root": str(root),
                "release": RELEASE,
                "gpus": [],
                "python": "/usr/bin/python3",
                "created": iso(now),
                "created_s": now,
                "boot": boot(),
                **record,
            },
        )
        self.log = self.folder / "log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, script: str = "exec sleep 600") -> MadeRun:
        """Run a shell script as the run's process, with the log as its output."""
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(["sh", "-c", script], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        pid = self.process.pid
        self._write(
            "started.json",
            {
                "format": 1,
                "supervisor": {"pid": os.getpid(), "start": start_of(os.getpid())},
                "process": {"pid": pid, "start": start_of(pid)},
                "unit": None,
                "started": iso(time.time()),
                "started_s": time.time(),
            },
        )
        return self

    def end(self, **known: Any) -> MadeRun:
        """Wait for the process (or kill it) and write the exit record that a supervisor would."""
        if self.process:
            self.process.wait()
        self._write(
            "exit.json", exit_record(**{"how": "exited", "now": time.time(), "seconds": 1.0, "exit_code": 0, **known})
        )
        return self

    def close(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.kill()
        if self.process:
            self.process.wait()

    def _write(self, name: str, record: dict[str, Any]) -> None:
        (self.folder / name).write_text(json.dumps(record))
