# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The exchange with a real worker process on this machine: frames, files, failures and ends."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible_collections.trainops.proxmox.plugins.plugin_utils import exchange as module
from ansible_collections.trainops.proxmox.plugins.plugin_utils import hops, reader, sender
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.boot import BOOT_SECONDS
from ansible_collections.trainops.proxmox.plugins.plugin_utils.enter import View
from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import SourceChanged, StepError
from ansible_collections.trainops.proxmox.plugins.plugin_utils.exchange import ConnectionLost, Frame, Request, exchange
from ansible_collections.trainops.proxmox.plugins.plugin_utils.frames import MOST_LEVELS
from ansible_collections.trainops.proxmox.plugins.plugin_utils.pipes import ended
from ansible_collections.trainops.proxmox.plugins.plugin_utils.sources import boot_source, packed_sources

from tests.operations import add_operations
from tests.unit.interpreters import interpreters

LOCAL = types.SimpleNamespace(transport="local")
PYTHONS = interpreters()

OPERATIONS = {
    "echo": "def run(channel, params):\n    return params\n",
    "pull": """
import hashlib

def run(channel, params):
    answers = []
    for name in params["names"]:
        channel.send("need", {"name": name})
        channel.receive("file")
        digest, size = hashlib.sha256(), 0
        for data in channel.read_blob():
            digest.update(data)
            size += len(data)
            channel.progress(size, 0, name)
        answers.append([name, size, digest.hexdigest()])
    return {"answers": answers}
""",
    "wait": "def run(channel, params):\n    channel.send('need', {})\n    channel.receive('never')\n",
    "busy": """
import array
import fcntl
import termios
import time

def run(channel, params):
    unread, end = array.array("i", [0]), time.monotonic() + 60
    while unread[0] < params["bytes"]:
        fcntl.ioctl(channel._incoming.fileno(), termios.FIONREAD, unread)
        if time.monotonic() > end:
            return {"unread": unread[0]}
        time.sleep(0.01)
    channel.send("need", {})
    return {"answer": channel.receive("go")["word"]}
""",
    "refuse": """
from .channel import WorkerError

def run(channel, params):
    raise WorkerError("no-space", "the disk is full: free 3 MB in /root", free=3)
""",
    "ask": """
def run(channel, params):
    for kind in ("need", "ready"):
        channel.send(kind, {})
        channel.receive("go")
    return {"answered": 2}
""",
    "crash": "def run(channel, params):\n    return {}[1]\n",
    "noise": "import os, sys\n\ndef run(channel, params):\n    print('x')\n    os.system('echo y')\n    return {}\n",
    "hang": "import time\n\ndef run(channel, params):\n    time.sleep(600)\n",
    "die": "import os\n\ndef run(channel, params):\n    os._exit(0)\n",
    "pid": """
import os
import time

def run(channel, params):
    channel.send("pid", {"pid": os.getpid()})
    time.sleep(600)
""",
    "tell": "def run(channel, params):\n    channel.progress(1, 2, 'x')\n    channel.receive('never')\n",
    "swell": """
from .channel import WorkerError

def run(channel, params):
    raise WorkerError("big", "m" * 3_000_000, much=[[]] * 200_000)
""",
    "segfault": """
import os
import select
import signal

def run(channel, params):
    channel.at("big.py")
    os.kill(os.getpid(), signal.SIGSEGV)
""",
    "wrong": "def run(channel, params):\n    channel.receive('other')\n",
}


@pytest.fixture(autouse=True)
def operations(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real worker, with operations of these tests beside its own."""
    add_operations(monkeypatch, OPERATIONS)


@pytest.mark.parametrize("python", PYTHONS)
def test_a_result_comes_back_as_it_was(python: str) -> None:
    params = {"text": "ü\n\0日本", "numbers": [1, 2.5, None, True], "deep": {"a": [{}]}}
    assert exchange(LOCAL, Request("echo", params, python=python)).result == params


def blocks(total: int) -> Iterator[bytes]:
    for start in range(0, total, 1 << 20):
        yield b"\xa5" * min(1 << 20, total - start)


def test_files_of_any_size_stream_and_progress_is_told() -> None:
    import hashlib

    sizes = {"empty": 0, "one": 1, "chunk": 65536, "large": 40 * (1 << 20) + 1}
    told: list[dict[str, Any]] = []

    def answer(frame: dict[str, Any]) -> Iterable[Frame]:
        yield Frame("file", {}, blocks(sizes[frame["name"]]))

    reply = exchange(LOCAL, Request("pull", {"names": list(sizes)}, python=sys.executable), answer, told.append)
    expected = [[n, s, hashlib.sha256(b"\xa5" * s).hexdigest()] for n, s in sizes.items()]
    assert reply.result["answers"] == expected
    assert {frame["what"] for frame in told} <= set(sizes)
    assert told


def test_a_file_that_changed_ends_the_exchange_with_that_error() -> None:
    def changed() -> Iterator[bytes]:
        yield b"begin"
        raise SourceChanged("train.py changed while it was read")

    with pytest.raises(SourceChanged, match=r"train\.py"):
        exchange(
            LOCAL, Request("pull", {"names": ["a"]}, python=sys.executable), lambda _f: [Frame("file", {}, changed())]
        )


@pytest.mark.parametrize(
    ("operation", "code", "says"),
    [
        ("refuse", "no-space", "free 3 MB in /root"),
        ("crash", "crash", "KeyError"),
        ("wrong", "protocol", "expected one of"),
        ("nosuch", "crash", "nosuch"),
    ],
)
def test_a_failure_has_code_and_message(operation: str, code: str, says: str) -> None:
    with pytest.raises(StepError) as caught:
        exchange(
            LOCAL,
            Request(operation, {}, python=sys.executable),
            lambda _frame: [],
        ) if operation != "wrong" else _send_unasked()
    assert (caught.value.code, says in caught.value.message) == (code, True)


def _send_unasked() -> None:
    original = sender.write_frame
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            sender, "write_frame", lambda stream, frame: (original(stream, frame), original(stream, Frame("file")))
        )
        exchange(LOCAL, Request("wrong", {}, python=sys.executable))


def test_details_of_a_refusal_are_kept() -> None:
    with pytest.raises(StepError) as caught:
        exchange(LOCAL, Request("refuse", {}, python=sys.executable))
    assert caught.value.details == {"free": 3}


def test_what_an_operation_prints_does_not_reach_the_conversation() -> None:
    assert exchange(LOCAL, Request("noise", {}, python=sys.executable)).result == {}


def test_a_worker_that_ends_without_a_result_is_never_a_success() -> None:
    with pytest.raises(AnsibleConnectionFailure, match="without a result"):
        exchange(LOCAL, Request("die", {}, python=sys.executable))


def test_the_deadline_ends_a_step_that_hangs() -> None:
    with pytest.raises(StepError, match="not finished within 1 s") as caught:
        exchange(LOCAL, Request("hang", {}, python=sys.executable, timeout=1))
    assert caught.value.code == "deadline"


def test_a_worker_that_hears_nothing_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "BEAT_SECONDS", 600.0)
    with pytest.raises(ConnectionLost, match="without a result"):
        exchange(LOCAL, Request("wait", {}, python=sys.executable, quiet=1), lambda _frame: [])


@pytest.mark.parametrize("python", PYTHONS)
def test_a_worker_whose_sources_stop_coming_leaves(python: str) -> None:
    boot, packed = boot_source(), packed_sources("check")
    quick = boot.replace(f"BOOT_SECONDS = {BOOT_SECONDS}", "BOOT_SECONDS = 1")
    assert quick != boot
    with subprocess.Popen([python, "-c", quick, "word", "600"], stdin=subprocess.PIPE) as worker:
        if worker.stdin is None:
            pytest.fail("no pipe")
        worker.stdin.write(packed[: len(packed) // 2])
        worker.stdin.flush()
        assert worker.wait(60) == -signal.SIGALRM


@pytest.mark.parametrize("python", PYTHONS)
def test_signs_of_life_keep_a_busy_worker_and_are_no_answers(python: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It leaves after two seconds without one; the bytes take longer than that to come."""
    monkeypatch.setattr(reader, "BEAT_SECONDS", 0.1)
    request = Request("busy", {"bytes": 150}, python=python, quiet=2)
    reply = exchange(LOCAL, request, lambda _frame: [Frame("go", {"word": "on"})])
    assert reply.result == {"answer": "on"}


CONTROLLER = """
import os, types, sys
from ansible_collections.trainops.proxmox.plugins.plugin_utils import exchange as module
from ansible_collections.trainops.proxmox.plugins.plugin_utils import hops, reader, sources
known = {{**sources.worker_sources(), "pid": {operation!r}}}
sources.worker_sources = lambda: known
def answer(frame):
    print(frame["pid"], flush=True)
    return []
if {forks} and os.fork():
    os.wait()
module.exchange(types.SimpleNamespace(transport="local"), module.Request("pid", {{}}, python={python!r}), answer)
"""


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("forks", [False, True], ids=["itself", "the parent of its process"])
def test_the_worker_ends_with_a_killed_controller(python: str, forks: bool, tmp_path: Path) -> None:
    script = tmp_path / "controller.py"
    script.write_text(CONTROLLER.format(operation=OPERATIONS["pid"], python=python, forks=forks))
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE) as controller:
        if controller.stdout is None:
            pytest.fail("no pipe")
        worker = int(controller.stdout.readline())
        handle = os.pidfd_open(worker)
        controller.send_signal(signal.SIGKILL)
    with contextlib.closing(os.fdopen(handle, "rb")):
        assert select.select([handle], [], [], 30)[0], "the worker outlived its controller"


@pytest.mark.parametrize(
    ("python", "says"),
    [
        ("/nonexistent/python", "no Python at"),
        ("/bin/false", "did not start the worker"),
        ("/bin/echo", "did not start the worker"),
        ("", "no interpreter"),
    ],
)
def test_an_interpreter_that_is_none_is_named(python: str, says: str) -> None:
    with pytest.raises(AnsibleConnectionFailure, match=f"on the controller.* {says}.*set training_python"):
        exchange(LOCAL, Request("echo", {}, python=python))


def test_another_connection_is_refused_with_the_fix() -> None:
    with pytest.raises(AnsibleError, match=r"ansible_connection: trainops\.proxmox\.pct"):
        exchange(types.SimpleNamespace(transport="ssh"), Request("echo", {}))


EVIL = """#!{python}
import sys
print(sys.argv[4], flush=True)
sys.stdin.readline()
{does}
sys.stdin.read()
"""
HOSTILE = [
    ("an array too deep", "print('[' * 200000)", "no frame"),
    ("no JSON", "print('hello')", "no frame"),
    ("no object", "print('[1]')", "no frame"),
    ("no kind", "print('{}')", "no frame"),
    ("progress without its values", 'print(\'{"kind": "progress"}\')', "no frame"),
    ("progress of another type", 'print(\'{"kind": "progress", "done": [], "total": {}, "what": 1}\')', "no frame"),
    ("a result without a value", 'print(\'{"kind": "result"}\')', "no frame"),
    ("an error without details", 'print(\'{"kind": "error", "code": 1}\')', "no frame"),
    ("a line without end", "print('x' * (1 << 26))", "an answer without end|no frame"),
    ("an unknown frame", 'print(\'{"kind": "what\\\\u001b"}\')', "unexpected frame|as agreed"),
    ("a need without paths", 'print(\'{"kind": "need"}\')', "unexpected frame|as agreed"),
]
DEEP = [
    ("lists in a result", '{"kind": "result", "value": {"drift": ', "[", "]", "}}"),
    ("objects in a result", '{"kind": "result", "value": {"drift": ', '{"":[[],', "[]]}", "}}"),
    ("the details of an error", '{"kind": "error", "code": "", "message": "", "details": {"": ', "[", "]", "}}"),
    ("progress", '{"kind": "progress", "done": 1, "total": 2, "what": "x", "more": ', "[", "]", "}"),
    ("signs of life", '{"kind": "beat", "more": ', "[", "]", "}"),
]
HOSTILE += [
    (
        f"{levels} levels of {name}",
        f"print({head!r} + {opens!r} * {levels} + {closes!r} * {levels} + {tail!r})",
        "no frame",
    )
    for name, head, opens, closes, tail in DEEP
    for levels in (MOST_LEVELS, 300, 3000)
]


@pytest.mark.parametrize("brackets", [("[", "]"), ('{"":', "}")])
def test_what_is_as_deep_as_allowed_comes_back(brackets: tuple[str, str]) -> None:
    opens, closes = (one * (MOST_LEVELS - 2) for one in brackets)
    params = {"text": "[{" * 1000, "deep": json.loads(f"{opens}{'1' if ':' in opens else ''}{closes}")}
    assert exchange(LOCAL, Request("echo", params, python=sys.executable)).result == params


@pytest.mark.parametrize(("does", "says"), [case[1:] for case in HOSTILE], ids=[case[0] for case in HOSTILE])
def test_a_hostile_worker_is_one_clear_error(does: str, says: str, tmp_path: Path) -> None:
    evil = tmp_path / "python"
    evil.write_text(EVIL.format(python=sys.executable, does=f"{does}; sys.stdout.flush()"))
    evil.chmod(0o755)

    def answer(frame: dict[str, Any]) -> Iterable[Frame]:
        return [Frame("file", {"path": path}) for path in frame["paths"]]

    with pytest.raises(AnsibleError, match=says) as caught:
        exchange(LOCAL, Request("echo", {}, python=str(evil), timeout=60), answer, lambda frame: None)
    assert "\x1b" not in str(caught.value)


ENDLESS = [
    ("lines", "exec yes"),
    ("one line", "exec tr '\\0' x </dev/zero"),
    ("lines on stderr", "exec yes >&2"),
    ("then the hello", 'yes | head -c 1200000; echo "$4"; exec sleep 600'),
]


@pytest.mark.parametrize("does", [case[1] for case in ENDLESS], ids=[case[0] for case in ENDLESS])
def test_output_without_end_before_the_hello_ends_it(does: str, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{does}\n")
    python.chmod(0o755)
    with pytest.raises(AnsibleConnectionFailure) as caught:
        exchange(LOCAL, Request("echo", {}, python=str(python)))
    assert not isinstance(caught.value, ConnectionLost)
    assert f"on the controller: {python} did not start the worker" in caught.value.message
    assert "(output without end before the worker's first word, so it was ended" in caught.value.message
    assert len(caught.value.message) < 1000


def test_what_is_printed_before_the_hello_gives_no_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "HELLO_SECONDS", 0.5)
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nwhile :; do echo y; sleep 0.05; done\n")
    python.chmod(0o755)
    with pytest.raises(AnsibleConnectionFailure, match=r"no word of the worker within 0\.5 s, so it was ended"):
        exchange(LOCAL, Request("echo", {}, python=str(python)))


def test_a_worker_that_stands_still_behind_its_result_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that is frozen at that moment."""
    late = """
import atexit, os, time

def run(channel, params):
    os._exit = lambda code: time.sleep(3600)
    atexit.register(os._exit, 0)
    return {"x": 1}
"""
    add_operations(monkeypatch, {"late": late})
    readers: list[reader.Reader] = []

    class Kept(reader.Reader):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            readers.append(self)

    monkeypatch.setattr(module, "Reader", Kept)
    monkeypatch.setattr(reader, "SILENCE_SECONDS", 0.5)
    assert exchange(LOCAL, Request("late", {}, python=sys.executable, timeout=60)).result == {"x": 1}
    assert [one.broken for one in readers] == [reader.NO_SIGN]


def test_much_talk_before_the_hello_is_no_failure(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nyes | head -c 900000\nyes | head -c 900000 >&2\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    assert exchange(LOCAL, Request("echo", {"a": 1}, python=str(python))).result == {"a": 1}


class _LoginShell:
    """A way whose node has a login shell that does something before the command; ``enter`` is told by the command."""

    def __init__(self, does: str) -> None:
        self._does = does

    @contextlib.contextmanager
    def open_session(self, argv: list[str], nonce: str, view: View | None) -> Iterator[Any]:
        words = ["sh", "-c", f'{self._does}\necho "$0 enter lxc-attach" >&2; exec "$@"', nonce, *argv]
        pipe = subprocess.PIPE
        with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe) as process, ended(process):
            yield types.SimpleNamespace(process=process, place="in container 7 (on a)", ending=hops.ending)


@pytest.mark.parametrize("does", ["yes", "yes >&2", "while :; do echo x; done"])
def test_a_login_shell_that_prints_without_end_is_named(does: str) -> None:
    with pytest.raises(AnsibleConnectionFailure) as caught:
        exchange(_LoginShell(does), Request("echo", {}, python=sys.executable))
    assert "in container 7 (on a): the node's login shell did not get to the command" in caught.value.message
    assert "output without end before the worker's first word, so it was ended" in caught.value.message
    assert ".bashrc" in caught.value.message


def test_a_node_that_falls_silent_on_the_way_is_asked_for_its_link_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "HELLO_SECONDS", 0.5)
    says = "echo \"Warning: Permanently added '10.1.2.6' (ED25519) to the list of known hosts.\" >&2"
    with pytest.raises(AnsibleConnectionFailure) as caught:
        exchange(_LoginShell(f"{says}; sleep 60"), Request("echo", {}, python=sys.executable))
    assert caught.value.message.startswith(
        "in container 7 (on a): the node stopped answering on the way there (no word of the worker within 0.5 s, so it "
        "was ended): most likely the link to it is down"
    )


def test_behind_a_quiet_login_shell_it_is_the_python_that_is_named(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexec yes\n")
    python.chmod(0o755)
    with pytest.raises(AnsibleConnectionFailure, match=rf"{python} did not start the worker.*output without end"):
        exchange(_LoginShell(":"), Request("echo", {}, python=str(python)))


class _BesideAView:
    """A way whose node says its view only when told to, and never before the worker has asked."""

    def __init__(self, folder: Path, view: str) -> None:
        self._folder = folder
        self._view = view

    @contextlib.contextmanager
    def open_session(self, argv: list[str], nonce: str, view: View | None) -> Iterator[Any]:
        os.mkfifo(self._folder / "go")
        script = '(read go <"$1"; printf "%b" "$2" | sed "s/^/$3 view /" >&2) & shift 3; "$@"; rc=$?; wait; exit $rc'
        words = ["sh", "-c", script, "sh", str(self._folder / "go"), self._view, nonce, *argv]
        pipe = subprocess.PIPE
        with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe) as process, ended(process):
            yield types.SimpleNamespace(
                process=process, place="there", ending=lambda _report, _begun: process.returncode
            )


@pytest.mark.parametrize(
    ("view", "arrives"),
    [("=== start\\n=== end\\n", "=== start\n=== end"), ("=== start\\n", "=== start")],
    ids=["whole", "broken off"],
)
def test_an_answer_that_needs_the_nodes_view_waits_for_it(
    view: str, arrives: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_VIEW_SECONDS", 2.0)
    seen = []

    def answer(frame: dict[str, Any]) -> Iterable[Frame]:
        if frame["kind"] == "need":
            # From here on the node may speak: what the next frame has is waited for.
            (tmp_path / "go").write_text("go\n")
            return [Frame("go")]
        seen.append(frame["node_view"])
        return [Frame("go")]

    request = Request("ask", {}, sys.executable, 60, View("", "", 0.0), "ready")
    reply = exchange(_BesideAView(tmp_path, view), request, answer)
    assert (seen, reply.node_view, reply.result) == ([arrives], arrives, {"answered": 2})


def test_without_a_node_there_is_no_view() -> None:
    seen = []

    def answer(frame: dict[str, Any]) -> Iterable[Frame]:
        seen.append(frame.get("node_view", "not asked"))
        return [Frame("go")]

    exchange(LOCAL, Request("ask", {}, sys.executable, 60, View("", "", 0.0), "ready"), answer)
    assert seen == ["not asked", None]


def test_what_is_lost_after_the_hello_is_told_from_what_never_began() -> None:
    with pytest.raises(ConnectionLost):
        exchange(LOCAL, Request("die", {}, sys.executable))
    with pytest.raises(AnsibleConnectionFailure) as caught:
        exchange(LOCAL, Request("echo", {}, "/no/python"))
    assert not isinstance(caught.value, ConnectionLost)


def test_a_progress_that_cannot_be_shown_ends_the_exchange() -> None:
    def show(_frame: dict[str, Any]) -> None:
        raise ValueError("a broken display")

    with pytest.raises(AnsibleConnectionFailure, match="cannot be read"):
        exchange(LOCAL, Request("tell", {}, python=sys.executable), progress=show)


def test_details_of_an_absurd_size_are_left_out() -> None:
    with pytest.raises(StepError) as caught:
        exchange(LOCAL, Request("swell", {}, python=sys.executable))
    assert caught.value.details == {}
    assert len(caught.value.message) < 20_000


def test_an_interpreter_that_crashes_is_named_with_what_it_worked_on() -> None:
    with pytest.raises(
        StepError, match=r"big\.py: .* crashed on it on the controller \(signal 11, SIGSEGV\)"
    ) as caught:
        exchange(LOCAL, Request("segfault", {}, python=sys.executable))
    assert caught.value.code == "crash"


def test_a_lost_worker_is_run_again_but_where_that_would_undo_what_it_did(monkeypatch: pytest.MonkeyPatch) -> None:
    add_operations(monkeypatch, {"gone": "import os\n\ndef run(channel, params):\n    os.kill(os.getpid(), 9)\n"})
    with pytest.raises(ConnectionLost, match=r"its memory used up .* Run again$"):
        exchange(LOCAL, Request("gone", {}, python=sys.executable))
    with pytest.raises(ConnectionLost, match=r"its memory used up .* Look first$"):
        exchange(LOCAL, Request("gone", {}, python=sys.executable, unsure="look first"))
