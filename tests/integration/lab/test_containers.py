# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The lab's containers, from inside, from their node and through the API."""

from __future__ import annotations

import hashlib
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lab import pve, spec
from lab.api import Lab, LabError, open_lab
from lab.system import wait_for

RUNNING = [container.vmid for container in spec.CONTAINERS if container.running]


@pytest.fixture(scope="module")
def lab() -> Lab:
    """The lab that the session brought up."""
    return open_lab()


@pytest.fixture
def as_new(lab: Lab) -> Iterator[Callable[[int], Any]]:
    """Gives containers that are as new, and makes them so again afterwards."""
    given = set()

    def give(vmid: int) -> Any:
        given.add(vmid)
        lab.container(vmid).reset()
        return lab.container(vmid)

    yield give
    for vmid in given:
        lab.container(vmid).reset()


def inside(lab: Lab, vmid: int, script: str) -> list[str]:
    """Lines that a shell script prints in a container."""
    done = lab.container(vmid).run(["sh", "-c", script])
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().splitlines()


@pytest.mark.parametrize(
    ("vmid", "debian", "python", "init", "ids"),
    [
        (200, "12", "Python 3.11", "/bin/sh /sbin/init", "0 0 4294967295"),
        (201, "11", "Python 3.9", "/bin/sh /sbin/init", "0 100000 65536"),
        (210, "12", "Python 3.11", "/sbin/init", "0 0 4294967295"),
    ],
)
def test_each_container_is_what_it_is_for(lab: Lab, vmid: int, debian: str, python: str, init: str, ids: str) -> None:
    wanted = spec.container_spec(vmid)
    script = (
        '. /etc/os-release; echo $VERSION_ID; hostname; tr "\\0" " " < /proc/1/cmdline; echo; cat /proc/self/uid_map'
    )
    version, name, command, id_map = inside(lab, vmid, script)
    assert (version, name, command.strip()) == (debian, wanted.hostname, init)
    assert id_map.split() == ids.split()
    assert inside(lab, vmid, "/root/venv/bin/python -V")[0].startswith(python)


@pytest.mark.parametrize("vmid", RUNNING)
def test_the_virtual_environment_is_real(lab: Lab, vmid: int) -> None:
    code = "import sys, json, ssl; print(sys.prefix, sys.base_prefix != sys.prefix)"
    assert inside(lab, vmid, f"/root/venv/bin/python -c '{code}'; test -f /root/venv/pyvenv.cfg") == ["/root/venv True"]
    assert inside(lab, vmid, "/root/venv/bin/pip --version")[0].startswith("pip ")


@pytest.mark.parametrize("vmid", RUNNING)
def test_users_can_become_each_other(lab: Lab, vmid: int) -> None:
    password = spec.PASSWORDS["trainer"]
    assert inside(lab, vmid, "su trainer -c 'id -un'; sudo -n -u trainer id -un") == ["trainer", "trainer"]
    assert inside(lab, vmid, f"echo {password} | su trainer -c 'sudo -S -p \"\" id -un'") == ["root"]
    refused = lab.container(vmid).run(["su", "trainer", "-c", "sudo -n id"])
    assert refused.returncode == 1


def test_systemd_is_up_where_it_is_the_init(lab: Lab) -> None:
    assert inside(lab, 210, "systemctl is-system-running; systemd-run --wait --pipe -q echo ran") == ["running", "ran"]


@pytest.mark.parametrize("vmid", RUNNING)
def test_control_groups_are_named_as_on_proxmox_ve(lab: Lab, vmid: int) -> None:
    node = lab.container(vmid).node
    pid = node.check(["lxc-info", "-H", "-p", "-n", str(vmid)]).decode().strip()
    groups = {line.split(":", 2)[2] for line in node.check(["cat", f"/proc/{pid}/cgroup"]).decode().splitlines()}
    assert all(f"{group}/".startswith(f"/lxc/{vmid}/ns/") for group in groups)


@pytest.mark.parametrize("vmid", RUNNING)
def test_a_container_sees_the_gpus_it_was_given(lab: Lab, vmid: int) -> None:
    rows = inside(lab, vmid, "nvidia-smi --query-gpu=index,uuid,memory.total --format=csv,noheader,nounits")
    assert [tuple(row.split(", ")) for row in rows] == [
        (str(gpu.index), gpu.uuid, str(gpu.total_mib)) for gpu in lab.gpus(vmid)
    ]
    names = [f"nvidia{gpu.minor}" for gpu in lab.gpus(vmid)]
    assert inside(lab, vmid, "cd /dev; ls nvidia[0-9]*") == sorted(names)


def test_memory_held_in_one_container_shows_in_another_with_its_holder_on_the_node(lab: Lab) -> None:
    node = lab.node("pve1")
    query = ["nvidia-smi", "--query-compute-apps=gpu_uuid,pid,used_memory", "--format=csv,noheader,nounits"]
    with lab.hold(201, gpu=2, mib=1234) as line:
        assert "1234 MiB" in line
        used = inside(lab, 200, "nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits")
        assert used == ["0"] * 6 + ["1234", "0"]
        (row,) = node.check(query).decode().splitlines()
        uuid, pid, memory = row.split(", ")
        assert (uuid, memory) == (lab.gpus(201)[2].uuid, "1234")
        assert b"/lxc/201/ns" in node.check(["cat", f"/proc/{pid}/cgroup"])
        assert "/dev/nvidia6" in node.check(["sh", "-c", f"readlink /proc/{pid}/fd/*"]).decode().split()
    assert inside(lab, 200, "nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits") == ["0"] * 8


def test_a_holder_without_memory_has_the_devices_open(lab: Lab) -> None:
    with lab.hold(210, gpu=1):
        found = lab.node("pve2").check(["sh", "-c", "readlink /proc/[0-9]*/fd/* || true"]).decode().split()
        assert {"/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm"} <= set(found)
        assert inside(lab, 210, "nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits") == ["0", "0"]


def test_a_process_of_the_node_itself_can_hold_memory(lab: Lab) -> None:
    with lab.hold("pve1", gpu=0, mib=50):
        assert inside(lab, 200, "nvidia-smi -i 0 --query-gpu=memory.used --format=csv,noheader,nounits") == ["50"]
        (pid,) = lab.node("pve1").check(["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"]).split()
        assert b":/system.slice" in lab.node("pve1").check(["cat", f"/proc/{pid.decode()}/cgroup"])


def test_reset_makes_a_container_as_new(lab: Lab, as_new: Callable[[int], Any]) -> None:
    for vmid in (201, 210):
        container = as_new(vmid)
        inside(lab, vmid, "echo x > /root/x; rm -rf /root/venv/bin; echo y >> /etc/passwd; mv /opt /opt2")
        container.reset()
        assert container.run(["sh", "-c", "ls /root; ls -d /opt*; grep -c y$ /etc/passwd"]).stdout == b"venv\n/opt\n0\n"


def test_folders_of_the_root_can_be_renamed_and_exchanged(as_new: Callable[[int], Any]) -> None:
    code = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
os.makedirs("/root/new")
for one, two in ((b"/root/new", b"/root/venv"), (b"/srv", b"/root/new")):
    if libc.renameat2(-100, one, -100, two, 2):
        raise OSError(ctypes.get_errno(), "renameat2")
print(os.path.exists("/srv/bin/python"))
"""
    assert as_new(200).run(["/usr/bin/python3", "-c", code]).stdout == b"True\n"


def test_states(lab: Lab, as_new: Callable[[int], Any]) -> None:
    container = as_new(201)
    container.freeze()
    assert container.state() == "FROZEN"
    with pytest.raises(LabError, match="container 201 is frozen"):
        container.run(["true"])
    container.thaw()
    assert container.state() == "RUNNING"
    container.stop()
    container.stop()
    assert container.state() == "STOPPED"
    container.start()
    container.start()
    assert inside(lab, 201, "hostname") == ["train-b"]


# --- the API ---------------------------------------------------------------------------------------------------------


def ask(lab: Lab, path: str, method: str = "GET", form: str | None = None, token: str | None = "") -> tuple[int, Any]:
    """Status and body of a call; the body of an error that is not JSON is its bytes. token: "" the lab's, None none."""
    api = lab.api
    secret = f"PVEAPIToken={api.user}!{api.token_name}={api.token_value}" if token == "" else token
    request = urllib.request.Request(
        f"{api.url}/api2/json{path}", method=method, data=form.encode() if form is not None else None
    )
    if secret:
        request.add_header("Authorization", secret)
    try:
        with urllib.request.urlopen(request, context=ssl.create_default_context(cafile=api.ca), timeout=30) as answer:
            return answer.status, json.load(answer)["data"]
    except urllib.error.HTTPError as exc:
        body = exc.read()
        return exc.code, json.loads(body) if body else exc.reason


def finished(lab: Lab, node: str, upid: str) -> str:
    """A task's exit status, once it has ended."""
    state: dict[str, Any] = {}

    def ended() -> bool:
        state.update(ask(lab, f"/nodes/{node}/tasks/{upid}/status")[1])
        return bool(state["status"] == "stopped")

    wait_for(ended, f"end of {upid}", 60)
    return str(state["exitstatus"])


def test_the_api_knows_the_containers(lab: Lab) -> None:
    _, rows = ask(lab, "/cluster/resources?type=vm")
    assert {(row["vmid"], row["node"], row["name"]) for row in rows} == {
        (container.vmid, container.node, container.hostname) for container in spec.CONTAINERS
    }
    _, config = ask(lab, "/nodes/pve1/lxc/201/config")
    assert config["unprivileged"] == 1
    assert ["lxc.mount.entry", "/dev/nvidia4 dev/nvidia4 none bind,optional,create=file"] in config["lxc"]
    node = lab.node("pve1")
    assert node.check(["sha1sum", "/etc/pve/lxc/201.conf"]).decode().split()[0] == config["digest"]
    _, state = ask(lab, "/nodes/pve1/lxc/200/status/current")
    assert str(state["pid"]) == node.check(["lxc-info", "-H", "-p", "-n", "200"]).decode().strip()


def test_the_api_follows_the_containers_and_they_follow_it(lab: Lab, as_new: Callable[[int], Any]) -> None:
    container = as_new(202)
    status = "/nodes/pve1/lxc/202/status"
    assert ask(lab, f"{status}/current")[1]["status"] == "stopped"
    container.start()
    assert ask(lab, f"{status}/current")[1]["status"] == "running"
    assert finished(lab, "pve1", ask(lab, f"{status}/stop", "POST")[1]) == "OK"
    assert container.state() == "STOPPED"
    assert finished(lab, "pve1", ask(lab, f"{status}/start", "POST")[1]) == "OK"
    assert container.state() == "RUNNING"
    assert finished(lab, "pve1", ask(lab, f"{status}/shutdown", "POST")[1]) == "OK"
    assert container.state() == "STOPPED"


def test_a_lock_in_the_configuration_stops_the_api(lab: Lab, as_new: Callable[[int], Any]) -> None:
    as_new(202)
    lab.node("pve1").check(["sh", "-c", "echo lock: backup >> /etc/pve/lxc/202.conf"])
    assert ask(lab, "/nodes/pve1/lxc/202/status/current")[1]["lock"] == "backup"
    upid = ask(lab, "/nodes/pve1/lxc/202/status/start", "POST")[1]
    assert finished(lab, "pve1", upid) == "CT is locked (backup)"
    assert lab.container(202).state() == "STOPPED"


def test_a_change_by_the_api_is_in_the_configuration(lab: Lab, as_new: Callable[[int], Any]) -> None:
    as_new(202)
    root = f"username=root@pam&password={lab.api.root_password}"
    _, login = ask(lab, "/access/ticket", "POST", root, token=None)
    request = urllib.request.Request(
        f"{lab.api.url}/api2/json/nodes/pve1/lxc/202/config", method="PUT", data=b"cores=3"
    )
    request.add_header("Cookie", f"PVEAuthCookie={login['ticket']}")
    request.add_header("CSRFPreventionToken", login["CSRFPreventionToken"])
    with urllib.request.urlopen(request, context=ssl.create_default_context(cafile=lab.api.ca), timeout=30) as answer:
        assert answer.status == 200
    assert "cores: 3" in lab.node("pve1").check(["cat", "/etc/pve/lxc/202.conf"]).decode().splitlines()


@pytest.mark.parametrize(
    ("method", "path", "form", "status", "text"),
    [
        (
            "GET",
            "/nodes/pve1/lxc/210/config",
            None,
            500,
            "Configuration file 'nodes/pve1/lxc/210.conf' does not exist\n",
        ),
        ("POST", "/nodes/pve1/lxc/200/exec", "", 501, "Method 'POST /nodes/pve1/lxc/200/exec' not implemented\n"),
        ("GET", "/nowhere", None, 501, "Method 'GET /nowhere' not implemented\n"),
        ("GET", "/nodes/pve1/lxc/200/config?current=True", None, 400, "Parameter verification failed.\n"),
        ("GET", "/cluster/resources?type=bogus", None, 400, "Parameter verification failed.\n"),
        ("GET", "/nodes/pve1/tasks/UPID:x/status", None, 400, "Parameter verification failed.\n"),
        ("PUT", "/nodes/pve1/lxc/200/config", "nonsense=1", 403, "Permission check failed (/vms/200, VM.Config"),
        ("POST", "/nodes/pve1/lxc/200/status/start", "", 500, "CT 200 already running\n"),
        ("POST", "/nodes/pve1/lxc/202/status/stop", "", 500, "CT 202 not running\n"),
    ],
)
def test_the_api_refuses_as_proxmox_ve_does(
    lab: Lab, method: str, path: str, form: str | None, status: int, text: str
) -> None:
    code, body = ask(lab, path, method, form)
    assert code == status
    assert body["message"].startswith(text)
    assert body["data"] is None


@pytest.mark.parametrize(
    ("token", "reason"), [(None, "No ticket"), ("PVEAPIToken=a@pve!b=c", "Authentication failed!")]
)
def test_a_login_that_fails_gets_a_reason_and_no_body(lab: Lab, token: str | None, reason: str) -> None:
    assert ask(lab, "/version", token=token) == (401, reason)


def test_a_token_may_no_more_than_it_and_its_user(lab: Lab) -> None:
    held = ask(lab, "/access/permissions")[1]
    assert held["/"] == held["/nodes"] == {"Sys.Audit": 1}
    assert held["/vms"] == held["/vms/200"] == {"Sys.Audit": 1, "VM.Audit": 1, "VM.PowerMgmt": 1}
    narrow = f"PVEAPIToken={lab.api.user}!narrow={lab.api.narrow_value}"
    assert ask(lab, "/access/permissions", token=narrow)[1] == {
        "/vms/200": {"VM.Audit": 1},
        "/vms/202": {"VM.Audit": 1},
    }
    assert ask(lab, "/access/permissions?path=/vms/201", token=narrow)[1] == {"/vms/201": {}}
    assert [row["vmid"] for row in ask(lab, "/cluster/resources?type=vm", token=narrow)[1]] == [200, 202]
    assert ask(lab, "/cluster/status", token=narrow)[0] == 403


def test_the_api_takes_a_node_for_down(lab: Lab) -> None:
    with lab.cut_off("pve2"):
        assert ask(lab, "/nodes/pve2/lxc/210/status/current") == (595, "No route to host")
        rows = {row["vmid"]: row["status"] for row in ask(lab, "/cluster/resources?type=vm")[1]}
        assert (rows[200], rows[210]) == ("running", "unknown")
    assert ask(lab, "/nodes/pve2/lxc/210/status/current")[1]["status"] == "running"


def test_the_nodes_show_the_certificate_that_is_served(lab: Lab) -> None:
    served = ssl.get_server_certificate((lab.api.host, lab.api.port))
    fingerprint = hashlib.sha256(ssl.PEM_cert_to_DER_cert(served)).hexdigest().upper()
    rows = ask(lab, "/nodes")[1]
    assert {row["ssl_fingerprint"].replace(":", "") for row in rows} == {fingerprint}
    assert {row["name"]: row["ip"] for row in ask(lab, "/cluster/status")[1] if row["type"] == "node"} == {
        name: lab.address(name) for name in ("pve1", "pve2")
    }


def test_the_credentials_are_for_root_alone(lab: Lab) -> None:
    assert (lab.instance.api / "credentials.json").stat().st_mode & 0o777 == 0o600
    assert lab.key.stat().st_mode & 0o777 == 0o600
    assert pve.running(lab.instance)
