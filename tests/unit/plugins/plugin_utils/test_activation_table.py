# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What was live when, as a table: short enough for a terminal, the latest first, and what can be gone back to."""

from __future__ import annotations

from typing import Any

from ansible_collections.trainops.proxmox.plugins.plugin_utils.activation_table import activation_lines
from ansible_collections.trainops.proxmox.plugins.plugin_utils.run_table import table

A, B = "a" * 64, "b" * 64


def activation(number: int, release: str, kind: str = "deploy", **more: Any) -> dict[str, Any]:
    record = {"activation": number, "release": release, "time": f"2026-05-04T09:{number:02}:33Z", "kind": kind}
    return {**record, "who": "ann@desk", "commit": "c0ffee1234", "dirty": False, **more}


def run(name: str, release: str, state: str = "running", **more: Any) -> dict[str, Any]:
    return {"run": name, "release": release, "state": state, "project": "demo", "left_behind": False, **more}


PROJECT: dict[str, Any] = {
    "name": "demo",
    "live": A,
    "releases": ["adopted", A],
    "cache_bytes": 0,
    "activations": [
        activation(1, "adopted", "adopt", commit=None, who="a-very-long-name@a-workstation"),
        activation(2, A, dirty=True),
        activation(3, B),
        {"activation": 4, "release": A, "kind": "found"},
    ],
}


def test_who_made_what_live_and_which_run_uses_it() -> None:
    runs = [run("r1", A), run("r2", "adopted", "ended", left_behind=True), run("r3", A), run("r4", B, "ended")]
    assert activation_lines(PROJECT, [*runs, run("r5", B, project="other")], 9) == [
        "#  when (UTC)        by            how     commit    release, its runs",
        "4  -                 -             found   -         aaaaaaa live r1 …",
        "3  2026-05-04 09:03  ann@desk      deploy  c0ffee1   bbbbbbb removed",
        "2  2026-05-04 09:02  ann@desk      deploy  c0ffee1+  aaaaaaa r1 …",
        "1  2026-05-04 09:01  a-very-long…  adopt   -         adopted r2",
    ]


def test_the_last_ones_are_listed_and_the_rest_counted() -> None:
    lines = activation_lines(PROJECT, [], 1)
    assert [line.split()[0] for line in lines] == ["#", "4", "…"]
    assert lines[-1] == "… and 3 earlier"
    assert activation_lines(PROJECT, [], 0) == activation_lines({**PROJECT, "activations": []}, [], 5) == []


def test_the_widest_row_fits_a_terminal() -> None:
    wide = activation(999, "edited-12", "rollback", dirty=True, who="x" * 40)
    project = {**PROJECT, "live": "edited-12", "activations": [wide], "releases": ["edited-12"]}
    runs = [run("r999", "edited-12"), run("r1000", "edited-12")]
    assert max(map(len, activation_lines(project, runs, 5))) <= 78


def test_beneath_each_project_and_only_where_it_is_asked_for() -> None:
    result = {"runs": [], "projects": [PROJECT], "live": {"demo": A}}
    assert table([("ct200", result)]) == "ct200  no run; demo: live aaaaaaa (4 activations)"
    lines = table([("ct200", {**result, "history": 2}), ("ct201", {"runs": [], "projects": []})]).splitlines()
    assert [line.split()[0] for line in lines] == ["ct200", "#", "4", "3", "…", "ct201"]
    assert lines[1].startswith("  #  when (UTC)")
    assert lines[-1] == "ct201  no run; nothing of trainops is there"
