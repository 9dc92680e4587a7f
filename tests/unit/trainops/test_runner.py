"""Playbooks run from Python: typed results, typed mistakes, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import trainops
from tests.unit.trainops.folders import INVENTORY, runs, until, user_folder
from trainops import Reason, run_playbook
from trainops.errors import (
    AnsibleMissing,
    FolderNotFound,
    InventoryNotFound,
    PlaybookNotFound,
    TrainopsError,
    WrongExtravars,
    WrongOption,
)
from trainops.private import remove_abandoned
from trainops.runner import _MAX_KEPT_CHARACTERS, _Events, _Order, _runner, _Watch, find_playbook

SAY = "- name: Say\n  ansible.builtin.debug: {msg: 'hello {{ who | default(inventory_hostname) }}'}"


@pytest.fixture(autouse=True)
def temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where runs keep their private files; must be empty afterwards."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def left_behind(folder: Path) -> list[str]:
    """Private files of a run (ansible-core's own temporary folders lie elsewhere)."""
    return [path.name for path in folder.glob("trainops-*")]


def test_a_run_gives_the_steps_of_each_host(tmp_path: Path, temporary_files: Path) -> None:
    folder = user_folder(tmp_path / "user", SAY + "\n- ansible.builtin.command: echo out")
    result = trainops.deploy(cwd=folder)
    assert (result.ok, result.reason, result.rc, result.message) == (True, Reason.OK, 0, "")
    assert result.playbook == str(folder / "deploy_training.yml")
    assert sorted(result.hosts) == ["one", "two"]
    said, ran = result.hosts["two"].steps
    assert (said.step, said.action, said.summary) == ("Say", "ansible.builtin.debug", "hello two")
    assert (ran.changed, ran.values["stdout"]) == (True, "out")
    assert result.hosts["one"].changed
    assert "one  Say: hello one" in result.output
    assert left_behind(temporary_files) == []


def test_options_reach_ansible(tmp_path: Path) -> None:
    folder = user_folder(tmp_path / "user", SAY + "\n- ansible.builtin.command: touch made\n  args: {creates: made}")
    (folder / "vars.yml").write_text("who: file\n")
    (folder / "other.yml").write_text(INVENTORY.replace("two: {}", "three: {}"))
    result = run_playbook(
        folder / "deploy_training.yml",
        inventory=["other.yml"],
        limit="three",
        extravars={"who": "ünïcode 'quoted' {{ 1 + 1 }}"},
        extravars_files=["vars.yml"],
        check=True,
        diff=True,
        verbosity=1,
        cwd=folder,
    )
    assert result.ok
    assert result.check
    assert list(result.hosts) == ["three"]
    assert result.hosts["three"].steps[0].summary == "hello ünïcode 'quoted' 2"
    assert "check mode" in result.output
    assert not (folder / "made").exists()


@pytest.mark.parametrize(
    ("tasks", "reason", "message"),
    [
        ("- {name: Stop, ansible.builtin.fail: {msg: broken}}", Reason.FAILED, "one Stop: broken; two Stop: broken"),
        ("- ansible.builtin.debug: {msg: [}", Reason.FAILED, "YAML parsing failed"),
        ("- no.such.module: {}", Reason.FAILED, "couldn't resolve module/action 'no.such.module'"),
    ],
)
def test_a_failed_run_is_a_result_with_a_reason(tmp_path: Path, tasks: str, reason: Reason, message: str) -> None:
    result = trainops.deploy(cwd=user_folder(tmp_path / "user", tasks))
    assert not result.ok
    assert result.reason is reason
    assert message in result.message
    assert result.rc


def test_an_unreachable_host_is_told_from_a_failed_one(tmp_path: Path) -> None:
    inventory = INVENTORY.replace("two: {}", "two: {ansible_connection: ssh, ansible_host: 127.0.0.99}")
    folder = user_folder(tmp_path / "user", "- name: Go\n  ansible.builtin.command: 'true'", inventory=inventory)
    result = trainops.deploy(cwd=folder)
    assert result.reason is Reason.UNREACHABLE
    assert result.hosts["one"].ok
    assert result.hosts["two"].unreachable
    assert not result.hosts["two"].failed
    assert result.message.startswith("two Go: ")


def test_rescued_and_ignored_failures_do_not_count(tmp_path: Path) -> None:
    tasks = """
    - ansible.builtin.fail: {msg: never mind}
      ignore_errors: true
    - block: [{ansible.builtin.fail: {msg: caught}}]
      rescue: [{ansible.builtin.debug: {msg: rescued}}]
    """
    result = trainops.deploy(cwd=user_folder(tmp_path / "user", tasks))
    assert result.reason is Reason.OK
    assert not result.hosts["one"].failed


def test_nothing_matched_is_no_success(tmp_path: Path) -> None:
    folder = user_folder(tmp_path / "user", SAY)
    playbook = folder / "deploy_training.yml"
    playbook.write_text(playbook.read_text().replace("hosts: all", "hosts: training"))
    result = trainops.deploy(cwd=folder)
    assert not result.ok
    assert "no host did anything" in result.message


def test_a_run_may_come_from_any_thread_and_beside_another(tmp_path: Path) -> None:
    folder = user_folder(tmp_path / "user", SAY)
    results: list[trainops.Result] = []
    threads = [threading.Thread(target=lambda: results.append(trainops.deploy(cwd=folder))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [result.ok for result in results] == [True, True]


def test_a_slow_listener_does_not_hold_the_run_up(tmp_path: Path) -> None:
    done = tmp_path / "done"
    folder = user_folder(tmp_path / "user", f"{SAY}\n- ansible.builtin.command: touch {done}")
    heard, overtaken = [], []

    def listen(text: str) -> None:
        heard.append(text)
        overtaken.append(until(done.exists))

    result = trainops.deploy(cwd=folder, on_output=listen)
    assert result.ok
    assert all(overtaken)
    assert "\n".join(heard) == result.output


def test_large_results_are_kept(tmp_path: Path) -> None:
    tasks = "- ansible.builtin.command: \"{{ ansible_playbook_python }} -c 'print(900000 * chr(120))'\""
    result = trainops.deploy(cwd=user_folder(tmp_path / "user", tasks), limit="one")
    assert len(result.hosts["one"].steps[0].values["stdout"]) == 900_000


def test_secrets_are_on_no_command_line_and_in_no_leftover(tmp_path: Path, temporary_files: Path) -> None:
    look = "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -c 's3cr[3]t-w0rd'; true"
    tasks = f"""
    - ansible.builtin.shell: {look!r}
    - ansible.builtin.shell: {'stat -c %a "$AWX_ISOLATED_DATA_DIR/../.."'!r}
    """
    folder = user_folder(tmp_path / "user", tasks)
    result = trainops.deploy(cwd=folder, limit="one", extravars={"password": "s3cr3t-w0rd"})
    assert result.ok
    counted, mode = (step.values["stdout"] for step in result.hosts["one"].steps)
    assert counted == "0"
    assert mode == "700"
    assert left_behind(temporary_files) == []


def test_host_keys_are_checked_as_the_user_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = "- ansible.builtin.debug: {msg: \"<{{ lookup('env', 'ANSIBLE_HOST_KEY_CHECKING') }}>\"}"
    folder = user_folder(tmp_path / "user", tasks)
    monkeypatch.delenv("ANSIBLE_HOST_KEY_CHECKING", raising=False)
    assert trainops.deploy(cwd=folder, limit="one").hosts["one"].steps[0].summary == "<>"
    monkeypatch.setenv("ANSIBLE_HOST_KEY_CHECKING", "False")
    assert trainops.deploy(cwd=folder, limit="one").hosts["one"].steps[0].summary == "<False>"


@pytest.mark.parametrize("how", ["cancel", "timeout"])
def test_an_ended_run_leaves_no_process(tmp_path: Path, temporary_files: Path, how: str) -> None:
    number = f"86{os.getpid()}"
    tasks = f"- ansible.builtin.shell: \"trap '' TERM; sleep {number} & sleep {number}\""
    folder = user_folder(tmp_path / "user", tasks)
    cancel = threading.Event()

    def watch() -> None:
        if until(lambda: runs(number)) and how == "cancel":
            cancel.set()

    threading.Thread(target=watch).start()
    result = trainops.deploy(cwd=folder, cancel=cancel, timeout=6 if how == "timeout" else None)
    assert result.reason is (Reason.CANCELED if how == "cancel" else Reason.DEADLINE)
    assert not result.ok
    assert result.rc is None
    assert "under way, it may have taken effect" in result.message
    assert not runs(number)
    assert left_behind(temporary_files) == []


# Gives its account and then does not end, as with a callback that waits for a log server.
LINGER = """
import time
from pathlib import Path
from ansible.plugins.callback import CallbackBase
class CallbackModule(CallbackBase):
    CALLBACK_VERSION, CALLBACK_TYPE, CALLBACK_NAME = 2.0, "aggregate", "linger"
    def v2_playbook_on_stats(self, stats):
        Path("accounted").touch()
        time.sleep(3600)
"""


@pytest.mark.parametrize("how", ["cancel", "timeout"])
def test_a_run_that_is_done_is_never_called_unfinished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr("trainops.runner._PATIENCE_SECONDS", 0.5)
    folder = user_folder(tmp_path / "user", "- {name: Make, ansible.builtin.command: touch made}")
    (folder / "callback_plugins").mkdir()
    (folder / "callback_plugins" / "linger.py").write_text(LINGER)
    with (folder / "ansible.cfg").open("a") as stream:
        stream.write("callbacks_enabled = linger\n")
    cancel = threading.Event()

    def watch() -> None:
        if until((folder / "accounted").exists) and how == "cancel":
            cancel.set()

    threading.Thread(target=watch).start()
    result = trainops.deploy(cwd=folder, limit="one", cancel=cancel, timeout=15 if how == "timeout" else None)
    assert (result.ok, result.reason, result.rc, result.message) == (True, Reason.OK, None, "")
    assert result.hosts["one"].changed


def test_a_run_whose_processes_have_ended_is_not_ended_again(tmp_path: Path) -> None:
    order = _Order("x.yml", tmp_path, [], None, "{}", None, lambda: True, {})
    watch = _Watch(order, lambda: False)
    assert not watch()
    assert (watch.aborted, watch.ended) == (None, False)


def test_ansible_runner_takes_the_settings(tmp_path: Path) -> None:
    """It drops those that are given as an argument, and then looks for the end of a run every five seconds only."""
    order = _Order(str(tmp_path / "x.yml"), tmp_path, [], None, "{}", None, lambda: False, {})
    private = tmp_path / "private"
    private.mkdir()
    config = _runner(order, private, _Events(None), _Watch(order, lambda: False)).config
    assert config.pexpect_timeout < 1
    assert config.suppress_output_file is True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_command_leaves_nothing(tmp_path: Path, temporary_files: Path, number: signal.Signals) -> None:
    seconds = f"87{os.getpid()}"
    folder = user_folder(tmp_path / "user", f"- ansible.builtin.command: sleep {seconds}")
    command = subprocess.Popen(
        [sys.executable, "-m", "trainops", "deploy"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert until(lambda: runs(seconds))
        command.send_signal(number)
        command.send_signal(number)  # an impatient user
        _out, err = command.communicate(timeout=30)
    finally:
        command.kill()
        command.wait()
    assert command.returncode == 130
    assert err == b"trainops: canceled, nothing of it goes on; nothing was changed\n"
    assert not runs(seconds)
    assert left_behind(temporary_files) == []


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"name": "missing.yml"}, PlaybookNotFound, "/missing.yml"),
        ({"name": "nope"}, PlaybookNotFound, "trainops.proxmox.nope; there are: trainops.proxmox."),
        ({"name": "--list-hosts"}, PlaybookNotFound, "trainops.proxmox.--list-hosts' is no playbook"),
        ({"name": "-e.a.b"}, PlaybookNotFound, "'-e.a.b' is no playbook"),
        ({"name": ""}, PlaybookNotFound, "is no playbook"),
        ({"name": "other.coll.nope"}, PlaybookNotFound, "other.coll.nope"),
        ({"inventory": "gone.yml"}, InventoryNotFound, "/gone.yml"),
        ({"inventory": ["inventory.yml", "gone.yml"]}, InventoryNotFound, "/gone.yml"),
        ({"inventory": []}, InventoryNotFound, "list of inventories is empty"),
        ({"inventory": ""}, InventoryNotFound, "'' names nothing"),
        ({"inventory": [" , "]}, InventoryNotFound, "' , ' names nothing"),
        ({"cwd": "/nowhere/at/all"}, FolderNotFound, "there is no folder /nowhere/at/all"),
        ({"cwd": __file__}, FolderNotFound, "there is no folder"),
        ({"cwd": ""}, FolderNotFound, "cwd is empty"),
        ({"limit": ""}, WrongOption, "limit '' names no host"),
        ({"limit": " "}, WrongOption, "names no host"),
        ({"limit": ","}, WrongOption, "names no host"),
        ({"limit": ":\n"}, WrongOption, "names no host"),
        ({"limit": "@blank,"}, WrongOption, "names no host"),
        ({"limit": "@gone"}, WrongOption, "/gone cannot be read"),
        ({"verbosity": -1}, WrongOption, "verbosity -1"),
        ({"timeout": 0}, WrongOption, "timeout 0"),
        ({"timeout": -1.5}, WrongOption, "timeout -1.5"),
        ({"timeout": float("nan")}, WrongOption, "timeout nan"),
        ({"timeout": float("inf")}, WrongOption, "timeout inf"),
        ({"extravars": {"a": object()}}, WrongExtravars, "JSON"),
        ({"extravars": {"a-b": 1}}, WrongExtravars, "'a-b'"),
        ({"extravars_files": ["gone.yml"]}, WrongExtravars, "/gone.yml"),
    ],
)
def test_mistakes_of_the_caller_are_typed(
    tmp_path: Path, temporary_files: Path, options: dict[str, object], error: type[TrainopsError], text: str
) -> None:
    folder = user_folder(tmp_path / "user", SAY)
    (folder / "blank").write_text("\n")
    given = {"name": "deploy_training", "cwd": folder, **options}
    with pytest.raises(error, match=text.replace(".", r"\.")):
        run_playbook(**given)  # type: ignore[arg-type]
    assert left_behind(temporary_files) == []


@pytest.mark.parametrize(
    "options",
    [{"limit": "--help"}, {"limit": "-v"}, {"limit": "--list-hosts,@blank"}, {"inventory": "--help,", "limit": "x"}],
)
def test_no_text_of_the_caller_is_taken_for_an_option(tmp_path: Path, options: dict[str, str]) -> None:
    folder = user_folder(tmp_path / "user", SAY)
    (folder / "blank").write_text("\n")
    with pytest.raises(WrongOption, match="names no host of the inventory: "):
        run_playbook("deploy_training", cwd=folder, **options)  # type: ignore[arg-type]


def test_a_limit_that_names_nobody_is_one_sentence_with_those_there_are(tmp_path: Path) -> None:
    folder, lines = user_folder(tmp_path / "user", SAY), list[str]()
    with pytest.raises(WrongOption) as caught:
        trainops.deploy(cwd=folder, limit="ct999", on_output=lines.append)
    assert str(caught.value) == "limit 'ct999' names no host of the inventory: there are one, two"
    assert lines == []
    groups = {"a": {"children": {"b": {"hosts": {"x": {}}}}, "hosts": {f"h{number}": {} for number in range(30)}}}
    with pytest.raises(WrongOption, match=r"there are h0, h1, .*, h19 and 11 more$"):
        trainops.deploy(cwd=folder, limit="ct999", inventory=groups)
    trainops.deploy(cwd=folder, limit="one,ct999", on_output=lines.append)
    assert "Could not match supplied host pattern, ignoring: ct999" in lines[0]


def test_a_limit_may_be_a_file(tmp_path: Path) -> None:
    folder = user_folder(tmp_path / "user", SAY)
    (folder / "hosts.txt").write_text("two\n")
    assert list(trainops.deploy(cwd=folder, limit="@hosts.txt").hosts) == ["two"]


def test_no_ansible_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AnsibleMissing, match="install ansible-core"):
        trainops.deploy(cwd=user_folder(tmp_path / "user", SAY))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("deploy_training", "{cwd}/deploy_training.yml"),
        ("deploy_training.yml", "{cwd}/deploy_training.yml"),
        ("./deploy_training.yml", "{cwd}/deploy_training.yml"),
        ("trainops.proxmox.deploy_training", "trainops.proxmox.deploy_training"),
        ("rollback_training", "trainops.proxmox.rollback_training"),
        ("some.collection.site", "some.collection.site"),
    ],
)
def test_a_name_means_the_users_own_playbook_first(tmp_path: Path, name: str, expected: str) -> None:
    (tmp_path / "deploy_training.yml").write_text("[]")
    assert os.path.normpath(find_playbook(name, tmp_path)) == expected.format(cwd=tmp_path)


def test_an_inventory_of_values_is_a_private_file_and_wins(tmp_path: Path) -> None:
    folder = user_folder(tmp_path, "- {name: Say, ansible.builtin.debug: {msg: '{{ word }} {{ group_names }}'}}")
    values = {"some": {"hosts": {"three": {"word": "ünï"}}, "vars": {"ansible_connection": "local"}}}
    result = run_playbook("deploy_training", inventory=values, cwd=folder)
    assert list(result.hosts) == ["three"]
    assert result.hosts["three"].steps[0].summary == "ünï ['some']"


def test_an_inventory_that_is_no_json_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongExtravars, match="inventory must be JSON values"):
        run_playbook("deploy_training", inventory={"all": {"hosts": {1, 2}}}, cwd=user_folder(tmp_path, ""))


def test_of_a_log_that_is_followed_for_days_only_the_beginning_is_kept() -> None:
    heard: list[str] = []
    events = _Events(heard.append)
    for number in range(3000):
        events.take({"event": "verbose", "stdout": f"{number:04}" + "x" * 1000})
    events.take({"event": "runner_on_ok", "stdout": "done"})
    events.finish()
    kept = [str(event["stdout"]) for event in events.all]
    assert (len(heard), heard[-1], kept[-1]) == (3001, "done", "done")
    assert sum(map(len, kept)) <= _MAX_KEPT_CHARACTERS + 2000
    assert kept[0].startswith("0000")


KILLED = """
import signal, sys
import trainops
signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
trainops.deploy(cwd=sys.argv[1])
"""


def test_a_killed_run_leaves_no_process_and_the_next_one_no_file(tmp_path: Path, temporary_files: Path) -> None:
    folder = user_folder(tmp_path / "user", "- ansible.builtin.command: sleep 86399.25")
    with subprocess.Popen([sys.executable, "-c", KILLED, folder]) as caller:
        assert until(lambda: runs("86399.25"), 60)
        (private,) = temporary_files.glob("trainops-*")
        remove_abandoned(temporary_files)
        assert private.is_dir()  # it is in use
        caller.send_signal(signal.SIGKILL)
    assert until(lambda: not runs("86399.25") and not runs(str(folder / "deploy_training.yml")))
    (temporary_files / "trainops-of-another").mkdir()
    user_folder(folder, SAY)
    assert trainops.deploy(cwd=folder).ok
    assert left_behind(temporary_files) == ["trainops-of-another"]
