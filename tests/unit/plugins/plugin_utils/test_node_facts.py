# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the text of a node means, and the result that people get of it."""

from __future__ import annotations

import subprocess

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import StepError
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpus import Snapshot, node_snapshot
from ansible_collections.trainops.proxmox.plugins.plugin_utils.hops import Login
from ansible_collections.trainops.proxmox.plugins.plugin_utils.node_facts import SCRIPT, Config, parse_node_facts
from ansible_collections.trainops.proxmox.plugins.plugin_utils.node_result import node_result, table
from ansible_collections.trainops.proxmox.plugins.plugin_utils.node_view import parse_node_view

from tests.unit.gpu_samples import gpu_row, view

LOGIN = Login("10.1.2.6", "root", 22)
# As a node printed it, with containers of every kind.
TEXT = """\
=== login root
=== node pve1
=== may-pct /usr/sbin/pct
=== may-lxc-attach /usr/bin/lxc-attach
=== manager 9.2.11
=== ids
/etc/pve/nodes/pve1/lxc/200.conf
/etc/pve/nodes/pve1/lxc/1201.conf
/etc/pve/nodes/pve1/lxc/202.conf
/etc/pve/nodes/pve1/lxc/notes.conf
=== configs
/etc/pve/nodes/pve1/lxc/200.conf:arch: amd64
/etc/pve/nodes/pve1/lxc/200.conf:dev0: /dev/nvidia0,gid=44
/etc/pve/nodes/pve1/lxc/200.conf:hostname: train-a
/etc/pve/nodes/pve1/lxc/200.conf:ostype: debian
/etc/pve/nodes/pve1/lxc/200.conf:[before]
/etc/pve/nodes/pve1/lxc/200.conf:dev1: /dev/nvidia1
/etc/pve/nodes/pve1/lxc/200.conf:hostname: was
/etc/pve/nodes/pve1/lxc/1201.conf:arch: amd64
/etc/pve/nodes/pve1/lxc/1201.conf:hostname: \x1b[31mred: a=b
/etc/pve/nodes/pve1/lxc/1201.conf:lock: backup
/etc/pve/nodes/pve1/lxc/1201.conf:template: 1
/etc/pve/nodes/pve1/lxc/1201.conf:unprivileged: 1
/etc/pve/nodes/pve1/lxc/1201.conf:lxc.mount.entry = /dev/nvidia1 dev/nvidia1 none bind 0 0
/etc/pve/nodes/pve1/lxc/202.conf:arch: amd64
/etc/pve/nodes/pve1/lxc/202.conf:=== node forged
=== states
200 RUNNING
202 FROZEN
=== start 100.00
=== tool /usr/bin/nvidia-smi
=== root 0
=== end
"""


def two() -> Snapshot:
    """A node's two idle GPUs."""
    return node_snapshot(view([gpu_row(0, 0), gpu_row(1, 1)]))


def test_the_facts_of_a_node() -> None:
    facts = parse_node_facts(TEXT)
    assert (facts.node, facts.login, facts.version) == ("pve1", "root", "9.2.11")
    assert facts.may_enter == ("lxc-attach", "pct")
    assert (facts.is_node, facts.readable) == (True, True)
    assert [(one.vmid, one.state) for one in facts.containers] == [(200, "running"), (202, "frozen"), (1201, "stopped")]
    assert facts.containers[0].lines == (
        ("arch", "amd64"),
        ("dev0", "/dev/nvidia0,gid=44"),
        ("hostname", "train-a"),
        ("ostype", "debian"),
    )
    assert ("lxc.mount.entry", "/dev/nvidia1 dev/nvidia1 none bind 0 0") in facts.containers[2].lines


@pytest.mark.parametrize(
    "text", ["", "=== login root\n", "=== ids\n", "=== configs\nno file\n", "=== states\nx RUNNING\n"]
)
def test_a_text_with_parts_missing_is_no_failure(text: str) -> None:
    facts = parse_node_facts(text)
    assert facts.containers == ()
    assert facts.is_node is ("ids" in text)


def test_what_lxc_may_not_be_asked_for_is_what_the_socket_tells() -> None:
    text = "=== ids\n/etc/pve/nodes/p/lxc/7.conf\n/etc/pve/nodes/p/lxc/8.conf\n=== states\n7 \n"
    facts = parse_node_facts(text)
    assert [(one.vmid, one.state) for one in facts.containers] == [(7, "running"), (8, "stopped")]
    assert not facts.readable


def test_the_result() -> None:
    result = node_result(parse_node_facts(TEXT), two(), LOGIN)
    assert result["summary"] == "pve1: 3 containers, 2 running; 2 GPUs, 2 idle; root may enter by lxc-attach"
    assert (result["pve_version"], result["may_enter"]) == ("9.2.11", ["lxc-attach", "pct"])
    first, second, third = result["containers"]
    assert first == {
        "vmid": 200,
        "name": "train-a",
        "state": "running",
        "unprivileged": False,
        "ostype": "debian",
        "template": False,
        "lock": None,
        "gpus": [0],
        "gpus_note": None,
    }
    assert (second["name"], second["ostype"]) == (None, None)
    assert (third["name"], third["lock"], third["template"]) == ("\\x1b[31mred: a=b", "backup", True)
    assert (third["unprivileged"], third["gpus"]) == (True, [1])
    assert [gpu["index"] for gpu in result["gpus"]] == [0, 1]
    assert result["gpu_summary"] == "2 of 2 idle, 0 MiB each, no holder"
    assert "warnings" not in result


def test_the_table_fits_and_hides_nothing() -> None:
    result = node_result(parse_node_facts(TEXT), two(), LOGIN)
    assert result["table"].splitlines() == [
        " vmid  state     name              GPUs of the node",
        "  200  running   train-a           0",
        "  202  frozen    ?                 -",
        " 1201  stopped   \\x1b[31mred: a=b  1 (template) (backup)",
    ]
    wide = dict(result["containers"][0], name="n" * 200, gpus=list(range(0, 200, 2)))
    assert max(map(len, table([wide]).splitlines())) == 80
    assert table([]) == " vmid  state     name  GPUs of the node"


def test_a_login_that_sees_little_is_told_so() -> None:
    text = "=== login limited\n=== node pve1\n=== ids\n/etc/pve/nodes/pve1/lxc/200.conf\n=== states\n200 \n"
    partial = node_snapshot(view([gpu_row(0, 0)], complete=False, reason="not root"))
    result = node_result(parse_node_facts(text), partial, LOGIN)
    assert result["summary"] == "pve1: 1 container, 1 running; 1 GPU, 1 idle; limited may not enter containers"
    (container,) = result["containers"]
    assert [container[key] for key in ("name", "gpus", "unprivileged", "ostype")] == [None, None, None, None]
    assert len(result["warnings"]) == 3
    assert "?" in result["table"]


HELPER = "=== node pve1\n=== may-trainops-enter /usr/local/sbin/trainops-enter\n200\n1201\n200\nx\n=== ids\n"


def test_a_login_that_may_enter_some_containers_alone() -> None:
    result = node_result(parse_node_facts("=== login one\n" + HELPER), two(), LOGIN)
    assert (result["may_enter"], result["may_enter_only"]) == (["trainops-enter"], [200, 1201])
    assert result["summary"].endswith("; one may enter 200, 1201 alone, by trainops-enter")


def test_who_may_enter_any_container_needs_no_helper() -> None:
    result = node_result(parse_node_facts("=== login ops\n=== may-pct /usr/sbin/pct\n" + HELPER), two(), LOGIN)
    assert (result["may_enter"], result["may_enter_only"]) == (["pct"], None)


def test_no_node_is_one_sentence() -> None:
    with pytest.raises(StepError) as caught:
        node_result(
            parse_node_facts("=== login root\n=== node web\x1b[2J\n=== foreign\n"), node_snapshot(view()), LOGIN
        )
    assert caught.value.code == "no-node"
    assert caught.value.message.startswith("web\\x1b[2J (root@10.1.2.6) is no Proxmox VE node")


def test_the_script_says_so_on_this_machine() -> None:
    done = subprocess.run(
        ["sh", "-c", f"set -eu; export run= smi=none deadline=5\n{SCRIPT}"],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )
    facts = parse_node_facts(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert (facts.is_node, facts.containers) == (False, ())
    assert facts.login
    assert facts.node
    assert not parse_node_view(done.stdout).complete


def test_a_value_stands_once() -> None:
    assert Config(1, "stopped", (("hostname", "a"),)).value("hostname") == "a"
    assert Config(1, "stopped").value("hostname") is None
