# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Mistakes that users make, the commands that they were tried with, and the one message that each gives.

The journeys try every row on the lab; ``python -m tests.integration.messages`` writes them to docs/messages.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

NODE = "127.0.0.11"  # as the docs show the lab's pve1
PAGE = Path(__file__).resolve().parents[2] / "docs" / "messages.md"

# Every command, and every playbook behind one.
COMMANDS = {
    "init": "trainops init {target} --project ../scripts",
    "deploy": "trainops deploy scripts {target}",
    "check": "trainops check scripts {target}",
    "gpus": "trainops gpus {target}",
    "launch": "trainops launch {target} -e training_script=train.py",
    "logs": "trainops logs {target}",
    "status": "trainops status {target}",
    "stop": "trainops stop {target}",
    "why": "trainops why {target}",
    "diff": "trainops diff scripts {target}",
    "rollback": "trainops rollback {target}",
    "eject": "trainops eject {target}",
}
PLAYBOOKS = {
    "deploy_training": "ansible-playbook deploy_training.yml",
    "check_training": "ansible-playbook trainops.proxmox.check_training -e training_check_here=false",
    "gpu_status": "ansible-playbook trainops.proxmox.gpu_status",
    "launch_training": "ansible-playbook trainops.proxmox.launch_training -e training_script=train.py",
    "training_logs": "ansible-playbook trainops.proxmox.training_logs",
    "training_status": "ansible-playbook trainops.proxmox.training_status",
    "stop_training": "ansible-playbook trainops.proxmox.stop_training",
    "why_training": "ansible-playbook trainops.proxmox.why_training",
    "diff_training": "ansible-playbook trainops.proxmox.diff_training",
    "rollback_training": "ansible-playbook trainops.proxmox.rollback_training",
    "eject_training": "ansible-playbook trainops.proxmox.eject_training",
    "survey_training": "ansible-playbook trainops.proxmox.survey_training",
    "container_push": "ansible-playbook push.yml",
}
ALL = (*COMMANDS, *PLAYBOOKS)
_NAMES = ("deploy", "diff", "rollback", "eject")
RELEASING = (*_NAMES, *(f"{name}_training" for name in _NAMES))
RUNNING = ("launch", "logs", "status", "stop", "why")
FRESH = "new"  # an empty folder beside the project's, for commands that begin


@dataclass(frozen=True)
class Mistake:
    """One mistake: how a target or a variable has it, and the message that says so.

    ``only`` are the commands that can make it, ``extra`` is appended to those of trainops. ``message`` is what stands
    behind the words of host and step; one that ends with an ellipsis is how it begins.
    """

    what: str
    message: str
    status: tuple[int, int]  # of trainops, of ansible-playbook
    target: str = f"root@{NODE}/200:/root"
    variables: str = ""
    extra: str = ""
    only: tuple[str, ...] = ALL

    def lines(self) -> Iterator[tuple[str, int]]:
        """The command lines that have the mistake, each with its exit status."""
        for name in self.only:
            if name in COMMANDS:
                words = [COMMANDS[name].format(target=self.target), self.extra]
            else:
                words = [PLAYBOOKS[name], self.variables and f"-e {self.variables}"]
            yield " ".join(" ".join(words).split()), self.status[name in PLAYBOOKS]


def _but(*names: str) -> tuple[str, ...]:
    return tuple(name for name in ALL if name not in names)


_ENTER = (
    "log in as root, or have an admin of the node install trainops-enter and allow this user that container "
    "with it (docs/logins.md)"
)
_FORM = "[USER@]ADDRESS[:PORT]/VMID[:/ROOT], as in root@10.1.2.6/200:/root"
MISTAKES = (
    Mistake(
        "The node does not answer",
        f"controller -> node: root@{NODE}:9 does not answer: check ansible_host and ansible_port, and that the node is "
        f"up and runs sshd. ssh said: ssh: connect to host {NODE} port 9: Connection refused",
        (3, 4),
        target=f"root@{NODE}:9/200:/root",
        variables="ansible_port=9",
    ),
    Mistake(
        "The node refuses the login",
        f"controller -> node: nobody@{NODE} refused the login (publickey,password): add your public key to its "
        "authorized_keys, or set ansible_user, ansible_ssh_private_key_file or ansible_password. "
        f"ssh said: nobody@{NODE}: Permission denied (publickey,password).",
        (3, 4),
        target=f"nobody@{NODE}/200:/root",
        variables="ansible_user=nobody",
    ),
    Mistake(
        "The login has no permission to enter containers",
        f"on node limited@{NODE}: the login may not enter container 200, sudo there does not allow it without a "
        f"password: {_ENTER}. It said: sudo: a password is required",
        (3, 4),
        target=f"limited@{NODE}/200:/root",
        variables="ansible_user=limited",
    ),
    Mistake(
        "No container has that id",
        f"node -> container: on pve1 (root@{NODE}) there is no container 999: correct its number "
        "(proxmox_vmid), pct list has all",
        (3, 4),
        target=f"root@{NODE}/999:/root",
        variables="proxmox_vmid=999",
    ),
    Mistake(
        "The container is on another node",
        f"node -> container: on pve1 (root@{NODE}) there is no container 210, it lives on node pve2: "
        "give that node's address (ansible_host)",
        (3, 4),
        target=f"root@{NODE}/210:/root",
        variables="proxmox_vmid=210",
    ),
    Mistake(
        "The container is stopped",
        f"node -> container: on pve1 (root@{NODE}) container 202 is stopped: start it with pct start 202",
        (3, 4),
        target=f"root@{NODE}/202:/root",
        variables="proxmox_vmid=202",
    ),
    Mistake(
        "There is no such Python in the container",
        f"in container 200 (on root@{NODE}): there is no Python at /nowhere/python: set training_python (or the "
        "module's option python) to the interpreter that trains",
        (3, 4),
        extra="--python /nowhere/python",
        variables="training_python=/nowhere/python",
        only=_but("init", "gpus", "survey_training"),  # the survey looks for one that is there, gpus needs none
    ),
    Mistake(
        "The folder in the container is not there",
        "training_root /nowhere does not exist: create it in the container, or correct training_root",
        (1, 2),
        target=f"root@{NODE}/200:/nowhere",
        variables="training_root=/nowhere",
        only=RELEASING,
    ),
    Mistake(
        "The project is not there",
        f"there is no /home/you/training/nowhere: name the project's folder or files (a container is written {_FORM})",
        (2, 2),
        target=f"nowhere root@{NODE}/200:/root",
        only=("deploy", "check", "diff"),
    ),
    Mistake(
        "The project of the inventory is not there",
        "training_project (option project): /home/you/training/nowhere: No such file or directory: correct it "
        "(relative paths count from the current folder)",
        (1, 2),
        variables="training_project=nowhere",
        only=("deploy_training", "check_training", "diff_training", "survey_training"),
    ),
    Mistake(
        "An inventory that is not there",
        "there is no inventory /home/you/training/gone.yml",
        (2, 2),
        target="",
        extra="-i gone.yml",
        only=("deploy", "check", "gpus", *RUNNING, "diff", "rollback", "eject"),
    ),
    Mistake(
        "A misspelt variable",
        "training_rot is no variable of trainops: did you mean training_root? (variables of your own: name them in the "
        "list training_own_variables)",
        (1, 2),
        extra="-e training_rot=/x",
        variables="training_rot=/x",
        only=_but("init", "container_push"),  # which read no variables
    ),
    Mistake(
        "Nothing says what to run",
        "nothing says what to run: add training_script: train.py to the vars in inventory.yml, or "
        "-e training_script=train.py. Instead of training_script (option script) there may be training_command "
        "(option command), or training_like (option like)",
        (1, 2),
        extra="-e training_script=",
        variables="training_script=",
        only=("launch", "launch_training"),
    ),
    Mistake("An unknown option", "No such option '--nope'. …", (2, 2), extra="--nope", only=tuple(COMMANDS)),
    Mistake(
        "No folder where one is needed",
        f"'root@{NODE}/200' names no folder in the container: write root@{NODE}/200:/root",
        (2, 2),
        target=f"root@{NODE}/200",
        only=("deploy", *RUNNING, "diff", "rollback", "eject"),
    ),
    Mistake(
        "No container where one is needed",
        f"'root@{NODE}' names no container: write {_FORM}",
        (2, 2),
        target=f"root@{NODE}",
        only=("deploy", "check", *RUNNING, "diff", "rollback", "eject"),
    ),
    Mistake(
        "An id that is none",
        f"'root@{NODE}/abc:/root': 'abc' is no container's id: it is a number from 100 (pct list)",
        (2, 2),
        target=f"root@{NODE}/abc:/root",
        only=tuple(COMMANDS),
    ),
    Mistake(
        "A file to push that is not there",
        "src (option src): there is no 'gone.py' on the controller: correct it (searched: "
        "/home/you/training/files/gone.py, /home/you/training/gone.py)",
        (2, 2),
        variables="src=gone.py",
        only=("container_push",),
    ),
    Mistake(
        "A folder to push into that is not there",
        "/gone/train.py: its folder /gone does not exist in the container: create it first (ansible.builtin.file with "
        "state=directory), or end dest with a slash to have it made",
        (2, 2),
        variables='"src=scripts/train.py dest=/gone/train.py"',
        only=("container_push",),
    ),
    Mistake(
        "An owner that the container does not know",
        "owner (option owner): the container has no user 'nosuch': create the user (ansible.builtin.user), correct the "
        "name, or give its number",
        (2, 2),
        variables="owner=nosuch",
        only=("container_push",),
    ),
)


def page() -> str:
    """The text of docs/messages.md: a table, and then with what each row was tried."""
    rows = [f"| [{one.what}](#{_anchor(one.what)}) | {one.message.replace('|', '&#124;')} |" for one in MISTAKES]
    table = "\n".join(["| when | what it says |", "| --- | --- |", *rows])
    return "\n".join([_HEAD, table, "", "# What was tried", "", *map(_tried, MISTAKES)])


def _anchor(heading: str) -> str:
    return heading.lower().replace(" ", "-")


def _tried(one: Mistake) -> str:
    statuses = {line.split()[0]: status for line, status in one.lines()}
    told = " and ".join(f"{program} ends with {status}" for program, status in statuses.items())
    lines = "\n".join(f"    {line}" for line, _status in one.lines())
    return f"## {one.what}\n\n{told}:\n\n{lines}\n"


_HEAD = f"""\
# Messages

What each mistake says, and the commands with which that was tried on the repository's lab, whose node pve1 is {NODE}.
A test runs every line and compares the message; this page is written from its table by `make docs`.

Exit statuses of `trainops`: 0 all is well, 1 a host failed, 2 the command line or an inventory is wrong, 3 a host could
not be reached, 4 not finished within `--timeout`, 5 `ansible-playbook` ended without its account, 6 something differs
(`diff`), 130 canceled. Those of `ansible-playbook` are Ansible's own: 2 a host failed, 4 a host could not be reached.

The project is called `training` because its folder `scripts` is in one of that name; `init` was run in an empty folder
beside it. `push.yml` is a play with `trainops.proxmox.container_push`.
"""

if __name__ == "__main__":
    PAGE.write_text(page())
