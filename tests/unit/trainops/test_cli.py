"""The command: what it prints and how it ends."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.unit.trainops.folders import runs, until, user_folder
from trainops.cli import main
from trainops.errors import WrongExtravars, WrongTarget
from trainops.extravars import Extravars, read_extravars

SAY = "- {name: Say, ansible.builtin.debug: {msg: 'hello {{ who | default(inventory_hostname) }}'}}"


def trainops(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does, in a folder."""
    argv = [sys.executable, "-m", "trainops", *arguments]
    env = {**os.environ, **environment}
    return subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=120)


def test_deploy_prints_the_lines_and_ends_with_zero(tmp_path: Path) -> None:
    done = trainops(user_folder(tmp_path, SAY), "deploy", "-l", "one", "-e", "who=you")
    assert (done.returncode, done.stdout, done.stderr) == (0, "one  Say: hello you\n", "")


@pytest.mark.parametrize("locale", [{"LC_ALL": "C"}, {"LC_ALL": "", "LC_CTYPE": "", "LANG": ""}])
def test_it_runs_in_any_locale(tmp_path: Path, locale: dict[str, str]) -> None:
    done = trainops(user_folder(tmp_path, SAY), "deploy", "-l", "one", "-e", "who=ümlaut", **locale)
    assert (done.returncode, done.stdout) == (0, "one  Say: hello ümlaut\n")


def test_json_is_all_of_standard_output(tmp_path: Path) -> None:
    done = trainops(user_folder(tmp_path, SAY), "deploy", "--json", "-i", "one,", "-e", "ansible_connection=local")
    result = json.loads(done.stdout)
    assert (result["reason"], list(result["hosts"])) == ("ok", ["one"])
    assert done.stderr == "one  Say: hello one\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["deploy", "--json", "--nope"], "No such option"),
        (["deploy", "--timeout", "0", "--json"], "not in the range"),
        (["deploy", "--timeout", "nan", "--json"], "timeout nan"),
        (["deploy", "--timeout", "inf", "--json"], "timeout inf"),
        (["deploy", "--timeout", "soon", "--json"], "not a valid float"),
        (["deploy", "--json", "-i", "gone.yml"], "there is no inventory"),
        (["deploy", "--json", "-e", "oops"], "'oops' is not NAME=VALUE"),
        (["deploy", "--json", "-l", ""], "names no host"),
        (["deploy", "--json", "more"], "name the project's folder or files"),
        (["rollback", "--json", "more"], "names no container"),
        (["rollback", "--json", "edited"], "; to go back to a release: trainops rollback --to edited"),
        (["rollback", "--json", "3"], "; to go back to a release: trainops rollback --to 3"),
        (["nope", "--json"], "No such command"),
        (["logs", "--json", "r1", "r2"], "r1 and r2: name one run"),
        (["logs", "--json", "r0"], "'r0' is neither a run, such as r1, nor a container"),
        (["logs", "--json", "-n", "-1"], "not in the range"),
        (["why", "--json", "all"], "'all' is neither a run"),
        (["stop", "--json", "--signal", "KILL"], "'KILL' is not one of"),
        (["stop", "--json", "--patience", "inf"], "patience inf"),
        (["launch", "--json", "more"], "names no container"),
        (["launch", "--json", "--script", "a.py", "--command", "b"], "give one of them"),
        (["--nope", "deploy", "--json"], "No such option"),
    ],
)
def test_a_mistake_of_use_is_json_too(tmp_path: Path, arguments: list[str], said: str) -> None:
    done = trainops(user_folder(tmp_path, SAY), *arguments)
    told = json.loads(done.stdout)
    assert (told["ok"], told["reason"], done.returncode) == (False, "usage", 2)
    assert said in told["message"]
    assert said in done.stderr
    plain = trainops(tmp_path, *(word for word in arguments if word != "--json"))
    assert (plain.stdout, plain.returncode) == ("", 2)


def test_a_folder_without_an_inventory_is_said_so(tmp_path: Path) -> None:
    done = trainops(tmp_path, "deploy", "--json", ANSIBLE_INVENTORY="/nowhere")
    told = json.loads(done.stdout)
    assert (told["ok"], done.returncode) == (False, 1)
    assert "there is no inventory that could be read, so nothing was done: give one with -i" in told["message"]
    assert "there is no inventory" in done.stderr


@pytest.mark.parametrize(
    "command", ["deploy", "gpus", "launch", "logs", "status", "stop", "why", "diff", "rollback", "eject"]
)
def test_in_an_empty_folder_the_first_step_is_named(tmp_path: Path, command: str) -> None:
    done = trainops(tmp_path, command, HOME=str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    first = "name a node (trainops gpus root@NODE)" if command == "gpus" else "begin with trainops init root@NODE"
    assert done.stderr.startswith(f"trainops: there is no inventory for {tmp_path}: {first}")


def test_check_needs_no_inventory(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import json, no_such_module_anywhere\n")
    done = trainops(tmp_path, "check", "--json", HOME=str(tmp_path))
    step = json.loads(done.stdout)["hosts"]["localhost"]["steps"][0]["values"]
    assert (done.returncode, step["files_checked"], "Traceback" in done.stderr) == (0, 1, False)
    assert [one["severity"] for one in step["problems"]] == ["warning"]
    done = trainops(tmp_path, "check", "--python", sys.executable, HOME=str(tmp_path))
    assert done.returncode == 1
    assert "a.py:1:1: " in done.stdout
    assert "has no no_such_module_anywhere" in done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_can_complete_it(shell: str) -> None:
    done = CliRunner().invoke(main, ["completion", shell])
    assert (done.exit_code, "_TRAINOPS_COMPLETE" in done.output) == (0, True)


def test_a_completion_offers_the_commands() -> None:
    done = CliRunner().invoke(
        main,
        [],
        prog_name="trainops",
        env={"_TRAINOPS_COMPLETE": "bash_complete", "COMP_WORDS": "trainops ", "COMP_CWORD": "1"},
    )
    assert "plain,deploy" in done.output.splitlines()


def test_rollback_runs_the_users_own_playbook(tmp_path: Path) -> None:
    done = trainops(user_folder(tmp_path, SAY, name="rollback_training"), "rollback")
    assert done.returncode == 0
    assert sorted(done.stdout.splitlines()) == ["one  Say: hello one", "two  Say: hello two"]


@pytest.mark.parametrize(
    ("tasks", "arguments", "code", "out", "err"),
    [
        ("- {name: Stop, ansible.builtin.fail: {msg: broken}}", [], 1, "Stop: FAILED  broken", ""),
        (SAY, ["-i", "gone.yml"], 2, "", "there is no inventory"),
        (SAY, ["-e", "oops"], 2, "", "'oops' is not NAME=VALUE"),
        (SAY, ["-l", ""], 2, "", "limit '' names no host"),
        (SAY, ["-i", ""], 2, "", "inventory '' names nothing"),
        (SAY, ["--nope"], 2, "", "No such option"),
        (SAY, ["--timeout", "0"], 2, "", "not in the range"),
        (SAY, ["-l", "nobody"], 2, "", "trainops: limit 'nobody' names no host of the inventory: there are one, two\n"),
        ("- ansible.builtin.command: 'true'", ["-i", "x,", "-e", "ansible_host=127.0.0.99"], 3, "UNREACHABLE", ""),
        ("- ansible.builtin.command: sleep 88", ["--timeout", "3"], 4, "", "not finished within its deadline"),
    ],
)
def test_each_ending_has_its_status(
    tmp_path: Path, tasks: str, arguments: list[str], code: int, out: str, err: str
) -> None:
    done = trainops(user_folder(tmp_path, tasks), "deploy", *arguments)
    assert done.returncode == code, done.stdout + done.stderr
    assert out in done.stdout
    assert err in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("kib", "code", "said"),
    [
        (4, 1, "nothing was started, files cannot be written: [Errno 28] No space left on device: make room in "),
        (8, 5, "what was done on the hosts is not known"),
        (16, 5, "what was done on the hosts is not known"),
        (48, 5, "what was done on the hosts is not known"),
        (256, 5, "what was done on the hosts is not known"),
    ],
)
def test_a_full_temporary_folder_is_no_failure_of_a_host(tmp_path: Path, kib: int, code: int, said: str) -> None:
    small = tmp_path / "small"
    small.mkdir()
    much = SAY + "\n- ansible.builtin.set_fact: {big: \"{{ 'x' * 400000 }}\"}"
    folder = user_folder(tmp_path / "user", much)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", os.fspath(small)], check=True)
    try:
        done = trainops(folder, "deploy", TMPDIR=os.fspath(small))
        assert list(small.iterdir()) == []
    finally:
        subprocess.run(["umount", os.fspath(small)], check=True)
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stderr.startswith(f"trainops: {said}")
    assert os.fspath(small) in done.stderr and "No space left on device" in done.stderr
    assert (code == 1) or "trainops status tells" in done.stderr
    assert "output cannot be written" not in done.stderr


def test_a_full_disk_of_the_output_is_said_so(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "trainops", "deploy"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            argv, cwd=user_folder(tmp_path, SAY), stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    said = "trainops: the output cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, said)


SHOW = "- {name: Say, ansible.builtin.debug: {msg: '%s'}}"


@pytest.mark.parametrize(
    ("words", "playbook", "variables", "values"),
    [
        (["logs"], "training_logs", "training_follow training_lines training_run", "False 100 -"),
        (
            ["logs", "-f", "-n", "5", "r12"],
            "training_logs",
            "training_follow training_lines training_run",
            "True 5 r12",
        ),
        (["stop"], "stop_training", "training_run training_stop_signal training_stop_timeout", "- - -"),
        (
            ["stop", "all", "--signal", "INT", "--patience", "9"],
            "stop_training",
            "training_run training_stop_signal training_stop_timeout",
            "all INT 9.0",
        ),
        (["why", "r3"], "why_training", "training_run training_name", "r3 -"),
        (["status", "--name", "demo"], "training_status", "training_name training_python", "demo -"),
        (["status", "--history", "7"], "training_status", "training_history training_name", "7 -"),
        (["status", "--history=0"], "training_status", "training_history training_name", "0 -"),
        (["status", "--history"], "training_status", "training_history training_name", "20 -"),
        (["status", "--history", "--name", "demo"], "training_status", "training_history training_name", "20 demo"),
        (["diff", "--name", "demo"], "diff_training", "training_name training_python", "demo -"),
        (["launch"], "launch_training", "training_watch training_like training_gpus", "True - -"),
        (
            ["launch", "--no-follow", "--like", "r1", "--gpus", "0,2"],
            "launch_training",
            "training_watch training_like training_gpus training_script",
            "False r1 0,2 -",
        ),
        (
            ["launch", "--script", "a.py", "--args", "--lr 1", "--python", "/p"],
            "launch_training",
            "training_script training_args training_python training_command",
            "a.py --lr 1 /p []",
        ),
        (
            ["launch", "--command", "a b"],
            "launch_training",
            "training_script training_args training_command",
            " [] a b",
        ),
    ],
)
def test_words_become_variables(tmp_path: Path, words: list[str], playbook: str, variables: str, values: str) -> None:
    shown = " ".join(f'{{{{ {name} | default("-") }}}}' for name in variables.split())
    folder = user_folder(tmp_path, SHOW % shown, name=playbook)
    done = trainops(folder, *words, "-l", "one")
    assert (done.returncode, done.stdout) == (0, f"one  Say: {values}".rstrip() + "\n"), done.stderr


@pytest.mark.parametrize(
    ("words", "playbook", "said"),
    [
        (
            ["logs", "-f", "r2", "-l", "one"],
            "training_logs",
            "detached, nothing was stopped: what has begun goes on; to come back: trainops logs -f r2 --limit=one",
        ),
        (["launch"], "launch_training", "canceled, nothing was started"),
        (["logs"], "training_logs", "canceled"),
        (["stop"], "stop_training", "canceled; nothing was stopped"),
        (["rollback"], "rollback_training", "canceled, nothing of it goes on; nothing was changed"),
    ],
)
def test_an_interrupt_detaches_from_what_goes_on_elsewhere(
    tmp_path: Path, words: list[str], playbook: str, said: str
) -> None:
    word = f"sleep {secrets.randbelow(10**9) + 10**6}"
    folder = user_folder(tmp_path, f"- ansible.builtin.command: {word}", name=playbook)
    argv = [sys.executable, "-m", "trainops", *words]
    process = subprocess.Popen(
        argv, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert until(lambda: runs(word.split()[1]))
    os.killpg(process.pid, signal.SIGINT)
    _out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, f"trainops: {said}\n")
    assert until(lambda: not runs(word.split()[1]))


def test_a_missing_playbook_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainops.runner._own_playbooks", lambda: ["other"])
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["deploy", "-i", "one,"])
    assert done.exit_code == 2
    assert done.stderr == (
        "trainops: there is no playbook trainops.proxmox.deploy_training; there are: trainops.proxmox.other\n"
    )


def test_help_tells_the_exit_statuses() -> None:
    for arguments in (["-h"], ["deploy", "--help"]):
        done = CliRunner().invoke(main, arguments)
        assert done.exit_code == 0
        assert "3  a host could not be reached" in done.output


def test_the_version_is_the_packages() -> None:
    assert "0." in CliRunner().invoke(main, ["--version"]).output


@pytest.mark.parametrize(
    ("texts", "files", "values"),
    [
        ([], [], {}),
        (["a=1"], [], {"a": "1"}),
        (["a=1 b='two words'", "a=3"], [], {"a": "3", "b": "two words"}),
        (["a==", "b="], [], {"a": "=", "b": ""}),
        (['{"a": [1, true]}'], [], {"a": [1, True]}),
        (["@vars.yml", "a=1", "@/x.yml"], ["vars.yml", "/x.yml"], {"a": "1"}),
    ],
)
def test_extravars(texts: list[str], files: list[str], values: dict[str, Any]) -> None:
    assert read_extravars(texts) == Extravars(files, values)


@pytest.mark.parametrize("text", ["a", "a='", "{a", "{a, [}", "=1x y"])
def test_extravars_that_cannot_be_read(text: str) -> None:
    with pytest.raises(WrongExtravars, match="-e"):
        read_extravars([text])


def test_starting_is_light() -> None:
    look = (
        "import sys, trainops.cli; print([m for m in sys.modules if m.split('.')[0] in ('ansible', 'ansible_runner')])"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("line", ["trainops deploy ", "trainops init --project "])
def test_a_completion_offers_files(line: str) -> None:
    env = {"_TRAINOPS_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split()))}
    assert "file," in CliRunner().invoke(main, [], prog_name="trainops", env=env).output.splitlines()


@pytest.mark.parametrize(
    ("words", "history", "targets"),
    [
        (["--history"], 20, None),
        (["--history", "root@10.0.0.1/200"], 20, ["root@10.0.0.1/200"]),
        (["--history", "7", "root@10.0.0.1/200"], 7, ["root@10.0.0.1/200"]),
        (["root@10.0.0.1/200", "--history"], 20, ["root@10.0.0.1/200"]),
        (["root@10.0.0.1/200"], None, ["root@10.0.0.1/200"]),
    ],
)
def test_history_needs_no_number(
    monkeypatch: pytest.MonkeyPatch, words: list[str], history: int | None, targets: list[str] | None
) -> None:
    asked: list[dict[str, Any]] = []

    def status(**given: Any) -> None:
        asked.append(given)
        raise WrongTarget("enough")

    monkeypatch.setattr("trainops.status", status)
    assert CliRunner().invoke(main, ["status", *words]).exit_code == 2
    assert [(one["history"], one["target"]) for one in asked] == [(history, targets and tuple(targets))]


def test_a_history_that_is_no_number_is_refused() -> None:
    done = CliRunner().invoke(main, ["status", "--history", "many"])
    assert (done.exit_code, "Invalid value for '--history': 'many'" in done.stderr) == (2, True)


def test_the_help_and_the_completion_know_that_history_needs_no_number() -> None:
    assert "--history [NUMBER]" in CliRunner().invoke(main, ["status", "--help"]).output
    env = {"_TRAINOPS_COMPLETE": "bash_complete", "COMP_WORDS": "trainops status --history --na", "COMP_CWORD": "3"}
    assert "plain,--name" in CliRunner().invoke(main, [], prog_name="trainops", env=env).output.splitlines()


@pytest.mark.parametrize("answer", ["n\n", ""])
def test_an_eject_that_is_not_wanted_changes_nothing(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    monkeypatch.setattr("trainops.cli._at_a_terminal", lambda: True)
    monkeypatch.setattr("trainops.eject", lambda **_options: pytest.fail("it went on"))
    done = CliRunner().invoke(main, ["eject", "root@127.0.0.1/200:/root"], input=answer)
    assert done.exit_code == 130, done.output
    assert 'root@127.0.0.1/200:/root: earlier releases go, also "adopted"' in done.stderr
    assert done.stderr.endswith("trainops: canceled\n")
