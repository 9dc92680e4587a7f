"""The processes of a run, found by their mark and ended."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tests.unit.trainops.folders import until
from trainops import processes

# Starts a child in a session of its own, as ansible-core's workers are, and waits.
PARENT = """
import os, signal, subprocess, sys, time
stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", stubborn], start_new_session=True, stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
if sys.argv[1] == "gentle":
    signal.signal(signal.SIGTERM, lambda *_: (child.kill(), child.wait(), sys.exit(7)))
time.sleep(600)
"""


@pytest.mark.parametrize(("kind", "status"), [("gentle", 7), ("plain", -signal.SIGTERM)])
def test_a_run_is_ended_with_its_sessions(kind: str, status: int) -> None:
    mark = uuid.uuid4().hex
    environment = {**os.environ, processes.MARK: mark}
    with subprocess.Popen([sys.executable, "-c", PARENT, kind], env=environment, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert processes.marked(mark) == {parent.pid, child}
        assert processes.marked(uuid.uuid4().hex) == set()
        assert processes.end(mark, known_masters=(), patience=1.0) == set()
        assert parent.wait() == status
    assert processes.marked(mark) == set()


def test_a_shared_connection_is_found_by_its_title_and_dismissed(tmp_path: Path) -> None:
    """A stand-in for ssh's background master: its title, and a socket that the stand-in for ssh takes away."""
    socket = tmp_path / "cp" / "pct-1234"
    fake = tmp_path / "bin"
    fake.mkdir()
    (fake / "ssh").write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n[ "$4" != {socket} ] || kill $(cat {tmp_path}/pid)\n'
    )
    (fake / "ssh").chmod(0o755)
    asked = f"-O stop -S {socket} unused"

    def said() -> list[str]:
        """All that ssh was asked; shared connections that others open meanwhile are among it."""
        return (tmp_path / "asked").read_text().splitlines() if (tmp_path / "asked").exists() else []

    sleep = shutil.which("sleep")
    assert sleep is not None
    old_path = os.environ["PATH"]
    os.environ["PATH"] = f"{fake}:{old_path}"
    try:
        with subprocess.Popen([f"ssh: {socket} [mux]", "600"], executable=sleep) as master:
            (tmp_path / "pid").write_text(str(master.pid))
            assert until(lambda: processes.masters().get(master.pid) == str(socket))
            processes.end(uuid.uuid4().hex, known_masters=processes.masters(), patience=1.0)
            assert asked not in said()
            processes.end(uuid.uuid4().hex, known_masters=set(processes.masters()) - {master.pid}, patience=1.0)
            assert master.wait(10) == -signal.SIGTERM
    finally:
        os.environ["PATH"] = old_path
    assert said().count(asked) == 1
