# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The way from a login on a node into a container: the command to send and what its outcome means.

One remote command does it all: it decides between ``lxc-attach`` and ``pct``, looks at the container's state first
(entering a frozen one hangs), optionally collects the node's view of the GPUs beside it, and reports in lines marked by
a random word (the *nonce*) on stderr, so that neither a talkative login shell nor the exit status, which ssh, sudo, pct
and the command share, can be mistaken for an answer.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

from ansible_collections.trainops.proxmox.plugins.plugin_utils.whole import whole

# Nothing of the node's or the SSH client's environment may reach the container.
CONTAINER_ENVIRONMENT = (
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME=/root",
    "USER=root",
    "LOGNAME=root",
    "SHELL=/bin/sh",
    "LANG=C.UTF-8",
    "container=lxc",
)

# Runs on the node: $1 nonce, $2 vmid, $3 auto or a way in, $4 '' or the nvidia-smi to ask, $5 its deadline in seconds,
# then the command for the container. Needs sh alone; PATH is completed because a command given to ssh gets no login
# shell's PATH. sudo is asked about a program together with what it would be given, since a rule may name that too.
# Where it allows nothing, or would not even say so without a password, the narrowest way is tried for its own words. A
# login that has trainops-enter alone ($look is empty then) asks root for nothing else, since that would be refused.
_ON_NODE = r"""
nonce=$1 id=$2 enter=$3 smi=$4 deadline=$5
shift 5
PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
LC_ALL=C.UTF-8
export PATH LC_ALL
say() { printf '%s %s\n' "$nonce" "$*" >&2; }
where() {
  say host "$(uname -n)"
  $look find /etc/pve/nodes -name "$id.conf" 2>/dev/null | while read -r conf; do say conf "$conf"; done
}
have() { command -v "$1" >/dev/null 2>&1; }
may() {
  case $1 in
    pct) set -- pct exec "$id" -- /usr/bin/env ;;
    trainops-enter) set -- trainops-enter "$id" run /usr/bin/env ;;
    *) set -- lxc-attach -n "$id" --clear-env -- /usr/bin/env ;;
  esac
  have "$1" || return 1
  [ -n "$run" ] || return 0
  tool=$(command -v "$1")
  shift
  $run -l "$tool" "$@" >/dev/null 2>&1
}
run= look=
if [ "$(id -u)" != 0 ]; then
  run='sudo -n'
  have sudo || { say missing sudo; exit 1; }
fi
if [ "$enter" = auto ]; then
  enter=lxc-attach
  [ -n "$run" ] && have trainops-enter && enter=trainops-enter
  for way in lxc-attach ${run:+trainops-enter} pct; do
    may "$way" && enter=$way && break
  done
fi
have "$enter" || { say missing "$enter"; exit 1; }
say enter "$enter"
[ -z "$run" ] || say by sudo
case $enter in
  trainops-enter) state=$($run trainops-enter "$id" state 2>&1) ;;
  *) look=$run state=$($run lxc-info -n "$id" -s -H 2>&1) ;;
esac
case $state in
  STOPPED|STARTING|STOPPING|ABORTING|FREEZING|FROZEN|THAWED|*"doesn't exist"*)
    say state "$state"
    where
    exit 1 ;;
esac
if [ -n "$smi" ]; then
  ( run=$look; node_view </dev/null 2>/dev/null | sed "s/^/$nonce view /" >&2 ) &
fi
case $enter in
  pct) $run pct exec "$id" -- "$@" ;;
  trainops-enter) $run trainops-enter "$id" run "$@" ;;
  *) $run lxc-attach -n "$id" --clear-env -- "$@" ;;
esac
rc=$?
wait
say left "$rc"
[ "$rc" = 0 ] || where
exit "$rc"
"""

# Runs in the container for everything but the worker: $1 nonce, $2 a shell command as printf %b text. The mark on
# stdout is where the command's own output begins, the status goes by stderr because 255 would mean "ssh failed".
_IN_CONTAINER = r"""
command=$(printf '%b.' "$2")
printf '%s\n' "$1"
/bin/sh -c "${command%.}"
rc=$?
printf '\n%s status %s\n' "$1" "$rc" >&2
exit 0
"""


@dataclass(frozen=True)
class View:
    """The node's view that is to be collected beside a command: its script and what that needs."""

    script: str
    nvidia_smi: str
    deadline: float


def inner(nonce: str) -> str:
    """The random word for what runs in the container, whose root can read it: it tells nothing of the node's word."""
    return hashlib.sha256(nonce.encode("ascii")).hexdigest()[: len(nonce)]


def escape(text: bytes) -> str:
    """``text`` as pure ASCII for the shell's ``printf %b``: ``pct`` garbles other bytes without a UTF-8 locale."""
    return "".join(chr(byte) if 32 <= byte < 127 and byte != 92 else f"\\0{byte:03o}" for byte in text)


def node_command(vmid: int, argv: Sequence[str], *, nonce: str, enter: str = "auto", view: View | None = None) -> str:
    """The command line for ssh that runs ``argv`` (as it is, with a clean environment) in container ``vmid``."""
    script = _ON_NODE if view is None else "node_view() {\n" + view.script + "\n}\n" + _ON_NODE
    smi, deadline = (view.nvidia_smi, f"{view.deadline:g}") if view else ("", "0")
    words = ["/bin/sh", "-c", script, "trainops", nonce, str(vmid), enter, smi, deadline]
    words += ["/usr/bin/env", "-i", *CONTAINER_ENVIRONMENT, *argv]
    return "exec " + shlex.join(words)


def shell_argv(command: bytes, nonce: str) -> list[str]:
    """The argv that runs a shell command in the container with a mark before its output and its status on stderr."""
    return ["/bin/sh", "-c", _IN_CONTAINER, "trainops", inner(nonce), escape(command)]


@dataclass
class Report:
    """What the marked lines of one remote command said."""

    facts: dict[str, str] = field(default_factory=dict)
    configs: list[str] = field(default_factory=list)
    view: list[str] = field(default_factory=list)
    text: str = ""

    @property
    def status(self) -> int | None:
        """The command's own exit status; None when it did not end by itself."""
        return whole(self.facts.get("status", ""))

    @property
    def entered(self) -> bool:
        """Whether the way into the container was found open (the command itself may still have failed)."""
        return "enter" in self.facts and "state" not in self.facts


def read_report(stderr: bytes, nonce: str) -> tuple[Report, bytes]:
    """Split stderr into our marked lines and the command's own bytes.

    What ssh and the login shell wrote before the way in was known is in ``Report.text`` alone.
    """
    report = Report()
    node, container = nonce.encode("ascii"), inner(nonce).encode("ascii")
    start = max(stderr.find(node + b" enter "), 0)

    def note(match: re.Match[bytes]) -> bytes:
        word, value = (match[3] or match[4]).decode("ascii"), match[5].decode("utf-8", "replace")
        if word == "view":
            report.view.append(value)
        elif word == "conf":
            report.configs.append(value)
        else:
            report.facts[word] = value
        # The newline before a status line is ours: the command's output may end without one.
        return b"" if word == "status" else match[1]

    marked = re.compile(rb"(\n?)(" + node + rb" ([a-z]+)|" + container + rb" (status)) ?([^\n]*)\n")
    before, own = marked.sub(note, stderr[:start]), marked.sub(note, stderr[start:])
    report.text = (before + own).decode("utf-8", "replace")
    return report, own
