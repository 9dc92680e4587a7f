# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Starting a run's supervisor so that it outlives whoever started it: as a systemd unit, or as a process of its own."""

from __future__ import annotations

import os
import resource
import signal
import sys

from .gpus import find_tool

SUPERVISOR = "supervisor.py"
_SECONDS = 10.0
_BOOTED = "/run/systemd/system"
_LIMITS = {
    "LimitNOFILE": resource.RLIMIT_NOFILE,
    "LimitMEMLOCK": resource.RLIMIT_MEMLOCK,
    "LimitNPROC": resource.RLIMIT_NPROC,
    "LimitSTACK": resource.RLIMIT_STACK,
    "LimitCORE": resource.RLIMIT_CORE,
}
# What a run does must not depend on whether there is systemd: no task limit, and neither the death of one process nor
# that of the supervisor ends the others.
_PROPERTIES = (
    "KillMode=process",
    "OOMPolicy=continue",
    "TasksMax=infinity",
    "StandardInput=null",
    "StandardOutput=null",
    "StandardError=null",
)


def start_supervisor(folder: str, unit: str, systemd: str) -> tuple[str | None, str]:
    """Start the supervisor in a run's folder.

    ``systemd``: ``auto`` or ``never``. Returns the unit, or None where it is a process of its own, and why systemd did
    not take it where it should have.
    """
    argv = [sys.executable, "-ISB", os.path.join(folder, SUPERVISOR), folder]
    why = ""
    if systemd == "auto" and os.path.isdir(_BOOTED):
        why = _by_systemd(argv, unit)
        if not why:
            return unit, ""
    _by_itself(argv)
    return None, why


def unit_command(tool: str, argv: list[str], unit: str) -> list[str]:
    """The systemd-run call for a supervisor. systemd expands $ in the words of a command."""
    properties = [*_PROPERTIES, *(f"{name}={limit(kind)}" for name, kind in _LIMITS.items())]
    return [
        tool,
        "--quiet",
        "--collect",
        "--no-ask-password",
        f"--unit={unit}",
        f"--description=trainops run {os.path.basename(argv[-1])}",
        *(f"--property={one}" for one in properties),
        "--",
        *(word.replace("$", "$$") for word in [*argv, unit]),
    ]


def limit(kind: int) -> str:
    """A resource limit of this process as systemd writes it."""
    return ":".join("infinity" if one == resource.RLIM_INFINITY else str(one) for one in resource.getrlimit(kind))


def _by_systemd(argv: list[str], unit: str) -> str:
    """Start it as a transient unit; returns why that failed, or nothing."""
    tool = find_tool("systemd-run", os.environ.get("PATH", ""))
    if tool is None:
        return "there is no systemd-run"
    import subprocess

    try:
        done = subprocess.run(
            unit_command(tool, argv, unit), stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"systemd-run did not answer within {_SECONDS:g} s"
    except OSError as error:
        return f"{tool}: {error.strerror}"
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return "" if done.returncode == 0 else f"systemd-run: {said[-1] if said else f'exit status {done.returncode}'}"


def _by_itself(argv: list[str]) -> None:
    """Start it as a child that makes itself independent: it leaves our session, and whoever started it returns."""
    pid = os.posix_spawn(
        argv[0],
        argv,
        {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0),
            (os.POSIX_SPAWN_DUP2, 0, 1),
            (os.POSIX_SPAWN_DUP2, 0, 2),
        ],
        setsigmask=(),
        setsigdef=(signal.SIGPIPE, signal.SIGCHLD),
    )
    os.waitpid(pid, 0)
