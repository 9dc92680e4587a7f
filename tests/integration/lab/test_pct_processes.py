# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The lab's pct against the measurements of the real one: signals, locks, concurrency, the task log, the start-up.

What the lab cannot show: syslog and the cluster's log and task list, which are other programs' of Proxmox VE.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lab.node.pct_standin import settings

from .pct_cases import BOTH, SRC, Driver, Row, W, expected, node, run

pytestmark = pytest.mark.usefixtures("prepared")

INTERRUPTED = "received interrupt"
UNEXPECTED = "got unexpected control message:  "
# signal, to whom: exit status, stderr, whether a worker goes on alone, the task's status
MID_PUSH = [
    ("SIGTERM", "pct", 0, f"{INTERRUPTED}\n", False, INTERRUPTED),
    ("SIGINT", "pct", 0, f"{INTERRUPTED}\n", False, INTERRUPTED),
    ("SIGHUP", "pct", -1, "", True, "unexpected status"),
    ("SIGKILL", "pct", -9, "", True, "unexpected status"),
    ("SIGPIPE", "pct", 0, "broken pipe \n", False, "broken pipe "),
    ("SIGKILL", "worker", 0, f"{UNEXPECTED}\n", False, UNEXPECTED),
    ("SIGTERM", "worker", 0, f"{INTERRUPTED}\n", False, INTERRUPTED),
    ("SIGTERM", "group", 0, f"{INTERRUPTED}\n", False, INTERRUPTED),
    ("SIGHUP", "group", -1, "", True, "unexpected status"),
]


@pytest.mark.parametrize(("name", "to", "status", "err", "orphan", "task"), MID_PUSH)
def test_signal_in_the_middle_of_a_push(
    driver: Driver, name: str, to: str, status: int, err: str, orphan: bool, task: str
) -> None:
    got = driver.call("interrupted_push", ct=200, signal=name, to=to)
    parts = 2 if orphan else 1
    wanted = {"status": status, "out": "", "err": err, "orphan": orphan, "parts": parts, "task": task}
    assert got == wanted


def test_a_push_empties_its_destination_and_fills_it_in_place(driver: Driver) -> None:
    stages = driver.call("growing", ct=201)
    assert stages == [[26, "600"], [0, "755"], [1000, "755"], [2000, "755"], [3000, "755"], 0]


@pytest.mark.parametrize("ct", BOTH)
def test_a_push_onto_a_fifo_hangs_and_its_orphan_keeps_the_lock(driver: Driver, ct: int) -> None:
    got = driver.call("fifo", ct=ct)
    assert got == {"status": -9, "out": "", "err": "", "orphan": True, "blocked": True}
    row = Row("after killing the orphan", ("push", "{ct}", SRC, "/root/st"))
    assert run(driver, row, ct) == expected(row, ct)


# signal, exit status of pct (None: it goes on), and whether the command inside is left running
MID_EXEC = [
    ("SIGTERM", -15, True),
    ("SIGINT", None, True),
    ("SIGHUP", -1, True),
    ("SIGKILL", -9, True),
    ("SIGQUIT", None, True),
]


@pytest.mark.parametrize(("name", "status", "left"), MID_EXEC)
def test_signal_to_an_exec_leaves_the_command_running(
    driver: Driver, name: str, status: int | None, left: bool
) -> None:
    got = driver.call("interrupted_exec", ct=200, signal=name, ends=status is not None)
    attach = ["lxc-attach", "-n", "200", "--keep-env", "--", "sleep", "777"]
    assert got == {"attach": attach, "status": status, "left": left}


# --- the configuration lock ---------------------------------------------------------------------------------------

WAITED = "trying to acquire lock...\n OK\n"


def late(ct: int) -> str:
    return f"trying to acquire lock...\ncan't lock file '/run/lock/lxc/pve-config-{ct}.lock' - got timeout\n"


@pytest.mark.parametrize("shared", [False, True], ids=["exclusive", "shared"])
@pytest.mark.parametrize("argv", [["push", "200", SRC, "/root/st"], ["pull", "200", "/etc/hostname", f"{W}/x"]])
def test_push_and_pull_wait_for_the_lock(driver: Driver, argv: list[str], shared: bool) -> None:
    (got,) = driver.call("locked", ct=200, commands=[argv], shared=shared, keep=False)
    assert got == {"status": 0, "out": "", "err": WAITED}


def test_push_and_pull_give_up_and_others_do_not_care(driver: Driver) -> None:
    commands = [
        ["push", "200", SRC, "/root/st"],
        ["pull", "200", "/etc/hostname", f"{W}/x"],
        ["push", "201", SRC, "/root/st"],
        ["exec", "200", "--", "echo", "hi"],
        ["status", "200"],
        ["config", "200"],
        ["list"],
    ]
    timed_out = {"status": 4, "out": "", "err": late(200)}
    told = driver.call("locked", ct=200, commands=commands, shared=False, keep=True)
    assert told[:5] == [
        timed_out,
        timed_out,
        {"status": 0, "out": "", "err": ""},
        {"status": 0, "out": "hi\n", "err": ""},
        {"status": 0, "out": "status: running\n", "err": ""},
    ]
    assert [(got["status"], got["err"], bool(got["out"])) for got in told[5:]] == [(0, "", True)] * 2


@pytest.mark.parametrize("count", [2, 4, 8])
@pytest.mark.parametrize("cts", [(200,), (200, 201)], ids=["same CT", "over 2 CTs"])
def test_small_pushes_at_once(driver: Driver, count: int, cts: tuple[int, ...]) -> None:
    commands = [["push", str(cts[n % len(cts)]), SRC, f"/root/st{n}"] for n in range(count)]
    for got in driver.call("together", commands=commands):
        assert (got["status"], got["out"]) == (0, "")
        assert got["err"] in ("", WAITED)
    for ct in cts:
        sums = driver.call("in_shell", ct=ct, script="inside 'cat /root/st?; rm /root/st?'")
        assert sums == "NEWCONTENT\n" * (count // len(cts))


def test_pushes_of_different_contents_to_the_same_destination(driver: Driver) -> None:
    size = 5 << 20
    driver.call(
        "in_shell", ct=200, script=f"for n in 1 2 3 4; do yes $n | tr -d '\\n' | head -c {size} >{W}/same$n; done"
    )
    driver.call("together", commands=[["push", "200", f"{W}/same{n}", "/root/st"] for n in (1, 2, 3, 4)])
    shown = driver.call("in_shell", ct=200, script="inside 'wc -c </root/st; tr -s 1234 </root/st'")
    assert re.fullmatch(rf"{size}\n[1234]", shown)


def test_a_lock_file_is_made_for_any_id(driver: Driver) -> None:
    row = Row("push 999", ("push", "987654", SRC, "/root/x"), 255, err="can only push files to a running CT\n")
    assert run(driver, row, 200) == expected(row, 200)
    shown = driver.call("in_shell", ct=200, script="stat -c '%a %u:%g %s' /run/lock/lxc/pve-config-987654.lock")
    assert shown == "644 0:0 0\n"
    driver.call("in_shell", ct=200, script="rm /run/lock/lxc/pve-config-987654.lock")


# --- the task log -------------------------------------------------------------------------------------------------

TASKS = "/var/log/pve/tasks"


def index_of(driver: Driver) -> list[str]:
    return str(driver.call("task_index")).splitlines()


def test_each_push_and_pull_is_a_task_and_nothing_else_is(driver: Driver) -> None:
    def go(*argv: str) -> list[str]:
        before = index_of(driver)
        run(driver, Row(" ".join(argv), argv), 200)
        after = index_of(driver)
        assert after[: len(before)] == before
        return after[len(before) :]

    for quiet in (("list",), ("status", "200"), ("config", "200"), ("exec", "200", "--", "true")):
        assert go(*quiet) == []
    said = "failed to open /no/such for reading"
    for argv, kind, status in (
        (("push", "200", SRC, "/root/st"), "push_file", "OK"),
        (("push", "200", "/no/such", "/root/st"), "push_file", said),
        (("pull", "200", "/etc/hostname", f"{W}/x"), "pull_file", "OK"),
    ):
        (line,) = go(*argv)
        number = "[0-9A-F]{8}"
        match = re.fullmatch(rf"(UPID:pve1:{number}:{number}:({number}):{kind}:200:root@pam:) {number} {status}", line)
        assert match, line
        log = driver.call("in_shell", ct=200, script=f"cat {TASKS}/{match[2][-1]}/{match[1]}")
        assert log == ("TASK OK\n" if status == "OK" else f"TASK ERROR: {status}\n")


def test_the_active_file_holds_25_finished_tasks(driver: Driver) -> None:
    for _ in range(3):
        driver.call("together", commands=[["push", "200", SRC, "/root/st"]] * 10)
    lines = driver.call("in_shell", ct=200, script=f"cat {TASKS}/active").splitlines()
    assert len(lines) == 25
    assert all(line.endswith(" OK") for line in lines)


def test_the_index_is_put_aside_once_it_passes_50000_bytes(driver: Driver) -> None:
    fill = "head -c $((49990 - $(stat -c %s index))) /dev/zero | tr '\\0' x >>index; echo >>index"
    assert driver.call("in_shell", ct=200, script=f"cd {TASKS}; cp index kept; {fill}") == ""
    push = Row("push", ("push", "{ct}", SRC, "/root/st"))
    assert run(driver, push, 200) == expected(push, 200)
    shown = driver.call("in_shell", ct=200, script=f"cd {TASKS}; ls index*; tail -n 1 index.1")
    assert re.fullmatch(r"index\.1\nUPID:\S+:push_file:200:root@pam: \S+ OK\n", shown)
    assert driver.call("in_shell", ct=200, script=f"mv {TASKS}/kept {TASKS}/index; rm {TASKS}/index.1") == ""


# --- the start-up and the switches --------------------------------------------------------------------------------

Switch = Callable[[dict[str, Any]], None]


@pytest.fixture
def switch() -> Iterator[Switch]:
    """Write pct.json."""
    path = node().folder / "etc" / "pct.json"
    before = path.read_text(encoding="utf-8")
    yield lambda values: void(path.write_text(json.dumps(values), encoding="utf-8"))
    path.write_text(before, encoding="utf-8")


def void(value: object) -> None:
    """Drop a value."""


@pytest.mark.parametrize(
    "argv", [["status", "200"], ["exec", "200", "--", "true"], ["push", "200", SRC, "/root/st"], ["help"]]
)
def test_start_up_takes_cpu(driver: Driver, switch: Switch, argv: list[str]) -> None:
    """CPU, not time: on a busy node a start takes longer, as there."""
    switch({"startup": 0.3})
    assert driver.call("cpu", argv=argv, env=None)["seconds"] >= 0.29  # the clock ticks a hundred times a second


def test_start_up_takes_one_second_unless_switched(driver: Driver, switch: Switch) -> None:
    assert settings.STARTUP == 1.0
    switch({})
    assert driver.call("cpu", argv=["status", "200"], env=None)["seconds"] >= 0.99


def test_start_up_by_the_environment(driver: Driver, switch: Switch) -> None:
    switch({"startup": 0})
    env = {"PATH": "/usr/sbin:/usr/bin", "TRAINOPS_LAB_PCT_STARTUP": "0.3"}
    assert driver.call("cpu", argv=["status", "200"], env=env)["seconds"] >= 0.29


FAULTS: list[tuple[dict[str, Any], Row]] = [
    (
        {"match": "push", "copy_bytes": 4},
        Row("short push", ("push", "{ct}", SRC, "/root/st"), after="inside 'cat /root/st'", state="NEWC"),
    ),
    ({"match": "push", "held_lock": 0.01}, Row("held lock", ("push", "{ct}", SRC, "/root/st"), err=WAITED)),
    ({"exit": 255, "stderr": "broken\n"}, Row("broken", ("status", "{ct}"), 255, err="broken\n")),
    ({"match": "push 999", "exit": 9}, Row("not for this one", ("status", "{ct}"), out="status: running\n")),
    (
        {"copy_rate": 1100, "slow": 0.01},
        Row("slow copy", ("push", "{ct}", SRC, "/root/st"), after="inside 'cat /root/st'", state="NEWCONTENT\n"),
    ),
]


@pytest.mark.parametrize(("fault", "row"), FAULTS, ids=[row.case for _, row in FAULTS])
def test_faults(driver: Driver, switch: Switch, fault: dict[str, Any], row: Row) -> None:
    switch({"startup": 0, "faults": fault})
    assert run(driver, row, 200) == expected(row, 200)
