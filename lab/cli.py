# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The command: python -m lab up | down | status | ssh | hold | fault …"""

from __future__ import annotations

import argparse
import json
import os
import sys

from . import api, cli_faults, cluster, holding, instance, inventory, spec
from .errors import LabError


def main(argv: list[str] | None = None) -> None:
    """Run the command line; exits with 1 and one message when it fails."""
    options = _parser().parse_args(argv)
    try:
        sys.exit(options.run(options))
    except LabError as exc:
        sys.exit(f"lab: {exc}")
    except KeyboardInterrupt:
        sys.exit(130)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m lab",
        description="A one-machine stand-in of a Proxmox VE cluster. TRAINOPS_LAB=name selects a lab of its own.",
    )
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    up = verbs.add_parser("up", help="bring the lab to its declared state, also after a crash")
    up.set_defaults(run=_up)
    down = verbs.add_parser("down", help="end the lab and remove all that it made but the cached roots")
    down.add_argument("--purge", action="store_true", help="remove the cached roots too")
    down.set_defaults(run=_down)
    status = verbs.add_parser("status", help="what is up; exit status 1 when it is not all as declared")
    status.add_argument("--json", action="store_true", help="as JSON")
    status.set_defaults(run=_status)
    ssh = verbs.add_parser("ssh", help="log in on a node, or run a command there")
    ssh.add_argument("node", choices=[node.name for node in spec.NODES])
    ssh.add_argument("command", nargs=argparse.REMAINDER)
    ssh.set_defaults(run=_ssh)
    hold = verbs.add_parser("hold", help="hold memory on a GPU until interrupted")
    hold.add_argument("target", help="a container (201) or a node (pve1)")
    hold.add_argument("options", nargs=argparse.REMAINDER, help="--gpu INDEX (as seen there) --mib N | --no-memory")
    hold.set_defaults(run=_hold)
    reset = verbs.add_parser("reset", help="make a container as new, in its declared state")
    reset.add_argument("vmid", type=int, choices=[container.vmid for container in spec.CONTAINERS])
    reset.set_defaults(run=_reset)
    cli_faults.add(verbs)
    return parser


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _up(options: argparse.Namespace) -> int:
    lab = cluster.up(instance.selected_name(), _say)
    where = ", ".join(f"{node.name} {lab.address(node.name)}:{lab.port}" for node in spec.NODES)
    print(f"lab {lab.name} is up: {where}\ninventory {inventory.path(lab)}")
    return 0


def _down(options: argparse.Namespace) -> int:
    name = instance.selected_name()
    cluster.down(name, purge=options.purge)
    print(f"lab {name} is down")
    return 0


def _status(options: argparse.Namespace) -> int:
    found = cluster.status(instance.selected_name())
    if options.json:
        print(json.dumps(found, indent=1))
        return 0 if found["up"] else 1
    print(f"lab {found['name']}: {'up' if found['up'] else 'not up'}")
    for name, node in found["nodes"].items():
        state = "up" if node["pid"] else "down"
        print(f"  {name:5} {node['address']:16} {state}{'' if node['ssh'] else ', no OpenSSH server'}")
    if found["api"]:
        served = "up" if found["api"]["running"] else "not served"
        print(f"  api   {found['api']['address']:16} {served}")
    for vmid, guest in found["containers"].items():
        print(f"  {vmid:5} {guest['node']:16} {guest['state'].lower():10} {guest['name']}")
    return 0 if found["up"] else 1


def _ssh(options: argparse.Namespace) -> int:
    argv = api.open_lab().ssh_args(options.node)
    os.execvp(argv[0], [*argv, *options.command])


def _hold(options: argparse.Namespace) -> int:
    argv = holding.command(api.open_lab().target(options.target), options.options)
    os.execvp(argv[0], argv)


def _reset(options: argparse.Namespace) -> int:
    api.open_lab().container(options.vmid).reset()
    print(f"container {options.vmid} is as new")
    return 0
