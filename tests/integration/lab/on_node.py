# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the tests of pct do on a node: run there as a program that takes calls, a line of JSON each, on stdin.

Texts of a job and of a result are bytes in disguise (surrogateescape), so that any byte travels.
"""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

DEADLINE = 60.0
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
}
PRELUDE = """
rootfs=/var/lib/lxc/$ct/rootfs
inside() { lxc-attach -n "$ct" --clear-env -- sh -c "$1"; }
look() {
    lxc-attach -n "$ct" --clear-env -- stat -c '%F mode=%a own=%u:%g(%U:%G) links=%h size=%s' -- "$1" 2>&1 \\
        | sed "s/'//g"
}
"""


def text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def until(condition: Callable[[], Any], what: str) -> Any:
    """The first true value of the condition; an error that names `what` when none comes."""
    deadline = time.monotonic() + DEADLINE
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {DEADLINE:g} s")
        time.sleep(0.01)
    return value


def shell(script: str, ct: int) -> str:
    """Run a script on the node, with $ct and the functions of the prelude; its output, stderr after stdout."""
    argv = ["timeout", f"{DEADLINE:g}", "sh", "-c", PRELUDE + script]
    environment = {**ENVIRONMENT, "ct": str(ct)}
    done = subprocess.run(argv, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return text(done.stdout + done.stderr)


def row(job: dict[str, Any]) -> dict[str, Any]:
    """A row of a table: a script before, a pct command, a script after."""
    environment = job["env"] if job["env"] is not None else ENVIRONMENT
    before = shell(job["before"], job["ct"])
    process = subprocess.Popen(
        [os.fsencode(word) for word in ("pct", *job["argv"])],
        executable="/usr/sbin/pct",
        env=environment,
        cwd=job["cwd"],
        umask=job["umask"],
        stdin=subprocess.PIPE if job["stdin"] is not None else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    data = None if job["stdin"] is None else os.fsencode(job["stdin"]) * job["repeat"]
    out, err = process.communicate(data, timeout=DEADLINE)
    after = shell(job["after"], job["ct"])
    return {"before": before, "status": process.returncode, "out": text(out), "err": text(err), "after": after}


def in_shell(job: dict[str, Any]) -> str:
    return shell(job["script"], job["ct"])


def background(job: dict[str, Any]) -> dict[str, Any]:
    """A command that leaves a child behind: is the caller's pipe still open when pct has ended?"""
    to = ">/dev/null 2>&1" if job["redirected"] else ""
    script = f"sleep 777 </dev/null {to} & echo $!"
    argv = ["pct", "exec", str(job["ct"]), "--", "sh", "-c", script]
    process = subprocess.Popen(argv, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert process.stdout is not None
    inside = int(process.stdout.readline())
    status = process.wait(DEADLINE)
    # What pct started in the container may close its end a moment after pct has ended.
    still_open = not select.select([process.stdout], [], [], DEADLINE if job["redirected"] else 1)[0]
    shell(f"inside 'kill {inside}'", job["ct"])
    process.stdout.close()
    return {"status": status, "open": still_open}


# --- signals ------------------------------------------------------------------------------------------------------


def workers(ct: int) -> list[int]:
    """PIDs of the processes that show as a task of this container."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/cmdline", "rb") as stream:
                    line = stream.read()
            except OSError:
                continue
            if re.match(rb"task UPID:[^:]+:[0-9A-F]{8}:[0-9A-F]{8}:[0-9A-F]{8}:pu[a-z]+_file:%d:root@pam:" % ct, line):
                found.append(int(entry))
    return found


def size_inside(ct: int, path: str) -> int:
    out = shell(f"inside 'stat -c %s {path} 2>/dev/null'", ct).strip()
    return int(out) if out.isdigit() else -1


def interrupted_push(job: dict[str, Any]) -> dict[str, Any]:
    """A push from a pipe gets a signal in the middle; then the rest is offered to whoever still reads."""
    ct, path = job["ct"], "/root/interrupted"
    part = b"x" * 65536
    shell(f"inside 'rm -f {path}'", ct)
    argv = ["pct", "push", str(ct), "/dev/stdin", path]
    process = subprocess.Popen(
        argv, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0
    )
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    process.stdin.write(part)
    process.stdin.flush()
    until(lambda: size_inside(ct, path) == len(part), "the first part of the copy")
    (worker,) = workers(ct)
    number = signal.Signals[job["signal"]]
    if job["to"] == "group":
        os.killpg(process.pid, number)
    else:
        os.kill(worker if job["to"] == "worker" else process.pid, number)
    process.wait(DEADLINE)
    orphans = workers(ct)
    try:
        process.stdin.write(part)
        process.stdin.flush()
        if orphans:
            until(lambda: size_inside(ct, path) == 2 * len(part), "the orphan's part of the copy")
        process.stdin.close()
    except BrokenPipeError:
        pass
    until(lambda: not workers(ct), "the end of the orphan")
    err = process.stderr.read()
    shell("pct status $ct", ct)
    return {
        "status": process.returncode,
        "out": text(process.stdout.read()),
        "err": text(err),
        "orphan": bool(orphans),
        "parts": size_inside(ct, path) / len(part),
        "task": last_task_status(ct),
    }


def last_task_status(ct: int) -> str:
    """The status of the last task in the node's history, after a push that lets the dead be found."""
    with open("/var/log/pve/tasks/active", encoding="utf-8") as stream:
        upid = stream.readline().split(" ")[0]
    shell("pct push $ct /etc/hostname /root/another", ct)
    with open("/var/log/pve/tasks/index", encoding="utf-8") as stream:
        (line,) = [line for line in stream if line.startswith(upid)]
    return line.rstrip("\n").split(" ", 2)[2]


def children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as stream:
        return [int(child) for child in stream.read().split()]


def command_line(pid: int) -> list[str]:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as stream:
            return text(stream.read()).split("\0")[:-1]
    except OSError:
        return []


def interrupted_exec(job: dict[str, Any]) -> dict[str, Any]:
    """A `pct exec … sleep` gets a signal; what is left of it."""
    argv = ["pct", "exec", str(job["ct"]), "--", "sleep", "777"]
    process = subprocess.Popen(
        argv,
        env=ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )

    def sleeper() -> int | None:
        found = [child for child in children(process.pid) if command_line(child) == ["sleep", "777"]]
        return found[0] if found else None

    inside = int(until(sleeper, "the command inside"))
    attach = command_line(process.pid)
    os.kill(process.pid, signal.Signals[job["signal"]])
    if job["ends"]:
        process.wait(DEADLINE)
    else:
        until(lambda: not pending(process.pid), "the arrival of the signal")
    left = command_line(inside) == ["sleep", "777"]
    status = process.poll()
    os.kill(inside, signal.SIGKILL)
    process.communicate(timeout=DEADLINE)
    return {"attach": attach, "status": status, "left": left}


def hung_exec(job: dict[str, Any]) -> dict[str, Any]:
    """A `pct exec … echo hi` in a frozen container: what it is once its child has got in, and whether it has ended."""
    argv = ["pct", "exec", str(job["ct"]), "--", "echo", "hi"]
    null = subprocess.DEVNULL  # the frozen child would keep a pipe open
    process = subprocess.Popen(argv, env=ENVIRONMENT, stdin=null, stdout=null, stderr=null)
    group = f"/lxc/{job['ct']}"
    until(lambda: any(group in groups(child) for child in children(process.pid)), "the child of lxc-attach")
    attach, status = command_line(process.pid), process.poll()
    process.kill()
    process.wait(DEADLINE)
    return {"attach": attach, "status": status}


def groups(pid: int) -> str:
    """The control groups of a process, "" when it is gone."""
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8") as stream:
            return stream.read()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def task_index(job: dict[str, Any]) -> str:
    with open("/var/log/pve/tasks/index", encoding="utf-8") as stream:
        return stream.read()


def kill_and_wait(job: dict[str, Any]) -> None:
    """End a process and return once it is gone or a zombie."""
    pid = job["pid"]
    os.kill(pid, signal.Signals[job["signal"]])
    until(lambda: not command_line(pid), "the end of the process")


def pending(pid: int) -> bool:
    """Whether a signal waits to be handled by a process."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as stream:
        masks = [line.split()[1] for line in stream if line.startswith(("SigPnd", "ShdPnd"))]
    return any(int(mask, 16) for mask in masks)


def fifo(job: dict[str, Any]) -> dict[str, Any]:
    """A push onto a FIFO that nobody reads: it hangs, and so does its worker when pct is killed."""
    ct = job["ct"]
    shell("inside 'rm -f /root/fifo; mkfifo /root/fifo'", ct)
    argv = ["pct", "push", str(ct), "/etc/hostname", "/root/fifo"]
    process = subprocess.Popen(
        argv, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    (worker,) = until(lambda: workers(ct), "the worker")
    process.kill()
    out, err = process.communicate(timeout=DEADLINE)
    orphan = workers(ct) == [worker]
    blocked = try_lock(ct)
    os.kill(worker, signal.SIGKILL)
    until(lambda: not workers(ct), "the end of the worker")
    return {"status": process.returncode, "out": text(out), "err": text(err), "orphan": orphan, "blocked": blocked}


# --- locks --------------------------------------------------------------------------------------------------------


def try_lock(ct: int) -> bool:
    """Whether the configuration lock is taken."""
    return subprocess.run(["flock", "--nonblock", lock_file(ct), "true"], check=False).returncode != 0


def lock_file(ct: int) -> str:
    return f"/run/lock/lxc/pve-config-{ct}.lock"


def locked(job: dict[str, Any]) -> list[dict[str, Any]]:
    """Commands while someone holds the lock; released once the first says that it waits, unless `keep`."""
    kind = "--shared" if job["shared"] else "--exclusive"
    held = ["flock", kind, lock_file(job["ct"]), "sh", "-c", "echo; read x"]
    holder = subprocess.Popen(held, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdin is not None and holder.stdout is not None
    holder.stdout.readline()
    processes = [start(argv) for argv in job["commands"]]
    said = b""
    if not job["keep"]:
        assert processes[0].stderr is not None
        said = processes[0].stderr.readline()
        holder.stdin.close()
    results = [result(process, said) for process in processes]
    holder.kill()
    holder.wait()
    return results


def start(argv: list[str]) -> subprocess.Popen[bytes]:
    out = subprocess.PIPE
    return subprocess.Popen(["pct", *argv], env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=out, stderr=out)


def result(process: subprocess.Popen[bytes], said: bytes = b"") -> dict[str, Any]:
    out, err = process.communicate(timeout=DEADLINE)
    return {"status": process.returncode, "out": text(out), "err": text(said + err)}


def together(job: dict[str, Any]) -> list[dict[str, Any]]:
    """Several commands at once."""
    return [result(process) for process in [start(argv) for argv in job["commands"]]]


def growing(job: dict[str, Any]) -> list[Any]:
    """Size and mode of an existing destination: before, once the push has opened it, after each part, at the end."""
    ct, path = job["ct"], "/root/growing"
    shell(f"inside 'printf before-it-was-overwritten. >{path}; chmod 600 {path}'", ct)

    def seen() -> list[Any]:
        size, mode = shell(f"inside 'stat -c \"%s %a\" {path}'", ct).split()
        return [int(size), mode]

    stages: list[Any] = [seen()]
    process = subprocess.Popen(
        ["pct", "push", str(ct), "/dev/stdin", path, "--perms", "755"], env=ENVIRONMENT, stdin=subprocess.PIPE
    )
    assert process.stdin is not None
    for total in (0, 1000, 2000):
        stages.append(until(lambda total=total: seen() if seen()[0] == total else None, f"{total} bytes"))  # type: ignore[misc]
        process.stdin.write(b"x" * 1000)
        process.stdin.flush()
    process.stdin.close()
    process.wait(DEADLINE)
    return [*stages, seen(), process.returncode]


# --- terminals ----------------------------------------------------------------------------------------------------


def on_terminal(job: dict[str, Any]) -> dict[str, Any]:
    """A pct command with a terminal for stdin, stdout and stderr; `say` is [[awaited output, input], …]."""
    pid, master = pty.fork()
    if pid == 0:
        os.execve("/usr/sbin/pct", ["pct", *job["argv"]], {**ENVIRONMENT, "TERM": "xterm"})
    out = b""
    say = list(job["say"])
    deadline = time.monotonic() + DEADLINE
    while True:
        if say and os.fsencode(say[0][0]) in out:
            os.write(master, os.fsencode(say.pop(0)[1]))
        if not select.select([master], [], [], max(0, deadline - time.monotonic()))[0]:
            os.kill(pid, signal.SIGKILL)
            raise TimeoutError(f"the terminal shows only {out!r}")
        try:
            data = os.read(master, 65536)
        except OSError:  # EIO: the other side is closed
            break
        if not data:
            break
        out += data
    _, status = os.waitpid(pid, 0)
    os.close(master)
    return {"status": os.waitstatus_to_exitcode(status), "out": text(out)}


def one_terminal(job: dict[str, Any]) -> dict[str, Any]:
    """A pct command with a terminal for stdin or for stderr only; what arrives on the pipes."""
    master, slave = pty.openpty()
    streams: dict[str, int] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    streams[job["stream"]] = slave
    process = subprocess.Popen(
        ["pct", *job["argv"]],
        env=ENVIRONMENT,
        stdin=streams["stdin"],
        stdout=streams["stdout"],
        stderr=streams["stderr"],
    )
    out, err = process.communicate(timeout=DEADLINE)
    os.close(slave)
    os.close(master)
    return {"status": process.returncode, "out": text(out), "err": text(err or b"")}


def cpu(job: dict[str, Any]) -> dict[str, Any]:
    """Seconds of CPU that a command and what it waited for took."""
    before = os.times()
    done = subprocess.run(["pct", *job["argv"]], env=job["env"] or ENVIRONMENT, stdin=subprocess.DEVNULL, check=False)
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return {"status": done.returncode, "seconds": used}


def serve() -> None:
    """Answer each line [function, job] with a line [result, error]; the lines' texts are as in the docstring above."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        function, job = json.loads(line)
        try:
            answer = [globals()[function](job), ""]
        except Exception as error:
            answer = [None, f"{type(error).__name__}: {error}"]
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    serve()
