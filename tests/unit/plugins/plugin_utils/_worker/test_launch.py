# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Launching: what is started, by which path and environment, and that there is never a second copy."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker import launch, lock, supervise
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.container_lock import ContainerLock
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.store import release_id
from ansible_collections.trainops.proxmox.plugins.plugin_utils.exchange import Frame, Request, exchange

from tests.unit.interpreters import interpreters
from tests.unit.launching import (
    Decider,
    ended,
    home,
    kill_all,
    read,
    says,
    script,
    start,
    stopped,
    supervisor_gone,
    until,
    wish,
)
from tests.unit.releasing import deploy, refusal, rows

SHOW = "import json, os, sys\nprint(json.dumps([sys.path, os.getcwd(), sys.argv, __file__, dict(os.environ)]))\n"
FILES = {
    "train.py": SHOW,
    "tools/bench.py": "import beside\n" + SHOW,
    "tools/beside.py": "",
    "pkg/__init__.py": "",
    "pkg/train.py": SHOW,
    "spawn.py": (
        "import multiprocessing, json, sys\n"
        "def show(queue):\n"
        "    import late\n"
        "    queue.put([sys.path[0], __file__, late.__file__])\n"
        "if __name__ == '__main__':\n"
        "    context = multiprocessing.get_context('spawn')\n"
        "    queue = context.Queue()\n"
        "    process = context.Process(target=show, args=(queue,))\n"
        "    process.start()\n"
        "    print(json.dumps(queue.get()))\n"
        "    process.join()\n"
    ),
    "late.py": "",
}
ID = release_id(rows(FILES))


class _Connection:
    transport = "local"


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A root with the project released; what still runs at the end is ended."""
    folder = tmp_path / "root"
    folder.mkdir()
    deploy(folder, FILES)
    yield folder
    kill_all(folder)


def release_of(root: Path) -> str:
    return os.fspath(root / ".trainops/demo/releases" / ID)


def started_by(python: str, root: Path, **more: Any) -> dict[str, Any]:
    """A launch whose worker runs by another interpreter, in a process of its own that ends."""
    told = wish(root, python=python, **more)
    answer = [Frame("go", {"gpus": []})]
    return exchange(_Connection(), Request("launch", told, python=python), lambda _frame: answer).result


def shown(root: Path, run: str = "r1") -> tuple[list[str], str, list[str], str, dict[str, str]]:
    """What a run of SHOW printed: sys.path, working folder, arguments, file, environment."""
    record = ended(root, run)
    assert record.exit and record.exit["exit_code"] == 0, record.exit
    path, cwd, argv, file, environment = json.loads(Path(record.log).read_text())
    return path, cwd, argv, file, environment


def test_a_run_of_a_script(root: Path) -> None:
    result = start(
        root, script="train.py", args="--lr '1e-4 x'", env={"NCCL_DEBUG": "INFO"}, pythonpath=["pkg", "extra"]
    )
    path, cwd, argv, file, env = shown(root)
    tree = release_of(root)
    assert path[:4] == [tree, tree, f"{tree}/pkg", f"{root}/extra"]
    assert (cwd, file, argv[1:]) == (os.fspath(root), f"{tree}/train.py", ["--lr", "1e-4 x"])
    assert set(env) - {"LC_CTYPE"} == {
        *("CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES", "HOME", "LANG", "LOGNAME", "NCCL_DEBUG", "PATH", "PYTHONPATH"),
        *("PYTHONUNBUFFERED", "SHELL", "TORCHINDUCTOR_CACHE_DIR", "TRAINOPS_RELEASE", "TRAINOPS_RUN"),
        *("TRAINOPS_RUN_ID", "TRITON_CACHE_DIR", "USER"),
    }
    assert (env["NCCL_DEBUG"], env["CUDA_VISIBLE_DEVICES"], env["TRAINOPS_RUN_ID"]) == ("INFO", "", "r1")
    assert env["PATH"].split(":")[0] == os.path.dirname(sys.executable)
    assert os.path.isdir(env["TRITON_CACHE_DIR"])
    run = result["run"]
    assert (run["run"], run["release"], run["who"], result["repeated"]) == ("r1", ID, "tester@desk", False)
    assert {name: value for name, value in run["environment"].items() if env[name] != value} == {}
    assert run["distributions"]["pytest"] == pytest.__version__
    assert run["python_version"] == ".".join(map(str, sys.version_info[:3]))


@pytest.mark.parametrize("python", interpreters())
def test_a_module_is_the_release_s_and_never_a_link_s(root: Path, python: str) -> None:
    started_by(python, root, command=["{python}", "-um", "pkg.train", "-x"])
    path, cwd, argv, file, env = shown(root)
    assert path[0] == release_of(root)
    assert "" not in path and cwd not in path
    assert (file, argv) == (f"{release_of(root)}/pkg/train.py", [f"{release_of(root)}/pkg/train.py", "-x"])
    assert "PYTHONSAFEPATH" not in env  # children that run a script of a folder need that folder


@pytest.mark.parametrize("python", interpreters())
@pytest.mark.parametrize("command", [["{python}", "{release}/spawn.py"], "{python} -m spawn", "python spawn.py"])
def test_spawned_children_are_of_the_release(root: Path, python: str, command: Any) -> None:
    started_by(python, root, command=command)
    record = ended(root)
    assert record.exit and record.exit["exit_code"] == 0, record.exit
    tree = release_of(root)
    assert json.loads(Path(record.log).read_text()) == [tree, f"{tree}/spawn.py", f"{tree}/late.py"]


def test_a_script_of_a_folder_finds_what_is_beside_it(root: Path) -> None:
    start(root, script="tools/bench.py")
    assert shown(root)[0][:2] == [f"{release_of(root)}/tools", release_of(root)]


def test_a_command_names_the_release_s_files_however_they_are_written(root: Path) -> None:
    for number, word in enumerate(["train.py", "./train.py", f"{root}/train.py", "{release}/train.py"], 1):
        start(root, command=["{python}", word])
        assert shown(root, f"r{number}")[3] == f"{release_of(root)}/train.py"


def test_programs_beside_the_interpreter_are_found(root: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").symlink_to(sys.executable)
    (tmp_path / "bin/torchrun").write_text("#!/bin/sh\necho $0 $*\n")
    (tmp_path / "bin/torchrun").chmod(0o755)
    start(root, command="torchrun --n 8 train.py", python=f"{tmp_path}/bin/python")
    assert ended(root).exit
    assert says(root, "torchrun") == f"{tmp_path}/bin/torchrun --n 8 {release_of(root)}/train.py\n"


@pytest.mark.parametrize(
    ("wanted", "code", "text"),
    [
        ({}, "command", "there is nothing to start: set training_script and training_args, or training_command"),
        ({"script": "trian.py"}, "no-script", "there is no trian.py in the release: did you mean train.py"),
        ({"script": "bench.py"}, "no-script", "did you mean tools/bench.py"),
        ({"script": "zzzz.py"}, "no-script", "there is no zzzz.py in the release: there are "),
        ({"command": "nonesuch x"}, "no-command", "nonesuch is not on the run's PATH"),
        ({"command": "./none x"}, "no-command", "./none is not there"),
        ({"command": "/etc/passwd"}, "no-command", "/etc/passwd is not executable: chmod +x"),
        ({"command": "'a"}, "command", "cannot be split into words: the ' is never closed"),
        ({"command": {"a": 1}}, "command", "neither a text nor a list"),
        ({"script": "train.py", "env": {"A-B": "x"}}, "env", "training_env: the name of variable 1 cannot be one"),
        ({"script": "train.py", "env": {"A": None}}, "env", "training_env: A is no text: write it in quotes"),
        ({"script": "train.py", "env": {"CUDA_VISIBLE_DEVICES": "1"}}, "env", "choose GPUs by training_gpus"),
        ({"script": "train.py", "env_file": "none.env"}, "env-file", "root/none.env: No such file or directory"),
        ({"script": "train.py", "env_file": "/dev/zero"}, "env-file", "/dev/zero is no plain file"),
        ({"script": "train.py", "release": "abcd"}, "unknown-release", "abcd is no release of demo"),
        ({"script": "train.py", "like": "r7"}, "no-run", "nothing was ever launched for demo"),
    ],
)
def test_what_cannot_be_started_is_refused_before_anybody_is_asked(
    root: Path, wanted: dict[str, Any], code: str, text: str
) -> None:
    decider = Decider()
    error = refusal(start, root, decider, **wanted)
    assert (error.code, text in error.message) == (code, True), error.message
    assert decider.told == []
    assert not home(root).exists()


def test_a_launcher_of_modules_is_kept_to_the_release(root: Path, tmp_path: Path) -> None:
    (tmp_path / "torchrun").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (tmp_path / "torchrun").chmod(0o755)
    start(root, command=[f"{tmp_path}/torchrun", "-m", "pkg.train"])
    path, cwd, _argv, file, env = shown(root)
    assert (env["PYTHONSAFEPATH"], file) == ("1", f"{release_of(root)}/pkg/train.py")
    assert cwd not in path and path[0] == release_of(root)


def test_secrets_reach_the_run_and_no_record(root: Path) -> None:
    (root / "secrets.env").write_text("export API=from-file\n# a comment\nPLAIN='x # y' # z\nBOTH=file\n")
    env = {"HFTOKEN": "t0p-secret", "BOTH": "g1ven", "TOKENIZERS_PARALLELISM": "false", "PROXY": "http://pw1@host"}
    args = ["--api-key", "s3same", "--url=https://s1mple@host/x", "--n", "3"]
    decider = Decider()
    result = start(root, decider, script="train.py", args=args, env=env, env_file="secrets.env")
    argv, _file, seen = shown(root)[2:]
    assert argv[1:] == args
    assert {name: seen[name] for name in ("API", "PLAIN", "BOTH", "HFTOKEN")} == {
        "API": "from-file",
        "PLAIN": "x # y",
        "BOTH": "g1ven",
        "HFTOKEN": "t0p-secret",
    }
    kept = result["run"]["environment"]
    assert [kept[name] for name in ("API", "PLAIN", "BOTH", "HFTOKEN", "PROXY")] == [None] * 5
    assert kept["TOKENIZERS_PARALLELISM"] == "false"
    assert result["run"]["command"][2:] == ["--api-key", "***", "--url=https://***@host/x", "--n", "3"]
    assert [note.partition(":")[0] for note in result["notes"]] == ["a word of the command looks like a secret"]
    supervisor_gone(root)
    secret = ("from-file", "x # y", "t0p-secret", "g1ven", "pw1", "s3same", "s1mple")
    for path in [*home(root).iterdir(), *(path for path in home(root).parent.iterdir() if path.is_file())]:
        if path.name not in ("log", "exit.json", "key"):  # which hold what this script prints, or are random
            assert not [word for word in secret if word in path.read_text()], path
    told = repr([result, decider.told, dict(read(root).view(), exit=None)])
    assert not [word for word in secret if word in told] and "digests" not in told


def test_a_secret_in_what_a_run_left_behind_or_had_to_be_killed_is_in_no_record(root: Path) -> None:
    child = (
        "import subprocess, sys\n"
        "subprocess.Popen(['sh', '-c', \"trap '' TERM; echo on; sleep 600 & wait\", *sys.argv[1:]])"
    )
    script(root, child, "--token", "s3same-7")
    says(root, "on")
    assert ended(root).exit
    left = read(root).exit["left_over"]  # type: ignore[index]
    assert [one["command"].endswith("--token ***") for one in left if "trap" in one["command"]] == [True]
    killed = stopped(root, "r1", patience=0.1)["stopped"][0]["killed"]
    assert killed and "s3same-7" not in repr(killed)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("A", ":2: there is no '=': write NAME=VALUE"),
        ("1A=x", ":2: what is before the '=' cannot be a variable's name"),
        ("A='x", ":2: the ' at the beginning of the value is never closed"),
        ('A="x" y', ':2: there is more after the closing "'),
        ("CUDA_VISIBLE_DEVICES=0", ": CUDA_VISIBLE_DEVICES is set by the launch"),
    ],
)
def test_an_env_file_is_refused_by_line(root: Path, line: str, why: str) -> None:
    (root / "a.env").write_text(f"OK=1\n{line}\n")
    error = refusal(start, root, script="train.py", env_file="a.env")
    assert error.message.startswith(f"{root}/a.env{why}"), error.message


def test_an_order_larger_than_a_pipe_arrives(root: Path) -> None:
    env = {f"V{number}": "x" * 10_000 for number in range(30)}
    start(root, script="train.py", env=env)
    assert shown(root)[4]["V29"] == "x" * 10_000


def test_the_same_launch_again_starts_nothing(root: Path) -> None:
    told = {"token": secrets.token_hex(16)}
    first = script(root, "import time; print('on', flush=True); time.sleep(600)", **told)
    decider = Decider()
    again = script(root, "import time; time.sleep(600)", decider=decider, **told)
    assert (again["repeated"], again["run"]["process"]) == (True, first["run"]["process"])
    assert decider.told == []
    assert sorted(path.name for path in home(root).parent.iterdir()) == ["key", "last", "r1"]


def test_two_tries_of_one_launch_at_once_start_one_run(root: Path) -> None:
    token = secrets.token_hex(16)
    results: list[dict[str, Any]] = []
    both = threading.Barrier(2)

    def try_it() -> None:
        results.append(
            start(root, Decider(meddle=lambda: [both.wait(), None][1]), command="sleep 600", token=token, patience=20)
        )

    threads = [threading.Thread(target=try_it) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(result["repeated"] for result in results) == [False, True]
    assert [result["run"]["run"] for result in results] == ["r1", "r1"]
    assert not home(root, "r2").exists()


def test_a_launch_that_was_cut_off_is_made_again(root: Path) -> None:
    token = secrets.token_hex(16)
    code = (
        "import os, sys, json\n"
        "from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker import launch\n"
        "from tests.unit.launching import Decider\n"
        "launch.start_supervisor = lambda *_: os._exit(9)\n"
        "launch.run(Decider(), json.loads(sys.argv[1]))\n"
    )
    told = wish(root, command="sleep 600", token=token)
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(told)], env={**os.environ, "PYTHONPATH": os.getcwd()}, check=False
    )
    assert done.returncode == 9
    cut = read(root)
    assert (cut.state, cut.why, cut.never_started) == (
        "lost",
        "its launch was cut off before anything was started",
        True,
    )
    result = start(root, command="sleep 600", token=token)
    assert (result["run"]["run"], result["repeated"], result["state"]) == ("r2", False, "running")


def test_what_ends_at_once_was_started_all_the_same(root: Path) -> None:
    result = script(root, "raise SystemExit(7)")
    assert result["run"]["process"]
    assert ended(root).exit and ended(root).exit["exit_code"] == 7  # type: ignore[index]


def test_what_the_kernel_refuses_is_said(root: Path, tmp_path: Path) -> None:
    (tmp_path / "broken").write_bytes(b"\x7fELF nothing")
    (tmp_path / "broken").chmod(0o755)
    error = refusal(start, root, command=f"{tmp_path}/broken")
    assert (error.code, error.details["run"]) == ("not-started", "r1")
    assert error.message == f"r1: {tmp_path}/broken could not be started in {root}: Exec format error"


def test_a_number_is_never_used_twice(root: Path) -> None:
    script(root, "")
    ended(root)
    supervisor_gone(root)
    subprocess.run(["rm", "-r", os.fspath(home(root))], check=True)
    assert script(root, "")["run"]["run"] == "r2"


def test_the_controller_decides_about_gpus(root: Path) -> None:
    gpus = [{"index": 3, "uuid": "GPU-c"}, {"index": 5, "uuid": "GPU-e"}]
    decider = Decider({"kind": "again"}, {"kind": "go", "gpus": gpus})
    result = start(root, decider, script="train.py")
    assert [told["kind"] for told in decider.told] == ["ready", "ready"]
    assert decider.told[0]["runs"] == [] and decider.told[0]["gpus"] is None
    assert shown(root)[4]["CUDA_VISIBLE_DEVICES"] == "3,5"
    assert result["run"]["gpus"] == gpus
    assert start(root, Decider({"kind": "stop"}), script="train.py")["state"] == "refused"
    possible = start(root, Decider(), script="train.py", check_mode=True)
    assert (possible["state"], possible["run"]) == ("possible", None)
    assert not home(root, "r2").exists()


@pytest.mark.parametrize(("name", "by"), [("demo", "r1"), ("other", "r1 of demo")])
def test_two_runs_never_share_a_gpu(root: Path, name: str, by: str) -> None:
    gpus = [{"index": 0, "uuid": "GPU-a"}, {"index": 1, "uuid": "GPU-b"}]
    start(root, Decider({"kind": "go", "gpus": gpus}), command="sleep 600")
    if name != "demo":
        deploy(root, {"other.py": ""}, name=name)
    error = refusal(start, root, Decider({"kind": "go", "gpus": gpus[1:]}), command="sleep 600", name=name)
    assert (error.code, error.message.split(":")[0]) == ("gpus-held", f"GPU 1 is held by your run {by}")
    free = start(root, Decider({"kind": "go", "gpus": [{"index": 2, "uuid": "GPU-c"}]}), command="sleep 0", name=name)
    assert free["run"]["gpus"][0]["index"] == 2


def test_a_run_below_another_root_holds_its_gpus_too(root: Path) -> None:
    mark = {**os.environ, "TRAINOPS_RUN": "x", "TRAINOPS_RUN_ID": "r7", "CUDA_VISIBLE_DEVICES": "6,7"}
    with subprocess.Popen(["sleep", "600"], env=mark) as other:
        try:
            gpus = [{"index": 7, "uuid": "GPU-h"}]
            error = refusal(start, root, Decider({"kind": "go", "gpus": gpus}), command="sleep 600")
            assert (error.code, "GPU 7 was given to r7 below another root" in error.message) == ("gpus-held", True)
        finally:
            other.kill()
    assert start(root, Decider({"kind": "go", "gpus": gpus}), command="true")["run"]["gpus"] == gpus


def test_two_launches_at_once_below_two_roots_never_share_a_gpu(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    deploy(other, FILES)
    answer = {"kind": "go", "gpus": [{"index": 61, "uuid": "GPU-q"}, {"index": 62, "uuid": "GPU-r"}]}
    second = Decider(answer)
    came: list[Any] = []

    def of_the_second() -> None:
        came.append(refusal(start, other, second, command="sleep 600"))

    thread = threading.Thread(target=of_the_second)
    started = launch._started

    def slow(params: dict[str, Any], *order: Any) -> dict[str, Any]:
        """The first has looked and has not started anything yet: now the second one comes."""
        if params["root"] == str(root):
            thread.start()
            until(lambda: second.waited_for or came or not thread.is_alive(), "the second does nothing")
        return started(params, *order)

    monkeypatch.setattr(launch, "_started", slow)
    try:
        assert start(root, Decider(answer), command="sleep 600")["state"] == "running"
        thread.join()
        assert [error.code for error in came] == ["gpus-held"]
        assert "GPU 61, 62 was given to r1 below another root" in came[0].message
        assert start(other, command="true")["run"]["run"] == "r1"
    finally:
        kill_all(other)


def test_a_launch_without_gpus_waits_for_no_other(root: Path) -> None:
    with ContainerLock(lambda _holder: None):
        decider = Decider()
        assert start(root, decider, command="true")["run"]["run"] == "r1"
        assert decider.waited_for == []


def test_a_mig_device_below_another_root_is_held_too(root: Path) -> None:
    mark = {**os.environ, "TRAINOPS_RUN": "x", "TRAINOPS_RUN_ID": "r7", "CUDA_VISIBLE_DEVICES": "MIG-q"}
    with subprocess.Popen(["sleep", "600"], env=mark) as other:
        try:
            decider = Decider({"kind": "go", "gpus": [{"index": 0, "uuid": "MIG-q"}]})
            assert refusal(start, root, decider, command="sleep 600").code == "gpus-held"
        finally:
            other.kill()


def test_mig_devices_go_by_their_uuid(root: Path) -> None:
    start(root, Decider({"kind": "go", "gpus": [{"index": 0, "uuid": "MIG-a"}]}), script="train.py")
    assert shown(root)[4]["CUDA_VISIBLE_DEVICES"] == "MIG-a"


def test_like_another_run(root: Path) -> None:
    (root / "a.env").write_text("FILE=1\n")
    start(root, script="train.py", args=["a"], env={"ONE": "1", "TWO": "2"}, env_file="a.env", pythonpath=["x"])
    shown(root)
    start(root, like="r1", env={"TWO": "two"})
    path, _cwd, argv, _file, env = shown(root, "r2")
    assert (argv[1:], env["ONE"], env["TWO"], env["FILE"], f"{root}/x" in path) == (["a"], "1", "two", "1", True)
    start(root, like="r1", args=["b"])
    assert shown(root, "r3")[2][1:] == ["b"]


def test_like_a_run_of_another_release_says_which_code_it_is(root: Path) -> None:
    start(root, script="train.py")
    new = {**FILES, "late.py": "x = 1"}
    deploy(root, new)
    same = f"trainops rollback --to {ID[:7]} first for the same code"
    live = release_id(rows(new))
    assert start(root, like="r1")["notes"] == [f"r1 ran {ID[:7]}; this runs the live {live[:7]} ({same})"]
    assert start(root, like="r1", release=ID)["notes"] == start(root, like="r2")["notes"] == []
    assert start(root, like="r2", release=ID)["notes"] == [f"r2 ran {live[:7]}; this runs {ID[:7]}"]


def test_like_takes_what_was_not_recorded_from_where_it_stands_now(root: Path) -> None:
    start(root, script="train.py", env={"MYTHING": "x"})
    shown(root)
    error = refusal(start, root, like="r1")
    assert (error.code, error.message.split(":")[0]) == ("secret", "r1 had MYTHING, whose value is not recorded")
    (root / "b.env").write_text("MYTHING=from-file\nMORE=1\n")
    same = start(root, like="r1", standing={"env": {"MYTHING": "x"}, "env_file": "b.env"})
    assert (shown(root, "r2")[4]["MYTHING"], same["notes"]) == ("x", [])
    another = start(root, like="r1", standing={"env_file": "b.env"})
    env = shown(root, "r3")[4]
    assert (env["MYTHING"], "MORE" in env) == ("from-file", False)
    assert another["notes"] == ["r1 had another value of MYTHING, which is not recorded: the present one is taken"]
    said = start(root, like="r1", env={"MYTHING": "y"}, standing={"env": {"MYTHING": "z"}})
    assert (shown(root, "r4")[4]["MYTHING"], said["notes"]) == ("y", [])


def test_what_stands_in_an_inventory_does_not_win_over_the_run_that_is_liked(root: Path) -> None:
    start(root, script="train.py", env={"NCCL_DEBUG": "INFO"})
    shown(root)
    standing = {"env": {"NCCL_DEBUG": "WARN", "OMP_NUM_THREADS": "1"}}
    result = start(root, like="r1", standing=standing)
    env = shown(root, "r2")[4]
    assert (env["NCCL_DEBUG"], "OMP_NUM_THREADS" in env) == ("INFO", False)
    told = "as in r1, not as training_env has it now: NCCL_DEBUG, OMP_NUM_THREADS (what -e training_env says wins)"
    assert result["notes"] == [told]


def test_like_a_run_with_words_that_were_not_recorded(root: Path) -> None:
    start(root, script="train.py", args=["--api-key", "s3same", "--n", "3"])
    shown(root)
    error = refusal(start, root, like="r1")
    assert error.message.startswith("r1 had words in training_args that are not recorded")
    assert refusal(start, root, like="r1", standing={"args": ["--api-key", "s3same", "--n", "4"]}).code == "secret"
    start(root, like="r1", standing={"args": ["--api-key", "s3same", "--n", "3"]})
    assert shown(root, "r2")[2][1:] == ["--api-key", "s3same", "--n", "3"]
    other = start(root, like="r1", standing={"args": ["--api-key", "0ther", "--n", "3"]})
    assert other["notes"][0] == "r1 had another secret in training_args, which is not recorded"


def test_what_differs_from_the_last_good_run_is_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker import run_folder

    def installed(torch: str) -> None:
        told = {"python_version": "3.12.3", "distributions": {"torch": torch, "numpy": "2"}, "driver": "580.1"}
        monkeypatch.setattr(run_folder, "facts", lambda: told)

    installed("2.11.0+cu128")
    assert script(root, "")["differs"] == []
    assert ended(root).exit
    installed("2.12.0")
    assert script(root, "raise SystemExit(1)")["differs"][0] == {
        "what": "torch",
        "before": "2.11.0+cu128",
        "now": "2.12.0",
    }
    assert ended(root, "r2").exit
    result = start(root, script="train.py", env={"NEW": "x"})  # still against r1: r2 did not end well
    assert [row["what"] for row in result["differs"]] == ["torch", "command", "environment NEW"]
    assert result["differs_from"] == "r1"


def test_a_secret_that_differs_is_told_and_not_shown(root: Path) -> None:
    def again(**more: Any) -> list[dict[str, Any]]:
        result = script(root, "", env={"HFTOKEN": "one", **more.pop("env", {})}, **more)
        assert ended(root, result["run"]["run"]).exit
        rows: list[dict[str, Any]] = result["differs"]
        return rows

    assert again() == again() == []
    changed = again(env={"HFTOKEN": "two", "MORE": "x y"})
    assert changed == [
        {"what": "environment HFTOKEN", "before": "one that is not shown", "now": "another that is not shown"},
        {"what": "environment MORE", "before": None, "now": "one that is not shown"},
    ]


def test_files_that_somebody_changed_are_recorded(root: Path) -> None:
    (root / "late.py").write_text("changed = 1\n")
    result = script(root, "")
    assert (result["altered"], result["run"]["altered"]) == (["late.py"], ["late.py"])


def test_a_launch_waits_for_a_deploy_and_then_says_so(root: Path) -> None:
    with lock.Locked(str(root), "demo", "other@desk", 1.0, create=False):
        error = refusal(script, root, "")
    assert (error.code, "other@desk" in error.message) == ("locked", True)
    assert not home(root).exists()


def test_without_a_release_there_is_nothing_to_launch(tmp_path: Path) -> None:
    error = refusal(script, tmp_path, "")
    assert (error.code, "deploy first" in error.message) == ("nothing-live", True)


@pytest.mark.skipif(os.geteuid() != 0, reason="a file system of its own takes root")
def test_a_launch_on_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", os.fspath(tmp_path)], check=True)
    try:
        deploy(tmp_path, {"train.py": ""})
        for pages in (0, 1, 2, 3, 4, 8, 24):
            room = (os.statvfs(tmp_path).f_bavail - pages) * 4096
            (tmp_path / "filler").write_bytes(b"x" * room)
            error = refusal(script, tmp_path, "")
            assert (error.code, "free space" in error.message) == ("no-space", True), pages
            runs_folder = home(tmp_path).parent
            left = {path.name for path in runs_folder.iterdir()} if runs_folder.exists() else set()
            assert left <= {"key", "last"}, pages
            (tmp_path / "filler").unlink()
        script(tmp_path, "")
        supervisor_gone(tmp_path, max(path.name for path in home(tmp_path).parent.glob("r*")))
    finally:
        subprocess.run(["umount", os.fspath(tmp_path)], check=True)


def test_the_next_deploys_leave_a_run_its_release(root: Path) -> None:
    code = (
        "import time, os\n"
        "print('on', flush=True)\n"
        "while not os.path.exists('go'):\n"
        "    time.sleep(0.01)\n"
        "import late\n"
        "print(late.__file__)"
    )
    script(root, code)
    says(root, "on")
    for number in range(4):
        deploy(root, {**FILES, "late.py": f"raise SystemExit({number})\n"}, keep=1)
    assert Path(release_of(root)).exists()
    (root / "go").touch()
    record = ended(root)
    assert record.exit and record.exit["exit_code"] == 0, record.exit
    assert record.exit["last_lines"][-1] == f"{release_of(root)}/late.py"
    supervisor_gone(root)
    deploy(root, {**FILES, "late.py": "again = 1\n"}, keep=1)
    assert not Path(release_of(root)).exists()


def test_bytecode_that_a_run_writes_alters_no_release(root: Path) -> None:
    start(root, script="spawn.py")
    assert ended(root).exit
    assert list(Path(release_of(root)).rglob("*.pyc"))
    supervisor_gone(root)
    assert script(root, "")["altered"] == []
    assert deploy(root, FILES)["changed"] is False


def test_where_systemd_cannot_take_it_a_supervisor_of_its_own_does(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker import detach

    (tmp_path / "systemd-run").write_text("#!/bin/sh\necho 'Failed to connect to bus: No such file' >&2\nexit 1\n")
    (tmp_path / "systemd-run").chmod(0o755)
    monkeypatch.setattr(detach, "_BOOTED", os.fspath(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    result = script(root, "", systemd="auto")
    assert (result["fallback"], result["run"]["unit"]) == ("systemd-run: Failed to connect to bus: No such file", None)
    assert ended(root).exit


def test_a_unit_s_command_says_all_that_matters() -> None:
    from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker import detach

    words = detach.unit_command("/usr/bin/systemd-run", ["/py", "-ISB", "/a$b/supervisor.py", "/a$b"], "u.service")
    assert words[-5:] == ["/py", "-ISB", "/a$$b/supervisor.py", "/a$$b", "u.service"]
    assert {"--collect", "--unit=u.service", "--property=KillMode=process", "--property=OOMPolicy=continue"} <= set(
        words
    )


def test_a_run_survives_the_death_of_all_that_started_it(root: Path) -> None:
    code = (
        "import json, os, sys\n"
        "from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker import launch\n"
        "from tests.unit.launching import Decider\n"
        "launch.run(Decider(), json.loads(sys.argv[1]))\n"
        "print('launched', flush=True)\n"
        "os.kill(0, 9)\n"
    )
    told = wish(root, command=["{python}", "-uc", "import time; print('on'); time.sleep(600)"])
    held = subprocess.Popen(
        [sys.executable, "-c", code, json.dumps(told)],
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    with held:
        assert held.stdout
        assert held.stdout.read() == b"launched\n"  # it comes to its end: nobody of the run holds the pipe
    assert held.returncode == -signal.SIGKILL
    says(root, "on")
    run = read(root)
    assert run.state == "running"
    for part in ("process", "supervisor"):
        assert supervise.stat_of(run.record[part]["pid"])[3] != str(held.pid)


def test_the_run_s_files_are_for_its_user_alone(root: Path) -> None:
    script(root, "")
    ended(root)
    assert {path.stat().st_mode & 0o077 for path in [home(root), *home(root).iterdir()]} == {0}
    until(lambda: not read(root).supervised)
    assert {path.name for path in home(root).iterdir()} == {
        *("run.json", "started.json", "stopped.json", "exit.json", "lock", "log", "supervisor.py")
    }
