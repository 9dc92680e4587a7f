# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What starts a run, waits for it and writes its exit record: ``python -I -S -B supervisor.py FOLDER [UNIT]``.

The source of this file is written into the folder of each run and started there, so it needs nothing but the standard
library, and no deploy or update can change what watches a run that lives. It is told what to start through a named
pipe, which leaves nothing on the disk; whatever it writes goes into space that was reserved before, so that a full disk
cannot lose it. It keeps its lock until the last process of the run is gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

FORMAT = 1
RECORD, LOG, LOCK, ORDER = "run.json", "log", "lock", "order"
STARTED, STOPPED, EXIT = "started.json", "stopped.json", "exit.json"
RESERVED = {STARTED: 4 << 10, STOPPED: 4 << 10, EXIT: 64 << 10}
MARK = "TRAINOPS_RUN"
ORDER_SECONDS = 20.0

_PR_SET_CHILD_SUBREAPER = 36
_LINES, _LINE_BYTES = 40, 8 << 10
_LEFT_SECONDS, _LEFT_OVER, _LEFT_TEXT = 0.2, 20, 120
_WORDS_BYTES = 1 << 17
_RETRY_SECONDS = (0.1, 30.0)
_LOCK_SECONDS = 2.0
_NOTE_SECONDS = 0.5
_CGROUPS = "/sys/fs/cgroup"
_PLAIN = os.O_NOFOLLOW | os.O_CLOEXEC


def boot() -> str:
    """What tells this boot of this container from any other: the kernel's boot id and the start time of PID 1."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as stream:
        return f"{stream.read().strip()}:{start_of(1)}"


def start_of(pid: int) -> int | None:
    """When a process started, in clock ticks since the kernel's boot; None when it is gone or only not waited for.

    One whose first thread has ended looks like that too, and lives on in its others.
    """
    fields = stat_of(pid)
    if not fields or (fields[0] in ("Z", "X") and not _other_threads(pid)):
        return None
    return int(fields[19])


def _other_threads(pid: int) -> bool:
    """Whether a thread of a process lives beside its first one."""
    try:
        threads = [int(name) for name in os.listdir(f"/proc/{pid}/task") if int(name) != pid]
    except OSError:
        return False
    return any((stat_of(pid, thread) or ["X"])[0] not in ("Z", "X") for thread in threads)


def stat_of(pid: int, thread: int | None = None) -> list[str]:
    """The fields of /proc/PID/stat from the state on (state, ppid, pgrp, session …); empty when it is gone."""
    path = f"/proc/{pid}/stat" if thread is None else f"/proc/{pid}/task/{thread}/stat"
    try:
        with open(path, "rb") as stream:
            return stream.read().rpartition(b")")[2].decode("ascii").split()
    except OSError:
        return []


def pids() -> list[int]:
    """All processes of this container."""
    return sorted(int(name) for name in os.listdir("/proc") if name.isdigit())


def descendants(roots: set[int]) -> set[int]:
    """The children of some processes, their children and so on; those that are only not waited for left out."""
    children: dict[int, list[int]] = {}
    gone = set()
    for pid in pids():
        fields = stat_of(pid)
        if fields:
            children.setdefault(int(fields[1]), []).append(pid)
        if fields and fields[0] in ("Z", "X"):
            gone.add(pid)
    found: set[int] = set()
    todo = list(roots)
    while todo:
        for pid in children.get(todo.pop(), []):
            if pid not in found:
                found.add(pid)
                todo.append(pid)
    return found - gone


def words_of(pid: int) -> list[str]:
    """The words of a process; its name in brackets where it has none. A word that cannot be read whole is left out."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as stream:
            data = stream.read(_WORDS_BYTES)
        if not data.rstrip(b"\0"):
            with open(f"/proc/{pid}/comm", "rb") as stream:
                return ["[" + stream.read().strip().decode("utf-8", "replace") + "]"]
    except OSError:
        return [""]
    words = data.rstrip(b"\0").decode("utf-8", "replace").split("\0")
    return words if len(data) < _WORDS_BYTES else [*words[:-1], "…"]


def in_line(words: Sequence[str], most: int = _LEFT_TEXT) -> str:
    """Words for people. Secrets are to be hidden before: the beginning of one is a secret too."""
    return " ".join(words)[:most]


def iso(seconds: float) -> str:
    """A time as records write it, UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def reserve(folder: int, name: str) -> None:
    """Make a record's file with all the space that it will ever need, on the disk when this returns.

    Real blocks are written and not only reserved: to write over them later needs nothing new on most file systems.
    """
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _PLAIN, 0o600, dir_fd=folder)
    try:
        _write_at_start(fd, b" " * RESERVED[name])
        os.fsync(fd)
    finally:
        os.close(fd)


def write_record(folder: int, name: str, record: dict[str, Any]) -> None:
    """Write a record in place. A reader that comes in between finds no valid JSON, which counts as no record yet."""
    text = json.dumps(record, separators=(",", ":")).encode("ascii")
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | _PLAIN, 0o600, dir_fd=folder)
    try:
        _write_at_start(fd, text.ljust(RESERVED[name] - 1) + b"\n")
        os.fsync(fd)
    finally:
        os.close(fd)


def _write_at_start(fd: int, data: bytes) -> None:
    done = 0
    while done < len(data):
        done += os.pwrite(fd, data[done:], done)


def read_record(folder: int, name: str) -> dict[str, Any] | None:
    """A record; None when it is not there, not yet written, or not whole."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NONBLOCK | _PLAIN, dir_fd=folder)
    except OSError:
        return None
    with open(fd, "rb") as stream:
        try:
            record = json.loads(stream.read(8 << 20))
        except (ValueError, RecursionError):
            return None
    return record if isinstance(record, dict) and record.get("format") == FORMAT else None


def is_locked(folder: int, name: str) -> bool:
    """Whether a file in a run's folder is locked: a supervisor lives, or a launch or a stop is at work."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NONBLOCK | _PLAIN, dir_fd=folder)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def stop_asked(folder: int, status: int) -> tuple[str | None, str]:
    """Who stopped a run that ended with ``status`` (an exit code, or minus a signal), and what else is to be noted.

    A stop may be given up, since whoever waited for it went: what the run does later is its own, unless it ends as one
    does that was sent what the stop has sent.
    """
    at_work, said = is_locked(folder, STOPPED), read_record(folder, STOPPED)
    end = time.monotonic() + _NOTE_SECONDS
    while at_work and said is None and time.monotonic() < end:  # it is being written
        time.sleep(0.01)
        said = read_record(folder, STOPPED)
    if said is None:
        return None, ""
    numbers = [int(getattr(signal, f"SIG{name}", 0)) for name in said.get("sent", [])]
    of_it = {0, *(-number for number in numbers), *(128 + number for number in numbers)}
    if at_work or said.get("ended") or status in of_it:
        return str(said["who"]), ""
    return None, f"{said['who']} had asked it to stop at {said.get('at')}, and gave that up before it ended"


def last_lines(folder: int) -> list[str]:
    """The last lines of a run's log, for the exit record: at most 40 and 8 KiB; of a progress bar its last state."""
    try:
        fd = os.open(LOG, os.O_RDONLY | os.O_NONBLOCK | _PLAIN, dir_fd=folder)
    except OSError:
        return []
    with open(fd, "rb"):
        size = os.fstat(fd).st_size
        data = os.pread(fd, _LINE_BYTES, max(0, size - _LINE_BYTES))
    lines = data.decode("utf-8", "replace").replace("\r\n", "\n").rstrip("\n").split("\n")
    if size > _LINE_BYTES and len(lines) > 1:  # the first one is cut
        del lines[0]
    return [line.rstrip("\r").rpartition("\r")[2] for line in lines[-_LINES:]] if data else []


class Memory:
    """How often the kernel killed something for memory in the control group of a process, and the group's limit."""

    def __init__(self, pid: int | str) -> None:
        self.folder, self.events = self._find(pid)
        self.before = self.kills()
        self.before_anywhere = self.kills_anywhere()

    @staticmethod
    def _find(pid: int | str) -> tuple[str, str]:
        for line in _text(f"/proc/{pid}/cgroup").splitlines():
            _number, controllers, path = line.split(":", 2)
            if controllers == "memory":
                tops, name = [f"{_CGROUPS}/memory"], "memory.oom_control"
            elif controllers == "":
                tops, name = [_CGROUPS, f"{_CGROUPS}/unified"], "memory.events"
            else:
                continue
            for folder in (top + place for top in tops for place in (path.rstrip("/"), "")):
                if re.search(r"^oom_kill \d+$", _text(f"{folder}/{name}"), re.MULTILINE):
                    return folder, name
        return "", ""

    def kills(self) -> int | None:
        """The counter now; None where it cannot be read."""
        match = re.search(r"^oom_kill (\d+)$", _text(f"{self.folder}/{self.events}"), re.MULTILINE)
        return int(match[1]) if self.folder and match else None

    @staticmethod
    def kills_anywhere() -> int | None:
        """The same of the whole machine, which a container can read too."""
        match = re.search(r"^oom_kill (\d+)$", _text("/proc/vmstat"), re.MULTILINE)
        return int(match[1]) if match else None

    def report(self) -> dict[str, Any]:
        """Kills of all processes in the group, and on the whole machine; bytes; None for what is not known."""
        return {
            "before": self.before,
            "after": self.kills(),
            "before_anywhere": self.before_anywhere,
            "after_anywhere": self.kills_anywhere(),
            "limit": self._number("memory.max", "memory.limit_in_bytes"),
            "peak": self._number("memory.peak", "memory.max_usage_in_bytes"),
        }

    def _number(self, *names: str) -> int | None:
        texts = [_text(f"{self.folder}/{name}").strip() for name in names] if self.folder else []
        return next((int(text) for text in texts if text.isdigit() and int(text) < 1 << 60), None)


def out_of_memory(status: int, memory: dict[str, Any]) -> bool | None:
    """Whether a run died of memory: it failed, and the kernel killed something for memory meanwhile.

    ``status`` is an exit code, or minus a signal. None where the kernel's counters do not say.
    """
    anywhere = (memory["before_anywhere"], memory["after_anywhere"])
    if status == 0 or (None not in anywhere and anywhere[0] == anywhere[1]):
        return False
    if memory["before"] is None or memory["after"] is None:
        return None
    return bool(memory["after"] > memory["before"])


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


class NotStarted(Exception):
    """Why nothing was started, as a sentence."""


def read_order(folder: int) -> dict[str, Any]:
    """What to start: ``{argv, env, cwd, hidden, rules}``, from the launch at the other end of the pipe, which goes.

    ``hidden`` are secrets in argv, which no record may hold; ``rules`` is the source of what finds others, see
    :mod:`.secret`, since this file stands alone.
    Raises NotStarted when the launch ended first.
    """
    gone = NotStarted("the launch ended before it had said what to start: launch again")
    try:
        fd = os.open(ORDER, os.O_RDONLY | os.O_NONBLOCK | _PLAIN, dir_fd=folder)
    except OSError:
        raise gone from None
    data = bytearray()
    end = time.monotonic() + ORDER_SECONDS
    with open(fd, "rb", buffering=0) as stream:
        while not data.endswith(b"\n"):
            more = stream.read(1 << 16)  # None: somebody has the pipe open and has not written yet
            if more is None and time.monotonic() < end:
                select.select([fd], [], [], 0.1)
                continue
            if not more:
                raise gone
            data += more
    with contextlib.suppress(FileNotFoundError):
        os.unlink(ORDER, dir_fd=folder)
    order: dict[str, Any] = json.loads(data)
    return order


def spawn(folder: int, order: dict[str, Any]) -> int:
    """Start the run's process in a session of its own; returns its PID. Raises NotStarted."""
    said, say = os.pipe()  # closed by a successful exec
    pid = os.fork()
    if pid == 0:
        try:
            _become(folder, order)
        except BaseException as error:
            os.write(say, _reason(error, order).encode("utf-8", "replace"))
        finally:
            os._exit(127)
    os.close(say)
    with open(said, "rb") as stream:
        why = stream.read().decode("utf-8", "replace")
    if why:
        os.waitpid(pid, 0)
        raise NotStarted(why)
    return pid


def _become(folder: int, order: dict[str, Any]) -> None:
    os.setsid()
    log = os.open(LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _PLAIN, 0o600, dir_fd=folder)
    for target, fd in ((0, os.open(os.devnull, os.O_RDONLY)), (1, log), (2, log)):
        os.dup2(fd, target, inheritable=True)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        with contextlib.suppress(OSError, ValueError):  # those that the C library keeps for itself
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, set())
    os.umask(0o022)
    os.chdir(order["cwd"])
    os.execvpe(order["argv"][0], order["argv"], order["env"])


def _reason(error: BaseException, order: dict[str, Any]) -> str:
    why = error.strerror if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
    return f"{order['argv'][0]} could not be started in {order['cwd']}: {why}"


class Watch:
    """A run that was started: waits for it, and for what it leaves behind."""

    def __init__(self, folder: int, pid: int, unit: str | None, hidden: Sequence[str] = (), rules: str = "") -> None:
        self.folder = folder
        self.pid = pid
        self.unit = unit
        self.hidden = hidden
        self.rules = rules
        self.began = time.clock_gettime(time.CLOCK_BOOTTIME)
        self.memory = Memory(pid)
        self.told_to_end = False

    def started(self, now: float) -> dict[str, Any]:
        """The record that says that the process runs."""
        me = os.getpid()
        return {
            "format": FORMAT,
            "supervisor": {"pid": me, "start": start_of(me)},
            "process": {"pid": self.pid, "start": int((stat_of(self.pid) or ["0"] * 20)[19])},
            "unit": self.unit,
            "started": iso(now),
            "started_s": now,
        }

    def wait(self) -> int:
        """Reap until the run's process has ended; returns its exit code, or minus the signal that killed it."""
        while True:
            for pid, status in self._reaped():
                if pid == self.pid:
                    return os.waitstatus_to_exitcode(status)
            if signal.sigwait({signal.SIGCHLD, signal.SIGTERM}) == signal.SIGTERM and self.unit:
                # systemd ends a unit by this one signal; an init that has no units sends it to everybody itself.
                self.told_to_end = True
                os.kill(self.pid, signal.SIGTERM)

    def wait_for_the_rest(self) -> None:
        """Reap until no child is left; those that outlive the run's process are nobody else's to find."""
        while True:
            for _pid, _status in self._reaped():
                pass
            if not _has_children():
                return
            if signal.sigwait({signal.SIGCHLD, signal.SIGTERM}) == signal.SIGTERM and self.unit:
                for pid in descendants({os.getpid()}):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGTERM)

    def _reaped(self) -> Iterator[tuple[int, int]]:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            yield pid, status

    def left_over(self) -> list[dict[str, Any]]:
        """The processes that the run's process left behind, but for those that end by themselves at once."""
        end = time.monotonic() + _LEFT_SECONDS
        while _has_children() and time.monotonic() < end:
            for _pid, _status in self._reaped():
                pass
            signal.sigtimedwait({signal.SIGCHLD}, max(0.0, end - time.monotonic()))
        found = sorted(descendants({os.getpid()})) if _has_children() else []
        return [{"pid": pid, "command": in_line(self._shown(words_of(pid)))} for pid in found]

    def _shown(self, words: list[str]) -> list[str]:
        """Words without secrets: those of the run's own command, and what looks like one in the child's."""
        if not self.rules:  # then only the program's name is known to be none
            return words[:1]
        known: dict[str, Any] = {"__name__": "rules"}
        exec(compile(self.rules, "rules", "exec"), known)
        shown: list[str] = known["shown_words"](words, self.hidden)
        return shown

    def record(self, status: int, now: float) -> dict[str, Any]:
        """The exit record of a process that ended with ``status``."""
        memory = self.memory.report()
        seconds = time.clock_gettime(time.CLOCK_BOOTTIME) - self.began
        stopped_by, note = stop_asked(self.folder, status)
        left = self.left_over()
        return exit_record(
            "exited" if status >= 0 else "signaled",
            now,
            seconds=round(seconds, 3),
            exit_code=status if status >= 0 else None,
            signal=-status if status < 0 else None,
            out_of_memory=out_of_memory(status, memory),
            memory=memory,
            stopped_by=stopped_by or ("a SIGTERM to its unit" if self.told_to_end else None),
            note=note,
            last_lines=last_lines(self.folder),
            left_over=left[:_LEFT_OVER],
            left_over_count=len(left),
        )


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def exit_record(how: str, now: float, **known: Any) -> dict[str, Any]:
    """An exit record that says what is known and nothing else.

    ``how``: exited, signaled, not-started or unknown. ``last_lines``: of the log. ``left_over``: {pid, command} of the
    processes that outlived the run's own. ``memory``: see :meth:`Memory.report`.
    """
    unknown: dict[str, Any] = {
        "seconds": None,
        "exit_code": None,
        "signal": None,
        "out_of_memory": None,
        "memory": None,
        "stopped_by": None,
        "last_lines": [],
        "left_over": [],
        "left_over_count": 0,
        "note": "",
    }
    return {"format": FORMAT, "how": how, "ended": iso(now), "ended_s": now, **unknown, **known}


def write_exit(folder: int, record: dict[str, Any]) -> None:
    """Write the exit record; where the disk is so full that not even what was reserved can be written, until it can."""
    pause, most = _RETRY_SECONDS
    while len(json.dumps(record)) >= RESERVED[EXIT]:  # unprintable bytes take six times their room
        record = dict(record, last_lines=record["last_lines"][1:], left_over=record["left_over"][1:])
    while True:
        try:
            return write_record(folder, EXIT, record)
        except FileNotFoundError:  # the folder of the run was removed: nobody is left to tell
            return None
        except OSError:
            time.sleep(pause)
            pause = min(pause * 2, most)


def _hold_lock(folder: int) -> int:
    """Take the run's lock for good; -1 when another supervisor is there, or was."""
    fd = os.open(LOCK, os.O_RDWR | os.O_CREAT | _PLAIN, 0o600, dir_fd=folder)
    end = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:  # perhaps only somebody who asks whether it is held
            if time.monotonic() > end:
                return -1
            time.sleep(0.01)
    return -1 if read_record(folder, STARTED) or read_record(folder, EXIT) else fd


def _alone(unit: str | None) -> None:
    """Keep nothing of whoever started us, and get to see the processes that a run lets go of."""
    if unit is None:  # whoever started us waits for this process, and the one that stays has no parent but init
        if os.fork():
            os._exit(0)
        os.setsid()
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            with contextlib.suppress(OSError):  # the one that listed the folder
                os.close(int(name))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where it is ignored, the kernel throws statuses away
    signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes  # the smallest installations of Python lack it

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def supervise(path: str, unit: str | None) -> None:
    """Start the run in the folder ``path``, wait for it, write its exit record."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | _PLAIN)
    os.chdir("/")
    lock = _hold_lock(folder)
    if lock < 0:
        return None
    try:
        order = read_order(folder)
        watch = Watch(folder, spawn(folder, order), unit, order.get("hidden") or (), order.get("rules") or "")
    except Exception as error:
        note = str(error) if isinstance(error, NotStarted) else f"{type(error).__name__}: {error}"
        return write_exit(folder, exit_record("not-started", time.time(), note=note[:2000]))
    with contextlib.suppress(OSError):  # without it the run still runs, and its end is recorded
        write_record(folder, STARTED, watch.started(time.time()))
    status = watch.wait()
    write_exit(folder, watch.record(status, time.time()))
    watch.wait_for_the_rest()
    os.close(lock)
    return None


if __name__ == "__main__":
    UNIT = sys.argv[2] if len(sys.argv) > 2 else None
    _alone(UNIT)
    supervise(sys.argv[1], UNIT)
