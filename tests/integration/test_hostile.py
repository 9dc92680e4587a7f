# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A container whose root means ill, on real nodes: what it prints, plants and names harms neither controller nor node.

Frames, rows and texts by themselves have their tables in the unit tests.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible_collections.trainops.proxmox.plugins.action.training_release import ActionModule
from ansible_collections.trainops.proxmox.plugins.connection import pct
from ansible_collections.trainops.proxmox.plugins.plugin_utils import reader
from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import StepError
from ansible_collections.trainops.proxmox.plugins.plugin_utils.exchange import Request, exchange
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_look import look
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_result import info_result
from ansible_collections.trainops.proxmox.plugins.plugin_utils.step import StepAction

from lab.api import Container, Lab, open_lab
from tests.integration.connections import connect
from tests.integration.inside import inside

VMID, HOST = 200, "ct200"
LONGEST = 6 * 16_384 + 1000  # characters of any message, each written out by six, however long what it tells of


@pytest.fixture(scope="module")
def lab(lab_is_up: None) -> Lab:
    return open_lab()


@pytest.fixture
def place(lab: Lab) -> Iterator[Container]:
    """The container, with a folder of its root's tricks."""
    container = lab.container(VMID)
    inside(VMID, "mkdir", "-p", "/srv/ill")
    yield container
    inside(VMID, "rm", "-rf", "/srv/ill")


@contextlib.contextmanager
def instead(container: Container, path: str, script: str) -> Iterator[None]:
    """Another program at ``path`` of the container."""
    inside(VMID, "tee", "/srv/ill/program", stdin=script.encode())
    inside(VMID, "chmod", "755", "/srv/ill/program")
    inside(VMID, "mount", "--bind", "/srv/ill/program", path)
    try:
        yield
    finally:
        container.run(["umount", "-l", path]).check_returncode()


# Programs need an interpreter that is not the one they stand for.
PYTHON = "#!/usr/bin/python3 -IS\nimport os, sys, time\n"
SPEAK = "\\x1b[2J\\x1b]0;owned\\x07sudo: a password is required\\n"
EVERYTHING_BUT = {
    "prints without end": "os.execv('/usr/bin/yes', ['yes', '\\x1b[2J'])",
    "prints errors without end": "os.dup2(2, 1); os.execv('/usr/bin/yes', ['yes', '\\x1b[2J'])",
    "speaks for the node's sudo": f"os.write(2, b'{SPEAK}'); sys.exit(1)",
    "is silent": "time.sleep(600)",
    "is killed": "os.kill(os.getpid(), 9)",
}


def harmless(error: BaseException) -> str:
    text = str(error)
    assert "\x1b" not in text
    assert len(text) < LONGEST
    assert "have an admin" not in text  # root's login needs none, whatever is said in there
    return text


@pytest.mark.parametrize("path", ["/usr/bin/env", "/srv/ill/python"])
@pytest.mark.parametrize("does", list(EVERYTHING_BUT.values()), ids=list(EVERYTHING_BUT))
def test_a_program_that_does_everything_but_its_work_is_one_message(
    place: Container, path: str, does: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "HELLO_SECONDS", 5.0)
    inside(VMID, "touch", "/srv/ill/python")
    with instead(place, path, PYTHON + does), pytest.raises(AnsibleConnectionFailure) as caught:
        exchange(connect(HOST), Request("gpus", {}, python="/srv/ill/python", timeout=60))
    harmless(caught.value)


@pytest.mark.parametrize("path", ["/usr/bin/env", "/bin/sh"])
@pytest.mark.parametrize("kind", ["prints without end", "is killed"])
def test_no_file_is_carried_by_a_program_that_does_not(place: Container, path: str, kind: str, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"x" * 100_000)
    with instead(place, path, PYTHON + EVERYTHING_BUT[kind]):
        for transfer in (
            lambda: connect(HOST).put_file(str(tmp_path / "source"), "/srv/ill/target"),
            lambda: connect(HOST).fetch_file("/etc/hostname", str(tmp_path / "back")),
        ):
            with pytest.raises(AnsibleError) as caught:
                transfer()
            harmless(caught.value)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 10 << 20


@pytest.mark.parametrize("stream", ["1", "2"])
def test_a_command_that_prints_without_end_is_given_up(
    place: Container, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pct, "_MAX_KEPT", 16 << 20)
    with pytest.raises(AnsibleConnectionFailure, match="printed without end and was given up") as caught:
        connect(HOST).exec_command(f"exec yes >&{stream}")
    harmless(caught.value)


FORGED = ["", "²", "-1", "9" * 30, "0\x1b[2J", "nan"]


@pytest.mark.parametrize("status", FORGED)
def test_a_forged_status_is_none(place: Container, status: str) -> None:
    script = f"{PYTHON}word = sys.argv[-2]\nsys.stderr.write(f'\\n{{word}} status {status}\\n')\nsys.exit(7)\n"
    with instead(place, "/usr/bin/env", script), pytest.raises(AnsibleConnectionFailure) as caught:
        connect(HOST).exec_command("true")
    harmless(caught.value)


def test_a_message_about_a_file_is_shown_as_it_may_be(place: Container, tmp_path: Path) -> None:
    says = f"{PYTHON}word = sys.argv[-2]\nos.write(1, word.encode() + b'\\n')\n"
    says += "os.write(2, b'\\x1b[2J\\xff' * 100000 + b'\\n' + word.encode() + b' status 1\\n')\n"
    (tmp_path / "source").touch()
    with instead(place, "/usr/bin/env", says), pytest.raises(AnsibleError, match="could not write") as caught:
        connect(HOST).put_file(str(tmp_path / "source"), "/srv/ill/\x1b[2J")
    harmless(caught.value)


# The node's view


OPTIONS = {"nvidia_smi": "nvidia-smi", "nvidia_smi_timeout": 10.0, "python": None, "node_view": True, "memory_mib": 50}
TRAP = """
import os, sys, time
os.makedirs("/srv/ill/trap")
for name in ("stat", "cmdline", "status", "cgroup", "maps"):
    os.mkfifo("/srv/ill/trap/" + name)
opened = []
for pid in sys.argv[1:]:
    folder = "/srv/ill/x\\n/proc/%s/root/srv/ill/trap/fd /proc/1/fd/1 /dev" % pid
    os.makedirs(folder)
    opened.append(open(folder + "/nvidia0", "w"))
print("ready", flush=True)
time.sleep(600)
"""


@contextlib.contextmanager
def running(container: Container, *argv: str) -> Iterator[None]:
    """A process in the container that has said that it is ready."""
    process = subprocess.Popen(container.attach(argv), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield
    finally:
        container.run(["sh", "-c", "for f in /srv/ill/trap/*; do [ ! -p $f ] || : <>$f; done"])
        container.run(["pkill", "-9", "-f", "/srv/ill"])
        process.kill()
        process.communicate()


def test_paths_of_a_container_lead_root_on_the_node_nowhere(lab: Lab, place: Container) -> None:
    node = lab.node("pve1")
    # By which numbers the node knows its processes the container can only guess, and may guess all.
    pids = node.check(["sh", "-c", f"grep -ls /lxc/{VMID} /proc/[0-9]*/cgroup"]).decode()
    numbers = [path.split("/")[2] for path in pids.split()]
    assert numbers
    with running(place, "/usr/bin/python3", "-c", TRAP, *numbers):
        begun = time.monotonic()
        found = look(connect(HOST), OPTIONS)
        assert time.monotonic() - begun < 40  # a reader of a pipe that nobody writes to waits for ever
        assert (found.view, found.view_reason) == ("node", "")
        left = node.run(
            ["sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -a /srv/ill/trap/ | grep -a ^grep"]
        )
        assert left.stdout == b""


NAMED = """
import os, sys
name = "evil\\x1b[2J\\nct201  release  FAILED \\u202e" + "x" * 3000
os.execv(sys.argv[1], [name, *sys.argv[2:]])
"""


def test_the_name_of_a_process_is_shown_as_it_may_be(lab: Lab, place: Container) -> None:
    hold = "/usr/lib/trainops-lab/gpu/hold"
    process = subprocess.Popen(
        place.attach(["/usr/bin/python3", "-c", NAMED, hold, "--gpu", "1", "--mib", "300"]), stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline()
        result = step(lambda: info_result(look(connect(HOST), OPTIONS)))
    finally:
        place.run(["pkill", "-9", "-f", "gpu/hold|evil"])
        process.kill()
        process.communicate()
    assert [gpu["index"] for gpu in result["gpus"] if gpu["verdict"] == "busy"] == [1]
    assert "\n" not in result["summary"]
    for name in ("summary", "msg", "table"):
        assert "\x1b" not in result[name]
        assert "\u202e" not in result[name]
    assert max(map(len, result["table"].splitlines())) <= 80


# A Python that lies


def step(does: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What Ansible gets of a step that does this."""

    class Action(StepAction):
        def step(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
            return does()

        def validate_argument_spec_from_docs(self) -> tuple[Any, dict[str, Any]]:
            return None, {}

    unused: Any = types.SimpleNamespace()
    task: Any = types.SimpleNamespace(check_mode=False, diff=False, async_val=0, action="x", environment=None)
    shell: Any = types.SimpleNamespace(transport="local", _shell=types.SimpleNamespace(tmpdir="x"))
    return Action(task, shell, unused, unused, unused, unused).run(task_vars={"inventory_hostname": HOST})


LIAR = (
    PYTHON + "print(sys.argv[4], flush=True)\nsys.stdin.readline()\nprint(open('/srv/ill/answer').read(), flush=True)\n"
)
RELEASE = (
    '{"kind": "result", "value": {"changed": true, "release_id": "%s", "previous_release_id": null, "activation": 1, '
    '"root": "/srv/ill\\nct201  release  FAILED\\u001b[2J", "name": "demo", "bytes_sent": 0, "pruned": [], '
    '"foreign": [], "strays": {"count": 0, "names": [], "paths": []}, "adopted": null, "drift": [], "mended": [], '
    '"troubles": [], "waits_for": "", "gone": {}, "actions": {}, "before": null}}'
)
ERROR = (
    '{"kind": "error", "code": "\\u001b[2J", "message": "a\\nct201  release  FAILED", '
    '"details": {"failed": false, "changed": true, "ansible_facts": {"ansible_connection": "local"}}}'
)
LIES = [
    ('{"kind": "result", "value": {}}', "was not the worker"),
    ('{"kind": "result", "value": {"release_id": 7}}', "says that release 7 is live"),
    (RELEASE % ("0" * 64), "says that release 0000000000"),
    (RELEASE % ("\\u001b[2J" * 9999), "says that release "),
    ('{"kind": "result", "value": {"release_id": NaN, "x": 1e999}}', "says that release nan is live"),
    ('{"kind": "result", "value": {"release_id": ' + "[" * 900 + "]" * 900 + "}}", "an answer that is no frame"),
    ('{"kind": "need", "files": ["../../../etc/shadow", "/etc/shadow"]}', "asked for"),
    ('{"kind": "need", "files": 7}', "is not as agreed"),
    ('{"kind": "need", "files": null, "kind": "\\ud800"}', "unexpected frame|as agreed|was not the worker"),
    ('{"kind": "progress", "done": NaN, "total": 1e999, "what": "bytes x"}', "ended|cannot be read|Error"),
    (ERROR, "a"),
]


@pytest.mark.parametrize(("answer", "says"), LIES, ids=[str(number) for number in range(len(LIES))])
def test_a_python_that_lies_about_a_release_is_no_success(
    place: Container, answer: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "train.py").write_text("x = 1\n")
    inside(VMID, "tee", "/srv/ill/answer", stdin=answer.encode())
    inside(VMID, "tee", "/srv/ill/python", stdin=LIAR.encode())
    inside(VMID, "chmod", "755", "/srv/ill/python")
    monkeypatch.chdir(tmp_path)
    result = released(project=["project"], root="/srv/ill/root", name="demo", python="/srv/ill/python")
    assert result["failed"]
    assert "ansible_facts" not in result
    assert re.search(says, result["msg"])
    harmless(Exception(result["msg"]))
    assert "\n" not in result["summary"]


def released(**given: Any) -> dict[str, Any]:
    """The result of the step, or its refusal as Ansible would get it; what makes a host unreachable as its message."""
    from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
    from ansible_collections.trainops.proxmox.plugins.plugin_utils.spec import argument_spec

    checked = ArgumentSpecValidator(argument_spec("training_release")["argument_spec"]).validate(given)
    assert not checked.error_messages
    task: Any = types.SimpleNamespace(check_mode=False, diff=False, action="training_release", async_val=0)
    unused: Any = None
    action = ActionModule(task, connect(HOST), unused, unused, unused, unused)

    def does() -> dict[str, Any]:
        try:
            return action.step(checked.validated_parameters, {"inventory_hostname": HOST})
        except AnsibleConnectionFailure as error:
            raise StepError("unreachable", str(error)) from error

    return step(does)
