# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What each command does."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

from . import containers, tasks, transfer
from .failure import Failure
from .locks import config_lock
from .options import EXTRA, Call, Syntax

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

PM = "/usr/share/perl5/PVE/CLI/pct.pm"
FILE_OPTIONS = {"user": "string", "group": "string", "perms": "string"}
PATH = b"/sbin:/bin:/usr/sbin:/usr/bin"  # what the real one sets for itself, and so for what it starts


class Context:
    """What a command may look at besides its own arguments."""

    def __init__(self, environment: dict[bytes, bytes], fault: dict[str, Any]) -> None:
        self.environment = environment
        self.fault = fault


def status(call: Call, context: Context) -> None:
    config = containers.config(call.vmid)
    values = {"status": "running" if containers.running(call.vmid) else "stopped"}
    if call.options.get("verbose") == "1":
        values = {**values, **_details(call.vmid, config)}
    for key, value in sorted(values.items()):
        print(f"{key}: {value}")


def _details(vmid: int, config: dict[str, str]) -> dict[str, str]:
    """Sizes in bytes, times in seconds. What the lab does not count (disk and network traffic) is 0."""
    counted = dict.fromkeys(("disk", "diskread", "diskwrite", "mem", "netin", "netout", "swap", "uptime"), 0)
    details = {
        "cpus": config.get("cores", "1"),
        "maxdisk": "0",
        "maxmem": str(int(config.get("memory", "512")) << 20),
        "maxswap": str(int(config.get("swap", "512")) << 20),
        "name": config.get("hostname", f"CT{vmid}"),
        "type": "lxc",
        "vmid": str(vmid),
    }
    if containers.running(vmid):
        pid = containers.init_pid(vmid)
        disk = os.statvfs(f"/proc/{pid}/root")
        counted["disk"] = (disk.f_blocks - disk.f_bfree) * disk.f_frsize
        details["maxdisk"] = str(disk.f_blocks * disk.f_frsize)
        ticks = time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK") - tasks.start_ticks(pid)
        counted["uptime"] = int(ticks / os.sysconf("SC_CLK_TCK"))
        with open(f"/proc/{pid}/statm", encoding="utf-8") as stream:
            counted["mem"] = int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        details["pid"] = str(pid)
    return {**details, **{key: str(value) for key, value in counted.items()}}


def list_(call: Call, context: Context) -> None:
    vmids = containers.known()
    row = "{:<10} {:<10} {:<12} {:<20}".format
    if vmids:
        print(row("VMID", "Status", "Lock", "Name"))
    for vmid in vmids:
        config = containers.config(vmid)
        state = "running" if containers.running(vmid) else "stopped"
        print(row(vmid, state, config.get("lock", ""), config.get("hostname", f"CT{vmid}")))


def config_(call: Call, context: Context) -> None:
    for key, value in sorted(containers.config(call.vmid).items()):
        print(f"{key}: {percent_encoded(value) if key == 'description' else value}")


def percent_encoded(text: str) -> str:
    return re.sub(r"[\x00-\x1f%\x7f]", lambda match: f"%{ord(match[0]):02X}", text)


def exec_(call: Call, context: Context) -> NoReturn:
    containers.config(call.vmid)
    if not call.extra:
        raise Failure(f"missing command at {PM} line 246.\n")
    if not containers.running(call.vmid):
        raise Failure(f"container '{call.vmid}' not running!\n")
    keep = "--clear-env" if call.options.get("keep-env") == "0" else "--keep-env"
    argv = ["lxc-attach", "-n", str(call.vmid), keep, "--", *call.extra]
    # The command inside finds SIGPIPE ignored, as Perl leaves it; Python's own addition is taken back.
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    sys.stdout.flush()
    os.execvpe("lxc-attach", [word.encode("utf-8", "replace") for word in argv], context.environment)


def push(call: Call, context: Context) -> None:
    with config_lock(call.vmid, float(context.fault.get("held_lock", 0))):
        if not containers.running(call.vmid):
            raise Failure("can only push files to a running CT\n")
        config = containers.config(call.vmid)
        pid = containers.init_pid(call.vmid)

        def work() -> None:
            source = transfer.open_source(call.arguments["file"])
            containers.Entrance(pid, config.get("unprivileged") == "1").enter()
            destination = transfer.create(call.arguments["destination"], transfer.Wish(call.options))
            transfer.copy(source, destination, context.fault)

        tasks.report(tasks.run("push_file", call.vmid, work))


def pull(call: Call, context: Context) -> None:
    with config_lock(call.vmid, float(context.fault.get("held_lock", 0))):
        if not containers.running(call.vmid):
            raise Failure(f"can only pull files from a running VM at {PM} line 664.\n")
        pid = containers.init_pid(call.vmid)
        unprivileged = os.stat(f"/proc/{pid}").st_uid != 0  # the real one does not look at the configuration

        def work() -> None:
            destination = transfer.create(call.arguments["destination"], transfer.Wish(call.options))
            containers.Entrance(pid, unprivileged).enter()
            transfer.copy(transfer.open_inside(call.arguments["path"]), destination, context.fault)

        tasks.report(tasks.run("pull_file", call.vmid, work))


def _may_change(call: Call) -> dict[str, str]:
    config = containers.config(call.vmid)
    if "lock" in config and call.options.get("skiplock") != "1":
        raise Failure(f"CT is locked ({config['lock']})\n")
    return config


def start(call: Call, context: Context) -> None:
    if containers.running(call.vmid):
        containers.config(call.vmid)
        raise Failure(f"CT {call.vmid} already running\n")
    if _may_change(call).get("template") == "1":
        raise Failure("you can't start a CT if it's a template\n")
    _change_state("vzstart", call, ["lxc-start", "-n", str(call.vmid)], f"startup for container '{call.vmid}' failed\n")


def stop(call: Call, context: Context) -> None:
    containers.config(call.vmid)
    if not containers.running(call.vmid):
        raise Failure(f"CT {call.vmid} not running\n")
    _may_change(call)
    _change_state("vzstop", call, ["lxc-stop", "-n", str(call.vmid), "--kill"], "")


def _change_state(kind: str, call: Call, argv: list[str], failed: str) -> None:
    """Start or stop: a task whose failure is the command's."""

    def work() -> None:
        with config_lock(call.vmid):
            # an environment of its own: the worker's title lies over the inherited one
            environment = {"PATH": PATH.decode()}
            code = subprocess.run(argv, env=environment, stdin=subprocess.DEVNULL, check=False).returncode
        if code:
            raise Failure(failed or f"command '{' '.join(argv)}' failed: exit code {code}\n")

    text = tasks.run(kind, call.vmid, work)
    if text:
        raise Failure(text)


class Command:
    """A command: how it is called and what it does."""

    def __init__(self, syntax: Syntax, run: Callable[[Call, Context], None]) -> None:
        self.syntax = syntax
        self.run = run


COMMANDS = {
    command.syntax.name: command
    for command in (
        Command(Syntax("config", options={"current": "boolean", "snapshot": "string"}), config_),
        Command(Syntax("exec", ("vmid", EXTRA), {"keep-env": "boolean"}), exec_),
        Command(Syntax("list", ()), list_),
        Command(Syntax("pull", ("vmid", "path", "destination"), FILE_OPTIONS), pull),
        Command(Syntax("push", ("vmid", "file", "destination"), FILE_OPTIONS), push),
        Command(Syntax("start", options={"debug": "boolean", "skiplock": "boolean"}), start),
        Command(Syntax("status", options={"verbose": "boolean"}), status),
        Command(Syntax("stop", options={"overrule-shutdown": "boolean", "skiplock": "boolean"}), stop),
    )
}

# How the real one lists its commands when it does not know one; a line of its own for each group.
LISTED = (
    """clone <vmid> <newid> [OPTIONS]
create <vmid> <ostemplate> [OPTIONS]
destroy <vmid> [OPTIONS]
list\x20
migrate <vmid> <target> [OPTIONS]
move-volume <vmid> <volume> [<storage>] [<target-vmid>] [<target-volume>] [OPTIONS]
pending <vmid>
resize <vmid> <disk> <size> [OPTIONS]
restore <vmid> <ostemplate> [OPTIONS]
template <vmid>""",
    """config <vmid> [OPTIONS]
set <vmid> [OPTIONS]""",
    """delsnapshot <vmid> <snapname> [OPTIONS]
listsnapshot <vmid>
rollback <vmid> <snapname> [OPTIONS]
snapshot <vmid> <snapname> [OPTIONS]""",
    """reboot <vmid> [OPTIONS]
resume <vmid>
shutdown <vmid> [OPTIONS]
start <vmid> [OPTIONS]
stop <vmid> [OPTIONS]
suspend <vmid>""",
    """console <vmid> [OPTIONS]
enter <vmid> [OPTIONS]
exec <vmid> [<extra-args>] [OPTIONS]
pull <vmid> <path> <destination> [OPTIONS]
push <vmid> <file> <destination> [OPTIONS]""",
    """cpusets\x20
df <vmid>
fsck <vmid> [OPTIONS]
fstrim <vmid> [OPTIONS]
mount <vmid>
rescan  [OPTIONS]
status <vmid> [OPTIONS]
unlock <vmid>
unmount <vmid>""",
    "help [<extra-args>] [OPTIONS]",
)


def usage() -> str:
    groups = ("".join(f"       pct {line}\n" for line in group.split("\n")) for group in LISTED)
    return "USAGE: pct <COMMAND> [ARGS] [OPTIONS]\n\n" + "\n".join(groups)


def names() -> list[str]:
    """Every command of the real one."""
    return [line.split(" ")[0] for group in LISTED for line in group.split("\n")]
