# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The connection itself, on the lab: every row of what goes wrong when ansible-core's ssh connection is extended."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.connection.ssh import Connection as SSHConnection

from lab.api import open_lab
from tests.integration.connections import connect, host_variables, inventory

pytestmark = pytest.mark.usefixtures("quick_pct")

HOSTS = ["ct200", "ct201", "ct210"]
WAYS = ["lxc-attach", "pct"]
NAMES = [
    "plain",
    "a b",
    "-dash",
    "ünïcödé-日本語",
    "quo\"te's",
    "$HOME`id`;x",
    "new\nline",
    "tab\there",
    "back\\slash",
    "*",
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("host", HOSTS)
def test_status_output_and_error_are_the_commands_own(host: str, way: str) -> None:
    connection = connect(host, proxmox_enter=way)
    assert connection.exec_command("printf out; printf err >&2; exit 3") == (3, b"out", b"err")


@pytest.mark.parametrize("status", [0, 1, 2, 126, 127, 254, 255])
def test_a_status_of_255_is_the_commands_and_not_an_unreachable_host(status: int) -> None:
    assert connect("ct200").exec_command(f"exit {status}")[0] == status


def test_a_signal_is_128_and_its_number() -> None:
    assert connect("ct200").exec_command("kill -9 $$")[0] == 137


@pytest.mark.parametrize("way", WAYS)
def test_empty_input_is_an_end_and_no_terminal(way: str) -> None:
    connection = connect("ct200", proxmox_enter=way)
    assert connection.exec_command("wc -c; test -t 0 || echo none")[1].split() == [b"0", b"none"]
    assert connection.exec_command("cat", in_data=b"")[1] == b""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("host", HOSTS)
def test_all_bytes_pass_both_ways(host: str, way: str) -> None:
    data = bytes(range(256)) * 1000 + b"\r\n\x04\x1a"
    assert connect(host, proxmox_enter=way).exec_command("cat", in_data=data) == (0, data, b"")


def test_more_input_than_the_pipes_hold_does_not_lock_up() -> None:
    data = os.urandom(1 << 20) * 20
    assert connect("ct200").exec_command("cat", in_data=data)[1] == data


@pytest.mark.parametrize("way", WAYS)
def test_the_environment_is_clean(way: str) -> None:
    _status, output, _error = connect("ct200", proxmox_enter=way).exec_command("env; id -u; pwd")
    names = {line.partition(b"=")[0] for line in output.splitlines() if b"=" in line}
    assert names - {b"PWD", b"OLDPWD", b"SHLVL", b"_"} == {
        b"PATH",
        b"HOME",
        b"USER",
        b"LOGNAME",
        b"SHELL",
        b"LANG",
        b"container",
    }
    assert b"/usr/local/bin" in output


def test_a_talkative_login_shell_is_not_part_of_the_output() -> None:
    assert connect("ct200").exec_command("true") == (0, b"", b"")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", NAMES)
def test_files_of_any_name_go_in_and_out(name: str, way: str, tmp_path: Path) -> None:
    connection = connect("ct200", proxmox_enter=way)
    source, back = tmp_path / "source", tmp_path / "back"
    source.write_bytes(bytes(range(256)))
    connection.exec_command("rm -rf /root/journey; mkdir /root/journey")
    connection.put_file(str(source), f"/root/journey/{name}")
    connection.fetch_file(f"/root/journey/{name}", str(back))
    assert back.read_bytes() == source.read_bytes()
    assert connection.exec_command("ls -b /root/journey | wc -l; rm -r /root/journey")[1].strip() == b"1"


@pytest.mark.parametrize("host", HOSTS)
def test_an_empty_file_goes_in_and_out(host: str, tmp_path: Path) -> None:
    connection = connect(host)
    (tmp_path / "empty").touch()
    connection.put_file(str(tmp_path / "empty"), "/root/empty")
    connection.fetch_file("/root/empty", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == b""
    assert connection.exec_command("rm /root/empty")[0] == 0


@pytest.mark.parametrize("host", HOSTS)
def test_a_large_file_goes_in_and_out_in_little_memory(host: str, tmp_path: Path) -> None:
    connection = connect(host)
    source = tmp_path / "large"
    with source.open("wb") as target:
        for _block in range(300):
            target.write(os.urandom(1 << 20))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    connection.put_file(str(source), "/root/large")
    connection.fetch_file("/root/large", str(tmp_path / "back"))
    connection.exec_command("rm /root/large")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 * 1024
    digests = [hashlib.file_digest(path.open("rb"), "sha256").digest() for path in (source, tmp_path / "back")]
    assert digests[0] == digests[1]


def test_a_file_that_cannot_be_written_or_read_says_why(tmp_path: Path) -> None:
    connection = connect("ct200")
    (tmp_path / "source").write_text("x")
    with pytest.raises(AnsibleError, match=r"could not write /proc/no/such"):
        connection.put_file(str(tmp_path / "source"), "/proc/no/such")
    with pytest.raises(
        AnsibleError, match=r"could not read /no/such.*(No such file|nonexistent|can't open|cannot open)"
    ):
        connection.fetch_file("/no/such", str(tmp_path / "back"))
    with pytest.raises(AnsibleError, match=r"does not exist"):
        connection.put_file(str(tmp_path / "missing"), "/root/x")
    with pytest.raises(AnsibleError, match=r"could not write /dev/full.*No space left"):
        connection.put_file(str(tmp_path / "source"), "/dev/full")


FAILURES = [
    ({"proxmox_vmid": 202}, "container 202 is stopped: start it with pct start 202"),
    ({"proxmox_vmid": 210}, "it lives on node pve2"),
    ({"proxmox_vmid": 999}, "no container 999"),
    ({"ansible_user": "limited"}, "on node limited@"),
    ({"ansible_user": "nosuch"}, "refused the login"),
    ({"ansible_port": 9}, "does not answer"),
    ({"ansible_host": "pve9.invalid"}, "has no address"),
    ({"ansible_ssh_common_args": "-o UserKnownHostsFile=/dev/null -o StrictHostKeyChecking=yes"}, "known_hosts"),
]


@pytest.mark.parametrize(("variables", "says"), FAILURES)
@pytest.mark.parametrize("way", WAYS)
def test_each_failure_names_the_hop_and_the_fix(variables: dict[str, object], says: str, way: str) -> None:
    # A shared master would hide a refused login.
    connection = connect("ct200", proxmox_enter=way, proxmox_ssh_args="-o ControlMaster=no", **variables)
    with pytest.raises(AnsibleConnectionFailure, match=r"controller -> node|node -> container|on node") as caught:
        connection.exec_command("true")
    assert says in str(caught.value)


@pytest.mark.parametrize("way", WAYS)
def test_a_login_with_sudo_for_everything_works(way: str) -> None:
    assert connect("ct200", ansible_user="ops", proxmox_enter=way).exec_command("id -u; echo ~")[1] == b"0\n/root\n"


def test_sixty_four_hosts_of_one_node_all_succeed(tmp_path: Path) -> None:
    hosts = "\n".join(f"    many{n}:" for n in range(64))
    address = host_variables("ct200")["ansible_host"]
    (tmp_path / "many.yml").write_text(
        f"training:\n  hosts:\n{hosts}\n  vars:\n    ansible_host: {address}\n    proxmox_vmid: 200\n"
    )
    command = [
        "ansible",
        "-i",
        inventory(),
        "-i",
        str(tmp_path / "many.yml"),
        "many*",
        "-f",
        "40",
        "-m",
        "raw",
        "-a",
        "true",
    ]
    done = subprocess.run(
        [Path(sys.executable).with_name(command[0]), *command[1:]], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("rc=0") == 64


def test_a_module_costs_one_session() -> None:
    ansible = str(Path(sys.executable).with_name("ansible"))
    ping = [ansible, "-i", inventory(), "ct200", "-m", "ansible.builtin.ping"]
    with open_lab().counting("pve1") as sessions:
        subprocess.run(ping, capture_output=True, check=True)
        assert sessions() == 1


def shared_socket(**variables: Any) -> bytes:
    """The ControlPath of a login."""
    command: list[bytes] = connect("ct200", **variables)._ssh("true")
    assert b"-C" not in command
    return next(word for word in command if word.startswith(b"ControlPath="))


def test_sessions_are_shared_with_the_same_login_alone_and_never_with_the_builtin_plugins() -> None:
    core = SSHConnection._create_control_path(open_lab().address("pve1"), 22, "root").encode()
    ours = shared_socket()
    assert ours == shared_socket(proxmox_vmid=201)
    assert core.removeprefix(b"%(directory)s/") not in ours
    others = ({"ansible_ssh_private_key_file": "/dev/null"}, {"ansible_user": "ops"}, {"ansible_ssh_common_args": "-4"})
    assert len({ours, *(shared_socket(**one) for one in others)}) == 4


def test_commands_transfers_and_exchanges_of_a_login_count_together(tmp_path: Path) -> None:
    (tmp_path / "source").touch()
    cap = {"ansible_control_path_dir": str(tmp_path / "cp"), "proxmox_sessions": 1}
    connect("ct200", **cap).exec_command("true")
    connect("ct201", **cap).put_file(str(tmp_path / "source"), "/dev/null")
    with connect("ct200", **cap).open_session(["/bin/true"], secrets.token_hex(8), None) as session:
        session.process.wait()
    assert len(list((tmp_path / "cp" / "trainops-sessions").iterdir())) == 1
    connect("ct200", **cap).reset()


CONTENTS = {
    "empty": b"",
    "-größe `id` 'q' 日本": bytes(range(256)) + b"\r\n",
    "large": os.urandom(1 << 20) * 8,
}


@pytest.mark.parametrize("pipelining", [True, False])
@pytest.mark.parametrize("way", WAYS)
def test_conformance(way: str, pipelining: bool, tmp_path: Path) -> None:
    source, back = tmp_path / "source", tmp_path / "back"
    source.mkdir()
    for name, data in CONTENTS.items():
        (source / name).write_bytes(data)
        (source / f"{name}.sha256").write_text(hashlib.sha256(data).hexdigest())
    variables = {
        "proxmox_enter": way,
        "ansible_pipelining": pipelining,
        "journey_source": str(source),
        "journey_back": str(back),
        "journey_files": list(CONTENTS),
    }
    journey = Path(__file__).with_name("journeys") / "conformance.yml"
    playbook = Path(sys.executable).with_name("ansible-playbook")
    command = [str(playbook), "-i", inventory(), "-e", json.dumps(variables), str(journey)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    for host in HOSTS:
        assert {path.name: path.read_bytes() for path in (back / host).iterdir()} == CONTENTS


@pytest.fixture
def password(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The password of the node's user ops, taken away again afterwards."""
    # Core hands passwords to ssh by its own command `ansible`, which it looks for on PATH.
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    node = open_lab().node("pve1")
    word = secrets.token_hex(12)
    node.check(["chpasswd"], stdin=f"ops:{word}\n".encode())
    yield word
    node.check(["passwd", "-l", "ops"])


def test_a_password_opens_the_shared_connection_that_all_then_use(password: str, tmp_path: Path) -> None:
    variables = {
        "ansible_user": "ops",
        "ansible_password": password,
        "ansible_ssh_private_key_file": "/dev/null",
        "ansible_control_path_dir": str(tmp_path / "cp"),
    }
    (tmp_path / "source").write_bytes(b"secret to nobody")
    connection = connect("ct200", **variables)
    connection.put_file(str(tmp_path / "source"), "/root/by-password")
    assert connection.exec_command("cat /root/by-password; rm /root/by-password")[1] == b"secret to nobody"
    connection.reset()


def test_a_wrong_password_is_a_refused_login(password: str, tmp_path: Path) -> None:
    variables = {
        "ansible_user": "ops",
        "ansible_password": password + "x",
        "ansible_ssh_private_key_file": "/dev/null",
        "ansible_control_path_dir": str(tmp_path / "cp"),
    }
    (tmp_path / "source").touch()
    with pytest.raises(AnsibleConnectionFailure, match="refused the login"):
        connect("ct200", **variables).put_file(str(tmp_path / "source"), "/root/by-password")
