# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A run of pct from its start to its end."""

from __future__ import annotations

import os
import sys

from . import commands, locale_, options, settings
from .failure import Failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

NO_CLUSTER = "Unknown error -1"  # what a login that may not talk to the cluster file system is told


def original_environment() -> dict[bytes, bytes]:
    """The environment as the caller gave it. Python may have added LC_CTYPE to its own copy (PEP 538)."""
    with open("/proc/self/environ", "rb") as stream:
        entries = (entry.partition(b"=") for entry in stream.read().split(b"\0") if b"=" in entry)
        return {name: value for name, _, value in entries}


def given_environment(environment: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """The environment that the real one hands on."""
    kept = {name: value for name, value in environment.items() if name != b"SSL_CERT_FILE"}
    return {**kept, b"PATH": commands.PATH}


def find(name: str) -> commands.Command:
    """The command of that name, which may be shortened.

    :raises Failure: when there is none, or the stand-in does not have it.
    """
    hits = [known for known in commands.names() if known.startswith(name)]
    name = hits[0] if len(hits) == 1 else name
    if name in commands.COMMANDS:
        return commands.COMMANDS[name]
    if name in hits:
        raise Failure(f"pct {name}: the lab's stand-in has no such command\n")
    raise Failure(f"ERROR: unknown command 'pct {name}'\n{commands.usage()}")


def help_(argv: list[str]) -> None:
    print(f"USAGE: {find(argv[0]).syntax.usage}" if argv else commands.usage())


def require_root() -> None:
    if os.geteuid() != 0:
        calls = "".join(f"ipcc_send_rec[{number}] failed: {NO_CLUSTER}\n" for number in (1, 2, 3))
        raise Failure(f"{calls}Unable to load access control list: {NO_CLUSTER}\n")


def run(argv: list[str], context: commands.Context) -> None:
    """Do what the command line says; returning means exit status 0.

    :raises Failure: with the text for stderr and the exit status.
    """
    fault = context.fault
    if {"exit", "stdout", "stderr"} & fault.keys():
        sys.stdout.write(str(fault.get("stdout", "")))
        raise Failure(str(fault.get("stderr", "")), int(fault.get("exit", 0)))
    require_root()
    if not argv:
        raise Failure(f"ERROR: no command specified\n{commands.usage()}")
    if argv[0] == "help":
        help_(argv[1:])
        return
    command = find(argv[0])
    command.run(options.understand(command.syntax, argv[1:]), context)


def fill_standard_streams() -> None:
    """Open what the caller closed of stdin, stdout and stderr: in Perl other files take their numbers."""
    while (descriptor := os.open("/dev/null", os.O_RDWR)) < 3:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)


def main() -> NoReturn:
    fill_standard_streams()
    environment = original_environment()
    raw = [os.fsencode(word) for word in sys.argv[1:]]
    warning = locale_.complaint(environment)
    charset = "ascii" if warning else locale_.codeset(environment)
    argv = [locale_.decoded(word, charset) for word in raw]
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
    os.environ["PATH"] = commands.PATH.decode()
    sys.stderr.buffer.write(warning)
    sys.stderr.flush()
    switches = settings.read(["pct", *argv], environment)
    switches.start_up()
    code = 0
    try:
        run(argv, commands.Context(given_environment(environment), switches.fault))
    except Failure as failure:
        sys.stdout.flush()
        sys.stderr.write(failure.text)
        code = failure.status
    sys.stdout.flush()
    sys.stderr.flush()
    sys.exit(code)
