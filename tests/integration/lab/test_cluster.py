# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The lab as a whole: up and down in every state it can be in, its nodes and what they share. On a lab of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab import cgroups, cluster, instance, nodes, rootfs, sshd
from lab.api import Lab, LabError, bring_up
from lab.system import wait_for

ROOT = Path(__file__).resolve().parents[3]
NAME = "selftest"


def command(*argv: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m lab …` for this file's lab."""
    return subprocess.run(
        [sys.executable, "-m", "lab", *argv],
        cwd=ROOT,
        env={**os.environ, "TRAINOPS_LAB": NAME, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.fixture(scope="module", autouse=True)
def nothing_stays() -> Iterator[None]:
    """This file's lab ends with it."""
    yield
    cluster.down(NAME)


@pytest.fixture
def lab() -> Lab:
    """This file's lab, as declared."""
    return bring_up(NAME)


def processes(lab: Lab) -> dict[str, set[int]]:
    """PIDs on this machine of what stays when nothing changes, by their control group."""
    parts = ["api", *(f"{node}/init.scope" for node in ("pve1", "pve2"))]
    parts += [f"{lab.container(vmid).spec.node}/lxc.monitor/{vmid}" for vmid in (200, 201, 210)]
    return {part: cgroups.members(lab.instance.cgroup(part)) for part in parts}


def works(lab: Lab) -> None:
    """Each part answers for itself."""
    for node in ("pve1", "pve2"):
        assert lab.ssh(node, "hostname").stdout.decode().splitlines()[-1] == node
    for vmid in (200, 201, 210):
        assert lab.container(vmid).run(["/root/venv/bin/python", "-c", "print(6 * 7)"]).stdout == b"42\n"
    assert lab.container(202).state() == "STOPPED"
    found = cluster.status(NAME)
    assert found["up"], found
    assert found["api"]["running"]


# --- up --------------------------------------------------------------------------------------------------------------


def test_up_again_changes_nothing(lab: Lab) -> None:
    marker = "/root/written-before"
    lab.container(200).run(["touch", marker])
    before = processes(lab)
    assert all(before.values())
    done = command("up")
    assert done.returncode == 0, done.stderr
    assert str(lab.inventory) in done.stdout
    assert processes(lab) == before
    assert lab.container(200).run(["test", "-e", marker]).returncode == 0
    works(lab)


def test_up_brings_containers_to_their_declared_state(lab: Lab) -> None:
    lab.container(200).freeze()
    lab.container(201).stop()
    lab.container(202).start()
    assert not cluster.status(NAME)["up"]
    works(bring_up(NAME))


def kill_group(lab: Lab, part: str) -> None:
    pids = cgroups.members(lab.instance.cgroup(part))
    assert pids
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "end of what was killed", 10)


def kill_node(lab: Lab) -> None:
    pid = lab.node("pve1").pid()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


def kill_sshd(lab: Lab) -> None:
    lab.node("pve2").check(["sh", "-c", "kill -9 $(cat /run/sshd.pid)"])


def lose(*paths: str) -> Callable[[Lab], None]:
    def remove(lab: Lab) -> None:
        for path in paths:
            (lab.instance.root / path).unlink()

    return remove


CRASHES: dict[str, Callable[[Lab], None]] = {
    "a node's init": kill_node,
    "a node's OpenSSH server": kill_sshd,
    "a container's processes": lambda lab: kill_group(lab, "pve1/lxc/200"),
    "a container's monitor": lambda lab: kill_group(lab, "pve1/lxc.monitor/201"),
    "a container with systemd": lambda lab: kill_group(lab, "pve2/lxc/210"),
    "the API": lambda lab: kill_group(lab, "api"),
    "everything": lambda lab: kill_group(lab, ""),
    "what it knows of a node": lose("nodes/pve1/node.json"),
    "a key": lose("keys/id_ed25519.pub"),
    "its name": lose("lab.json"),
    "a script in use": lose("tools/gpu/nvidia-smi", "tools/sshd"),
    "a container's configuration": lose("pve/nodes/pve1/lxc/200.conf", "nodes/pve1/lxc/200/config"),
}


@pytest.mark.parametrize("crash", CRASHES.values(), ids=CRASHES.keys())
def test_up_repairs(lab: Lab, crash: Callable[[Lab], None]) -> None:
    crash(lab)
    works(bring_up(NAME))


def interrupted(verb: str, when: Callable[[], bool]) -> None:
    """Run a verb and kill it, as with kill -9, once the condition holds (or it has ended before)."""
    process = subprocess.Popen(
        [sys.executable, "-m", "lab", verb],
        cwd=ROOT,
        env={**os.environ, "TRAINOPS_LAB": NAME},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    wait_for(lambda: when() or process.poll() is not None, f"the moment to end lab {verb}", 120)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


STATE = instance.STATE / NAME
UNFINISHED = {
    "its name": lambda: (STATE / "lab.json").exists(),
    "a key": lambda: (STATE / "keys/host_pve1").exists(),
    "a node's folder": lambda: (STATE / "nodes/pve1/upper").exists(),
    "a node's first process": lambda: bool(cgroups.members(f"{cgroups.ROOT}/{NAME}/pve1")),
    "a node": lambda: (STATE / "nodes/pve2/node.json").exists(),
    "a container's root": lambda: (STATE / "nodes/pve1/images/200/upper").exists(),
    "a container": lambda: bool(cgroups.members(f"{cgroups.ROOT}/{NAME}/pve1/lxc")),
}


@pytest.mark.parametrize("moment", UNFINISHED.values(), ids=UNFINISHED.keys())
def test_up_finishes_what_an_interrupted_one_began(moment: Callable[[], bool]) -> None:
    cluster.down(NAME)
    interrupted("up", moment)
    works(bring_up(NAME))


@pytest.mark.parametrize("again", ["up", "down"])
def test_an_interrupted_down_can_be_undone_and_finished(lab: Lab, again: str) -> None:
    interrupted("down", lambda: not cgroups.members(f"{cgroups.ROOT}/{NAME}"))
    assert command(again).returncode == 0
    if again == "up":
        works(bring_up(NAME))
    else:
        assert not STATE.exists()


def test_two_ups_at_once_make_one_lab() -> None:
    cluster.down(NAME)
    with contextlib.ExitStack() as stack:
        begun = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", "lab", "up"],
                    cwd=ROOT,
                    env={**os.environ, "TRAINOPS_LAB": NAME},
                    stdout=subprocess.DEVNULL,
                )
            )
            for _ in range(2)
        ]
        assert [process.wait(timeout=120) for process in begun] == [0, 0]
    works(bring_up(NAME))


# --- down ------------------------------------------------------------------------------------------------------------


def traces() -> dict[str, object]:
    """What a lab could leave on the machine: files, mounts, control groups, network namespaces, listening sockets."""
    groups = {str(path) for h in cgroups.hierarchies() for path in h.group(cgroups.ROOT).glob(f"{NAME}*")}
    return {
        "state": STATE.exists(),
        "mounts": [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if "trainops-lab" in line],
        "groups": groups,
        "namespaces": namespaces(),
        "listening": {line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines()[1:]
                      if line.split()[3] == "0A" and line.split()[1].startswith(_hex_addresses())},
    }  # fmt: skip


def _hex_addresses() -> tuple[str, ...]:
    lab = instance.find(NAME)
    net = lab.net if lab else _LAST_NET[0]
    _LAST_NET[0] = net
    return tuple(f"{octet:02X}{net:02X}007F:" for octet in (10, 11, 12))


_LAST_NET = [0]


def namespaces() -> set[str]:
    """The network namespaces that any process is in."""
    found = set()
    for link in Path("/proc").glob("[0-9]*/ns/net"):
        with contextlib.suppress(OSError):
            found.add(os.readlink(link))
    return found


def test_down_leaves_nothing_but_the_cache(lab: Lab) -> None:
    ours = {os.readlink(f"/proc/{lab.node(name).pid()}/ns/net") for name in ("pve1", "pve2")}
    during = traces()
    assert during["state"]
    assert during["groups"]
    assert len(during["listening"]) == 3  # type: ignore[arg-type]
    done = command("down")
    assert done.returncode == 0, done.stderr
    after = traces()
    assert not ours & namespaces()
    after.pop("namespaces")
    assert after == {"state": False, "mounts": [], "groups": set(), "listening": set()}
    assert list(instance.CACHE.iterdir())


def test_down_of_a_lab_that_is_down_is_no_error() -> None:
    cluster.down(NAME)
    assert command("down").returncode == 0
    assert command("status").returncode == 1


def test_down_ends_what_runs_in_frozen_and_busy_containers(lab: Lab) -> None:
    with lab.hold(201, 0, 100):
        lab.container(200).freeze()
        cluster.down(NAME)
    assert not STATE.exists()


def test_purge_keeps_roots_that_another_lab_rests_on(lab: Lab) -> None:
    other = f"{NAME}-other"
    bring_up(other)
    try:
        done = command("down", "--purge")
        assert done.returncode == 1
        assert other in done.stderr
        assert list(instance.CACHE.iterdir())
    finally:
        cluster.down(other)


# --- what it refuses -------------------------------------------------------------------------------------------------


def test_without_root_it_says_so() -> None:
    script = f"import os, lab.cluster; os.setuid(65534); lab.cluster.up({NAME!r}, print)"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "LabError: the lab needs root" in done.stderr


def test_missing_programs_are_named_with_their_packages() -> None:
    done = command("up", PATH="/nonexistent")
    assert done.returncode == 1
    assert "apt-get install" in done.stderr
    assert {"lxc", "mmdebstrap", "openssh-client"} <= set(done.stderr.split())


def test_a_taken_address_is_named_with_the_way_out(lab: Lab) -> None:
    kill_sshd(lab)
    wait_for(lambda: not sshd.answers(lab.node("pve2")), "end of the OpenSSH server", 10)
    with socket.create_server((lab.address("pve2"), lab.instance.port)):
        done = command("up")
    assert done.returncode == 1
    assert f"{lab.address('pve2')}:22" in done.stderr
    assert "TRAINOPS_LAB_SSH_PORT" in done.stderr
    works(bring_up(NAME))


def test_another_port_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.down(NAME)
    monkeypatch.setenv("TRAINOPS_LAB_SSH_PORT", "2022")
    works(bring_up(NAME))
    cluster.down(NAME)


def test_a_build_that_fails_says_where_its_log_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    monkeypatch.setattr(rootfs, "CACHE", tmp_path)
    monkeypatch.setattr(rootfs, "MIRRORS", (f"http://127.0.0.1:{port}/debian",))
    monkeypatch.setattr(rootfs, "RECIPES", {"bookworm": rootfs.Recipe("bookworm", ("python3",))})
    said: list[str] = []
    for _ in range(2):
        with pytest.raises(LabError, match="building the root of Debian bookworm failed; the whole log is") as failure:
            rootfs.ensure(said.append)
        (build,) = tmp_path.iterdir()  # the one before was cleared away
        assert str(build / "log") in str(failure.value)
    assert len(said) == 2
    assert rootfs.missing() == ["bookworm"]
    rootfs.purge()
    assert not tmp_path.exists()


# --- nodes -----------------------------------------------------------------------------------------------------------


def test_nodes_have_what_is_theirs_alone(lab: Lab) -> None:
    for path in ("/tmp/mine", "/root/mine", "/etc/mine", "/var/lib/lxc/mine", "/run/lock/lxc/mine"):
        lab.node("pve1").check(["touch", path])
        assert lab.node("pve2").run(["test", "-e", path]).returncode == 1
        assert not Path(path).exists()
    lxc = [lab.node(name).check(["lxc-ls", "-1"]).decode().split() for name in ("pve1", "pve2")]
    assert lxc == [["200", "201", "202"], ["210"]]


def test_nodes_share_the_clusters_configuration(lab: Lab) -> None:
    there = {
        name: lab.node(name).check(["sh", "-c", "cd /etc/pve; ls nodes/*/lxc/*.conf lxc/ local/lxc/"]).decode().split()
        for name in ("pve1", "pve2")
    }
    shared = [f"nodes/{node}/lxc/{vmid}.conf" for node, vmid in (("pve1", 200), ("pve1", 201), ("pve1", 202))]
    shared.append("nodes/pve2/lxc/210.conf")
    for name, own in (("pve1", ["200.conf", "201.conf", "202.conf"]), ("pve2", ["210.conf"])):
        assert there[name] == [*shared, "local/lxc/:", *own, "lxc/:", *own]
    lab.node("pve2").check(["sh", "-c", "echo lock: backup >> /etc/pve/nodes/pve1/lxc/202.conf"])
    assert b"lock: backup" in lab.node("pve1").check(["cat", "/etc/pve/lxc/202.conf"])


def test_a_node_sees_its_own_processes_alone(lab: Lab) -> None:
    with lab.hold(210, 0, 300):
        seen = [lab.node(name).check(["ps", "-eo", "args"]).decode() for name in ("pve1", "pve2")]
    assert ["/gpu/hold" in text for text in seen] == [False, True]


def test_the_servers_limits_are_those_that_openssh_ships(lab: Lab) -> None:
    shown = lab.node("pve1").check([f"{nodes.TOOLS}/sshd", "-T"]).decode().splitlines()
    assert {"maxsessions 10", "maxstartups 10:30:100", "usepam yes", "permitrootlogin without-password"} <= set(shown)


def test_the_server_refuses_more_than_a_hundred_unauthenticated_connections(lab: Lab) -> None:
    with contextlib.ExitStack() as stack:
        place = (lab.address("pve2"), lab.instance.port)
        links = [stack.enter_context(socket.create_connection(place, timeout=20)) for _ in range(110)]
        greeted = [_greeting(link) for link in links]
    assert greeted[:10] == [b"SSH-"] * 10  # from then on some are refused by chance, beyond a hundred all
    assert greeted.count(b"SSH-") <= 100


def _greeting(link: socket.socket) -> bytes:
    """The first bytes that the server sends: of its greeting, of a refusal, or none."""
    try:
        return link.recv(4)
    except ConnectionResetError:
        return b""


def test_sessions_are_counted(lab: Lab) -> None:
    with lab.counting("pve1") as sessions, lab.counting("pve2") as elsewhere:
        for _ in range(3):
            assert lab.ssh("pve1", "true").returncode == 0
        assert (sessions(), elsewhere()) == (3, 0)
    assert sshd.sessions(lab.node("pve1")) == lab.sessions_log("pve1").read_text().count("\nStarting session: ")


def test_a_command_over_ssh_runs_in_the_nodes_network(lab: Lab) -> None:
    inside = lab.node("pve1").check(["readlink", "/proc/1/ns/net"])
    done = lab.ssh("pve1", "readlink /proc/self/ns/net")
    assert done.stdout.splitlines()[-1] == inside.strip()
    assert inside.decode().strip() != os.readlink("/proc/self/ns/net")


@pytest.mark.parametrize(("user", "may"), [("ops", True), ("limited", False)])
def test_logins_that_are_not_root(lab: Lab, user: str, may: bool) -> None:
    done = lab.ssh("pve1", "id -un; sudo -n lxc-attach -n 200 -- id -un", user=user)
    assert done.stdout.decode().split("\n")[1:] == ([user, "root", ""] if may else [user, ""])
    assert (done.returncode == 0) is may


def test_shells_of_a_node_print_before_they_do_what_they_are_told(lab: Lab) -> None:
    assert lab.ssh("pve1", "echo done").stdout.startswith(b"Welcome to pve1")


def test_orphans_are_reaped(lab: Lab) -> None:
    for place in (lab.node("pve1"), lab.container(200)):
        place.run(["sh", "-c", "(sleep 0 & sleep 0 &)"])
        wait_for(lambda place=place: b"defunct" not in place.run(["ps", "-e"]).stdout, "reaping", 10)  # type: ignore[misc]


# --- the command -----------------------------------------------------------------------------------------------------


def test_ssh_runs_a_command_with_its_status(lab: Lab) -> None:
    done = command("ssh", "pve1", "exit 7")
    assert done.returncode == 7


def test_status_tells_people_and_programs(lab: Lab) -> None:
    assert "train-a" in command("status").stdout
    told = json.loads(command("status", "--json").stdout)
    assert told["up"] is True
    assert told["containers"]["202"] == {"node": "pve1", "name": "spare", "state": "STOPPED", "as_declared": True}


def test_hold_by_command_lasts_as_long_as_the_command(lab: Lab) -> None:
    argv = [sys.executable, "-m", "lab", "hold", "201", "--gpu", "2", "--mib", "700"]
    environment = {**os.environ, "TRAINOPS_LAB": NAME}
    with subprocess.Popen(argv, cwd=ROOT, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert b"700 MiB" in process.stdout.readline()
        assert used(lab, 200)[6] == 700
        process.kill()
    wait_for(lambda: used(lab, 200)[6] == 0, "release of the GPU", 20)


@pytest.mark.parametrize(
    ("target", "options", "text"),
    [
        ("299", ["--gpu", "0", "--mib", "1"], "no container 299 in the lab"),
        ("pve3", ["--gpu", "0", "--mib", "1"], "no node 'pve3' in the lab"),
        ("202", ["--gpu", "0", "--mib", "1"], "container 202 is stopped"),
        ("201", ["--gpu", "4", "--mib", "1"], "no GPU 4 here"),
    ],
)
def test_hold_says_what_is_wrong(lab: Lab, target: str, options: list[str], text: str) -> None:
    done = command("hold", target, *options)
    assert done.returncode != 0
    assert text in done.stderr


def used(lab: Lab, vmid: int) -> dict[int, int]:
    """MiB in use by index, as the container's nvidia-smi says."""
    query = ["nvidia-smi", "--query-gpu=index,memory.used", "--format=csv,noheader,nounits"]
    rows = lab.container(vmid).run(query).stdout.decode().splitlines()
    return {int(index): int(memory) for index, memory in (row.split(", ") for row in rows)}


def test_a_lab_that_was_never_up_is_named() -> None:
    cluster.down(NAME)
    done = command("ssh", "pve1", "true")
    assert done.returncode == 1
    assert f"lab {NAME} is not up: python -m lab up" in done.stderr


def test_commands_in_a_node_that_is_down_say_so(lab: Lab) -> None:
    kill_node(lab)
    wait_for(lambda: lab.node("pve1").pid() is None, "end of pve1", 10)
    with pytest.raises(LabError, match=f"node pve1 of lab {NAME} is not up"):
        lab.node("pve1").run(["true"])


def test_two_threads_may_use_a_lab(lab: Lab) -> None:
    answers: list[bytes] = []
    ask = [lambda vmid=vmid: answers.append(lab.container(vmid).run(["hostname"]).stdout) for vmid in (200, 201, 210)]
    threads = [threading.Thread(target=one) for one in ask]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [b"train-a\n", b"train-b\n", b"train-c\n"]
