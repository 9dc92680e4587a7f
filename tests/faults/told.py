# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Faults of each kind, what was done, and the very words that a user then sees.

A test has every row on the lab; ``python -m tests.faults.told`` writes them to docs/faults.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "faults.md"
NODE = "127.0.0.11"  # as the docs show the lab's pve1

OLD = "what was live"
EITHER = "what was live or the new release, whole"


@dataclass(frozen=True)
class Told:
    """A row: what happened, in whose hands, and what the command then says.

    ``fault`` is the name of a kind of interruption, or of a state that is there from the start (``given``). ``message``
    is what stands behind the words of host and step; an ellipsis stands for what differs from time to time. ``end`` is
    when the command ends, counted from the fault.
    """

    what: str
    fault: str
    message: str
    status: int
    end: str = "at once"
    live: str = OLD
    given: bool = False
    vmid: int = 200
    extra: tuple[str, ...] = ()
    slow: bool = False


_RUN_AGAIN = "look at the link and at the node's sshd, then run again. ssh said: …"
_LOST = f"controller -> node: the connection to root@{NODE} ended while the command ran: {_RUN_AGAIN}"
_WORKER = f"in container 200 (on root@{NODE}): the worker ended without a result"
_KILLED = (
    f"{_WORKER} (signal 9, SIGKILL): was the container stopped, or its memory used up (dmesg on the node)? Run again"
)
_SILENT = (
    f"{_WORKER} (no sign of life for 30 s, so it was ended): is the container frozen, or the link to its node down? "
    "Run again when it is not"
)
_NO_ANSWER = (
    f"controller -> node: root@{NODE} does not answer: check ansible_host and ansible_port, and that the node is up "
    "and runs sshd. ssh said: "
)
_CANCELED = (
    "trainops: canceled, nothing of it goes on; on ct200 what was live or what was to be is live, and all of it: "
    "trainops status tells"
)
ROWS = (
    Told("ansible-playbook is killed", "ansible-playbook", "", -9, live=EITHER),
    Told(
        "ansible-playbook is killed with all its processes",
        "ansible-playbook and all its processes",
        "",
        -9,
        live=EITHER,
    ),
    Told("trainops is killed", "trainops", "", -9, live=EITHER),
    Told(
        "Ctrl-C in ansible-playbook",
        "Ctrl-C in ansible-playbook",
        "[ERROR]: User interrupted execution",
        99,
        live=EITHER,
    ),
    Told("Ctrl-C in trainops", "Ctrl-C in trainops", _CANCELED, 130, live=EITHER),
    Told("The ssh client is killed", "ssh", _LOST, 4, live=EITHER),
    Told("ssh's shared connection is killed", "ssh's shared connection", _LOST, 4, live=EITHER),
    Told("The login on the node is killed", "login on the node", _LOST, 4, live=EITHER),
    Told("lxc-attach on the node is killed", "lxc-attach on the node", f"{_KILLED}. It said: Killed", 4, live=EITHER),
    Told("The worker in the container is killed", "worker in the container", _KILLED, 4),
    Told("The link to the node is cut", "link cut", _LOST, 4, live=EITHER),
    Told("The link falls silent", "link silent", _SILENT, 4, "after 30 s of silence", EITHER, vmid=210, slow=True),
    Told("The container is stopped", "container stopped", _KILLED, 4, vmid=201),
    Told("The container is rebooted", "container rebooted", _KILLED, 4, vmid=201),
    Told("The container is frozen", "container frozen", _SILENT, 4, "after 30 s of silence", vmid=201, slow=True),
    Told(
        "The disk gets full",
        "disk full",
        "below /root: No space left on device: free space or inodes on its file system",
        2,
    ),
    Told(
        "The inodes get used up",
        "no inodes left",
        "below /root (…): No space left on device: free space or inodes on its file system",
        2,
    ),
    Told(
        "There is no room for the release",
        "bytes",
        "/root has … free, the release needs …: free space there, or lower training_keep_releases (old releases are in "
        "/root/.trainops/demo/releases)…",
        2,
        given=True,
    ),
    Told(
        "There are not enough inodes",
        "inodes",
        "/root has … inodes free, the release needs …: free space there, or lower training_keep_releases (old releases "
        "are in /root/.trainops/demo/releases)…",
        2,
        given=True,
    ),
    Told(
        "The quota is used up",
        "quota",
        "below /root: Disk quota exceeded: the quota is used up: free space or raise it",
        2,
        given=True,
    ),
    Told(
        "The file system is read-only",
        "read-only",
        "below /root: Read-only file system: its file system is mounted read-only: remount it, or choose another "
        "training_root",
        2,
        given=True,
    ),
    Told(
        "The container is stopped",
        "stopped",
        f"node -> container: on pve1 (root@{NODE}) container 200 is stopped: start it with pct start 200",
        4,
        given=True,
        vmid=201,
    ),
    Told(
        "The container is frozen",
        "frozen",
        f"node -> container: on pve1 (root@{NODE}) container 200 is frozen (suspended, or being backed up): resume it "
        "with lxc-unfreeze -n 200",
        4,
        given=True,
        vmid=201,
    ),
    Told(
        "The node is gone",
        "gone",
        f"{_NO_ANSWER}ssh: connect to host {NODE} port 22: Connection refused",
        4,
        given=True,
        vmid=210,
    ),
    Told(
        "The node hangs",
        "hung",
        f"{_NO_ANSWER}Connection to {NODE} port 22 timed out",
        4,
        "after 10 s (Ansible's timeout)",
        given=True,
        vmid=210,
        slow=True,
    ),
    Told(
        "pct on the node is broken",
        "pct",
        f"node -> container: pct could not run a command in container 200 on root@{NODE}: Unable to load access "
        "control list: Connection refused",
        4,
        given=True,
        vmid=210,
        extra=("-e", "proxmox_enter=pct"),
    ),
)


def page() -> str:
    """The text of docs/faults.md."""
    rows = [
        [
            one.what + ", from the start" * one.given,
            one.message or "nothing more",
            f"{one.end}, {_status(one)}",
            one.live,
        ]
        for one in ROWS
    ]
    head = [["when", "what it says", "it ends", "live then"], ["---"] * 4]
    return "\n".join([_HEAD, *(f"| {' | '.join(cells)} |" for cells in [*head, *rows]), "", _TAIL])


def _status(one: Told) -> str:
    return f"status {one.status}" if one.status >= 0 else f"signal {-one.status}"


_HEAD = f"""\
# Faults

What a deploy says when something is taken away from it, tried on the repository's lab: node pve1 is {NODE}, the
container is 200, training_root is /root. A test has every fault and compares the words; this page is written from its
table by `make docs`. An ellipsis stands for ssh's own words, a file's name or a number.

A fault comes in the middle of the release, while files are written in the container and most is unfinished, unless it
says "from the start".
"""
_TAIL = """\
Whatever the fault was, the next deploy is an ordinary one: start it when the container can be reached again. It removes
what the interrupted one left (a folder `.stage-…` beside the releases), takes the lock, which nobody holds any more,
and makes the project live. Nothing has to be cleaned up by hand.

- A worker in the container ends with its controller: at once when the connection ends, after 40 s when the link fell
  silent. Then nothing of it runs, and its lock is free.
- A silence that begins before the worker's first word is waited for 60 s instead of 30.
- What cannot be put away once the new release is live, as on a disk that is full then, is a warning and no failure; the
  next deploy does it.
- A rollback to "what was live before" that loses its answer says so and not to run it again, which might undo it.
- Room and inodes are looked at before anything is sent.
- A killed `ansible-playbook` leaves what is Ansible's own in its temporary folder (an empty folder `ansible-local-…`).
  What a killed `trainops` kept there, the next `trainops` removes.

`make faults SEED=1 COUNT=400` has such faults at random moments over the whole deploy, in all kinds of containers, with
a reader that imports the whole project meanwhile, and counts mixed reads, false successes and leftovers: none may be,
and of these 400 none was.
"""

if __name__ == "__main__":
    PAGE.write_text(page())
