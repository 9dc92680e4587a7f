# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kinds of interruption: whom or what each strikes, and what is put right before the next deploy."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lab import faults, processes
from tests.faults.place import ROOTS, Place


@dataclass(frozen=True)
class Blow:
    """What is at hand when the moment has come: where, and the command that is interrupted."""

    place: Place
    pid: int


@dataclass(frozen=True)
class Kind:
    """A kind of interruption.

    ``strike`` does it; False when there is nothing (yet) to strike. ``mend`` is done once the command has ended.
    ``weight`` says how often it is tried, compared with the others.
    """

    name: str
    strike: Callable[[Blow], bool]
    mend: Callable[[Place], None] = lambda place: None
    program: str = "ansible-playbook"
    root: str = "disk"
    weight: int = 3


def _kill(find: Callable[[Blow], Sequence[int]]) -> Callable[[Blow], bool]:
    return lambda blow: bool(processes.kill(find(blow)))


def _interrupt(blow: Blow) -> bool:
    """As a terminal does it: all that are in its foreground."""
    os.killpg(blow.pid, signal.SIGINT)
    return True


def _done(action: Callable[[Place], object]) -> Callable[[Blow], bool]:
    def strike(blow: Blow) -> bool:
        action(blow.place)
        return True

    return strike


def _start(place: Place) -> None:
    place.container.start()
    place.started()


def _fill(what: str) -> Callable[[Place], None]:
    return lambda place: faults.fill(place.container, ROOTS["small"], what)


def _empty(place: Place) -> None:
    faults.empty(place.container, ROOTS["small"])


def _reboot(place: Place) -> None:
    faults.reboot(place.container)
    place.started()


KINDS = (
    Kind("ansible-playbook", _kill(lambda blow: [blow.pid])),
    Kind("ansible-playbook and all its processes", _kill(lambda blow: blow.place.started_here())),
    Kind("trainops", _kill(lambda blow: [blow.pid]), program="trainops", weight=2),
    Kind("trainops and all its processes", _kill(lambda blow: blow.place.started_here()), program="trainops", weight=1),
    Kind("Ctrl-C in ansible-playbook", _interrupt, weight=2),
    Kind("Ctrl-C in trainops", _interrupt, program="trainops", weight=1),
    Kind("ssh", _kill(lambda blow: blow.place.ssh_clients())),
    Kind("ssh's shared connection", _kill(lambda blow: blow.place.masters()), weight=2),
    Kind("login on the node", _kill(lambda blow: processes.sessions(blow.place.container))),
    Kind("lxc-attach on the node", _kill(lambda blow: processes.attaches(blow.place.container))),
    Kind("worker in the container", _kill(lambda blow: processes.workers(blow.place.container)), weight=4),
    Kind("link cut", _done(lambda place: place.link.cut("reset")), weight=4),
    Kind("link silent", _done(lambda place: place.link.cut("silence")), weight=1),
    Kind("container stopped", _done(lambda place: place.container.stop()), _start, weight=2),
    Kind("container rebooted", _done(_reboot), weight=2),
    Kind(
        "container frozen",
        _done(lambda place: place.container.freeze()),
        lambda place: place.container.thaw(),
        weight=1,
    ),
    Kind("disk full", _done(_fill("bytes")), _empty, root="small"),
    Kind("no inodes left", _done(_fill("inodes")), _empty, root="small", weight=2),
)
