# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The GPUs as seen from inside the container: raw texts only, the controller makes sense of them.

A driver that is stuck leaves nvidia-smi in a sleep that not even SIGKILL ends, so nothing here ever waits for a child
without a limit, and none is started beside one that already hangs.
"""

from __future__ import annotations

import os
import re
import resource
import select
import signal
import stat
import time

from .marked import marks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .channel import Channel

_PLACES = ("/usr/bin", "/usr/local/bin", "/bin", "/usr/sbin", "/usr/local/nvidia/bin", "/opt/nvidia/bin")
# With a huge limit (containers often have 2**30) nvidia-smi can take half a minute to close what is not open.
_OPEN_FILES = 1024
_REAP_SECONDS = 1.0
_MOST_TEXT = 4 * 1024 * 1024


def run(channel: Channel, params: dict[str, Any]) -> dict[str, Any]:
    """The operation ``gpus``: see :func:`read`."""
    return read(params)


def read(params: dict[str, Any]) -> dict[str, Any]:
    """Ask nvidia-smi, and look which processes have GPUs open.

    ``params``: ``nvidia_smi`` (name or path), ``timeout`` (seconds for it), ``queries`` (its arguments, one call each,
    started together).

    Returns ``answers`` (one for each query: exit, text, seconds, timed_out, unkillable, stuck), ``processes`` (by PID:
    stat, cmdline, opened = minor numbers of the GPUs whose device file it has open and mapped), ``hidden`` (how many
    processes could not be looked at), ``devices`` (the N of /dev/nvidiaN), ``information`` and ``version`` (the
    driver's texts in /proc), ``now`` (seconds since boot), ``runs`` (by PID: the run of ours that it belongs to),
    ``given`` (by run: the numbers of the GPUs that it was started on).
    """
    name, timeout = params["nvidia_smi"], float(params["timeout"])
    tool = find_tool(name, os.environ.get("PATH", ""))
    stuck = find_stuck(os.path.basename(name), timeout)
    if tool is None or stuck is not None:
        why = "there is no %s: set option nvidia_smi to its path there" % (
            name if "/" in name else "nvidia-smi on the PATH"
        )
        answers = [_no_answer(why if stuck is None else "", stuck) for _query in params["queries"]]
        children = []
    else:
        children = [Child([tool, query, "--format=csv"]) for query in params["queries"]]
        answers = []
    opened, hidden = find_opened({child.pid for child in children})
    answers = answers or gather(children, timeout)
    runs, given = marks()
    pids = set(opened).union(*(listed(answer["text"]) for answer in answers))
    return {
        "answers": answers,
        "processes": {str(pid): dict(files, opened=opened.get(pid, [])) for pid, files in describe(pids)},
        "hidden": hidden,
        "devices": sorted(known_devices().values()),
        "information": {
            address: _text("/proc/driver/nvidia/gpus/%s/information" % address)
            for address in _names("/proc/driver/nvidia/gpus")
        },
        "version": _text("/proc/driver/nvidia/version"),
        "now": time.clock_gettime(time.CLOCK_BOOTTIME),
        "runs": runs,
        "given": given,
    }


def find_tool(name: str, path: str) -> str | None:
    """The program ``name`` means: itself when it is a path, otherwise found on PATH or where drivers put it."""
    places = [""] if "/" in name else [*path.split(":"), *_PLACES]
    for place in places:
        full = os.path.join(place, name)
        if os.path.isfile(full) and os.access(full, os.X_OK):
            return full
    return None


def find_stuck(name: str, older_than: float) -> int | None:
    """A program of that name that has been in uninterruptible sleep for longer than it would have been given."""
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    for pid in _pids():
        before, _paren, after = _text("/proc/%d/stat" % pid).rpartition(")")
        fields = after.split()
        if before.partition("(")[2] == name[:15] and fields[:1] == ["D"]:
            started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
            if now - started > older_than:
                return pid
    return None


def _no_answer(text: str, stuck: int | None) -> dict[str, Any]:
    status = 127 if stuck is None else None
    return {"exit": status, "text": text, "seconds": 0.0, "timed_out": False, "unkillable": False, "stuck": stuck}


class Child:
    """A started program whose output is collected; it holds no descriptor of ours but one end of a pipe."""

    def __init__(self, argv: list[str]) -> None:
        self.output, write_end = os.pipe()
        os.set_blocking(self.output, False)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        few = _OPEN_FILES if soft == resource.RLIM_INFINITY else min(soft, _OPEN_FILES)
        resource.setrlimit(resource.RLIMIT_NOFILE, (few, hard))
        _keep_descriptors()
        try:
            self.started = time.monotonic()
            self.pid = os.posix_spawn(
                argv[0],
                argv,
                dict(os.environ, LC_ALL="C"),
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, write_end, 1),
                    (os.POSIX_SPAWN_DUP2, write_end, 2),
                ],
                setsigdef=[signal.SIGPIPE],  # Python ignores it, and a child would inherit that
            )
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            os.close(write_end)
        self.text = bytearray()
        self.status: int | None = None
        self.seconds = 0.0

    def read(self) -> bool:
        """Take all that has arrived; False at the end of the output."""
        while True:
            try:
                data = os.read(self.output, 1 << 16)
            except BlockingIOError:
                return True
            if not data:
                return False
            if len(self.text) < _MOST_TEXT:
                self.text += data

    def reap(self) -> bool:
        """Whether it has ended (asked without waiting)."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
                self.seconds = time.monotonic() - self.started
        return self.status is not None


def _ended(children: list[Child]) -> bool:
    states = [child.reap() for child in children]
    return all(states)


def _keep_descriptors() -> None:
    """A child that hangs for ever must not keep open what whoever started us left open."""
    for number in _names("/proc/self/fd"):
        try:
            os.set_inheritable(int(number), int(number) < 3)
        except OSError:
            continue  # the one that listed the folder


def gather(children: list[Child], timeout: float) -> list[dict[str, Any]]:
    """Every child's answer, at the latest a second after ``timeout`` even if one cannot be killed."""
    deadline = time.monotonic() + timeout
    in_time = _collect(children, deadline)
    late = [child for child in children if not in_time or child.status is None]
    for child in late:
        if child.status is None:
            os.kill(child.pid, signal.SIGKILL)
    give_up = time.monotonic() + _REAP_SECONDS
    while not _ended(late) and time.monotonic() < give_up:
        time.sleep(0.01)
    return [_answer(child, child in late) for child in children]


def _collect(children: list[Child], deadline: float) -> bool:
    """Read until all have ended and closed their output; False when the deadline came first."""
    poll = select.poll()
    reading = {child.output: child for child in children}
    for descriptor in reading:
        poll.register(descriptor, select.POLLIN)
    while reading or not _ended(children):
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        # A child's end is no event of a pipe that its own child still holds: look for both.
        for descriptor, _event in poll.poll(min(left, 0.02 if not reading else 0.2) * 1000):
            if not reading[descriptor].read():
                poll.unregister(descriptor)
                del reading[descriptor]
        if _ended(children):
            for child in reading.values():
                child.read()
            return True
    return True


def _answer(child: Child, late: bool) -> dict[str, Any]:
    os.close(child.output)
    return {
        "exit": None if late else child.status,
        "text": child.text.decode("utf-8", "replace"),
        "seconds": round(child.seconds or time.monotonic() - child.started, 3),
        "timed_out": late,
        "unkillable": child.status is None,
        "stuck": None,
    }


def listed(text: str) -> set[int]:
    """The PIDs in an answer's list of processes, to look them up while they live."""
    return {int(pid) for pid in re.findall(r"^(?:GPU|MIG)-[^,]*, (\d+),", text, re.MULTILINE)}


def known_devices(dev: str = "/dev") -> dict[tuple[int, ...], int]:
    """The GPUs' device files here: what identifies each, to its minor number."""
    found = {}
    for name in _names(dev):
        match = re.match(r"nvidia(\d+)$", name)
        if match:
            identity = _identity(os.path.join(dev, name))
            if identity:
                found[identity] = identity[1] if len(identity) == 2 else int(match.group(1))
    return found


def _identity(path: str) -> tuple[int, ...] | None:
    """Major and minor of a device; device and inode of anything else (as three numbers, to tell them apart)."""
    try:
        info = os.stat(path)
    except OSError:
        return None
    if stat.S_ISCHR(info.st_mode):
        return os.major(info.st_rdev), os.minor(info.st_rdev)
    return 0, info.st_dev, info.st_ino


def find_opened(leave_out: set[int]) -> tuple[dict[int, list[int]], int]:
    """The GPUs (minor numbers) that each process has open and mapped, and how many processes could not be looked at.

    Whoever asks NVML opens all device files as well, but only CUDA maps them, as soon as it is initialised: seconds
    before the process owns memory.
    """
    known, found, hidden = known_devices(), {}, 0
    for pid in _pids():
        if pid in leave_out:
            continue
        try:
            descriptors = os.listdir("/proc/%d/fd" % pid)
        except PermissionError:
            hidden += 1
            continue
        except OSError:
            continue
        links = {_target("/proc/%d/fd/%s" % (pid, number)): number for number in descriptors}
        names = [name for name in links if re.search(r"/dev/nvidia\d+$", name)]
        if names:
            mapped = re.findall(r"/dev/nvidia\d+$", _text("/proc/%d/maps" % pid), re.MULTILINE)
            both = [name for name in names if name[name.rindex("/dev/") :] in mapped]
            minors = {known.get(_identity("/proc/%d/fd/%s" % (pid, links[name])) or ()) for name in both}
            if minors - {None}:
                found[pid] = sorted(minor for minor in minors if minor is not None)
    return found, hidden


def describe(pids: set[int]) -> Iterator[tuple[int, dict[str, Any]]]:
    """What /proc says of each process that still lives."""
    for pid in sorted(pids):
        text = _text("/proc/%d/stat" % pid)
        if text:
            yield pid, {"stat": text.strip(), "cmdline": _text("/proc/%d/cmdline" % pid)[:4096]}


def _pids() -> list[int]:
    return [int(name) for name in _names("/proc") if name.isdigit()]


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _target(link: str) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""


def _text(path: str) -> str:
    """A small file of /proc; empty when it is gone or not ours to read."""
    try:
        with open(path, "rb") as stream:
            return stream.read().decode("utf-8", "replace")
    except OSError:
        return ""
