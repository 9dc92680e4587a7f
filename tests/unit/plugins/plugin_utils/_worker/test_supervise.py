# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The supervisor: a process of its own that starts a run, waits for it, and writes down how it ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker import secret, supervise

from tests.unit.interpreters import interpreters
from tests.unit.launching import until

OLDEST = interpreters()[-1]
FORGET = "import os, time, signal\n"


class Supervisor:
    """A supervisor in a folder, as a launch starts it; ``python`` is what it runs by."""

    def __init__(self, path: Path, python: str = sys.executable) -> None:
        self.path = path
        self.python = python
        self.secrets: dict[str, Any] = {"hidden": ["kn0wn-t41l"], "rules": Path(secret.__file__).read_text()}
        self.folder = os.open(path, os.O_RDONLY)
        for name in supervise.RESERVED:
            supervise.reserve(self.folder, name)
        os.mkfifo(path / supervise.ORDER, 0o600)

    def start(self, argv: list[str], env: dict[str, str] | None = None, cwd: str = "/", order: bytes = b"") -> None:
        """Start it, and give it the order; returns as soon as it has reported."""
        pipe = os.open(self.path / supervise.ORDER, os.O_RDWR | os.O_NONBLOCK)
        told = {"argv": argv, "env": env or {"PATH": os.defpath}, "cwd": cwd, **self.secrets}
        os.write(pipe, order or json.dumps(told).encode() + b"\n")
        subprocess.run([self.python, "-ISB", supervise.__file__, os.fspath(self.path)], check=True)
        if order:
            os.close(pipe)
        until(lambda: self.record(supervise.STARTED) or self.record(supervise.EXIT), "it never reported")
        if not order:
            os.close(pipe)

    def run(self, code: str, **more: Any) -> None:
        """Start a few lines of Python."""
        self.start([self.python, "-u", "-c", FORGET + code], **more)

    def record(self, name: str) -> dict[str, Any] | None:
        return supervise.read_record(self.folder, name)

    @property
    def process(self) -> int:
        record = self.record(supervise.STARTED)
        assert record
        return int(record["process"]["pid"])

    @property
    def pid(self) -> int:
        record = self.record(supervise.STARTED)
        assert record
        return int(record["supervisor"]["pid"])

    def ended(self) -> dict[str, Any]:
        """The exit record, once it is there."""
        return until(lambda: self.record(supervise.EXIT) or {}, "no exit record came")

    def says(self, text: str) -> str:
        """The log, as soon as a text is in it."""
        log = self.path / supervise.LOG
        until(lambda: log.exists() and text in log.read_text(), f"{text!r} never came")
        return log.read_text()


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., Supervisor]]:
    """Makes supervisors; what they leave running is ended."""
    made: list[Supervisor] = []

    def make(name: str = "r1", python: str = sys.executable) -> Supervisor:
        (tmp_path / name).mkdir()
        made.append(Supervisor(tmp_path / name, python))
        return made[-1]

    yield make
    for one in made:
        record = one.record(supervise.STARTED)
        if record:
            pids = {record["process"]["pid"], *supervise.descendants({record["supervisor"]["pid"]})}
            for pid in pids if supervise.start_of(record["supervisor"]["pid"]) else ():
                if supervise.start_of(pid) is not None:
                    os.kill(pid, signal.SIGKILL)
            until(lambda pid=record["supervisor"]["pid"]: supervise.start_of(pid) is None)  # type: ignore[misc]
        os.close(one.folder)


Made = Callable[..., Supervisor]


@pytest.mark.parametrize("python", interpreters())
@pytest.mark.parametrize("code", [0, 1, 2, 77, 127, 128, 137, 255])
def test_exit_codes_are_recorded(started: Made, python: str, code: int) -> None:
    one = started(python=python)
    one.run(f"print('hello'); raise SystemExit({code})")
    record = one.ended()
    assert (record["how"], record["exit_code"], record["signal"]) == ("exited", code, None)
    assert (record["last_lines"], record["out_of_memory"], record["stopped_by"]) == (["hello"], False, None)


EVERY = """
import json, os, signal, sys, time
sys.path.insert(0, sys.argv[1])
import supervise
folder = os.open(sys.argv[2], os.O_RDONLY)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
for command in json.loads(sys.argv[3]):
    order = {"argv": ["/bin/sh", "-c", command], "env": {}, "cwd": "/"}
    watch = supervise.Watch(folder, supervise.spawn(folder, order), None)
    record = watch.record(watch.wait(), time.time())
    print(json.dumps([record["how"], record["exit_code"], record["signal"]]))
"""


@pytest.mark.parametrize("python", interpreters())
def test_every_exit_code_and_signal_is_told_from_every_other(tmp_path: Path, python: str) -> None:
    numbers = [number for number in range(1, 65) if number not in (17, 18, 19, 20, 21, 22, 23, 28, 32, 33)]
    commands = [f"exit {code}" for code in range(256)] + [f"kill -{number} $$" for number in numbers]
    module = os.fspath(Path(supervise.__file__).parent)
    argv = [python, "-c", EVERY, module, os.fspath(tmp_path), json.dumps(commands)]
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert told[:256] == [["exited", code, None] for code in range(256)]
    assert told[256:] == [["signaled", None, number] for number in numbers]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGUSR1])
def test_signals_are_recorded_and_never_as_an_exit_code(started: Made, number: int) -> None:
    one = started()
    one.run(f"os.kill(os.getpid(), {int(number)})")
    record = one.ended()
    assert (record["how"], record["exit_code"], record["signal"]) == ("signaled", None, number)
    assert record["out_of_memory"] is False


def test_a_run_holds_nothing_of_whoever_started_it(started: Made) -> None:
    one = started()
    held = os.open(one.path, os.O_RDONLY)
    os.set_inheritable(held, True)
    one.run(
        "links = {n: os.readlink('/proc/self/fd/' + n) for n in ('0', '1', '2')}\n"
        "print(links, len(os.listdir('/proc/self/fd')), os.getsid(0) == os.getpid(), os.getppid())\n"
        "print([signal.getsignal(n) for n in (2, 13, 15, 1, 17)], signal.pthread_sigmask(0, []))\n"
        "open('/dev/tty')",
        cwd=os.fspath(one.path),
    )
    os.close(held)
    lines = one.ended()["last_lines"]
    log = os.fspath(one.path / "log")
    assert lines[0] == f"{{'0': '/dev/null', '1': '{log}', '2': '{log}'}} 4 True {one.pid}"
    assert "SIG_IGN" not in lines[1].replace("<Handlers.SIG_IGN: 1>, <H", "", 1)  # Python itself ignores SIGPIPE
    assert lines[1].endswith("set()")
    assert "/dev/tty" in lines[-1]  # no terminal is to be had


def test_what_was_told_leaves_nothing_on_the_disk(started: Made) -> None:
    one = started()
    one.run("print(os.environ['SECRET'])\ntime.sleep(600)", env={"SECRET": "x7q-hidden", "PYTHONUNBUFFERED": "1"})
    one.says("x7q-hidden")
    (one.path / "log").write_text("")
    assert not (one.path / supervise.ORDER).exists()
    assert not [path for path in one.path.iterdir() if b"x7q-hidden" in path.read_bytes()]
    with open(f"/proc/{one.pid}/environ", "rb") as stream:
        assert b"x7q-hidden" not in stream.read()


@pytest.mark.parametrize(
    ("argv", "cwd", "why"),
    [
        (["/nowhere/python"], "/", "/nowhere/python could not be started in /: No such file or directory"),
        ([sys.executable], "/nowhere", "could not be started in /nowhere: No such file or directory"),
        (["/etc/passwd"], "/", "/etc/passwd could not be started in /: Permission denied"),
    ],
)
def test_what_cannot_be_started_says_why(started: Made, argv: list[str], cwd: str, why: str) -> None:
    one = started()
    one.start(argv, cwd=cwd)
    record = one.ended()
    assert (record["how"], record["exit_code"]) == ("not-started", None)
    assert why in record["note"]
    assert one.record(supervise.STARTED) is None


def test_a_launch_that_ends_too_early_starts_nothing(started: Made) -> None:
    one = started()
    # Nobody has the pipe open, as after a launch that was killed: what it had written is gone with it.
    subprocess.run([sys.executable, "-ISB", supervise.__file__, os.fspath(one.path)], check=True)
    record = one.ended()
    assert (record["how"], record["note"]) == (
        "not-started",
        "the launch ended before it had said what to start: launch again",
    )


def test_a_second_supervisor_does_nothing(started: Made) -> None:
    one = started()
    one.run("print('once', flush=True)\ntime.sleep(600)")
    one.says("once")
    subprocess.run([sys.executable, "-ISB", supervise.__file__, os.fspath(one.path)], check=True)
    os.kill(one.process, signal.SIGINT)
    assert one.ended()["last_lines"][-1] == "KeyboardInterrupt"
    subprocess.run([sys.executable, "-ISB", supervise.__file__, os.fspath(one.path)], check=True)
    assert one.ended()["how"] == "signaled"


def test_children_that_daemonise_are_reported_and_watched(started: Made) -> None:
    one = started()
    one.run(
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        os.execve('/bin/sleep', ['sleep', '600'], {})\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "raise SystemExit(3)"
    )
    record = one.ended()
    assert record["exit_code"] == 3
    assert [left["command"] for left in record["left_over"]] == ["sleep 600"]
    left = record["left_over"][0]["pid"]
    assert supervise.start_of(one.pid) is not None  # it waits for it, so that a stop can find it
    os.kill(left, signal.SIGKILL)
    until(lambda: supervise.start_of(one.pid) is None, "the supervisor stays")


# Ends as soon as the child that it leaves is the shell that was asked for.
LEAVES = """
there, here = os.pipe()
if os.fork() == 0: os.execve('/bin/sh', {}, {{}})
os.close(here)
os.read(there, 1)
"""


@pytest.mark.parametrize("python", interpreters())
@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["--x", "kn0wn-t41l"], "sh -c sleep 600; : --x ***"),
        (["x" * 97, "--api-key", "SeCrEt" * 40], f"sh -c sleep 600; : {'x' * 97} --a"),
        (["x" * 88, "--api-key", "SeCrEt" * 40], f"sh -c sleep 600; : {'x' * 88} --api-key **"),
        (["x" * 80, "kn0wn-t41l" * 9], f"sh -c sleep 600; : {'x' * 80} ***"),
        (["--password=correct horse", "--n", "3"], "sh -c sleep 600; : --password=*** --n 3"),
    ],
)
def test_no_beginning_of_a_secret_is_kept_of_what_is_left_over(
    started: Made, python: str, words: list[str], shown: str
) -> None:
    one = started(python=python)
    one.run(LEAVES.format(["sh", "-c", "sleep 600; :", *words]))
    assert shown in [left["command"] for left in one.ended()["left_over"]]
    assert "SeCr" not in (one.path / supervise.EXIT).read_text()


def test_without_rules_only_the_program_is_named(started: Made) -> None:
    one = started()
    one.secrets = {}
    one.run(LEAVES.format(["sh", "-c", "sleep 600; :", "--x", "SeCr9"]))
    assert {left["command"] for left in one.ended()["left_over"]} - {"sleep"} == {"sh"}


def test_children_that_end_with_the_run_are_not_left_over(started: Made) -> None:
    one = started()
    one.run("import subprocess\nsubprocess.Popen(['sleep', '0.05'])")
    assert one.ended()["left_over"] == []


def test_a_supervisor_that_is_told_to_end_stays(started: Made) -> None:
    one = started()
    one.run("print('there', flush=True)\ntime.sleep(600)")
    one.says("there")
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        os.kill(one.pid, number)
    os.kill(one.process, signal.SIGTERM)
    assert one.ended()["signal"] == signal.SIGTERM
    assert one.ended()["stopped_by"] is None


def test_the_one_who_stopped_it_is_in_the_record(started: Made) -> None:
    one = started()
    one.run(
        "signal.signal(15, lambda *_: (print('saved', flush=True), os._exit(0)))\n"
        "print('on', flush=True)\n"
        "time.sleep(600)"
    )
    one.says("on")
    supervise.write_record(one.folder, supervise.STOPPED, {"format": 1, "who": "me@desk"})
    os.kill(one.process, signal.SIGTERM)
    record = one.ended()
    assert (record["exit_code"], record["stopped_by"], record["last_lines"]) == (0, "me@desk", ["on", "saved"])


def test_a_record_that_is_half_written_counts_as_none(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        supervise.reserve(folder, supervise.EXIT)
        assert supervise.read_record(folder, supervise.EXIT) is None
        record = supervise.exit_record("exited", 1.0, exit_code=0, last_lines=["x" * 5000])
        supervise.write_record(folder, supervise.EXIT, record)
        assert supervise.read_record(folder, supervise.EXIT) == record
        whole = (tmp_path / supervise.EXIT).read_bytes()
        assert len(whole) == supervise.RESERVED[supervise.EXIT]
        text = whole.rstrip()
        for cut in (1, 100, 4096, len(text) - 1):
            (tmp_path / supervise.EXIT).write_bytes(text[:cut].ljust(len(whole)))
            assert supervise.read_record(folder, supervise.EXIT) is None
            (tmp_path / supervise.EXIT).write_bytes(b" " * cut + text[cut:])
            assert supervise.read_record(folder, supervise.EXIT) is None
    finally:
        os.close(folder)


def test_an_exit_record_always_fits(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        supervise.reserve(folder, supervise.EXIT)
        left = [{"pid": 1, "command": "\x01" * 120}] * 20
        supervise.write_exit(
            folder, supervise.exit_record("exited", 1.0, last_lines=["\x01" * 250] * 40, left_over=left)
        )
        record = supervise.read_record(folder, supervise.EXIT)
        assert record and len(record["last_lines"]) > 20
        assert (tmp_path / supervise.EXIT).stat().st_size == supervise.RESERVED[supervise.EXIT]
    finally:
        os.close(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="a file system of its own takes root")
def test_a_full_disk_cannot_lose_the_record(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", os.fspath(small)], check=True)
    try:
        (small / "r1").mkdir()
        one = Supervisor(small / "r1")
        one.run("print('x', flush=True)\ntime.sleep(600)")
        one.says("x")
        with open(small / "filler", "wb", buffering=0) as stream, pytest.raises(OSError, match="No space"):
            while True:
                stream.write(b"x" * 512)
        os.kill(one.process, signal.SIGTERM)
        record = one.ended()
        assert (record["signal"], record["last_lines"]) == (signal.SIGTERM, ["x"])
        until(lambda: supervise.start_of(one.pid) is None)
        os.close(one.folder)
    finally:
        subprocess.run(["umount", os.fspath(small)], check=True)


def test_the_log_is_told_by_its_end(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        assert supervise.last_lines(folder) == []
        for data, lines in (
            (b"", []),
            (b"one\ntwo\n", ["one", "two"]),
            (b"10%\r20%\r30%\nend", ["30%", "end"]),
            (b"a\r\nb\r\n", ["a", "b"]),
            (b"\xff\n", ["\ufffd"]),
            (b"".join(b"%d\n" % n for n in range(100)), [str(n) for n in range(60, 100)]),
            (b"x" * 9000 + b"\nlast\n", ["last"]),
        ):
            (tmp_path / supervise.LOG).write_bytes(data)
            assert supervise.last_lines(folder) == lines
    finally:
        os.close(folder)


@pytest.mark.parametrize(
    ("status", "own", "anywhere", "expected"),
    [
        (0, (0, 1), (0, 1), False),
        (-9, (0, 1), (0, 1), True),
        (1, (3, 4), (3, 4), True),
        (-9, (3, 3), (3, 4), False),
        (-9, (None, None), (3, 4), None),
        (-9, (None, None), (4, 4), False),
        (-9, (None, None), (None, None), None),
        (-9, (0, 1), (None, None), True),
    ],
)
def test_out_of_memory_is_said_only_where_the_kernel_says_so(
    status: int, own: tuple[int, int], anywhere: tuple[int, int], expected: bool | None
) -> None:
    memory = dict(zip(("before", "after", "before_anywhere", "after_anywhere"), (*own, *anywhere), strict=True))
    assert supervise.out_of_memory(status, memory) is expected


def test_a_process_whose_first_thread_has_ended_is_alive() -> None:
    code = (
        "import ctypes, threading, time\n"
        "threading.Thread(target=time.sleep, args=(600,)).start()\n"
        "ctypes.CDLL(None).syscall(%d, 0)\n" % {"x86_64": 60}.get(os.uname().machine, 93)
    )
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        try:
            assert until(lambda: supervise.stat_of(process.pid)[:1] == ["Z"])
            assert supervise.start_of(process.pid) is not None
        finally:
            process.kill()
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert supervise.start_of(process.pid) is None
