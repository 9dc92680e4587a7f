# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Texts of ssh, sudo, lxc-attach and pct, and the failure that each of them is."""

from __future__ import annotations

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils.enter import Report
from ansible_collections.trainops.proxmox.plugins.plugin_utils.hops import Login, ending, explain

LOGIN = Login("10.1.2.6", "root", 22)
ENTERED = {"enter": "lxc-attach", "left": "1"}
BY_SUDO = {**ENTERED, "by": "sudo"}
PVE2 = ["/etc/pve/nodes/pve2/lxc/200.conf"]

CASES = [
    ({}, [], "root@10.1.2.6: Permission denied (publickey,password).", "login-refused", "authorized_keys"),
    ({}, [], "Host key verification failed.", "host-key", "known_hosts"),
    ({}, [], "WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!\nHost key verification failed.", "host-key", "-R"),
    ({}, [], "ssh: connect to host 10.1.2.6 port 22: Connection refused", "node-unreachable", "ansible_port"),
    ({}, [], "ssh: connect to host 10.1.2.6 port 22: Connection timed out", "node-unreachable", "ansible_host"),
    ({}, [], "ssh: Could not resolve hostname pve9: Name or service not known", "node-unreachable", "ansible_host"),
    ({}, [], "kex_exchange_identification: read: Connection reset by peer", "connection-lost", "closed"),
    ({}, [], "", "ssh-failed", "nothing"),
    ({"missing": "sudo"}, [], "", "no-sudo", "log in as root"),
    ({"missing": "lxc-attach"}, [], "", "no-tool", "Proxmox VE node"),
    ({"missing": "trainops-enter"}, [], "", "no-tool", "proxmox_enter"),
    (BY_SUDO, [], "sudo: a password is required", "no-sudo", "install trainops-enter and allow this user"),
    (BY_SUDO, [], "Sorry, user ops is not allowed to execute '/usr/bin/lxc-attach -n 200'", "no-sudo", "rules of sudo"),
    (BY_SUDO, [], "sudo: sorry, you must have a tty to run sudo", "no-sudo", "'Defaults:root !requiretty'"),
    ({**ENTERED, "state": "STOPPED", "host": "pve1"}, [], "", "stopped", "pct start 200"),
    ({**ENTERED, "state": "FROZEN", "host": "pve1"}, [], "", "frozen", "lxc-unfreeze -n 200"),
    ({**ENTERED, "state": "FREEZING", "host": "pve1"}, [], "", "frozen", "lxc-unfreeze -n 200"),
    ({**ENTERED, "state": "STARTING", "host": "pve1"}, [], "", "not-ready", "is starting: run again when"),
    ({**ENTERED, "state": "200 doesn't exist", "host": "pve1"}, [], "", "no-container", "proxmox_vmid"),
    ({**ENTERED, "state": "200 doesn't exist", "host": "pve1"}, PVE2, "", "other-node", "node pve2"),
    ({**ENTERED, "state": "200 doesn't exist", "host": "pve2"}, PVE2, "", "stopped", "pct start 200"),
    (
        {**ENTERED, "state": "905 doesn't exist", "host": "pve1"},
        ["/etc/pve/nodes/pve1/qemu-server/905.conf"],
        "",
        "is-vm",
        "virtual machine",
    ),
    (ENTERED, [], "lxc-attach: 200: attach.c: lxc_attach: 1237 Failed to get init pid", "stopped", "pct start 200"),
    ({"enter": "pct", "left": "255"}, [], "container '200' not running!", "stopped", "pct start 200"),
    (
        {"enter": "pct", "left": "2"},
        [],
        "Configuration file 'nodes/pve1/lxc/200.conf' does not exist",
        "no-container",
        "",
    ),
    ({"enter": "lxc-attach"}, [], "client_loop: send disconnect: Broken pipe", "connection-lost", "while the command"),
    (ENTERED, [], "lxc-attach: 200: Operation not permitted", "attach-refused", "Operation not permitted"),
]


@pytest.mark.parametrize(("facts", "configs", "text", "code", "says"), CASES)
def test_each_text_is_one_failure_with_its_fix(
    facts: dict[str, str], configs: list[str], text: str, code: str, says: str
) -> None:
    failure = explain(200, LOGIN, 1 if facts else 255, Report(facts=facts, configs=configs, text=text))
    assert failure.code == code
    assert says in failure.message
    assert "10.1.2.6" in failure.message


def test_only_a_connection_that_was_closed_early_is_worth_another_try() -> None:
    texts = {
        code: explain(200, LOGIN, 255, Report(text=text)).retry for facts, _c, text, code, _s in CASES if not facts
    }
    assert [code for code, retry in texts.items() if retry] == ["connection-lost"]


@pytest.mark.parametrize(
    "text",
    [
        "ipcc_send_rec[1] failed: Connection refused\nUnable to load access control list: Connection refused",
        "Can't locate PVE/CLI/pct.pm in @INC (you may need to install it) at /usr/sbin/pct line 6.",
    ],
)
def test_a_pct_that_is_broken_is_not_taken_for_the_python_in_the_container(text: str) -> None:
    report = Report(facts={"enter": "pct", "left": "255"}, text=text)
    assert ending(report) is None
    failure = explain(200, LOGIN, 255, report)
    assert failure.message.startswith("node -> container: pct could not run a command in container 200")
    assert failure.message.endswith(text.splitlines()[-1])


def test_an_ssh_that_was_killed_is_told_by_its_signal() -> None:
    failure = explain(200, LOGIN, -9, Report(facts={"enter": "lxc-attach"}))
    assert failure.message.endswith("then run again. ssh said: nothing (signal 9 ended it)")


@pytest.mark.parametrize("text", ["", "rbash: line 1: exec: restricted", "Unmatched '\"'.", "\x1b[2Jgone"])
@pytest.mark.parametrize("status", [0, 1, 127])
def test_a_shell_that_did_something_else_is_told_from_a_failure_of_ssh(text: str, status: int) -> None:
    failure = explain(200, Login("10.1.2.6", "ops", 22), status, Report(text=text))
    assert failure.code == "no-shell"
    assert f"(exit status {status}): have an admin there give the user one" in failure.message
    assert "usermod -s /bin/bash ops" in failure.message
    assert "\x1b" not in failure.message


# What whoever is root in a container may print on stderr to be taken for the node's own words.
SPOKEN = [
    "sudo: a password is required",
    "sudo: sorry, you must have a tty to run sudo",
    "Sorry, user root is not allowed to execute '/bin/sh'",
    "Configuration file 'nodes/pve1/lxc/200.conf' does not exist",
    "container '200' not running!",
    "lxc-attach: 200: Failed to get init pid",
]


@pytest.mark.parametrize("text", SPOKEN)
@pytest.mark.parametrize("facts", [ENTERED, BY_SUDO])
def test_a_container_that_was_entered_cannot_speak_for_the_node(facts: dict[str, str], text: str) -> None:
    failure = explain(200, LOGIN, 1, Report(facts=facts, text=text), begun=True)
    assert failure.code == "attach-refused"
    assert "have an admin" not in failure.message
    assert ending(Report(facts=facts, text=text), begun=True) == 1
    assert ending(Report(facts=facts, text=text)) is None


def test_roots_way_never_led_over_sudo() -> None:
    assert explain(200, LOGIN, 1, Report(facts=ENTERED, text=SPOKEN[0])).code == "attach-refused"


def test_a_login_shows_user_and_an_unusual_port() -> None:
    assert [str(login) for login in (LOGIN, Login("n", None, None), Login("n", "ops", 2222))] == [
        "root@10.1.2.6",
        "n",
        "ops@n:2222",
    ]
