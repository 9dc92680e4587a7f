# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Following runs: real processes that write, an operation that reads, and a channel that keeps what was sent."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker import follow, usage
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker import log as logs
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.channel import WorkerError

from tests.unit.watching import MadeRun, Sent

CRASH = 'python3 -c "print(1, flush=True); raise RuntimeError(2)"; exit 1'
Make = Callable[..., MadeRun]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[MadeRun] = []

    def one(**more: Any) -> MadeRun:
        made.append(MadeRun(tmp_path, **more))
        return made[-1]

    yield one
    for run in made:
        run.close()


def params(root: Path, **more: Any) -> dict[str, Any]:
    given = {"root": str(root), "name": None, "run": None, "offset": 0, "lines": 0, "follow": True, "seconds": 60.0}
    rest = {"until": None, "patterns": None, "stall_seconds": 600.0, "nvidia_smi": "none", "nvidia_smi_timeout": 5.0}
    return {**given, **rest, **more}


def ask(root: Path, sent: Sent | None = None, **more: Any) -> dict[str, Any]:
    result: dict[str, Any] = follow.run(sent or Sent(), params(root, **more))  # type: ignore[arg-type]
    return result


def in_background(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_a_run_is_followed_to_its_end_with_its_record(make: Make, tmp_path: Path) -> None:
    run = make().start("for n in 1 2 3; do echo step $n loss 0.$n; sleep 0.1; done; exit 3")
    ending = in_background(lambda: run.end(exit_code=3))
    sent = Sent()
    result = ask(tmp_path, sent)
    ending.join()
    assert sent.lines == ["step 1 loss 0.1", "step 2 loss 0.2", "step 3 loss 0.3"]
    assert (result["record"]["run"], result["record"]["state"], result["more"]) == ("r1", "ended", False)
    assert (result["record"]["exit"]["exit_code"], result["found"]) == (3, {"step": 3, "loss": 0.3})
    assert result["offset"] == run.log.stat().st_size
    assert sent.frames[0]["kind"] == "run"
    assert sent.of("values")[-1]["found"] == {"step": 3, "loss": 0.3}


def test_a_crash_brings_its_traceback(make: Make, tmp_path: Path) -> None:
    make().start(CRASH).end(exit_code=1)
    result = ask(tmp_path, until={"log": "never"})
    assert (result["reached"], result["traceback"][-1]) == (None, "RuntimeError: 2")


@pytest.mark.parametrize(
    ("until", "reached"),
    [
        ({"log": r"loss \d"}, "log"),
        ({"value": "step"}, "value"),
        ({"value": "*"}, "value"),
        ({"value": "tokens_per_s", "log": "step 1"}, "log"),
        ({"file": "checkpoints/one"}, "file"),
        ({"log": None, "file": None, "value": "loss"}, "value"),
    ],
)
def test_it_returns_at_the_first_sign_of_life(make: Make, tmp_path: Path, until: dict[str, Any], reached: str) -> None:
    (tmp_path / "checkpoints").mkdir()
    made_file = "" if reached != "file" else f"touch {tmp_path}/checkpoints/one;"
    words = "echo step 1 loss 2;" if reached != "file" else ""
    make().start(f"echo begin; {made_file} {words} exec sleep 600")
    result = ask(tmp_path, until=until)
    assert (result["reached"], result["record"]["state"], result["traceback"]) == (reached, "running", [])


def test_a_file_from_before_the_run_is_no_sign(make: Make, tmp_path: Path) -> None:
    (tmp_path / "old").touch()
    os.utime(tmp_path / "old", (1, 1))
    make().start()
    assert ask(tmp_path, until={"file": "old"}, seconds=0.3)["reached"] is None


def test_a_value_on_a_progress_bar_is_a_sign_of_life(make: Make, tmp_path: Path) -> None:
    make().start("printf 'step 1 loss 2\\r'; exec sleep 600")
    result = ask(tmp_path, until={"value": "step"})
    assert (result["reached"], result["found"]["step"]) == ("value", 1)


def smi(folder: Path, body: str) -> str:
    path = folder / "smi"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


HEAD = "echo uuid, memory.used [MiB], utilization.gpu [%];"


@pytest.mark.parametrize(
    ("until", "rows", "reached"),
    [
        ({"gpu_memory_mib": 500}, "echo GPU-a, 600 MiB, 0 %; echo GPU-b, 500 MiB, 0 %", "gpu_memory_mib"),
        ({"gpu_memory_mib": 500}, "echo GPU-a, 600 MiB, 0 %; echo GPU-b, 499 MiB, 0 %", None),
        (
            {"gpu_utilization_percent": 30},
            "echo GPU-a, 0 MiB, 31 %; echo GPU-b, 0 MiB, 30 %",
            "gpu_utilization_percent",
        ),
        ({"gpu_utilization_percent": 30}, "echo GPU-a, 0 MiB, [N/A]; echo GPU-b, 0 MiB, 90 %", None),
        ({"gpu_memory_mib": 1}, "echo GPU-a, 600 MiB, 0 %", None),
        ({"gpu_memory_mib": 1}, "exit 9", None),
    ],
)
def test_every_gpu_of_the_run_must_show_it(
    make: Make, tmp_path: Path, until: dict[str, Any], rows: str, reached: str | None
) -> None:
    make(gpus=[{"index": 0, "uuid": "GPU-a"}, {"index": 1, "uuid": "GPU-b"}]).start()
    tool = smi(tmp_path, f"{HEAD} {rows}")
    result = ask(tmp_path, until=until, nvidia_smi=tool, seconds=30.0 if reached else 1.0)
    assert result["reached"] == reached


def test_an_nvidia_smi_that_hangs_does_not_hold_up_the_log(make: Make, tmp_path: Path) -> None:
    make(gpus=[{"index": 0, "uuid": "GPU-a"}]).start("echo one; sleep 0.5; echo ready; exec sleep 600")
    tool = smi(tmp_path, "exec sleep 600")
    assert ask(tmp_path, until={"log": "ready", "gpu_memory_mib": 1}, nvidia_smi=tool)["reached"] == "log"


@pytest.mark.parametrize(("percent", "told"), [(0, True), (5, True), (6, False)])
def test_silence_with_unused_gpus_is_a_stall_and_is_told_once(
    make: Make, tmp_path: Path, percent: int, told: bool
) -> None:
    make(gpus=[{"index": 0, "uuid": "GPU-a"}]).start("echo step 1; exec sleep 600")
    tool = smi(tmp_path, f"{HEAD} echo GPU-a, 900 MiB, {percent} %")
    sent = Sent()
    result = ask(tmp_path, sent, stall_seconds=0.2, nvidia_smi=tool, seconds=1.5)
    assert (len(sent.of("stall")), result["stalled"]) == (int(told), told)


def test_silence_without_gpus_is_none(make: Make, tmp_path: Path) -> None:
    make().start("exec sleep 600")
    sent = Sent()
    assert not ask(tmp_path, sent, stall_seconds=0.1, seconds=0.6)["stalled"]
    assert sent.of("stall") == []


def test_each_exchange_has_its_share_and_the_next_one_goes_on(make: Make, tmp_path: Path) -> None:
    run = make().start("exec sleep 600")
    wanted: list[str] = []
    sent, offset = Sent(), 0
    for number in range(5):
        with run.log.open("a") as log:
            log.write(f"line {number}\nhalf")
        wanted.append(f"line {number}" if not wanted else f"halfline {number}")
        result = ask(tmp_path, sent, offset=offset, seconds=0.2)
        assert (result["more"], result["record"]["state"]) == (True, "running")
        offset = result["offset"]
    assert sent.lines == wanted


@pytest.mark.parametrize(
    ("lines", "shown"), [(0, []), (1, ["three"]), (2, ["two", "three"]), (9, ["one", "two", "three"])]
)
def test_a_look_shows_the_last_lines_and_returns(make: Make, tmp_path: Path, lines: int, shown: list[str]) -> None:
    make().start("printf 'one\\ntwo\\nthree'; exec sleep 600")
    deadline = time.monotonic() + 30
    while (tmp_path / ".trainops/demo/runs/r1/log").stat().st_size < 13 and time.monotonic() < deadline:
        time.sleep(0.01)
    sent = Sent()
    result = ask(tmp_path, sent, offset=None, lines=lines, follow=False)
    assert (sent.lines, result["more"], result["record"]["state"]) == (shown, False, "running")


def test_a_flood_is_left_out_but_for_its_end_and_said_to_be(make: Make, tmp_path: Path) -> None:
    run = make()
    with run.log.open("w") as log:
        log.writelines(f"{number:09}\n" for number in range(2_000_000))
    run.start("exec true").end()
    sent = Sent()
    result = ask(tmp_path, sent)
    shown = sum(len(line) + 1 for line in sent.lines)
    assert sum(frame["skipped"] for frame in sent.of("lines")) + shown == result["offset"] == 20_000_000
    assert (sent.lines[-1], shown < 5 << 20) == ("001999999", True)


@pytest.mark.parametrize("lines", [1, 1000, 100_000])
def test_the_end_is_shown_even_when_nothing_more_may_be(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: int
) -> None:
    monkeypatch.setattr(logs, "BURST_BYTES", 0)
    monkeypatch.setattr(logs, "BYTES_A_SECOND", 0)
    run = make()
    with run.log.open("w") as log:
        log.writelines(f"{number:09}\n" for number in range(lines))
        log.write("the end")
    run.start("exec true").end()
    sent = Sent()
    result = ask(tmp_path, sent)
    shown = sum(len(line) + 1 for line in sent.lines) - 1
    assert sum(frame["skipped"] for frame in sent.of("lines")) + shown == result["offset"] == 10 * lines + 7
    assert (sent.lines[-1], shown < 200_000) == ("the end", True)


def test_a_sign_is_found_in_a_flood(make: Make, tmp_path: Path) -> None:
    run = make()
    with run.log.open("w") as log:
        log.writelines(f"{number:09}\n" for number in range(1_000_000))
        log.write("ready\n")
        log.writelines(f"{number:09}\n" for number in range(1_000_000))
    run.start()
    sent = Sent()
    result: dict[str, Any] = {"offset": 0, "more": True}
    while result["more"]:
        result = ask(tmp_path, sent, until={"log": "^ready$"}, offset=result["offset"])
    assert result["reached"] == "log"
    assert 10_000_000 < result["offset"] < 11_000_000


def test_a_run_that_was_lost_is_over_and_says_why(make: Make, tmp_path: Path) -> None:
    run = make(boot="another boot:1").start("echo one")
    run.close()
    result = ask(tmp_path)
    assert (result["record"]["state"], "restarted" in result["record"]["why"]) == ("lost", True)


def test_a_run_that_never_had_a_log_is_over(make: Make, tmp_path: Path) -> None:
    make().end(exit_code=None, how="not-started", note="no such file")
    sent = Sent()
    assert (ask(tmp_path, sent)["record"]["exit"]["note"], sent.lines) == ("no such file", [])


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        ({"run": "r7"}, "no-run", "there is no run r7 of demo"),
        ({"name": "other"}, "no-run", "nothing was ever launched for other"),
        ({"patterns": ["(?P<a>"]}, "pattern", "no regular expression"),
        ({"until": {"log": "("}}, "pattern", "no regular expression"),
        ({"root": "/no/such/folder"}, "no-root", "/no/such/folder does not exist"),
    ],
)
def test_what_cannot_be_is_said(make: Make, tmp_path: Path, more: dict[str, Any], code: str, said: str) -> None:
    make().start()
    with pytest.raises(WorkerError) as caught:
        follow.run(Sent(), {**params(tmp_path), **more})  # type: ignore[arg-type]
    assert caught.value.code == code
    assert said in caught.value.message


def test_of_several_projects_one_must_be_named(make: Make, tmp_path: Path) -> None:
    make().start()
    make(name="other").start()
    with pytest.raises(WorkerError, match=r"several projects below .* \(demo, other\)"):
        ask(tmp_path)
    assert ask(tmp_path, name="other", follow=False)["record"]["project"] == "other"


def test_the_latest_run_is_meant_where_none_is_named(make: Make, tmp_path: Path) -> None:
    for number in (2, 10, 9):
        make(run=f"r{number}").start()
    assert ask(tmp_path, follow=False)["record"]["run"] == "r10"
    assert ask(tmp_path, follow=False, run="r9")["record"]["run"] == "r9"


def test_a_pipe_in_place_of_the_log_does_not_hang_it(make: Make, tmp_path: Path) -> None:
    run = make().start()
    run.log.unlink()
    os.mkfifo(run.log)
    with pytest.raises(WorkerError, match="no plain file"):
        ask(tmp_path)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (
            "uuid, memory.used [MiB], utilization.gpu [%]\nGPU-a, 3 MiB, 4 %\n",
            [{"uuid": "GPU-a", "memory_mib": 3, "percent": 4}],
        ),
        ("uuid, memory.used [GiB], utilization.gpu [%]\nGPU-a, 3 GiB, 4 %\n", []),
        ("No devices were found\n", []),
        ("", []),
    ],
)
def test_usage_is_believed_in_known_units_only(text: str, rows: list[dict[str, Any]]) -> None:
    assert usage.parse(text, ["GPU-a"]) == rows
