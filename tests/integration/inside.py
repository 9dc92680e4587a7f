# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Commands in the lab's containers, and folders there for the time of a test."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from lab.api import open_lab


def inside(vmid: int, *argv: str, stdin: bytes = b"") -> str:
    """What a command in a container prints; it must succeed."""
    done = open_lab().container(vmid).run(argv, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def shell(vmid: int, script: str, *argv: str) -> str:
    """What a script in a container prints; it must succeed."""
    return inside(vmid, "sh", "-ec", script, "sh", *argv)


@contextlib.contextmanager
def folder_in(vmids: Iterable[int], name: str) -> Iterator[str]:
    """A folder /srv/NAME in each container, gone afterwards with all that was mounted below it."""
    folder = f"/srv/{name}"
    for vmid in vmids:
        inside(vmid, "mkdir", folder)
    yield folder
    for vmid in vmids:
        shell(vmid, 'grep -F " $1" /proc/mounts | cut -d" " -f2 | sort -r | xargs -r umount; rm -rf "$1"', folder)
