# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The lab's pct against the measurements of the real one: containers in every state, and the ones of other nodes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.containers import Container, containers

from .pct_cases import BOTH, SRC, Driver, Row, expected, node, run

PUSH_REFUSED = "can only push files to a running CT\n"
PULL_REFUSED = "can only pull files from a running VM at /usr/share/perl5/PVE/CLI/pct.pm line 664.\n"
LOCKS = [
    "backup",
    "migrate",
    "snapshot",
    "mounted",
    "rollback",
    "create",
    "disk",
    "destroyed",
    "fstrim",
    "snapshot-delete",
]
COMMANDS = {
    "list": ("list",),
    "status": ("status", "{ct}"),
    "config": ("config", "{ct}"),
    "exec": ("exec", "{ct}", "--", "echo", "hi"),
    "push": ("push", "{ct}", SRC, "/root/st"),
    "pull": ("pull", "{ct}", "/etc/hostname", "/var/tmp/w/stp"),
}

pytestmark = pytest.mark.usefixtures("prepared")


def container(vmid: int) -> Container:
    return next(one for one in containers(node().lab) if one.vmid == vmid)


def conf(vmid: int, of: str = "pve1") -> Path:
    return node().lab.pve / "nodes" / of / "lxc" / f"{vmid}.conf"


@pytest.fixture
def changed() -> Iterator[Path]:
    """The folder of the nodes' configurations, put back afterwards."""
    folder = node().lab.pve / "nodes"
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    yield folder
    for path in [path for path in folder.rglob("*") if path.is_file() and path not in before]:
        path.unlink()
    for path, content in before.items():
        if not path.is_file() or path.read_bytes() != content:
            path.write_bytes(content)
            path.chmod(0o640)


def add_line(vmid: int, line: str) -> None:
    conf(vmid).write_text(f"{line}\n{conf(vmid).read_text(encoding='utf-8')}", encoding="utf-8")


def listed(**words: tuple[str, str]) -> str:
    """The list of pve1: state and lock of each container, those that are not named as the lab declares them."""
    rows = {200: ("running", ""), 201: ("running", ""), 202: ("stopped", "")}
    rows |= {int(key[2:]): value for key, value in words.items()}
    names = {200: "train-a", 201: "train-b", 202: "spare"}
    lines = [f"{vmid:<10} {state:<10} {lock:<12} {names[vmid]:<20}\n" for vmid, (state, lock) in rows.items() if state]
    return "VMID       Status     Lock         Name                \n" + "".join(lines)


def shown_config(vmid: int) -> str:
    """What `pct config` shows of a configuration without comments and snapshots: sorted, raw lines left out."""
    lines = conf(vmid).read_text(encoding="utf-8").splitlines()
    return "".join(f"{line}\n" for line in sorted(lines) if not line.startswith("lxc."))


def ask(driver: Driver, command: str, ct: int, status: int = 0, out: str = "", err: str = "") -> None:
    row = Row(command, COMMANDS[command], status, out, err)
    assert run(driver, row, ct) == expected(row, ct)


def ask_all(driver: Driver, ct: int, state: str, lock: str = "") -> None:
    """All commands on a container that is configured here and runs, or is stopped."""
    ask(driver, "list", ct, out=listed(**{f"ct{ct}": (state, lock)}))
    ask(driver, "status", ct, out=f"status: {state}\n")
    ask(driver, "config", ct, out=shown_config(ct))
    if state == "running":
        ask(driver, "exec", ct, out="hi\n")
        ask(driver, "push", ct)
        ask(driver, "pull", ct)
    else:
        ask(driver, "exec", ct, 255, err=f"container '{ct}' not running!\n")
        ask(driver, "push", ct, 255, err=PUSH_REFUSED)
        ask(driver, "pull", ct, 255, err=PULL_REFUSED)


@pytest.mark.parametrize("lock", LOCKS)
@pytest.mark.parametrize("ct", BOTH)
def test_a_lock_in_the_configuration_of_a_running_container(driver: Driver, changed: Path, ct: int, lock: str) -> None:
    add_line(ct, f"lock: {lock}")
    ask_all(driver, ct, "running", lock)


@pytest.mark.parametrize("lock", ["", "backup"])
def test_stopped(driver: Driver, changed: Path, lock: str) -> None:
    if lock:
        add_line(202, f"lock: {lock}")
    ask_all(driver, 202, "stopped", lock)


@pytest.mark.parametrize("ct", BOTH)
def test_template(driver: Driver, changed: Path, ct: int) -> None:
    add_line(ct, "template: 1")
    ask_all(driver, ct, "running")


def test_frozen(driver: Driver) -> None:
    frozen = container(201)
    frozen.freeze()
    try:
        for command in ("list", "status", "config", "push", "pull"):
            out = {"list": listed(), "status": "status: running\n", "config": shown_config(201)}.get(command, "")
            ask(driver, command, 201, out=out)
        hung = driver.call("hung_exec", ct=201)
    finally:
        frozen.thaw()
    assert hung == {"attach": ["lxc-attach", "-n", "201", "--keep-env", "--", "echo", "hi"], "status": None}


@pytest.mark.parametrize("ct", BOTH)
def test_configured_on_another_node_and_still_running_here(driver: Driver, changed: Path, ct: int) -> None:
    unknown = f"Configuration file 'nodes/pve1/lxc/{ct}.conf' does not exist\n"
    conf(ct).rename(conf(ct, "pve2"))
    ask(driver, "list", ct, out=listed(**{f"ct{ct}": ("", "")}))
    for command in ("status", "config", "exec", "push"):
        ask(driver, command, ct, 2, err=unknown)
    ask(driver, "pull", ct)


@pytest.mark.parametrize(("ct", "what"), [(210, "on another node"), (905, "a QEMU VM"), (999, "no such guest")])
def test_not_of_this_node(driver: Driver, changed: Path, ct: int, what: str) -> None:
    if what == "a QEMU VM":
        machines = changed / "pve1" / "qemu-server"
        machines.mkdir(exist_ok=True)
        (machines / f"{ct}.conf").write_text("name: vm\nmemory: 512\n", encoding="utf-8")
    unknown = f"Configuration file 'nodes/pve1/lxc/{ct}.conf' does not exist\n"
    ask(driver, "list", ct, out=listed())
    for command in ("status", "config", "exec"):
        ask(driver, command, ct, 2, err=unknown)
    ask(driver, "push", ct, 255, err=PUSH_REFUSED)
    ask(driver, "pull", ct, 255, err=PULL_REFUSED)
    if what == "a QEMU VM":
        (machines / f"{ct}.conf").unlink()
        machines.rmdir()


@pytest.mark.parametrize("ct", BOTH)
def test_description_and_snapshot_section(driver: Driver, changed: Path, ct: int) -> None:
    plain = shown_config(ct)
    text = conf(ct).read_text(encoding="utf-8")
    snapshot = "\n[snap1]\nmemory: 1\nsnaptime: 1796036000\n"
    conf(ct).write_text(f"#a comment\n#line 2\n{text}{snapshot}", encoding="utf-8")
    lines = sorted([*plain.splitlines(), "description: a comment%0Aline 2%0A"])
    ask(driver, "config", ct, out="".join(f"{line}\n" for line in lines))
    ask(driver, "list", ct, out=listed())
    ask(driver, "status", ct, out="status: running\n")
    ask(driver, "exec", ct, out="hi\n")
    ask(driver, "push", ct)
    ask(driver, "pull", ct)


@pytest.mark.parametrize("ct", BOTH)
def test_status_verbose(driver: Driver, ct: int) -> None:
    got = run(driver, Row("status --verbose", ("status", "{ct}", "--verbose")), ct)
    assert (got["status"], got["err"]) == (0, "")
    values = dict(line.split(": ", 1) for line in got["out"].splitlines())
    keys = "cpus disk diskread diskwrite maxdisk maxmem maxswap mem name netin netout pid status swap type uptime vmid"
    assert " ".join(values) == keys
    assert (values["cpus"], values["maxmem"], values["maxswap"]) == ("2", str(4096 << 20), str(512 << 20))
    assert (values["status"], values["type"], values["vmid"]) == ("running", "lxc", str(ct))
    assert int(values["pid"]) > 1
    assert int(values["uptime"]) >= 0


def test_start_and_stop(driver: Driver, changed: Path) -> None:
    """Their texts come from the source of the real one: the measurements have none."""

    def answer(*argv: str) -> tuple[int, str, str]:
        got = run(driver, Row(" ".join(argv), argv), 202)
        return got["status"], got["out"], got["err"]

    spare = container(202)
    assert answer("stop", "202") == (255, "", "CT 202 not running\n")
    assert answer("start", "999") == (2, "", "Configuration file 'nodes/pve1/lxc/999.conf' does not exist\n")
    plain = conf(202).read_text(encoding="utf-8")
    for line, said in (
        ("lock: backup", "CT is locked (backup)\n"),
        ("template: 1", "you can't start a CT if it's a template\n"),
    ):
        add_line(202, line)
        assert answer("start", "202") == (255, "", said)
        conf(202).write_text(plain, encoding="utf-8")
    assert spare.state() == "STOPPED"
    try:
        assert answer("start", "202") == (0, "", "")
        assert spare.state() == "RUNNING"
        assert answer("exec", "202", "--", "hostname") == (0, "spare\n", "")
        assert answer("start", "202") == (255, "", "CT 202 already running\n")
        assert answer("stop", "202") == (0, "", "")
        assert spare.state() == "STOPPED"
    finally:
        spare.stop()
    kinds = [line.split(":")[5] for line in driver.call("task_index").splitlines()]
    assert kinds[-2:] == ["vzstart", "vzstop"]
