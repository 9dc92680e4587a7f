# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command that enters a container, and what its marked lines say."""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils import enter
from ansible_collections.trainops.proxmox.plugins.plugin_utils.node_view import SCRIPT

NONCE = "0123456789abcdef"
RUN_INSIDE = 'shift 2; while [ "$1" != -- ]; do shift; done; shift; exec "$@"'
Node = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node whose tools are the given scripts; what is not given is not there. Each runs a command like ssh would."""

    def run(
        argv: list[str], *, view: enter.View | None = None, way: str = "auto", data: bytes = b"", **tools: str
    ) -> subprocess.CompletedProcess[bytes]:
        (tmp_path / "bin").mkdir(exist_ok=True)
        for name, body in tools.items():
            path = tmp_path / "bin" / name.replace("_", "-")
            path.write_text(f"#!/bin/sh\n{body}\n")
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
        for name in ("sh", "uname", "find", "sed", "cat", "printf"):
            if not (tmp_path / "bin" / name).exists():
                (tmp_path / "bin" / name).symlink_to(
                    f"/bin/{name}" if os.path.exists(f"/bin/{name}") else f"/usr/bin/{name}"
                )
        # The machine that runs the tests may have the real tools: the node's own completion of PATH is taken out.
        command = enter.node_command(200, argv, nonce=NONCE, enter=way, view=view).replace(
            "PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n", ""
        )
        environment = {"PATH": str(tmp_path / "bin"), "LC_ALL": "de_DE.UTF-8", "SECRET": "of the node"}
        return subprocess.run(["/bin/sh", "-c", command], input=data, capture_output=True, env=environment, check=False)

    return run


def output_of(done: subprocess.CompletedProcess[bytes]) -> bytes:
    """What the command itself printed."""
    return done.stdout.partition(enter.inner(NONCE).encode() + b"\n")[2]


def inside(command: str) -> list[str]:
    return enter.shell_argv(command.encode(), NONCE)


def test_a_command_runs_with_a_clean_environment_and_reports_its_status(node: Node) -> None:
    done = node(inside("env; cat; exit 7"), data=b"in", id="echo 0", lxc_info="echo RUNNING", lxc_attach=RUN_INSIDE)
    report, own = enter.read_report(done.stderr, NONCE)
    assert (report.status, own) == (7, b"")
    output = output_of(done)
    assert output.endswith(b"in")
    names = {line.partition(b"=")[0] for line in output.splitlines()} - {b"PWD", b"OLDPWD", b"_", b"SHLVL", b"in"}
    assert names == {b"PATH", b"HOME", b"USER", b"LOGNAME", b"SHELL", b"LANG", b"container"}


@pytest.mark.parametrize("status", [0, 1, 2, 126, 127, 254, 255])
def test_every_status_comes_back(node: Node, status: int) -> None:
    done = node(inside(f"exit {status}"), id="echo 0", lxc_info="echo RUNNING", lxc_attach=RUN_INSIDE)
    assert (enter.read_report(done.stderr, NONCE)[0].status, done.returncode) == (status, 0)


def test_a_command_that_a_signal_ends_has_128_plus_its_number(node: Node) -> None:
    done = node(inside("kill -9 $$"), id="echo 0", lxc_info="echo RUNNING", lxc_attach=RUN_INSIDE)
    assert enter.read_report(done.stderr, NONCE)[0].status == 137


@pytest.mark.parametrize("text", ["plain", "a  b", "$HOME `id` \\ \\n %s", "ü 日本", "new\nline\n", "'\"", "\x01\x7f"])
def test_any_text_reaches_the_shell_of_the_container(node: Node, text: str) -> None:
    done = node(inside("printf %s " + shlex.quote(text)), id="echo 0", lxc_info="echo RUNNING", lxc_attach=RUN_INSIDE)
    assert output_of(done) == text.encode()
    assert all(32 <= byte < 127 for byte in enter.escape(text.encode()).encode())


def test_a_frozen_container_is_not_entered(node: Node) -> None:
    done = node(inside("true"), id="echo 0", lxc_info="echo FROZEN", lxc_attach="echo entered")
    report = enter.read_report(done.stderr, NONCE)[0]
    assert (report.facts["state"], report.entered, done.stdout) == ("FROZEN", False, b"")


def test_auto_takes_pct_where_lxc_attach_is_not_there(node: Node) -> None:
    done = node(inside("true"), id="echo 0", lxc_info="echo RUNNING", pct='[ "$1 $2" = "exec 200" ] && ' + RUN_INSIDE)
    report = enter.read_report(done.stderr, NONCE)[0]
    assert (report.facts["enter"], report.status) == ("pct", 0)


def test_auto_takes_pct_where_sudo_allows_only_that(node: Node) -> None:
    sudo = 'shift; if [ "$1" = -l ]; then case $2 in */pct) exit 0;; *) exit 1;; esac; fi; exec "$@"'
    done = node(inside("true"), id="echo 1000", sudo=sudo, lxc_info="echo RUNNING", lxc_attach="exit 1", pct=RUN_INSIDE)
    report = enter.read_report(done.stderr, NONCE)[0]
    assert (report.facts["enter"], report.status) == ("pct", 0)


RULES = 'shift; if [ "$1" = -l ]; then shift; case "$*" in {}) exit 0;; *) exit 1;; esac; fi; exec "$@"'
ENTER = '[ "$1 $2" = "200 run" ] && shift 2 && exec "$@"; [ "$1 $2" = "200 state" ] && echo RUNNING'


@pytest.mark.parametrize(
    ("allowed", "way"),
    [
        ("*/lxc-attach*", "lxc-attach"),
        ("*'/lxc-attach -n 200 --clear-env -- /usr/bin/env'", "lxc-attach"),
        ("*'/trainops-enter 200 run'*", "trainops-enter"),
        ("*/trainops-enter*|*/pct*", "trainops-enter"),
        ("*/pct*", "pct"),
        # The rules may not even be asked for without a password although they allow it: sudo's listpw.
        ("nothing", "trainops-enter"),
    ],
)
def test_auto_takes_the_first_way_that_sudo_allows_with_its_arguments(node: Node, allowed: str, way: str) -> None:
    tools = {"lxc_info": "echo RUNNING", "lxc_attach": RUN_INSIDE, "pct": RUN_INSIDE, "trainops_enter": ENTER}
    done = node(inside("true"), id="echo 1000", sudo=RULES.format(allowed), **tools)
    report = enter.read_report(done.stderr, NONCE)[0]
    assert (report.facts["enter"], report.facts["by"], report.status) == (way, "sudo", 0)


def test_root_takes_no_helper(node: Node) -> None:
    done = node(inside("true"), id="echo 0", lxc_info="echo RUNNING", lxc_attach=RUN_INSIDE, trainops_enter="exit 9")
    report = enter.read_report(done.stderr, NONCE)[0]
    assert (report.facts["enter"], "by" in report.facts, report.status) == ("lxc-attach", False, 0)


def test_a_login_with_the_helper_alone_asks_root_for_nothing_else(node: Node, tmp_path: Path) -> None:
    sudo = f'echo "$*" >>{tmp_path}/asked; ' + RULES.format("*/trainops-enter*")
    view = enter.View('$run sh -c "echo seen"', "/opt/smi", 5)
    done = node(inside("exit 3"), view=view, id="echo 1000", sudo=sudo, lxc_attach="exit 1", trainops_enter=ENTER)
    report = enter.read_report(done.stderr, NONCE)[0]
    assert (report.status, report.view) == (3, ["seen"])
    ran = [line.split()[:4] for line in (tmp_path / "asked").read_text().splitlines() if line.startswith("-n ")]
    assert [words for words in ran if words[1] != "-l"] == [
        ["-n", "trainops-enter", "200", "state"],
        ["-n", "trainops-enter", "200", "run"],
    ]


def test_the_helper_tells_a_frozen_container(node: Node) -> None:
    done = node(inside("true"), id="echo 1000", sudo=RULES.format("*"), trainops_enter="echo FROZEN")
    report = enter.read_report(done.stderr, NONCE)[0]
    assert (report.facts["state"], report.facts["enter"], done.stdout) == ("FROZEN", "trainops-enter", b"")


def in_fish(line: str) -> list[str]:
    """The words that the shell fish makes of a line: in its single quotes a backslash escapes itself and a quote."""
    words, quote, rest = [""], "", list(line)
    while rest:
        char = rest.pop(0)
        if quote == "'" and char == "\\" and rest[0] in "\\'":
            words[-1] += rest.pop(0)
        elif quote:
            quote, words[-1] = ("", words[-1]) if char == quote else (quote, words[-1] + char)
        elif char in "'\"":
            quote = char
        elif char == " ":
            words.append("")
        else:
            words[-1] += char
    return words


@pytest.mark.parametrize("command", ["plain", "it's", "back\\slash", "two\\\\", "end\\'", "new\nline"])
def test_fish_as_the_login_shell_reads_the_same_words(command: str) -> None:
    line = enter.node_command(200, inside(command), nonce=NONCE, view=enter.View(SCRIPT, "/opt/smi", 5))
    assert in_fish(line) == shlex.split(line)


def test_a_login_without_sudo_says_so(node: Node) -> None:
    done = node(inside("true"), id="echo 1000", lxc_attach="exit 1")
    assert enter.read_report(done.stderr, NONCE)[0].facts == {"missing": "sudo"}


def test_the_nodes_view_comes_beside_the_command(node: Node) -> None:
    view = enter.View('printf "%s\\n" "smi $smi" "deadline $deadline" "run [$run]"', "/opt/smi", 30)
    done = node(inside("echo out"), view=view, id="echo 0", lxc_info="echo RUNNING", lxc_attach=RUN_INSIDE)
    report, own = enter.read_report(done.stderr, NONCE)
    assert (report.view, report.status, own) == (["smi /opt/smi", "deadline 30", "run []"], 0, b"")


def test_marked_lines_are_told_apart_from_the_commands_own_bytes() -> None:
    stderr = f"of ssh\n{NONCE} enter lxc-attach\nno newline\n{enter.inner(NONCE)} status 3\n{NONCE} left 0\n".encode()
    report, own = enter.read_report(stderr, NONCE)
    assert own == b"no newline"
    assert report.text == "of ssh\nno newline"
    assert report.facts == {"enter": "lxc-attach", "status": "3", "left": "0"}


def test_bytes_that_look_like_another_nonce_stay() -> None:
    stderr = f"ffffffffffffffff status 0\n\0\n{enter.inner(NONCE)} status 1\n".encode()
    report, own = enter.read_report(stderr, NONCE)
    assert (report.status, own) == (1, b"ffffffffffffffff status 0\n\0")


def test_what_runs_in_the_container_cannot_speak_for_the_node(node: Node) -> None:
    forged = "; ".join(f"echo $0 {word} >&2" for word in ("state STOPPED", "view forged", "conf /etc/pve/x", "left 9"))
    command = f"for word in $(tr '\\0' '\\n' </proc/$PPID/cmdline); do sh -c {shlex.quote(forged)} $word; done 2>&2"
    done = node(
        inside(command), id="echo 0", lxc_info="echo RUNNING", lxc_attach=RUN_INSIDE, tr='exec /usr/bin/tr "$@"'
    )
    report, own = enter.read_report(done.stderr, NONCE)
    assert b"state STOPPED" in own
    assert (report.entered, report.view, report.configs, report.facts["left"]) == (True, [], [], "0")
