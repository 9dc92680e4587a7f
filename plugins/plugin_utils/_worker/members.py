# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The processes of a run: found by everything that ties a process to it, and by nothing that others may share.

A process belongs to a run when its environment has the run's mark, when it descends from the run's process or its
supervisor, when it is in the session of the run's process, or in the control group of its unit. Some programs write
over their environment, and some leave their session: none of these alone would do.
"""

from __future__ import annotations

import os
import signal

from .runs import Run
from .secret import shown_words
from .supervise import MARK, boot, descendants, in_line, pids, start_of, stat_of, words_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST = 1 << 20
_SHELLS = ("ash", "bash", "busybox", "dash", "fish", "ksh", "mksh", "sh", "zsh")


class Member:
    """A process of a run, which its start time tells from any other that gets its PID later."""

    def __init__(self, pid: int, start: int) -> None:
        self.pid = pid
        self.start = start
        self.words = words_of(pid)

    @property
    def command(self) -> str:
        """Its command for people, without secrets."""
        return in_line(shown_words(self.words))

    def lives(self) -> bool:
        """Whether it is still there."""
        return start_of(self.pid) == self.start

    def send(self, number: int) -> bool:
        """Send it a signal, it and no other; whether it was there to get it."""
        try:
            handle = os.pidfd_open(self.pid) if hasattr(os, "pidfd_open") else -1
        except ProcessLookupError:
            return False
        except OSError:  # a kernel before 5.3
            handle = -1
        try:
            if not self.lives():
                return False
            if handle >= 0:
                signal.pidfd_send_signal(handle, number)
            else:
                os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        finally:
            if handle >= 0:
                os.close(handle)
        return True


def main_of(run: Run) -> Member | None:
    """The run's own process; None when it is gone."""
    return _living(run, "process")


def supervisor_of(run: Run) -> Member | None:
    """The run's supervisor; None when it is gone."""
    return _living(run, "supervisor")


def _living(run: Run, part: str) -> Member | None:
    known = run.record.get(part)
    if not known or not same_boot(run):
        return None
    member = Member(known["pid"], known["start"])
    return member if member.lives() else None


def same_boot(run: Run) -> bool:
    """Whether the container is the one that the run was started in, and not a later boot of it."""
    return bool(run.record.get("boot") == boot())


def find(run: Run) -> list[Member]:
    """The processes of a run that live, but for its supervisor, by PID; never those that we ourselves descend from."""
    if not same_boot(run):
        return []
    supervisor, main = supervisor_of(run), main_of(run)
    roots = {one.pid for one in (supervisor, main) if one}
    found = set(descendants(roots)) | ({main.pid} if main else set())
    mark = f"{MARK}={run.record['token']}".encode("ascii")
    unit = run.record.get("unit")
    for pid in pids():
        if pid not in found and (
            _is_marked(pid, mark) or (unit and _is_in(pid, unit)) or (main and _session(pid, main.pid))
        ):
            found.add(pid)
    # Whatever a process of the run has started belongs to it, whatever it did to its environment.
    found |= descendants(found)
    found -= {supervisor.pid if supervisor else 0, *ancestors(os.getpid())}
    members = ((pid, start_of(pid)) for pid in sorted(found))
    return [Member(pid, start) for pid, start in members if start is not None]


def kill(members: Iterable[Member], number: int) -> list[Member]:
    """Send a signal to processes; returns those that were there to get it."""
    return [member for member in members if member.send(number)]


def asked(main: Member) -> list[Member]:
    """Whom to ask when a run is to end: its process, which knows what it has started.

    But a shell tells nobody: it waits for its command, or ends at once without it.
    """
    found = [main]
    for one in found:
        if _is_shell(one.pid):
            children = [(pid, start_of(pid)) for pid in pids() if (stat_of(pid) or ["", "0"])[1] == str(one.pid)]
            found += [Member(pid, start) for pid, start in children if start is not None]
    return found


def _is_shell(pid: int) -> bool:
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe")) in _SHELLS
    except OSError:
        return False


def ancestors(pid: int) -> set[int]:
    """A process and what it descends from."""
    found: set[int] = set()
    while pid > 0 and pid not in found:
        found.add(pid)
        fields = stat_of(pid)
        pid = int(fields[1]) if fields else 0
    return found


def _is_marked(pid: int, mark: bytes) -> bool:
    return mark in _read(f"/proc/{pid}/environ").split(b"\0")


def _is_in(pid: int, unit: str) -> bool:
    lines = _read(f"/proc/{pid}/cgroup").decode("utf-8", "replace").splitlines()
    return any(unit in line.split("/") for line in lines)


def _session(pid: int, leader: int) -> bool:
    fields = stat_of(pid)
    return bool(fields) and int(fields[3]) == leader


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as stream:
            return stream.read(_MOST)
    except OSError:
        return b""
