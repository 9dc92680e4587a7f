# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One command on a node: what is sent, what counts of the answer, and what each failure is called."""

from __future__ import annotations

import os
import signal
import subprocess
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.trainops.proxmox.plugins.plugin_utils import on_node
from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import StepError
from ansible_collections.trainops.proxmox.plugins.plugin_utils.hops import Login

NONCE = "00112233aabbccdd"


def look(script: str, seconds: float = 20) -> on_node.Look:
    return on_node.Look(script, "it's smi", 7.5, seconds)


def connection(**options: Any) -> Any:
    """A connection with the options that ssh has."""

    def get_option(name: str) -> Any:
        return options[name]

    return SimpleNamespace(transport="ssh", has_pipelining=True, become=None, get_option=get_option)


SSH = {"host": "10.1.2.6", "remote_user": "root", "port": 22}


def in_a_shell(cmd: str, sudoable: bool = True, in_data: bytes | None = None) -> dict[str, Any]:
    """Runs a command as core would, in a login shell that talks."""
    talk = "echo Welcome; printf 'no end of line'; echo noise >&2; "
    done = subprocess.run(["sh", "-c", talk + cmd], input=in_data, capture_output=True, check=False, timeout=60)
    return {"rc": done.returncode, "stdout": done.stdout.decode(), "stderr": done.stderr.decode()}


def test_the_script_gets_its_settings_and_its_lines_come_back_alone() -> None:
    script = 'echo "[$smi] [$deadline] [$LC_ALL]"\necho "it\'s \\"quoted\\" \\$HOME"\necho lost >&2\nprintf last'
    text = on_node.ask(connection(**SSH), in_a_shell, look(script))
    assert text.splitlines() == ["[it's smi] [7.5] [C.UTF-8]", 'it\'s "quoted" $HOME', "last"]


@pytest.mark.parametrize("script", ["", "exit 3", "kill -9 $$", "cat", "exec >&-; exec sleep 0"])
def test_whatever_the_script_does_the_answer_has_an_end(script: str) -> None:
    assert on_node.ask(connection(**SSH), in_a_shell, look(script)) == ""


def test_a_script_that_hangs_is_given_up() -> None:
    assert on_node.ask(connection(**SSH), in_a_shell, look("echo first; sleep 600", seconds=0.5)) == "first"


@pytest.mark.parametrize("talk", ["yes", "yes >&2", "exec sleep 600"])
def test_a_login_shell_without_end_is_given_up_and_named(talk: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_node, "REACH_SECONDS", 0.5)

    def run(cmd: str, sudoable: bool = True, in_data: bytes | None = None) -> Any:
        words = ["sh", "-c", f"{talk}\n{cmd}"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True) as shell:
            try:
                while shell.stdout and shell.stdout.read(65536):
                    pass
            finally:
                os.killpg(shell.pid, signal.SIGKILL)

    before = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)[0] > 0
    with pytest.raises(AnsibleConnectionFailure) as caught:
        on_node.ask(connection(**SSH), run, look("true", 0.1))
    assert caught.value.message.startswith("on node root@10.1.2.6: no end of its answer within 0.6 s")
    assert ".bashrc" in caught.value.message
    assert (signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)[0] > 0) == before


def test_a_flood_is_given_up_before_it_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_node, "MAX_GROWTH", 32 << 20)
    kept = bytearray()

    def run(cmd: str, sudoable: bool = True, in_data: bytes | None = None) -> Any:
        with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as shell:
            try:
                while shell.stdout and len(kept) < 4 << 30:
                    kept.extend(shell.stdout.read(65536))
            finally:
                shell.kill()

    with pytest.raises(AnsibleConnectionFailure, match="no end of its answer before it filled the memory"):
        on_node.ask(connection(**SSH), run, look("true"))


def test_the_alarm_of_a_task_goes_on() -> None:
    class Over(BaseException):
        """What core raises."""

    def ring(*_args: object) -> None:
        raise Over

    before, timer = signal.signal(signal.SIGALRM, ring), signal.getitimer(signal.ITIMER_REAL)
    try:
        signal.setitimer(signal.ITIMER_REAL, 300)
        assert on_node.ask(connection(**SSH), in_a_shell, look("echo yes")) == "yes"
        assert signal.getsignal(signal.SIGALRM) is ring
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 300
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(Over):
            on_node.ask(connection(**SSH), in_a_shell, look("sleep 600"))
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, before)


ANSWERS = [
    (f"{NONCE} begin\n{NONCE} view a\n{NONCE} view  b \n{NONCE} end\n", "a\n b ", ""),
    (f"Welcome\r\n\r\n{NONCE} begin\r\n{NONCE} view a\r\n\r\n{NONCE} end\r\n", "a", "Welcome"),
    (f"{NONCE} begin\n{NONCE} end\n", "", ""),
    (f"x{NONCE} begin\n{NONCE} view a\n{NONCE} end\n", None, f"x{NONCE} begin"),
    (f"{NONCE} begin\n{NONCE} view a\n", None, ""),
    (f"{NONCE} begin\n{NONCE} view a {NONCE} end\n", None, ""),
    ("This account is currently not available.\n", None, "This account is currently not available."),
    ("", None, ""),
]


@pytest.mark.parametrize(("output", "own", "rest"), ANSWERS)
def test_only_marked_lines_count(output: str, own: str | None, rest: str) -> None:
    assert on_node.read_answer(output, NONCE) == (own, rest)


CORE = 'Data could not be sent to remote host "10.1.2.6". Make sure this host can be reached over ssh: '
FAILURES = [
    (
        "Failed to connect to the host via ssh: ssh: connect to host 10.1.2.6 port 22: Connection refused",
        "does not answer",
    ),
    (CORE + "root@10.1.2.6: Permission denied (publickey).", "refused the login (publickey)"),
    (f"ssh: Host key verification failed.: {CORE}Host key verification failed.", "is not in known_hosts"),
    ("Failed to connect to the host via ssh: ", "It said: nothing"),
]


@pytest.mark.parametrize(("message", "words"), FAILURES)
def test_a_node_that_is_not_reached_is_named_with_the_fix(message: str, words: str) -> None:
    def fail(cmd: str, sudoable: bool = True, in_data: bytes | None = None) -> Any:
        raise AnsibleConnectionFailure(message)

    with pytest.raises(AnsibleConnectionFailure) as caught:
        on_node.ask(connection(**SSH), fail, look("true"))
    assert caught.value.message.startswith("controller -> node: ")
    assert "root@10.1.2.6" in caught.value.message
    assert words in caught.value.message
    assert "Data could not be sent" not in caught.value.message


def says(stdout: str = "", stderr: str = "", rc: int = 1) -> Any:
    return lambda cmd, sudoable=True, in_data=None: {"rc": rc, "stdout": stdout, "stderr": stderr}


def test_a_command_that_was_not_run_shows_what_was_said() -> None:
    with pytest.raises(AnsibleConnectionFailure) as caught:
        on_node.ask(connection(**SSH), says("This account is \x1b[1mnot\x1b[0m available.\n"), look("true"))
    assert "exit status 1" in caught.value.message
    assert caught.value.message.endswith("It said: This account is \\x1b[1mnot\\x1b[0m available.")


def test_become_that_does_not_work_is_no_failure_of_the_connection() -> None:
    link = connection(**SSH)
    link.become = object()
    with pytest.raises(StepError) as caught:
        on_node.ask(link, says(stderr="sudo: a password is required\n"), look("true"))
    assert caught.value.code == "no-become"
    assert "on node root@10.1.2.6: become did not work: sudo: a password is required" in caught.value.message


@pytest.mark.parametrize("pipelining", [True, False])
def test_no_terminal_is_asked_for_where_that_can_be_said(pipelining: bool) -> None:
    seen: list[bytes | None] = []

    def note(cmd: str, sudoable: bool = True, in_data: bytes | None = None) -> dict[str, Any]:
        seen.append(in_data)
        return in_a_shell(cmd, in_data=in_data or b"")

    link = connection(**SSH)
    link.has_pipelining = pipelining
    assert on_node.ask(link, note, look("echo yes")) == "yes"
    assert [bool(data) for data in seen] == [pipelining]


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        (SimpleNamespace(transport="ssh"), True),
        (SimpleNamespace(transport="paramiko"), True),
        (SimpleNamespace(transport="local"), False),
        (SimpleNamespace(transport="trainops.proxmox.pct", open_session=print), False),
    ],
)
def test_what_is_looked_at_itself(link: Any, expected: bool) -> None:
    assert on_node.is_node(link) is expected


@pytest.mark.parametrize(
    ("options", "login"),
    [
        (SSH, Login("10.1.2.6", "root", 22)),
        ({"host": "pve1", "remote_user": None, "port": None}, Login("pve1", None, None)),
        ({}, Login("the node", None, None)),
    ],
)
def test_who_logs_in_where(options: dict[str, Any], login: Login) -> None:
    assert on_node.login_of(connection(**options)) == login
