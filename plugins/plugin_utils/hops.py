# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which hop of the way into a container failed (controller -> node, node -> container), and what to do about it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ansible_collections.trainops.proxmox.plugins.plugin_utils.enter import Report
from ansible_collections.trainops.proxmox.plugins.plugin_utils.visible import visible
from ansible_collections.trainops.proxmox.plugins.plugin_utils.whole import whole


@dataclass(frozen=True)
class Login:
    """Who logs in where, for messages."""

    host: str
    user: str | None
    port: int | None

    def __str__(self) -> str:
        user = f"{self.user}@" if self.user else ""
        return f"{user}{self.host}" + (f":{self.port}" if self.port and self.port != 22 else "")


@dataclass(frozen=True)
class Failure:
    """Why a container could not be entered: a code for programs and a sentence that names the hop and the fix.

    ``retry`` says that the same attempt may go through a moment later.
    """

    code: str
    message: str
    retry: bool = False


@dataclass(frozen=True)
class _Known:
    """A failure that is known by its text."""

    pattern: str
    code: str
    sentence: str
    retry: bool = False


_SSH = (
    _Known(
        r"Permission denied \((?P<why>[^)]*)\)",
        "login-refused",
        "refused the login ({why}): add your public key to its authorized_keys, "
        "or set ansible_user, ansible_ssh_private_key_file or ansible_password",
    ),
    _Known(
        "REMOTE HOST IDENTIFICATION HAS CHANGED",
        "host-key",
        "shows another host key than the one in known_hosts: "
        "if the node was reinstalled, remove the old key with ssh-keygen -R",
    ),
    _Known(
        r"Host key verification failed|No \S+ host key is known",
        "host-key",
        "is not in known_hosts: log in once by hand with ssh and compare the fingerprint",
    ),
    _Known("Could not resolve hostname", "node-unreachable", "has no address: correct ansible_host"),
    _Known(
        "Connection refused|No route to host|Network is unreachable|[Cc]onnection timed out|Operation timed out",
        "node-unreachable",
        "does not answer: check ansible_host and ansible_port, and that the node is up and runs sshd",
    ),
    _Known(
        r"Connection (?:closed|reset) by|Connection to \S+ closed|Connection reset|kex_exchange_identification"
        "|Broken pipe|session request failed|not responding",
        "connection-lost",
        "closed the connection",
        retry=True,
    ),
)

_SUDO = (
    _Known("you must have a tty|a terminal is required to run", "no-sudo", "sudo there wants a terminal (requiretty)"),
    _Known(
        "a password is required|a terminal is required", "no-sudo", "sudo there does not allow it without a password"
    ),
    _Known(
        "not allowed to (?:execute|run)|not in the sudoers|may not run sudo",
        "no-sudo",
        "the rules of sudo there do not allow it",
    ),
)
_TERMINAL = _SUDO[0]


def explain(vmid: int, login: Login, returncode: int | None, report: Report, begun: bool = False) -> Failure:
    """Why the command did not run in the container, from what ssh, the node's shell and the tools there said.

    ``begun`` says that it did run: what was said may be the container's own words then, and tells nothing of the way.
    """
    if "missing" in report.facts:
        return _missing(login, report.facts["missing"])
    refused = next((known for known in _SUDO if re.search(known.pattern, report.text)), None)
    if refused and "by" in report.facts and not begun:
        return _refused(vmid, login, refused, last_line(report.text))
    if "state" in report.facts:
        return _not_running(vmid, login, report, report.facts["state"])
    if "enter" not in report.facts:
        # ssh's own failures end with 255, anything else is the status of what the login shell did instead.
        return _ssh(login, report.text) if returncode in (255, None) else _no_shell(login, returncode, report.text)
    if not begun and re.search(r"Configuration file 'nodes/\S+' does not exist", report.text):
        return _not_running(vmid, login, report, "doesn't exist")
    if not begun and re.search("not running|[Ff]ailed to get init pid", report.text):
        return _not_running(vmid, login, report, "STOPPED")
    said = last_line(report.text) or _status(returncode)
    if "left" not in report.facts:
        return Failure(
            "connection-lost",
            f"controller -> node: the connection to {login} ended while the command ran: look at the link and at the "
            f"node's sshd, then run again. ssh said: {said}",
        )
    return Failure(
        "attach-refused",
        f"node -> container: {report.facts['enter']} could not run a command in container {vmid} on {login}: {said}",
    )


def _status(returncode: int | None) -> str:
    """How a process ended that said nothing."""
    return f"nothing (signal {-returncode} ended it)" if returncode and returncode < 0 else f"exit status {returncode}"


# What the tools that enter a container print when they could not; a command's own exit status says nothing then.
_NOT_ENTERED = re.compile(
    r"^lxc-attach: |^trainops-enter: |^container '\d+' not running|^Configuration file '|^sudo: |^can't lock file"
    r"|not allowed to|^ipcc_send_rec\[|^Unable to load access control list|^Can't locate \S+\.pm in @INC",
    re.M,
)


def ending(report: Report, begun: bool = False) -> int | None:
    """The status with which a command in the container left (128 + N for signal N), None when it was not run there.

    ``begun`` as for :func:`explain`.
    """
    left = whole(report.facts.get("left", ""))
    if not report.entered or (not begun and _NOT_ENTERED.search(report.text)):
        return None
    return left


def no_login(login: Login, text: str) -> Failure:
    """Why a login on a node did not come about, from what ssh said."""
    return _ssh(login, text)


def last_line(text: str) -> str:
    """The last line of what a program printed, as it may be shown."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return visible(lines[-1]) if lines else ""


def _refused(vmid: int, login: Login, why: _Known, said: str) -> Failure:
    if why is _TERMINAL:
        fix = f"have an admin of the node add 'Defaults:{login.user or 'USER'} !requiretty' to its sudoers"
    else:
        fix = (
            "log in as root, or have an admin of the node install trainops-enter and allow this user that container "
            "with it (docs/logins.md)"
        )
    text = f"on node {login}: the login may not enter container {vmid}, {why.sentence}: {fix}. It said: {said}"
    return Failure(why.code, text)


def _no_shell(login: Login, status: int, text: str) -> Failure:
    return Failure(
        "no-shell",
        f"on node {login}: the login shell did not run the command that was sent (exit status {status}): have an admin "
        f"there give the user one that runs /bin/sh (usermod -s /bin/bash {login.user or 'USER'}), and put no command= "
        f"before its key. It said: {last_line(text) or 'nothing'}",
    )


def _missing(login: Login, tool: str) -> Failure:
    if tool == "sudo":
        return Failure(
            "no-sudo",
            f"on node {login}: this login is not root and the node has no sudo: log in as root, or have an admin there "
            "install it (apt-get install sudo) and allow this user what docs/logins.md says",
        )
    if tool == "trainops-enter":
        return Failure(
            "no-tool",
            f"on node {login}: there is no trainops-enter: have an admin of the node install it (docs/logins.md), or "
            "leave proxmox_enter out",
        )
    return Failure(
        "no-tool",
        f"on node {login}: there is no {tool}: is this a Proxmox VE node? Check ansible_host and proxmox_enter",
    )


def _ssh(login: Login, text: str) -> Failure:
    said = last_line(text) or "nothing"
    for known in _SSH:
        match = re.search(known.pattern, text)
        if match:
            sentence = known.sentence.format(**match.groupdict())
            return Failure(known.code, f"controller -> node: {login} {sentence}. ssh said: {said}", known.retry)
    return Failure("ssh-failed", f"controller -> node: ssh to {login} failed. It said: {said}")


def _not_running(vmid: int, login: Login, report: Report, state: str) -> Failure:
    host = report.facts.get("host", login.host)
    hop = f"node -> container: on {host} ({login})"
    # /etc/pve/nodes/NODE/{lxc,qemu-server}/ID.conf
    places = [parts for conf in report.configs if len(parts := conf.split("/")) == 7]
    elsewhere = [parts[4] for parts in places if parts[4] != host]
    absent = "doesn't exist" in state
    if any(parts[5] == "qemu-server" for parts in places):
        return Failure("is-vm", f"{hop} {vmid} is a virtual machine: set proxmox_vmid to a container's id")
    if elsewhere and len(elsewhere) == len(places):
        fix = "give that node's address (ansible_host)"
        return Failure("other-node", f"{hop} there is no container {vmid}, it lives on node {elsewhere[0]}: {fix}")
    if absent and not places:
        fix = "correct its number (proxmox_vmid), pct list has all"
        return Failure("no-container", f"{hop} there is no container {vmid}: {fix}")
    if state in ("FROZEN", "FREEZING"):
        fix = f"resume it with lxc-unfreeze -n {vmid}"
        return Failure("frozen", f"{hop} container {vmid} is frozen (suspended, or being backed up): {fix}")
    if state in ("STARTING", "THAWED"):
        fix = f"run again when pct status {vmid} says that it runs"
        return Failure("not-ready", f"{hop} container {vmid} is {state.lower()}: {fix}")
    word = "stopped" if absent else state.lower()
    return Failure("stopped", f"{hop} container {vmid} is {word}: start it with pct start {vmid}")
