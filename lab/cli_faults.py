# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The command's faults: python -m lab fault … Each lasts until Ctrl-C, then all is as before."""

from __future__ import annotations

import argparse
import contextlib
import signal
from collections.abc import Iterator
from typing import Any

from . import api, faults, processes, spec
from .errors import LabError
from .link import link
from .quota import quota

#: What `kill` strikes on the way into a container.
_ON_THE_WAY = {"login": processes.sessions, "attach": processes.attaches, "worker": processes.workers}
_NODES = [node.name for node in spec.NODES]
_VMIDS = [container.vmid for container in spec.CONTAINERS]


def add(verbs: Any) -> None:
    """Add the verb to the parser's."""
    kinds = verbs.add_parser("fault", help="have a fault until interrupted").add_subparsers(required=True)
    one = _kind(kinds, "link", "node", "a link to a node that can be cut: prints where it listens")
    one.add_argument("--after", type=int, metavar="BYTES", help="cut it once so many bytes have gone one way")
    one.add_argument("--way", choices=["node", "controller"], default="node", help="to which end they go [node]")
    one.add_argument("--how", choices=["reset", "silence"], default="reset", help="how it ends [reset]")
    one.add_argument("--port", type=int, default=0, help="the port to listen on [any]")
    one = _kind(kinds, "disk", "vmid", "a small disk on a folder in a container")
    one.add_argument("folder")
    one.add_argument("--size", type=int, default=0, metavar="BYTES", help="of so many bytes")
    one.add_argument("--inodes", type=int, default=0, help="of so many inodes")
    one.add_argument("--read-only", action="store_true", help="that cannot be written")
    one.add_argument("--quota", type=int, metavar="BYTES", help="with much room, of which so many bytes may be used")
    one.add_argument("--full", choices=["bytes", "inodes"], help="of which nothing is left")
    one = _kind(kinds, "pct", "node", "a node's pct that is slow or broken")
    one.add_argument("--match", default="", metavar="WORDS", help='only for command lines with "push 200", say')
    one.add_argument("--copy-bytes", type=int, help="a copy ends after so many bytes and says nothing")
    one.add_argument("--copy-rate", type=int, help="bytes a second of a copy")
    one.add_argument("--held-lock", type=float, metavar="SECONDS", help="the configuration lock is taken for so long")
    one.add_argument("--slow", type=float, metavar="SECONDS", help="it waits so long after its start")
    one.add_argument("--exit", type=int, metavar="STATUS", help="it ends with this and does nothing")
    one.add_argument("--stderr", metavar="TEXT", help="and says this")
    _kind(kinds, "frozen", "vmid", "a container that stands still")
    _kind(kinds, "stopped", "vmid", "a container that is stopped")
    _kind(kinds, "rebooted", "vmid", "a container that is stopped at once and started again (does not last)")
    _kind(kinds, "gone", "node", "a node that refuses connections")
    _kind(kinds, "hung", "node", "a node that accepts connections and answers nothing")
    one = _kind(kinds, "kill", "vmid", "kill what is on the way into a container (does not last)")
    one.add_argument("what", choices=sorted(_ON_THE_WAY))


def _kind(kinds: Any, name: str, target: str, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = kinds.add_parser(name, help=text)
    if target == "vmid":
        parser.add_argument(target, type=int, choices=_VMIDS)
    else:
        parser.add_argument(target, choices=_NODES)
    parser.set_defaults(run=_run, kind=name)
    return parser


def _run(options: argparse.Namespace) -> int:
    """Have the fault until SIGINT or SIGTERM."""
    with contextlib.ExitStack() as stack:
        said = stack.enter_context(_fault(api.open_lab(), options))
        print(said, flush=True)
        if options.kind not in ("kill", "rebooted"):
            signal.sigwait({signal.SIGINT, signal.SIGTERM})
    return 0


@contextlib.contextmanager
def _fault(lab: api.Lab, options: argparse.Namespace) -> Iterator[str]:
    """The fault while the block lasts; gives what is said of it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    if "node" in options:
        with _of_node(lab, options) as said:
            yield said
    else:
        with _of_container(lab.container(options.vmid), options) as said:
            yield said


@contextlib.contextmanager
def _of_node(lab: api.Lab, options: argparse.Namespace) -> Iterator[str]:
    node = lab.node(options.node)
    if options.kind == "link":
        with link(lab.instance, node.name, options.port) as made:
            if options.after is not None:
                made.arm(options.way, options.after, lambda: made.cut(options.how))
            yield f"{node.name} by {made.address} port {made.port}, until Ctrl-C"
    elif options.kind == "pct":
        names = ("copy_bytes", "copy_rate", "held_lock", "slow", "exit", "stderr")
        fault = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
        if not fault:
            raise LabError("name a fault: --copy-bytes, --copy-rate, --held-lock, --slow, --exit or --stderr")
        with faults.pct(node, match=options.match, **fault):
            yield f"pct on {node.name} has that fault, until Ctrl-C"
    else:
        with {"gone": faults.gone, "hung": faults.hung}[options.kind](node):
            yield f"{node.name} is {options.kind}, until Ctrl-C"


@contextlib.contextmanager
def _of_container(container: api.Container, options: argparse.Namespace) -> Iterator[str]:
    vmid = container.vmid
    if options.kind == "kill":
        killed = processes.kill(_ON_THE_WAY[options.what](container))
        yield f"killed {len(killed)} processes on the way into {vmid}"
    elif options.kind == "rebooted":
        faults.reboot(container)
        yield f"{vmid} was rebooted"
    elif options.kind == "disk":
        with contextlib.ExitStack() as stack:
            sizes = {"size": options.size, "inodes": options.inodes, "read_only": options.read_only}
            if options.quota:
                stack.enter_context(quota(container, options.folder, options.quota))
            else:
                stack.enter_context(faults.disk(container, options.folder, **sizes))
            if options.full:
                stack.enter_context(faults.full(container, options.folder, options.full))
            yield f"{options.folder} in {vmid} is a disk of its own, until Ctrl-C"
    else:
        with {"frozen": faults.frozen, "stopped": faults.stopped}[options.kind](container):
            yield f"{vmid} is {options.kind}, until Ctrl-C"
