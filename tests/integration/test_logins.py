# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every kind of login on a real node with real sudo: it works, or one sentence says what is missing."""

from __future__ import annotations

import os
import re
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.trainops.proxmox.plugins.plugin_utils.exchange import Request, exchange

from lab.api import Container, Lab, Node, open_lab
from tests.integration.connections import connect, inventory
from tests.integration.cuts import begun_release, descendants, wait_for, workers
from tests.integration.inside import inside, shell
from tests.integration.runs import TRAIN, Place
from tests.integration.steps import run_step

DOCS = Path(__file__).resolve().parents[2] / "docs"
SHELLS = {
    "one": "/bin/bash",
    "asked": "/bin/bash",
    "screen": "/bin/bash",
    "walled": "/bin/rbash",
    "closed": "/usr/sbin/nologin",
    "pattern": "/bin/bash",
}
ADD = r"""
userdel --force --remove "$1" 2>/dev/null || true
useradd --create-home --shell "$2" "$1"
usermod --password '*' "$1"
cp -r /home/ops/.ssh "/home/$1/.ssh"
chown -R "$1:$1" "/home/$1/.ssh"
"""
LOG = "/var/log/sudo-of-logins"
RULES = rf"""
Defaults logfile={LOG}, loglinelen=0
asked ALL=(ALL:ALL) ALL
screen ALL=(ALL:ALL) NOPASSWD: ALL
Defaults:screen requiretty
walled, closed ALL=(ALL:ALL) NOPASSWD: ALL
pattern ALL=(root) NOPASSWD: /usr/bin/lxc-attach ^-n 200 --clear-env -- .*$
"""
HELPER = "/usr/local/sbin/trainops-enter"


def installing() -> str:
    """The lines of the page for an admin, for our user."""
    text = (DOCS / "logins.md").read_text()
    lines = re.findall(r"^    ((?:install|echo|visudo) .*)$", text, re.M)
    assert len(lines) == 3
    return "\n".join(lines).replace("alice", "one").replace(" trainops-enter /", " /tmp/trainops-enter /")


def removing() -> str:
    (line,) = re.findall(r"^    (rm .*)$", (DOCS / "logins.md").read_text(), re.M)
    return str(line).replace("alice", "one")


@pytest.fixture(scope="module")
def lab(lab_is_up: None) -> Iterator[Lab]:
    """The lab, whose node pve1 has users of every kind and the helper as the page says how to install it."""
    lab = open_lab()
    node = lab.node("pve1")
    for name, program in SHELLS.items():
        node.check(["sh", "-ec", ADD, "sh", name, program])
    node.check(
        ["sh", "-ec", f"cat > /etc/sudoers.d/logins; chmod 440 /etc/sudoers.d/logins; : > {LOG}"], stdin=RULES.encode()
    )
    node.check(["sh", "-c", "cat > /tmp/trainops-enter"], stdin=(DOCS / "node" / "trainops-enter").read_bytes())
    assert b"one.sudoers: parsed OK" in node.check(["sh", "-ec", installing()])
    node.check(["visudo", "-c"])
    yield lab
    node.check(["sh", "-ec", removing()])
    node.check(["rm", "-f", "/etc/sudoers.d/logins", "/root/one.sudoers", "/tmp/trainops-enter", LOG])
    for name in SHELLS:
        # A shared connection of it may be open for a minute yet.
        node.run(["userdel", "--force", "--remove", name])


def login(user: str, host: str = "ct200", **variables: Any) -> Any:
    """A connection whose login nothing that is open already hides."""
    return connect(host, ansible_user=user, proxmox_ssh_args="-o ControlMaster=no", **variables)


HELP = (
    "log in as root, or have an admin of the node install trainops-enter and allow this user that container "
    "with it (docs/logins.md)"
)
REFUSED = [
    ("limited", {}, f"container 200, sudo there does not allow it without a password: {HELP}"),
    ("asked", {}, f"container 200, sudo there does not allow it without a password: {HELP}"),
    # It is the container's, and the node's sudo is given none.
    ("asked", {"ansible_become": True, "ansible_become_password": "x"}, "does not allow it without a password"),
    (
        "screen",
        {},
        "sudo there wants a terminal (requiretty): have an admin of the node add 'Defaults:screen !requiretty'",
    ),
    ("walled", {}, "the login shell did not run the command that was sent (exit status 1): have an admin there give"),
    ("closed", {}, "usermod -s /bin/bash closed"),
    ("one", {"proxmox_vmid": 201}, f"container 201, sudo there does not allow it without a password: {HELP}"),
    ("one", {"proxmox_enter": "lxc-attach"}, f"container 200, sudo there does not allow it without a password: {HELP}"),
    ("one", {"proxmox_enter": "pct"}, f"container 200, sudo there does not allow it without a password: {HELP}"),
]


@pytest.mark.parametrize(("user", "variables", "says"), REFUSED)
def test_a_login_that_may_not_enter_is_told_what_is_missing(
    lab: Lab, user: str, variables: dict[str, Any], says: str
) -> None:
    for attempt in (
        lambda: login(user, **variables).exec_command("true"),
        lambda: exchange(login(user, **variables), Request("gpus", {})),
    ):
        with pytest.raises(AnsibleConnectionFailure) as caught:
            attempt()
        assert f"on node {user}@{lab.address('pve1')}: " in str(caught.value)
        assert says in str(caught.value)
        assert "\n" not in str(caught.value)


def test_without_sudo_on_the_node_it_is_said_where_it_comes_from(lab: Lab) -> None:
    node = lab.node("pve1")
    node.check(["mv", "/usr/bin/sudo", "/usr/bin/sudo.away"])
    try:
        with pytest.raises(AnsibleConnectionFailure, match=r"the node has no sudo: log in as root, or have .* install"):
            login("ops").exec_command("true")
    finally:
        node.check(["mv", "/usr/bin/sudo.away", "/usr/bin/sudo"])


def test_without_the_helper_it_is_said_how_to_get_it(lab: Lab) -> None:
    with pytest.raises(AnsibleConnectionFailure, match=r"no trainops-enter: have an admin of the node install it"):
        login("root", "ct210", proxmox_enter="trainops-enter").exec_command("true")


@pytest.mark.parametrize("rule", ["use_pty", "!use_pty", "listpw=always"])
@pytest.mark.parametrize("user", ["ops", "one"])
def test_neither_a_terminal_between_nor_rules_that_are_not_told_matter(lab: Lab, user: str, rule: str) -> None:
    node = lab.node("pve1")
    node.check(["sh", "-c", f"echo 'Defaults {rule}' > /etc/sudoers.d/rule"])
    data = bytes(range(256)) * 4000 + b"\r\n\x04\x1a"
    try:
        assert login(user).exec_command("cat; exit 3", in_data=data) == (3, data, b"")
    finally:
        node.check(["rm", "/etc/sudoers.d/rule"])


def test_a_frozen_container_is_told_by_the_helper_too(lab: Lab) -> None:
    lab.container(200).freeze()
    try:
        with pytest.raises(AnsibleConnectionFailure, match=r"container 200 is frozen .*: resume it"):
            login("one").exec_command("true")
    finally:
        lab.container(200).thaw()


def test_the_look_at_the_node_tells_which_container_it_may_enter(lab: Lab, tmp_path: Path) -> None:
    options = {"ansible_user": "one", "ansible_connection": "ssh"}
    result = run_step(tmp_path, "trainops.proxmox.node_info", {}, inventory(), "ct200", vars=options)["ct200"]
    assert (result["may_enter"], result["may_enter_only"]) == (["trainops-enter"], [200])
    assert "one may enter 200 alone, by trainops-enter" in result["summary"]


# One container and nothing else: it is enough


def asked_of_root(lab: Lab) -> list[str]:
    """What users had sudo run, or wanted to, since the log was emptied."""
    text = lab.node("pve1").check(["cat", LOG]).decode()
    lab.node("pve1").check(["sh", "-c", f": > {LOG}"])
    return [line for line in text.splitlines() if " : one : " in line or line.startswith("one : ")]


@pytest.fixture
def root(lab: Lab) -> Iterator[str]:
    inside(200, "mkdir", "/srv/logins")
    yield "/srv/logins"
    Place("ct200", "/srv/logins").stop("all", patience=0)
    inside(200, "rm", "-rf", "/srv/logins")


def step(folder: Path, module: str, **options: Any) -> dict[str, Any]:
    result = run_step(folder, module, options, inventory(), "ct200", vars={"ansible_user": "one"})["ct200"]
    assert not result.get("failed") and not result.get("unreachable"), result
    return result


def test_a_whole_day_needs_the_helper_alone(lab: Lab, tmp_path: Path, root: str) -> None:
    ours = {"root": root, "name": "demo"}
    asked_of_root(lab)
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "train.py").write_text(TRAIN)
    check = step(tmp_path, "trainops.proxmox.syntax_check", project="project")
    assert "1 file compiles" in check["summary"]
    release = "trainops.proxmox.training_release"
    first = step(tmp_path, release, project="project", **ours)
    (tmp_path / "project" / "train.py").write_text(TRAIN + "# edited\n")
    assert step(tmp_path, release, project="project", **ours)["changed"]
    again = step(tmp_path, release, state="rolled_back", **ours)
    assert again["release_id"] == first["release_id"]
    with lab.hold(201, gpu=1):
        gpus = step(tmp_path, "trainops.proxmox.gpu_info")
    assert (gpus["view"], len(gpus["gpus"])) == ("inside", 8)
    assert "as seen from inside" in gpus["summary"]
    run = "trainops.proxmox.training_run"
    begun = step(tmp_path, run, state="started", script="train.py", args=["run"], select=[0], **ours)
    followed = step(tmp_path, run, state="watched", until={"log": "step 3 "}, **ours)
    assert followed["run"] == begun["run"]
    assert step(tmp_path, run, state="listed", **ours)["runs"][0]["state"] == "running"
    assert step(tmp_path, run, state="stopped", **ours)["changed"]
    step(tmp_path, "ansible.builtin.ping")
    step(tmp_path, "ansible.builtin.copy", content="ü\n", dest=f"{root}/copied")
    step(tmp_path, "ansible.builtin.fetch", src=f"{root}/copied", dest=f"{tmp_path}/back", flat=True)
    assert (tmp_path / "back").read_text() == "ü\n"
    asked = [line.partition("COMMAND=")[2] for line in asked_of_root(lab)]
    wanted = re.compile(rf"(list )?{HELPER} 200 (state|run /usr/bin/env.*)$|list /usr/bin/lxc-attach|list\b")
    assert asked
    assert [line for line in asked if not wanted.match(line)] == []


# … and everything else is refused

CANARY = "/tmp/owned"
EVIL = rf"""
mkdir -p /tmp/evil
for name in lxc-attach lxc-info env id sh printf; do
  printf '#!/bin/sh\ntouch {CANARY}\n' > /tmp/evil/$name
done
printf 'touch {CANARY}\n' > /tmp/evil/rc
printf 'lxc.uts.name = x\nlxc.hook.start-host = /bin/touch {CANARY}\n' > /tmp/evil/conf
ln -sf {HELPER} /tmp/evil/trainops-enter
chmod -R 755 /tmp/evil
"""
TOUCH = f"touch {CANARY}"
ATTEMPTS = [
    # other containers, and ids that are none
    f"trainops-enter 201 run {TOUCH}",
    f"trainops-enter '200 201' run {TOUCH}",
    f"trainops-enter '200 run' run {TOUCH}",
    f"trainops-enter 0200 run {TOUCH}",
    f"trainops-enter ' 200' run {TOUCH}",
    f"trainops-enter '' 200 run {TOUCH}",
    f'trainops-enter "200\n" run {TOUCH}',
    f'trainops-enter "200 \n201" run {TOUCH}',
    f"trainops-enter 2001 run {TOUCH}",
    f"trainops-enter '200 *' run {TOUCH}",
    f"trainops-enter -- 200 run {TOUCH}",
    f"trainops-enter '200 -n' 201 run {TOUCH}",
    "trainops-enter",
    "trainops-enter 200",
    # options of lxc-attach
    f"trainops-enter 200 -s PID -- {TOUCH}",
    f"trainops-enter 200 run -s MOUNT -- {TOUCH}",
    f"trainops-enter 200 run -sPID {TOUCH}",
    f"trainops-enter 200 run -n 201 -- {TOUCH}",
    f"trainops-enter 200 run -f /tmp/evil/conf -- {TOUCH}",
    f"trainops-enter 200 run -o {CANARY} -l TRACE -- true",
    f"trainops-enter 200 run -P /tmp/evil -- {TOUCH}",
    f"trainops-enter 200 run --elevated-privileges -- {TOUCH}",
    f"trainops-enter 200 run -- {TOUCH}",
    f"trainops-enter 200 'run -s PID --' {TOUCH}",
    f'trainops-enter 200 "run\n" {TOUCH}',
    f"trainops-enter 200 run '' {TOUCH}",
    "trainops-enter 200 run",
    f"trainops-enter 200 state -o {CANARY}",
    f"trainops-enter 200 state {TOUCH}",
    f"trainops-enter 200 pct {TOUCH}",
    # what sudo would set or become
    "-E trainops-enter 200 state",
    "LD_PRELOAD=/tmp/evil/rc trainops-enter 200 state",
    "PATH=/tmp/evil trainops-enter 200 state",
    "ENV=/tmp/evil/rc trainops-enter 200 state",
    "-D /tmp/evil trainops-enter 200 state",
    "-R /tmp/evil trainops-enter 200 state",
    "-g root trainops-enter 200 state",
    f"-s {TOUCH}",
    f"-i {TOUCH}",
    f"sh -c '{TOUCH}'",
    f"{TOUCH}",
    "-u ops true",
    f"-e {CANARY}",
    # the tools themselves, and the helper by another name
    f"lxc-attach -n 200 -- {TOUCH}",
    f"lxc-attach -n 200 -s PID -- {TOUCH}",
    f"pct exec 200 -- {TOUCH}",
    "pct push 200 /etc/shadow /tmp/shadow",
    f"/bin/sh {HELPER} 200 state",
    f"/bin/sh -c '{TOUCH}' trainops-enter 200 run true",
]


@pytest.mark.parametrize("user", ["one", "ops"])
def test_the_worker_of_a_killed_controller_ends_behind_sudo_too(lab: Lab, tmp_path: Path, root: str, user: str) -> None:
    running = begun_release(tmp_path, root, ansible_user=user)
    for pid in descendants(running.pid):
        os.kill(pid, signal.SIGKILL)
    running.communicate(timeout=120)
    wait_for(lambda: not workers(200))
    play_vars = {"ansible_user": user}
    options = {"project": "project", "root": root, "name": "demo", "wait": 0}
    done = run_step(tmp_path, "trainops.proxmox.training_release", options, inventory(), "ct200", vars=play_vars)[
        "ct200"
    ]
    assert done.get("changed"), done
    assert shell(200, 'ls -A "$1"/.trainops/demo/releases', root).count(".stage-") == 0


@pytest.fixture
def untouched(lab: Lab) -> Iterator[None]:
    """Nothing is made on the node, and in no container, while a test tries to."""
    node = lab.node("pve1")
    node.check(["su", "one", "-s", "/bin/sh", "-c", EVIL])
    yield
    places: list[Node | Container] = [node, lab.container(200), lab.container(201)]
    made = [place for place in places if place.run(["test", "-e", CANARY]).returncode == 0]
    for place in places:
        place.run(["rm", "-f", CANARY, "/tmp/shadow"])
    node.check(["rm", "-rf", "/tmp/evil"])
    assert made == []


@pytest.mark.usefixtures("untouched")
def test_everything_else_is_refused(lab: Lab) -> None:
    asked_of_root(lab)
    words = [f"sudo -n {attempt} </dev/null; echo $?" for attempt in ATTEMPTS]
    script = "\n".join(f"( {word} ) 2>&1 | sed 's/^/{number} /'" for number, word in enumerate(words))
    # One login for all of them; sudo's answers are of no interest but for their status.
    text = lab.ssh("pve1", f"sh -c {shlex.quote(script)}", user="one").stdout.decode()
    ends = [
        [line.partition(" ")[2] for line in text.splitlines() if line.startswith(f"{number} ")]
        for number in range(len(ATTEMPTS))
    ]
    assert [attempt for attempt, said in zip(ATTEMPTS, ends, strict=True) if not said or said[-1] == "0"] == []
    # Of what sudo allowed all was the helper, with arguments that begin as the rule says: it has refused those itself.
    ran = [line for line in asked_of_root(lab) if "not allowed" not in line and "password is required" not in line]
    ours = re.compile(rf"USER=root ; (.* )?COMMAND={HELPER} '?200[ '#]")
    assert ran
    assert [line for line in ran if not ours.search(line)] == []


STRAY = [
    "PATH=/tmp/evil:$PATH sudo -n trainops-enter 200",
    "LD_PRELOAD=/tmp/evil/rc LD_LIBRARY_PATH=/tmp/evil sudo -n trainops-enter 200",
    "ENV=/tmp/evil/rc BASH_ENV=/tmp/evil/rc PS4='$(touch /tmp/owned)' sudo -n trainops-enter 200",
    "LXC_CONFIG_FILE=/tmp/evil/conf LXC_LOG_LEVEL=TRACE HOME=/tmp/evil sudo -n trainops-enter 200",
    "IFS=0 CDPATH=/tmp/evil LC_ALL=../../tmp/evil TERM=x sudo -n trainops-enter 200",
    "cd /tmp/evil; umask 777; sudo -n trainops-enter 200",
    "env -i 'BASH_FUNC_id%%=() { touch /tmp/owned; }' /usr/bin/sudo -n trainops-enter 200",
]


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("call", STRAY)
def test_nothing_of_the_caller_reaches_root_or_the_container(lab: Lab, call: str) -> None:
    done = lab.ssh("pve1", f"export A_SECRET=x; {call} run /bin/sh -c 'pwd; umask; env'", user="one")
    lines = done.stdout.decode().splitlines()
    lines = lines[lines.index("/") :]
    assert (lines[:2], done.stderr) == (["/", "0022"], b"")
    assert {line.partition("=")[0] for line in lines[2:]} <= {"container", "PATH", "PWD", "TERM", "OLDPWD", "_"}
    assert "/tmp/evil" not in "".join(lines)
    assert "TERM=x" not in lines


def test_what_runs_sees_the_containers_files_and_not_the_nodes(lab: Lab) -> None:
    said = lab.ssh("pve1", f"sudo -n {HELPER} 200 run cat /etc/hostname /etc/pve/local", user="one")
    assert b"train-a\n" in said.stdout
    assert b"/etc/pve/local: No such file" in said.stderr
    with pytest.raises(AssertionError):
        shell(200, "test -e /etc/pve")


def test_the_helper_is_roots_own(lab: Lab) -> None:
    done = lab.ssh("pve1", f"echo >> {HELPER}; rm {HELPER}; stat -c '%U:%G %a' {HELPER}", user="one")
    assert done.stdout.decode().splitlines()[-1] == "root:root 755"
    assert done.stderr.count(b"Permission denied") == 2


def test_a_rule_for_lxc_attach_would_be_root_on_the_node(lab: Lab) -> None:
    """Why there is a helper: sudo cannot tell an argument with spaces from several."""
    attack = "sudo -n lxc-attach -n '200 --clear-env -- x' -n 200 -s PID -- cat /etc/hostname"
    assert lab.ssh("pve1", attack, user="pattern").stdout.decode().splitlines()[-1] == "pve1"
