# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: pct
short_description: Run tasks in an LXC container of Proxmox VE, over SSH to its node
version_added: 0.1.0
author: trainops contributors (@trainops)
description:
  - Logs in to a Proxmox VE node with OpenSSH and enters the container there with C(lxc-attach) or C(pct exec).
    The container needs no SSH server and no network.
  - The login is root's, that of a user with C(sudo) for everything, or that of a user who may enter one container and
    nothing else, see the notes. Its C(sudo) must want neither a password nor a terminal.
  - It extends ansible-core's C(ssh) connection, so every option of it, C(~/.ssh/config), jump hosts, agents, host keys
    and ControlPersist work as they do there. They concern the login on the node.
  - Inside the container tasks run as root, and C(become) works there.
  - The container gets a clean environment. Nothing of the node's or the SSH client's environment reaches it.
  - A command's own exit status is carried beside ssh's, so a command that ends with 255 is a failed task
    and not an unreachable host.
extends_documentation_fragment:
  - ansible.builtin.connection_pipelining
  - trainops.proxmox.ssh
options:
  host:
    description: Name or address of the Proxmox VE node that the container runs on.
    type: str
    default: inventory_hostname
    vars:
      - name: inventory_hostname
      - name: ansible_host
      - name: ansible_ssh_host
      - name: delegated_vars['ansible_host']
      - name: delegated_vars['ansible_ssh_host']
  vmid:
    description: Id of the container on its node.
    type: int
    required: true
    vars:
      - name: proxmox_vmid
  enter:
    description:
      - How to enter the container on the node.
      - V(auto) takes the first that the login may run. C(lxc-attach) costs 13 ms where every C(pct) call costs more
        than a second.
    type: str
    choices:
      auto: What the login may run, in this order.
      lxc-attach: The quickest. To allow it to a user by C(sudo) is to make that user root on the node.
      trainops-enter: The helper for a login that may enter one container and nothing else. It is installed by an admin
        of the node alone, see the notes.
      pct: To allow it to a user by C(sudo) is to make that user root on the node.
    default: auto
    vars:
      - name: proxmox_enter
    env:
      - name: TRAINOPS_PROXMOX_ENTER
    ini:
      - section: trainops_proxmox
        key: enter
  sessions:
    description:
      - How many sessions this controller may hold open on one node at a time, over all hosts of a play.
        More tasks wait for a free one.
      - A stock OpenSSH server allows 10 on one connection.
    type: int
    default: 8
    vars:
      - name: proxmox_sessions
    env:
      - name: TRAINOPS_PROXMOX_SESSIONS
    ini:
      - section: trainops_proxmox
        key: sessions
  session_patience:
    description: Seconds to wait for a free session.
    type: float
    default: 600
    vars:
      - name: proxmox_session_patience
    ini:
      - section: trainops_proxmox
        key: session_patience
  pipelining:
    description:
      - Send a module's code over the standard input of one command instead of as a file with several commands.
      - On by default, unlike in ansible-core.
    type: boolean
    default: true
    env:
      - name: ANSIBLE_PIPELINING
      - name: ANSIBLE_SSH_PIPELINING
    ini:
      - section: defaults
        key: pipelining
      - section: connection
        key: pipelining
      - section: ssh_connection
        key: pipelining
    vars:
      - name: ansible_pipelining
      - name: ansible_ssh_pipelining
  ssh_args:
    description:
      - Arguments to pass to every ssh call. Leave C(-C) out, compression makes large files several times slower.
    type: str
    default: -o ControlMaster=auto -o ControlPersist=60s -o ServerAliveInterval=15 -o ServerAliveCountMax=4
    ini:
      - section: trainops_proxmox
        key: ssh_args
    env:
      - name: TRAINOPS_PROXMOX_SSH_ARGS
    vars:
      - name: proxmox_ssh_args
  control_path:
    description:
      - Location of the socket that the sessions of one node share.
      - By default a name of its own, so that no connection of the builtin C(ssh) plugin with other arguments is shared.
    type: str
    vars:
      - name: proxmox_control_path
  use_tty:
    description: Ask for a terminal on the node. Its line ends and messages would get into the output of commands.
    type: bool
    default: false
    vars:
      - name: proxmox_use_tty
notes:
  - Set C(ansible_connection) to V(trainops.proxmox.pct) in the vars of the group of containers.
    Without it, tasks would run on the hypervisor.
  - Do not set it in the group C(all), a task that is delegated to a node has no container.
  - A rule of C(sudo) compares arguments as one text with spaces between, so no rule makes C(lxc-attach) or C(pct) safe
    to allow. C(docs/logins.md) of this collection has the helper C(trainops-enter), the lines that install it and the
    rule for one container.
  - The password of C(become) is that of the user in the container. The node's C(sudo) is never given one.
seealso:
  - plugin: ansible.builtin.ssh
    plugin_type: connection
"""

EXAMPLES = r"""
# inventory.yml
training:
  hosts:
    ct200:
      ansible_host: 10.1.2.6
      ansible_user: root
      proxmox_vmid: 200
  vars:
    ansible_connection: trainops.proxmox.pct
"""

import contextlib
import hashlib
import math
import os
import secrets
import shutil
import subprocess
import threading
from collections.abc import Iterator, Sequence
from typing import IO, Any

from ansible.errors import AnsibleConnectionFailure, AnsibleError, AnsibleFileNotFound
from ansible.module_utils.common.text.converters import to_bytes, to_text
from ansible.plugins.connection.ssh import Connection as SSHConnection
from ansible.utils.display import Display
from ansible.utils.path import unfrackpath
from ansible_collections.trainops.proxmox.plugins.plugin_utils import enter, hops
from ansible_collections.trainops.proxmox.plugins.plugin_utils.bounds import TooMuch, bounded
from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import TrainopsError
from ansible_collections.trainops.proxmox.plugins.plugin_utils.pipes import Drain, ended
from ansible_collections.trainops.proxmox.plugins.plugin_utils.slots import slot
from ansible_collections.trainops.proxmox.plugins.plugin_utils.visible import visible

display = Display()

_CHUNK = 1 << 20
_MAX_KEPT = 1 << 28  # bytes by which a command's output may make this process grow
_MAX_NOISE = 1 << 20  # bytes of others before or after what a transfer is to carry
# What decides about a login.
_DECIDING = [
    "host",
    "port",
    "remote_user",
    "ssh_args",
    "ssh_common_args",
    "ssh_extra_args",
    "private_key_file",
    "host_key_checking",
]


def _stream(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise AnsibleError("ssh was started without pipes")
    return pipe


def _succeeds(command: list[bytes]) -> bool:
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0


class _Nothing(bytes):
    """Empty input that core does not mistake for no input, for which it would make stdin a terminal."""

    def __bool__(self) -> bool:
        return True


class _Session:
    """A running ssh client whose pipes are ours."""

    def __init__(self, process: subprocess.Popen[bytes], vmid: int, login: hops.Login) -> None:
        self.process = process
        self.place = f"in container {vmid} (on {login})"
        self._vmid = vmid
        self._login = login

    def ending(self, report: enter.Report, begun: bool) -> int | None:
        return hops.ending(report, begun)

    def failure(self, report: enter.Report, begun: bool) -> hops.Failure:
        return hops.explain(self._vmid, self._login, self.process.returncode, report, begun)


class Connection(SSHConnection):
    """A container as an Ansible host."""

    transport = "trainops.proxmox.pct"
    has_pipelining = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._logging_in = False

    def get_option(self, option: str, hostvars: dict[str, Any] | None = None) -> Any:
        """The options, but for two that core reads by name: where sessions are shared, and who runs tasks.

        The user of the inventory logs in on the node; whoever asks for the user in the container gets root.
        """
        if option == "remote_user" and not self._logging_in:
            return "root"
        value = super().get_option(option, hostvars=hostvars)
        return self._shared_socket() if option == "control_path" and not value else value

    @property
    def _vmid(self) -> int:
        return int(self.get_option("vmid"))

    @property
    def _login(self) -> hops.Login:
        return hops.Login(self.host, self.user or None, self.port)

    def _shared_socket(self) -> str:
        """A name for all that decides whether and how a login goes: a warm session must not hide a wrong key.

        It is none of the builtin plugin's either, whose sessions may be compressed.
        """
        options = [str(super(Connection, self).get_option(name)) for name in _DECIDING]
        return f"%(directory)s/pct-{hashlib.sha256(chr(0).join(options).encode()).hexdigest()[:12]}"

    def _build_command(self, binary: str, subsystem: str, *other_args: bytes | str) -> list[bytes]:
        self._logging_in = True
        try:
            command: list[bytes] = super()._build_command(binary, subsystem, *other_args)
        finally:
            self._logging_in = False
        return command

    def _ssh(self, remote: str) -> list[bytes]:
        self.host = self.get_option("host") or self._play_context.remote_addr
        return self._build_command(self.get_option("ssh_executable"), "ssh", "-T", self.host, remote)

    @contextlib.contextmanager
    def _slot(self) -> Iterator[None]:
        directory = os.path.join(unfrackpath(self.get_option("control_path_dir")), "trainops-sessions")
        sessions, patience = self.get_option("sessions"), self.get_option("session_patience")
        wanted = slot(directory, str(self._login), sessions, patience, display.display)
        with contextlib.ExitStack() as stack:
            # Only a slot that is not to be had is a failure of the connection: what the block raises is its own.
            try:
                stack.enter_context(wanted)
            except TrainopsError as error:
                raise AnsibleConnectionFailure(str(error)) from error
            yield

    def exec_command(self, cmd: str, in_data: bytes | None = None, sudoable: bool = True) -> tuple[int, bytes, bytes]:
        """Run a shell command in the container; the status is the command's own, 128 + N when signal N ended it."""
        if not self._connected:
            self._connect()
        nonce = secrets.token_hex(8)
        argv = enter.shell_argv(to_bytes(cmd, errors="surrogate_or_strict"), nonce)
        remote = enter.node_command(self._vmid, argv, nonce=nonce, enter=self.get_option("enter"))
        display.vvv(f"PCT: EXEC IN {self._vmid}: {to_text(cmd)}", host=self.get_option("host"))
        ssh = self._ssh(remote)
        with self._slot():
            code, stdout, stderr = self._kept(ssh, in_data or _Nothing(), sudoable)
        report, own = enter.read_report(stderr, nonce)
        _before, started, output = stdout.partition(enter.inner(nonce).encode() + b"\n")
        if report.status is None:
            raise self._failed(code, report, bool(started))
        return report.status, output, own

    def _kept(self, ssh: list[bytes], in_data: bytes, sudoable: bool) -> tuple[int, bytes, bytes]:
        """What a command prints, which core keeps in memory: root in a container may print without end."""
        try:
            with bounded(math.inf, _MAX_KEPT):
                return self._run(ssh, in_data, sudoable=sudoable, checkrc=False)
        except TooMuch as error:
            raise AnsibleConnectionFailure(
                f"container {self._vmid} (on {self._login}): a command printed without end and was given up {error}; "
                "it may run on. Fetch what is large as a file"
            ) from None

    def _run(
        self, cmd: list[bytes], in_data: bytes | None, sudoable: bool = True, checkrc: bool = True
    ) -> tuple[int, bytes, bytes]:
        """One attempt, and more only while nothing has begun on the node: core would replay a command that ran."""
        for attempts_left in range(int(self.get_option("reconnection_retries")), -1, -1):
            code, stdout, stderr = self._bare_run(cmd, in_data, sudoable=sudoable, checkrc=checkrc)
            lost = hops.explain(self._vmid, self._login, code, enter.Report(text=to_text(stderr)))
            if code != 255 or b" enter " in stderr or not lost.retry or not attempts_left:
                break
            display.vv(f"PCT: {lost.message}: once more, {attempts_left} left", host=self.host)
        return code, stdout, stderr

    def _failed(self, code: int | None, report: enter.Report, started: bool) -> AnsibleConnectionFailure:
        failure = hops.explain(self._vmid, self._login, code, report, started)
        lost = " The command had begun and may have run on." if started else ""
        return AnsibleConnectionFailure(failure.message + lost)

    def _send_initial_data(self, fh: Any, in_data: bytes, ssh_process: subprocess.Popen[bytes]) -> None:
        """Write beside the reading: core would block for ever on a command that answers before it has read all."""

        def write() -> None:
            with contextlib.suppress(OSError, ValueError):
                for start in range(0, len(in_data), _CHUNK):
                    fh.write(in_data[start : start + _CHUNK])
                fh.close()

        threading.Thread(target=write, daemon=True).start()

    @contextlib.contextmanager
    def _popen(self, remote: str, stdin: int | IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
        """An ssh client whose pipes are ours; nothing of it is left when the block ends."""
        # Before the slot, which is that of the login: host, user and port are read on the way.
        ssh, pipe = self._ssh(remote), subprocess.PIPE
        with self._slot():
            self._log_in()
            process: subprocess.Popen[bytes] = subprocess.Popen(ssh, stdin=stdin, stdout=pipe, stderr=pipe)
            with ended(process):
                yield process

    def _log_in(self) -> None:
        """With a password, let core open the shared connection: it knows how to hand one to ssh, our pipes do not."""
        if not (self.get_option("password") or self.get_option("pkcs11_provider")):
            return
        executable = self.get_option("ssh_executable")
        self.host = self.get_option("host") or self._play_context.remote_addr
        check = self._build_command(executable, "ssh", "-O", "check", self.host)
        if _succeeds(check):
            return
        code, _stdout, stderr = self._run(self._ssh("true"), _Nothing(), sudoable=False, checkrc=False)
        if code:
            raise self._failed(code, enter.Report(text=to_text(stderr)), started=False)
        if not _succeeds(check):
            raise AnsibleConnectionFailure(
                f"controller -> node: a password for {self._login} needs a shared connection: "
                "keep ControlMaster=auto and ControlPersist in proxmox_ssh_args, or log in with a key"
            )

    @contextlib.contextmanager
    def open_session(self, argv: Sequence[str], nonce: str, view: enter.View | None) -> Iterator[_Session]:
        """Start ``argv`` in the container with pipes to it, for an exchange."""
        remote = enter.node_command(self._vmid, argv, nonce=nonce, enter=self.get_option("enter"), view=view)
        with self._popen(remote, subprocess.PIPE) as process:
            yield _Session(process, self._vmid, self._login)

    def reset(self) -> None:
        """Close the node's shared connection; another of its containers may have been quicker."""
        executable = self.get_option("ssh_executable")
        self.host = self.get_option("host") or self._play_context.remote_addr
        check = self._build_command(executable, "ssh", "-O", "check", self.host)
        stop = self._build_command(executable, "ssh", "-O", "stop", self.host)
        if _succeeds(check) and not _succeeds(stop) and _succeeds(check):
            display.warning(f"the shared connection to {self._login} could not be closed")
        self.close()

    def put_file(self, in_path: str, out_path: str) -> Any:  # core's own classes disagree about it
        """Copy a local file into the container, to exactly ``out_path``."""
        nonce = secrets.token_hex(8)
        try:
            source = open(to_bytes(in_path, errors="surrogate_or_strict"), "rb")  # noqa: SIM115 - closed below
        except FileNotFoundError as error:
            raise AnsibleFileNotFound(f"file or module does not exist: {to_text(in_path)}") from error
        command = self._cat(nonce, out_path, "cat > ")
        with source, self._popen(command, source) as process, Drain(_stream(process.stderr)) as drain:
            self._until_mark(_stream(process.stdout), nonce)
            if len(_stream(process.stdout).read(_MAX_NOISE)) == _MAX_NOISE:
                raise self._endless("a file was written")
            process.wait()
        return self._transferred(process, drain.data, nonce, f"write {to_text(out_path)}")

    def fetch_file(self, in_path: str, out_path: str) -> Any:
        """Copy a file of the container to the controller."""
        nonce = secrets.token_hex(8)
        with self._popen(self._cat(nonce, in_path, "cat < "), subprocess.DEVNULL) as process:
            stdout = _stream(process.stdout)
            with Drain(_stream(process.stderr)) as drain:
                with open(to_bytes(out_path, errors="surrogate_or_strict"), "wb") as target:
                    self._until_mark(stdout, nonce)
                    shutil.copyfileobj(stdout, target, _CHUNK)
                process.wait()
        return self._transferred(process, drain.data, nonce, f"read {to_text(in_path)}")

    def _until_mark(self, stdout: IO[bytes], nonce: str) -> None:
        """Read over what a login shell printed before the command's own output began."""
        mark, seen = enter.inner(nonce).encode() + b"\n", 0
        while (line := stdout.readline(_CHUNK)) and not line.endswith(mark):
            seen += len(line)
            if seen > _MAX_NOISE:
                raise self._endless("a file's transfer began")

    def _endless(self, when: str) -> AnsibleConnectionFailure:
        return AnsibleConnectionFailure(
            f"container {self._vmid} (on {self._login}): output without end before {when}, so it was given up: see "
            "that neither the node's login shell nor the container's /bin/sh prints without end"
        )

    def _cat(self, nonce: str, path: str, redirect: str) -> str:
        quoted: str = self._shell.quote(to_text(path, errors="surrogate_or_strict"))
        argv = enter.shell_argv(to_bytes(redirect + quoted, errors="surrogate_or_strict"), nonce)
        return enter.node_command(self._vmid, argv, nonce=nonce, enter=self.get_option("enter"))

    def _transferred(
        self, process: subprocess.Popen[bytes], stderr: bytes, nonce: str, what: str
    ) -> tuple[int, bytes, bytes]:
        report, own = enter.read_report(stderr, nonce)
        if report.status is None:
            raise self._failed(process.returncode, report, started=False)
        if report.status:
            said = visible(to_text(own).strip()) or f"exit status {report.status}"
            raise AnsibleError(f"in the container: could not {visible(what)}: {said}")
        return report.status, b"", own
