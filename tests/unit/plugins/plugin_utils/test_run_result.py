# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The results of starts, stops and listings, their lines, and the table of many hosts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils import run_result, run_table
from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import StepError
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpus import Snapshot, snapshot
from ansible_collections.trainops.proxmox.plugins.plugin_utils.run_free import still_held, wait_until_free
from ansible_collections.trainops.proxmox.plugins.plugin_utils.run_launch import verdict

from tests.unit.gpu_samples import VMID, eight, gpu_row, process, reading, uuid
from tests.unit.plugins.plugin_utils.test_run_launch import Time

ID = "7c1e09a1" + 56 * "0"
OLD = "5d0c2aa1" + 56 * "0"


def record(run: str = "r1", state: str = "running", **values: Any) -> dict[str, Any]:
    """A run as the worker tells it."""
    return {
        "run": run,
        "project": "dflash",
        "release": ID,
        "state": state,
        "why": "",
        "unsupervised": False,
        "left_behind": False,
        "stopping_by": None,
        "process": {"pid": 4711, "start": 1},
        "unit": None,
        "started": "2026-05-04T09:12:33Z",
        "log": f"/root/.trainops/dflash/runs/{run}/log",
        "gpus": [{"index": number, "uuid": uuid(number)} for number in (0, 1)],
        "command": ["/root/venv/bin/python", "train.py"],
        "environment": {"A": "b", "HF_TOKEN": None},
        "exit": None,
        **values,
    }


def end(code: int | None = 0, **values: Any) -> dict[str, Any]:
    """An exit record."""
    return {
        "how": "exited",
        "seconds": 231.4,
        "exit_code": code,
        "signal": None,
        "out_of_memory": False,
        "stopped_by": None,
        "last_lines": [],
        "note": "",
        **values,
    }


def launched(**values: Any) -> dict[str, Any]:
    return {
        "run": record(),
        "repeated": False,
        "differs": [],
        "cache_bytes": 8192,
        "altered": [],
        "notes": [],
        "fallback": "",
        **values,
    }


def test_a_start() -> None:
    result = run_result.started(launched(), verdict(eight(), [], 2, None))
    assert result["summary"] == "run r1 of 7c1e09a on GPUs 0-1"
    assert (result["run"], result["pid"], result["changed"], result["view"]) == ("r1", 4711, True, "node")
    assert "log /root/.trainops/dflash/runs/r1/log" in result["msg"].splitlines()
    assert "warnings" not in result
    assert json.loads(json.dumps(result)) == result


def test_a_start_that_nobody_watches_says_how_to_look() -> None:
    result = run_result.started(launched(), None, unwatched=True)
    assert result["summary"] == "run r1 of 7c1e09a on GPUs 0-1, not watched: trainops logs -f r1"


def test_a_start_tells_what_differs_from_the_last_good_run() -> None:
    rows: list[dict[str, Any]] = [
        {"what": "torch", "before": "2.11.0+cu128", "now": "2.12.0"},
        {"what": "apex", "before": "1", "now": None},
    ]
    result = run_result.started(launched(differs=rows), None)
    assert result["summary"].endswith("; since the last good run: torch 2.11.0+cu128 → 2.12.0, apex 1 → none")
    assert result["view"] is None
    many = run_result.started(launched(differs=[{**rows[0], "what": f"lib{number}"} for number in range(9)]), None)
    assert many["summary"].endswith("lib2 2.11.0+cu128 → 2.12.0 and 6 more")
    assert many["msg"].count("→") == 9
    assert "\n" not in many["summary"]


def test_a_start_that_came_through_before_is_no_second_one() -> None:
    result = run_result.started(launched(repeated=True), None)
    assert (result["changed"], result["repeated"]) == (False, True)
    assert "it was started before the connection was lost" in result["summary"]


def test_what_a_user_should_know_of_a_start_is_a_warning() -> None:
    result = run_result.started(launched(altered=["a.py", "b.py"], fallback="systemd-run did not work: why"), None)
    assert result["warnings"] == ["systemd-run did not work: why", "changed by hand since it was released: a.py, b.py"]


@pytest.mark.parametrize(
    ("run", "code", "said"),
    [
        (
            record(state="ended", exit=end(1, seconds=0.2, last_lines=["Traceback (most recent call last):", "E: x"])),
            "run-ended",
            ["r1 died after 0 s, exit 1: E: x", "Traceback", "log /root"],
        ),
        (record(state="ended", exit=end(None, signal=9)), "run-ended", ["r1 died after 231 s, killed by SIGKILL"]),
        (record(state="lost", why="nobody knows"), "run-ended", ["r1 is lost: nobody knows"]),
        (
            record(state="ended", exit=end(None, how="not-started", note="no such file")),
            "not-started",
            ["r1 did not start: no such file"],
        ),
    ],
)
def test_a_run_that_died_at_once_fails_the_start(run: dict[str, Any], code: str, said: list[str]) -> None:
    with pytest.raises(StepError) as caught:
        run_result.started(launched(run=run), None)
    assert caught.value.code == code
    assert all(text in caught.value.message for text in said)
    assert caught.value.details["run"] == "r1"
    assert caught.value.details["pid"] is None


def test_a_run_that_is_done_at_once_is_a_start() -> None:
    run = record(state="ended", exit=end(0, seconds=0.3), gpus=[])
    result = run_result.started(launched(run=run), None)
    assert result["summary"] == "run r1 of 7c1e09a without GPUs, which has ended after 0 s, exit 0"


def test_a_start_is_foretold() -> None:
    ready = {"release_id": ID, "command": ["x"], "altered": [], "notes": ["a note"]}
    result = run_result.foretold(ready, verdict(eight(), [], 2, None))
    assert result["summary"] == "would start a run of 7c1e09a on GPUs 0-1"
    assert (result["run"], result["state"], result["changed"]) == (None, "possible", True)
    assert run_result.foretold(ready, None)["summary"].endswith("without GPUs")
    assert result["warnings"] == ["a note"]
    after_a_deploy = run_result.foretold(ready, verdict(eight(), [], 2, None), deployed=True)
    assert after_a_deploy["summary"] == "would start a run of what is live then on GPUs 0-1"
    assert after_a_deploy["release_id"] is None


def stop(run: dict[str, Any], changed: bool = True, *killed: int) -> dict[str, Any]:
    members = [{"pid": pid, "command": "python3 train.py"} for pid in killed]
    return {
        "run": run,
        "changed": changed,
        "killed": members,
        "killed_count": len(members),
        "left_behind": False,
        "seconds": 1.0,
    }


STOPPED = record(state="ended", exit=end(0, stopped_by="ann@desk", seconds=12.0))


def test_a_stop() -> None:
    result = run_result.stopped([stop(STOPPED)])
    assert result["summary"] == "r1 was stopped after 12 s, by ann@desk, exit 0"
    assert (result["changed"], result["run"], result["processes_killed"]) == (True, "r1", [])
    killed = run_result.stopped([stop(STOPPED, True, 44, 45)])
    assert killed["summary"].endswith(", 2 processes had to be killed")
    assert killed["msg"].splitlines()[1:] == ["killed pid 44 python3 train.py", "killed pid 45 python3 train.py"]


def test_a_stop_of_nothing_and_of_many() -> None:
    assert run_result.stopped([])["summary"] == "no run is alive, nothing changed"
    assert run_result.stopped([])["changed"] is False
    over = run_result.stopped([stop(STOPPED, False)])
    assert over["summary"].endswith("; nothing to stop")
    assert over["changed"] is False
    both = run_result.stopped([stop(STOPPED), stop({**STOPPED, "run": "r2"})])
    assert (both["run"], [one["run"] for one in both["stopped"]]) == (None, ["r1", "r2"])


def test_gpus_that_do_not_come_back_fail_the_stop() -> None:
    with pytest.raises(StepError, match="no process of it is left, and 0 of 1 idle; GPU 3 busy") as caught:
        run_result.stopped([stop(STOPPED)], "0 of 1 idle; GPU 3 busy: 2048 MiB held by no process")
    assert caught.value.code == "gpus-not-free"
    assert caught.value.details["changed"] is True


HERE = process(900, 3, vmid=VMID, inside=44)


@pytest.mark.parametrize(
    ("found", "held"),
    [
        (eight(), ""),
        (eight({3: 2057}), "0 of 1 idle; GPU 3 busy: 2057 MiB held by no process"),
        (eight({3: 2057}, [HERE], runs={"44": "r1"}), "0 of 1 idle; GPU 3 busy: opened by your run r1, no memory yet"),
        (eight({3: 2057}, [HERE], runs={"44": "r2"}), ""),
        (eight({3: 2057}, [process(841, 3, vmid=201, inside=212)]), ""),
        (eight({4: 2057}), ""),
    ],
)
def test_gpus_are_free_when_nothing_of_the_run_is_on_them(found: Snapshot, held: str) -> None:
    assert still_held(found, [uuid(3)], ["r1"]) == held


def test_memory_that_drains_is_waited_for() -> None:
    time, looks = Time(), [eight({3: 2057}), eight({3: 512}), eight({3: 4})]
    held, found = wait_until_free(lambda: looks.pop(0), [uuid(3)], ["r1"], time.clock)
    assert (held, found.gpus[3].used, looks) == ("", 4, [])


def test_memory_that_stays_is_told_in_the_end() -> None:
    time = Time()
    held, _found = wait_until_free(lambda: eight({3: 2057}), [uuid(3)], ["r1"], time.clock)
    assert "2057 MiB held by no process" in held
    assert 60 <= time.seconds <= 61


def listing(*runs: dict[str, Any], live: str | None = ID, name: str = "dflash") -> dict[str, Any]:
    moments = [{"activation": 1, "release": OLD}, {"activation": 2, "release": ID}]
    project: dict[str, Any] = {
        "name": name,
        "live": live,
        "activations": moments,
        "cache_bytes": 1_200_000_000,
        "runs": list(runs),
    }
    project["releases"] = [ID]
    return {"projects": [project], "runs": list(runs)}


def row(run: str, *lines: str, state: str = "running", **values: Any) -> dict[str, Any]:
    times = {"age_s": 7500.0, "log_bytes": 10, "log_age_s": 1.0, "tail": list(lines)}
    return {**record(run, state), **times, **values}


def listed(*runs: dict[str, Any], lines: int = 0, **values: Any) -> dict[str, Any]:
    return run_result.listed(listing(*runs, **values), None, lines)


def test_a_listing_has_the_values_of_each_run_and_the_latest_first() -> None:
    found = listed(row("r1", "step 1 loss 2.0"), row("r2", "step 11 loss 3.5", "step 12 loss 3.4", "done"), lines=1)
    assert [run["run"] for run in found["runs"]] == ["r2", "r1"]
    assert found["runs"][0]["found"] == {"step": 12, "loss": 3.4}
    assert [run["tail"] for run in found["runs"]] == [["done"], ["step 1 loss 2.0"]]
    assert found["live"] == {"dflash": ID}


FORGED = [f"x{end}ct201  r9  running" for end in ("\n", "\r", "\x85", "\u2028", "\x0b")]


@pytest.mark.parametrize("text", FORGED)
def test_no_record_begins_a_line(text: str) -> None:
    over = end(None, how=text, note=text, stopped_by=text, last_lines=[text])
    rows = [
        row(text, release=text, project=text),
        row("r1", f"step {text}", state="ended", exit=over, release=text),
        row("r2", state=text, exit=end(1, note=text)),
        row("r3", state="lost", why=text),
    ]
    found = listed(*rows, live=text, name=text)
    activation = dict.fromkeys(("activation", "release", "time", "kind", "who", "commit"), text)
    found["projects"][0]["activations"] = [activation]
    shown = run_table.table([("ct200", {**found, "history": 5}), ("ct201", {**found, "history": 5})])
    lines = shown.split("\n")
    assert all(line.isprintable() for line in lines)
    assert sum(line.startswith("ct201") for line in lines) == len(rows) + 1
    assert len(lines) == 1 + 2 * (len(rows) + 1 + 2)
    stop = run_result.stopped([{"run": rows[1], "changed": True, "killed": [], "killed_count": 0, "left_behind": []}])
    with pytest.raises(StepError) as died:
        run_result.started(launched(run=record(state="ended", exit=end(1, last_lines=[text], note=text))), None)
    for said in (stop["msg"], died.value.message):
        assert all(line.isprintable() and not line.startswith("ct201") for line in said.split("\n"))


def test_the_table_of_many_hosts() -> None:
    first = listed(
        row("r1", "step 9 loss 4.25", state="ended", exit=end(1), release=OLD, gpus=[]),
        row("r2", "step 12 loss 3.4 tokens/s 1200"),
    )
    assert run_table.table([("ct200", first), ("a", run_result.listed({"projects": [], "runs": []}, None, 0))]) == (
        "host   run  state              age     step  loss  tokens/s  GPUs  release\n"
        "ct200  r2   running            2h5min  12    3.4   1200      0-1   7c1e09a live\n"
        "ct200  r1   exit 1 after 231s  2h5min  9     4.25  -         none  5d0c2aa\n"
        "ct200  dflash: live 7c1e09a (2 activations), compile caches 1.2 GB\n"
        "a      no run; nothing of trainops is there"
    )
    assert run_table.table([("", first)]).splitlines()[1].startswith("r2   running")
    assert run_table.summary(first) == (
        "1 run alive, 1 over; dflash: live 7c1e09a (2 activations), compile caches 1.2 GB"
    )


def test_the_widest_table_fits_a_terminal() -> None:
    long = end(None, signal=9, out_of_memory=True, seconds=180_000.0)
    wide: dict[str, Any] = {
        "state": "ended",
        "exit": long,
        "left_behind": True,
        "release": "adopted-12",
        "age_s": 1_000_000.0,
    }
    line = "step 1000000 loss 0.004567 tokens/s 1234567"
    runs = [row("r1234", line, **wide), row("r1235", line, release="adopted-12", gpus=[{"index": 3, "uuid": "a"}])]
    text = run_table.table([("train-ct200", listed(*runs, live="adopted-12"))]).splitlines()
    assert [len(told) <= 80 for told in text] == [True] * 4
    assert [told.split()[1] for told in text[1:3]] == ["r1235", "r1234"]
    assert "adopted-12 live" in text[1] or "…" in text[1]
    narrow = run_table.table([("ct200", listed(row("r1", "step 1 loss 2.0", release="adopted"), live="adopted"))])
    assert "2 h 5 min" in narrow  # nothing is shortened where there is room


def test_of_runs_that_are_over_the_last_are_shown() -> None:
    over = [row(f"r{number}", state="ended", exit=end(0)) for number in range(1, 10)]
    found = listed(row("r0"), *over, {**row("r10", state="ended", exit=end(0)), "left_behind": True}, row("r11"))
    lines = run_table.table([("ct200", found)]).splitlines()
    assert [line.split()[1] for line in lines] == [
        *["run", "r11", "r10", "r9", "r8", "r7", "r6", "r5", "r0"],  # what lives, and what left processes, too
        "…",
        "dflash:",
    ]
    assert lines[-2] == "ct200  … and 4 earlier runs (--history 9)"
    assert "earlier" not in run_table.table([("ct200", {**found, "history": 9})])
    assert len(found["runs"]) == 12


@pytest.mark.parametrize(
    ("values", "state"),
    [
        ({}, "running"),
        ({"unsupervised": True}, "unsupervised"),
        ({"state": "ended", "exit": end(0, seconds=3.0), "left_behind": True}, "exit 0 after 3 s, processes left"),
        ({"stopping_by": "ann@desk"}, "stopping"),
        ({"state": "starting"}, "starting"),
        ({"state": "lost"}, "lost"),
        ({"state": "ended", "exit": end(0)}, "exit 0 after 231 s"),
        ({"state": "ended", "exit": end(None, signal=9)}, "SIGKILL after 231 s"),
        ({"state": "ended", "exit": end(None, signal=9, out_of_memory=True)}, "out of memory after 231 s"),
        ({"state": "ended", "exit": end(0, stopped_by="ann@desk")}, "stopped after 231 s"),
        ({"state": "ended", "exit": end(None, how="unknown", seconds=None)}, "exit unknown"),
        ({"state": "ended", "exit": end(None, how="not-started")}, "not started"),
    ],
)
def test_every_state_has_a_word(values: dict[str, Any], state: str) -> None:
    cells = run_table.table([("", listed({**row("r1"), **values}))]).splitlines()[1].split("  ")
    assert [cell.strip() for cell in cells if cell][1] == state


def test_several_projects_are_told_apart() -> None:
    both = listing(row("r1"))
    other = listing({**row("r1"), "project": "other"}, live=None, name="other")
    merged = {name: [*both[name], *other[name]] for name in both}
    text = run_table.table([("", run_result.listed(merged, None, 0))])
    assert "other r1" in text
    assert "dflash r1" in text
    assert text.endswith("other: nothing is live")


def test_a_silent_run_with_unused_gpus_is_stalled() -> None:
    found = listed(
        row("r1", log_age_s=900.0),
        row("r2", log_age_s=10.0),
        row("r3", log_age_s=900.0, gpus=[]),
        row("r4", log_age_s=900.0, state="ended", exit=end(0)),
        row("r5", log_age_s=900.0, gpus=[{"index": 7, "uuid": uuid(7)}]),
    )
    quiet = run_result.silent(found["runs"], 300)
    assert [run["run"] for run in quiet] == ["r5", "r1"]
    rows = [gpu_row(number, number, "9 MiB", util="99 %" if number == 7 else "0 %") for number in range(8)]
    run_result.mark_stalled(quiet, snapshot(reading(rows, devices=range(8)), None, vmid=VMID))
    assert [run["run"] for run in found["runs"] if run["stalled"]] == ["r1"]
    assert "r1   stalled for 15 min" in run_table.table([("", found)])
    assert "r1 stalled" in run_table.summary(found)


def test_a_stop_that_stopped_nothing_is_no_success() -> None:
    alive = {**STOPPED, "state": "running", "exit": None}
    with pytest.raises(StepError) as told:
        run_result.stopped([stop(alive, False)])
    assert (told.value.code, told.value.message.startswith("r1 is not known to have ended")) == ("still-alive", True)
    assert run_result.stopped([stop(alive)], check_mode=True)["changed"] is True


def test_a_stop_of_what_a_run_left_behind_says_so() -> None:
    over = record(state="ended", exit=end(0, seconds=0.0))
    done = run_result.stopped([{**stop(over), "left_behind": True}])
    assert done["summary"].endswith("ended after 0 s, exit 0; the processes that it had left behind were ended")
