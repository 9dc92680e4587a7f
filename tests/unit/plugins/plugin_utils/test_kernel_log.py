# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The node's kernel log: the script with stand-ins for journalctl and dmesg, and lines as real kernels print them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils import kernel_log
from ansible_collections.trainops.proxmox.plugins.plugin_utils.kernel_log import (
    SCRIPT,
    OomKill,
    Xid,
    normal_bus,
    parse_kernel_log,
)
from ansible_collections.trainops.proxmox.plugins.plugin_utils.xids import MEANINGS, UNKNOWN, meaning

BUS = "NVRM: Xid (PCI:0000:18:00): 79, pid=1234, name=python3, GPU has fallen off the bus."
MMU = (
    "NVRM: Xid (PCI:0000:3b:00): 31, pid=9113, name=python3, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS "
    "GPCCLIENT_T1_0 faulted @ 0x7f2c_b4000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ"
)
OLD = "NVRM: Xid (PCI:0000:af:00): 48, An uncorrectable double bit error (DBE) has been detected on GPU"
CLEANUP = "NVRM: Xid (PCI:0000:18:00): 45, pid='<unknown>', name=<unknown>, Ch 00000010"
MEMCG = (
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=ns,mems_allowed=0-1,oom_memcg=/lxc/200,"
    "task_memcg=/lxc/200/ns/system.slice/run.service,task=python3,pid=4711,uid=100000"
)
GLOBAL = (
    "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,"
    "task_memcg=/lxc.payload.201/ns,task=pt_main_thread,pid=812,uid=0"
)
NODES_OWN = (
    "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,"
    "task_memcg=/system.slice/pvedaemon.service,task=pvedaemon,pid=99,uid=0"
)
KILLED = (
    "Memory cgroup out of memory: Killed process 4711 (python3) total-vm:9000000kB, anon-rss:8000000kB, file-rss:1kB"
)


@pytest.mark.parametrize(
    ("line", "xid"),
    [
        (BUS, Xid(50.25, "0000:18:00", 79, "pid=1234, name=python3, GPU has fallen off the bus.")),
        (MMU, Xid(50.25, "0000:3b:00", 31, MMU.partition("31, ")[2])),
        (OLD, Xid(50.25, "0000:af:00", 48, OLD.partition("48, ")[2])),
        (CLEANUP, Xid(50.25, "0000:18:00", 45, CLEANUP.partition("45, ")[2])),
        ("NVRM: Xid (PCI:0000:18:00.0): 63", Xid(50.25, "0000:18:00", 63, "")),
        ("NVRM: GPU at PCI:0000:18:00: GPU-1a2b", None),
        ("NVRM: Xid (PCI:0000:18:00): soon", None),
    ],
)
@pytest.mark.parametrize("form", ["50.250000 pve1 kernel: {}", "[   40.250000] {}"])
def test_xids_are_read_from_journal_and_dmesg(form: str, line: str, xid: Xid | None) -> None:
    text = f"=== kernel any\n{form.format(line)}\n=== clock 1010 1000.00\n=== end"
    assert parse_kernel_log(text).xids == ((xid,) if xid else ())


@pytest.mark.parametrize(
    ("line", "kill"),
    [
        (MEMCG, OomKill(5.5, 200, "python3", True)),
        (GLOBAL, OomKill(5.5, 201, "pt_main_thread", False)),
        (NODES_OWN, OomKill(5.5, None, "pvedaemon", False)),
        (KILLED, None),
    ],
)
def test_kills_for_memory_name_their_container(line: str, kill: OomKill | None) -> None:
    assert parse_kernel_log(f"=== kernel journalctl\n5.5 pve1 kernel: {line}\n").ooms == ((kill,) if kill else ())


@pytest.mark.parametrize("text", ["", "=== kernel none\n=== clock 5 3\n=== end", "nonsense\n=== clock x y\n[x] y"])
def test_no_log_is_no_messages(text: str) -> None:
    assert parse_kernel_log(text) == kernel_log.KernelLog()


@pytest.mark.parametrize(
    ("text", "bus"),
    [("00000000:18:00.0", "0000:18:00"), ("0000:AF:00", "0000:af:00"), ("00000001:3B:00.0", "0001:3b:00")],
)
def test_both_ways_to_write_an_address_are_one(text: str, bus: str) -> None:
    assert normal_bus(text) == bus


@pytest.mark.parametrize("number", [13, 31, 43, 48, 63, 74, 79, 94, 95])
def test_the_common_numbers_have_a_meaning_and_a_fix(number: int) -> None:
    assert meaning(number) is MEANINGS[number]
    assert MEANINGS[number].fix


def test_an_unknown_number_is_said_to_be() -> None:
    assert meaning(9999) is UNKNOWN


def look(folder: Path, run: str = "", **tools: str) -> str:
    """What the script prints with these programs first on the PATH."""
    for name, body in tools.items():
        path = folder / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", "-euc", f"run='{run}' deadline=1\n{SCRIPT}"],
        env={**os.environ, "PATH": f"{folder}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("=== end\n")
    return done.stdout


def test_the_journal_is_asked_first(tmp_path: Path) -> None:
    text = look(
        tmp_path, journalctl=f'echo "1.5 pve1 kernel: {BUS}"; echo "2.5 pve1 kernel: usb 1-1: new"', dmesg="exit 9"
    )
    assert "usb" not in text
    found = parse_kernel_log(text)
    assert (found.source, [xid.when for xid in found.xids]) == ("journalctl", [1.5])


@pytest.mark.parametrize("journal", ["exit 1", "exit 0", "exec sleep 600"])
def test_dmesg_is_asked_where_there_is_no_journal(tmp_path: Path, journal: str) -> None:
    text = look(tmp_path, journalctl=journal, dmesg=f'echo "[    1.000000] {BUS}"')
    found = parse_kernel_log(text)
    assert found.source == "dmesg"
    boot = subprocess.run(["sh", "-c", "date +%s; cat /proc/uptime"], capture_output=True, text=True, check=True).stdout
    now, uptime = float(boot.split()[0]), float(boot.split()[1])
    assert abs(found.xids[0].when - (now - uptime + 1)) < 3


def test_who_may_read_neither_is_told_so(tmp_path: Path) -> None:
    text = look(tmp_path, journalctl="exit 1", dmesg="echo dmesg: read kernel buffer failed >&2; exit 1")
    assert parse_kernel_log(text).source == ""


def test_what_needs_root_is_asked_by_the_prefix(tmp_path: Path) -> None:
    sudo = f'echo "$@" >> {tmp_path}/asked; shift; exec "$@"'
    look(tmp_path, run="sudo -n", sudo=sudo, journalctl=f'echo "1.5 pve1 kernel: {BUS}"')
    assert (tmp_path / "asked").read_text().count("journalctl") == 2


def test_a_flood_is_bounded(tmp_path: Path) -> None:
    text = look(tmp_path, journalctl=f'i=0; while [ $i -lt 2000 ]; do i=$((i+1)); echo "$i.5 pve1 kernel: {BUS}"; done')
    assert [xid.when for xid in parse_kernel_log(text).xids][:1] == [1601.5]
