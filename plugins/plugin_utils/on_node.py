# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A look at a node over the node's own connection: one remote command that needs sh alone and installs nothing.

Every line of the answer is marked by a random word, so that a talkative login shell, a banner or a terminal between can
neither be mistaken for it nor spoil it.
"""

from __future__ import annotations

import re
import secrets
import shlex
from dataclasses import dataclass
from typing import Any, Protocol

from ansible.errors import AnsibleConnectionFailure
from ansible.module_utils.common.text.converters import to_text
from ansible_collections.trainops.proxmox.plugins.plugin_utils.bounds import TooMuch, bounded
from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import StepError
from ansible_collections.trainops.proxmox.plugins.plugin_utils.hops import Login, last_line, no_login

# Runs on the node: $1 nonce, $2 the script, $3 seconds for it, $4 nvidia-smi, $5 its deadline. The script finds $smi,
# $deadline and $run ('' or 'sudo -n', before what needs root) as a node view does.
_ON_NODE = r"""
nonce=$1 script=$2 seconds=$3 smi=$4 deadline=$5
PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
LC_ALL=C.UTF-8
run=
[ "$(id -u)" = 0 ] || run='sudo -n'
export PATH LC_ALL run smi deadline
command -v timeout >/dev/null 2>&1 || timeout() { shift 3; "$@"; }
printf '\n%s begin\n' "$nonce"
timeout -k 2 "$seconds" /bin/sh -c "$script" look </dev/null 2>/dev/null | sed "s/^/$nonce view /"
printf '\n%s end\n' "$nonce"
exit 0
"""


#: Seconds for the login, become and whatever the login shell does, beside those of the look.
REACH_SECONDS = 60.0
#: Bytes by which this process may grow meanwhile: core keeps all that comes, some of it twice.
MAX_GROWTH = 256 * 1024 * 1024


# What core puts before the words of ssh, some versions twice.
_OF_CORE = re.compile(
    r'Data could not be sent to remote host "[^"]*"\. Make sure this host can be reached over ssh:\s*'
    r"|Failed to connect to the host via \w+:\s*"
)


@dataclass(frozen=True)
class Look:
    """What to run: a script of which nothing may hang, and seconds after which it is given up all the same."""

    script: str
    nvidia_smi: str
    deadline: float
    seconds: float


class Runner(Protocol):
    """Core's way for an action to run a command on its host, ``become`` included."""

    def __call__(self, cmd: str, sudoable: bool = True, in_data: bytes | None = None) -> Any:
        """Returns a mapping of rc, stdout and stderr. Raises AnsibleConnectionFailure."""


def is_node(connection: Any) -> bool:
    """Whether a connection leads to a machine that is looked at itself: no container of ours and not this machine."""
    return not hasattr(connection, "open_session") and connection.transport != "local"


def login_of(connection: Any) -> Login:
    """Who logs in where, as far as the connection's options tell."""
    host, user, port = (_option(connection, name) for name in ("host", "remote_user", "port"))
    return Login(str(host or "the node"), str(user) if user else None, int(port) if port else None)


def _option(connection: Any, name: str) -> Any:
    try:
        return connection.get_option(name)
    except KeyError:  # not every connection has it
        return None


def command_line(look: Look, nonce: str) -> str:
    """The shell command that does it, for any login shell that knows single quotes."""
    words = ["/bin/sh", "-c", _ON_NODE, "trainops", nonce, look.script, f"{look.seconds:g}"]
    return shlex.join([*words, look.nvidia_smi, f"{look.deadline:g}"])


def read_answer(output: str, nonce: str) -> tuple[str | None, str]:
    """The script's own lines (None when it was not run, or its end did not arrive), and all else that was printed."""
    own, rest, words = [], [], set()
    for line in output.replace("\r", "").splitlines():
        mark, _space, text = line.partition(f"{nonce} ")
        word, _space, value = text.partition(" ")
        if mark or word not in ("begin", "view", "end"):
            rest.append(line)
            continue
        words.add(word)
        if word == "view":
            own.append(value)
    return ("\n".join(own) if {"begin", "end"} <= words else None), "\n".join(rest).strip()


def ask(connection: Any, run: Runner, look: Look) -> str:
    """What ``look`` printed on the node. One remote command.

    Raises AnsibleConnectionFailure, which says whether the node was not reached, refused the login, has another host
    key, did not run the command, or not in time.
    """
    nonce = secrets.token_hex(8)
    # Input makes core ask for no terminal, which would mix the streams; a connection that takes none has to be asked
    # without.
    data = b"\n" if getattr(connection, "has_pipelining", False) else None
    try:
        with bounded(REACH_SECONDS + look.seconds, MAX_GROWTH):
            done = run(command_line(look, nonce), in_data=data)
    except TooMuch as error:
        raise AnsibleConnectionFailure(
            f"on node {login_of(connection)}: no end of its answer {error}, so it was given up: see that "
            "the startup files of its login shell (.bashrc, .profile, /etc/profile.d) neither wait nor print without "
            "end where no terminal is"
        ) from None
    except AnsibleConnectionFailure as error:
        text = _OF_CORE.split(to_text(error.message))[-1]
        # Core would print the cause again behind our sentence.
        raise AnsibleConnectionFailure(no_login(login_of(connection), text).message) from None
    answer, rest = read_answer(f"{done['stdout']}\n{done['stderr']}", nonce)
    if answer is not None:
        return answer
    login = login_of(connection)
    if connection.become and f"{nonce} begin" not in done["stdout"]:
        raise StepError("no-become", f"on node {login}: become did not work: {last_line(rest) or 'it said nothing'}")
    raise AnsibleConnectionFailure(
        f"on node {login}: the look broke off (exit status {done['rc']}): its login shell must be able to run /bin/sh. "
        f"It said: {last_line(rest) or 'nothing'}"
    )
