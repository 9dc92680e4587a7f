# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is printed for what happened, and what is not."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.playbook.task_include import TaskInclude
from ansible_collections.trainops.proxmox.plugins.callback.summary import CallbackModule
from ansible_collections.trainops.proxmox.plugins.plugin_utils.spec import argument_spec

CHECK = "trainops.proxmox.syntax_check"
RELEASE = "trainops.proxmox.training_release"
GPUS = "trainops.proxmox.gpu_idle"


class Display:
    """Collects what is displayed."""

    def __init__(self, verbosity: int = 0) -> None:
        self.verbosity = verbosity
        self.shown: list[str] = []
        self.colors: list[str | None] = []
        self.columns = 79

    def display(self, text: str, color: str | None = None, **_options: Any) -> None:
        self.shown.append(text)
        self.colors.append(color)

    def _warning(self, warning: Any) -> None:
        self.shown.append(f"warning: {warning}")


class Host:
    """A host of the inventory."""

    def __init__(self, name: str) -> None:
        self.name = name

    def get_name(self) -> str:
        return self.name


def callback(verbosity: int = 0, hosts: tuple[str, ...] = ("ct200", "ct210x"), check: bool = False) -> Any:
    """The callback in a play over ``hosts``, with what it displays collected."""
    plugin: Any = CallbackModule()
    plugin._display = Display(verbosity)
    variables = SimpleNamespace(get_vars=lambda play: {"ansible_play_hosts_all": list(hosts)})
    play = SimpleNamespace(hosts="training", check_mode=check, get_variable_manager=lambda: variables)
    plugin.v2_playbook_on_play_start(play)
    return plugin


def result(action: str, values: dict[str, Any], host: str = "ct200", **task: Any) -> Any:
    """A task's result as core hands it to callbacks."""
    facts: dict[str, Any] = {
        "action": action,
        "resolved_action": action,
        "loop": None,
        "delegate_to": None,
        "ignore_unreachable": False,
        "get_name": lambda: "Do it",
        "get_path": lambda: "play.yml:7",
    }
    return SimpleNamespace(host=Host(host), task=SimpleNamespace(**{**facts, **task}), result=dict(values))


def shown(plugin: Any) -> list[str]:
    return list(plugin._display.shown)


@pytest.mark.parametrize(
    ("action", "values", "expected"),
    [
        (CHECK, {"summary": "2 files compile"}, ["ct200   check    2 files compile"]),
        (RELEASE, {"summary": "7c1e live", "changed": True}, ["ct200   release  7c1e live"]),
        (GPUS, {"summary": "7 of 8 idle\nGPU 3 busy"}, ["ct200   gpus     7 of 8 idle\n        GPU 3 busy"]),
        (CHECK, {"censored": "hidden"}, ["ct200   check    ok"]),
        ("ansible.builtin.copy", {"changed": True}, ["ct200   Do it: changed"]),
        ("ansible.builtin.copy", {"changed": False}, []),
        ("ansible.builtin.debug", {"msg": "hi", "_ansible_verbose_always": True}, ["ct200   Do it: hi"]),
        (
            "ansible.builtin.debug",
            {"msg": "a  b\n 1  2\n", "_ansible_verbose_always": True},
            ["ct200   Do it:\n        a  b\n         1  2"],
        ),
        (
            "trainops.proxmox.gpu_info",
            {"summary": "1 of 1 idle", "table": "GPU  verdict\n  0  idle"},
            ["ct200   gpus     1 of 1 idle\n        GPU  verdict\n          0  idle"],
        ),
        (GPUS, {"summary": "1 of 1 idle", "table": "GPU  verdict"}, ["ct200   gpus     1 of 1 idle"]),
    ],
)
def test_ok(action: str, values: dict[str, Any], expected: list[str]) -> None:
    plugin = callback()
    plugin.v2_runner_on_ok(result(action, values))
    assert shown(plugin) == expected


@pytest.mark.parametrize("word", ["FAILED", "UNREACHABLE"])
@pytest.mark.parametrize("verbosity", [0, 1, 2])
def test_a_failed_step_shows_its_whole_message_and_no_success(word: str, verbosity: int) -> None:
    plugin = callback(verbosity)
    values = {"summary": "1 problem", "msg": "train.py:3:1: bad\n  x = = 1", "failed": True}
    hook = plugin.v2_runner_on_failed if word == "FAILED" else plugin.v2_runner_on_unreachable
    hook(result(CHECK, values))
    (text,) = shown(plugin)
    expected = f"ct200   check    {word}  1 problem\n        train.py:3:1: bad\n          x = = 1"
    assert text == expected if verbosity < 2 else text.startswith(expected)
    assert "compile" not in text


def test_a_failed_module_says_what_it_printed_and_where_it_stands() -> None:
    plugin = callback()
    values = {"msg": "non-zero return code", "rc": 3, "stderr": "no such file\n"}
    plugin.v2_runner_on_failed(result("ansible.builtin.command", values))
    assert shown(plugin) == [
        "ct200   Do it: FAILED  non-zero return code (exit 3)\n        no such file\n        at play.yml:7"
    ]


def test_an_ignored_failure_is_called_so() -> None:
    plugin = callback()
    plugin.v2_runner_on_failed(result("ansible.builtin.command", {"msg": "no"}), ignore_errors=True)
    plugin.v2_runner_on_unreachable(result("ansible.builtin.command", {"msg": "gone"}, ignore_unreachable=True))
    assert [text.splitlines()[0] for text in shown(plugin)] == [
        "ct200   Do it: failed, ignored  no",
        "ct200   Do it: unreachable, ignored  gone",
    ]


def test_a_loop_shows_its_bad_items_and_steps_each_item() -> None:
    plugin = callback()
    plugin.v2_runner_item_on_ok(result("ansible.builtin.command", {"item": "a", "changed": True}))
    plugin.v2_runner_item_on_failed(result("ansible.builtin.command", {"item": "b", "msg": "no"}))
    plugin.v2_runner_item_on_ok(result(CHECK, {"item": "c", "summary": "1 file compiles"}))
    plugin.v2_runner_on_ok(result(CHECK, {"results": [{}]}, loop=["c"]))
    assert [text.splitlines()[0] for text in shown(plugin)] == [
        "ct200   Do it (b): FAILED  no",
        "ct200   check    1 file compiles",
    ]


def test_verbose_shows_ok_and_skipped_and_very_verbose_the_result() -> None:
    for verbosity, expected in ((1, ["ct200   Do it: ok", "ct200   Do it: skipped"]), (0, [])):
        plugin = callback(verbosity)
        plugin.v2_runner_on_ok(result("ansible.builtin.stat", {"stat": 1}))
        plugin.v2_runner_on_skipped(result("ansible.builtin.stat", {}))
        assert shown(plugin) == expected
    plugin = callback(2)
    plugin.v2_runner_on_ok(result("ansible.builtin.stat", {"size": 12345}))
    assert '"size": 12345' in shown(plugin)[0]


def test_warnings_come_out_before_the_line() -> None:
    plugin = callback()
    plugin._current_task_result = SimpleNamespace(warnings=["careful"], deprecations=[], exception=None)
    plugin.v2_runner_on_ok(result(CHECK, {"summary": "fine", "warnings": ["careful"]}))
    assert shown(plugin) == ["warning: careful", "ct200   check    fine"]


def test_a_retry_says_which_attempt_follows() -> None:
    plugin = callback()
    plugin.v2_runner_retry(result("ansible.builtin.command", {"attempts": 2, "retries": 3}))
    assert shown(plugin) == ["ct200   Do it: not yet, attempt 2 of 3 follows"]


def test_a_delegated_task_names_both_hosts() -> None:
    plugin = callback()
    plugin.v2_runner_on_ok(result("ansible.builtin.copy", {"changed": True}, delegate_to="node"))
    assert shown(plugin) == ["ct200 -> node  Do it: changed"]


def test_the_line_of_a_delegated_step_is_its_hosts() -> None:
    plugin = callback()
    plugin.v2_runner_on_ok(result("trainops.proxmox.container_info", {"summary": "running"}, delegate_to="localhost"))
    assert shown(plugin) == ["ct200   state    running"]


def test_includes_are_silent() -> None:
    plugin = callback()
    include = result("ansible.builtin.include_tasks", {"changed": True})
    include.task = TaskInclude()
    plugin.v2_runner_on_ok(include)
    assert shown(plugin) == []


def test_what_every_host_needs_is_loaded_before_the_fork() -> None:
    argument_spec.cache_clear()
    plugin = callback()
    plugin.v2_playbook_on_task_start(SimpleNamespace(resolved_action="ansible.builtin.copy"), is_conditional=False)
    assert argument_spec.cache_info().currsize == 0
    module = SimpleNamespace(resolved_action="trainops.proxmox.container_info")
    plugin.v2_playbook_on_task_start(module, is_conditional=False)
    assert argument_spec.cache_info().currsize == 0
    plugin.v2_playbook_on_task_start(SimpleNamespace(resolved_action=GPUS), is_conditional=False)
    assert argument_spec.cache_info().currsize == 1
    assert "ansible_collections.trainops.proxmox.plugins.connection.pct" in sys.modules
    assert "ansible_collections.trainops.proxmox.plugins.action.gpu_idle" in sys.modules
    assert shown(plugin) == []


def test_check_mode_is_told_once() -> None:
    plugin = callback(check=True)
    plugin.v2_playbook_on_play_start(
        SimpleNamespace(
            hosts=["a", "b"], check_mode=True, get_variable_manager=lambda: SimpleNamespace(get_vars=lambda play: {})
        )
    )
    assert shown(plugin) == ["check mode: this is what would happen, nothing is changed"]


def test_no_hosts_is_said_with_the_pattern() -> None:
    plugin = callback(hosts=())
    plugin.v2_playbook_on_no_hosts_matched()
    assert shown(plugin) == ["no host matches 'training', so nothing was done: see ansible-inventory --graph"]


def test_a_diff_is_shown_for_what_changed() -> None:
    plugin = callback()
    diff = {"before": "a\n", "after": "b\n", "before_header": "x", "after_header": "x"}
    plugin.v2_on_file_diff(result(RELEASE, {"diff": [diff], "changed": True}))
    plugin.v2_on_file_diff(result("ansible.builtin.copy", {"diff": diff, "changed": False}))
    (text,) = shown(plugin)
    assert "-a" in text
    assert "+b" in text


def test_what_was_left_out_is_shown_with_v_only() -> None:
    found = [{"path": path, "why": "bytecode"} for path in ("b.pyc", "new\nline.pyc", *(f"{n}.pyc" for n in range(5)))]
    values = {"summary": "live", "left_out": [{"path": ".git", "why": "version control"}, *found]}
    for verbosity, more in (
        (0, []),
        (1, [
            "left out, bytecode: b.pyc, new\\nline.pyc, 0.pyc, 1.pyc, 2.pyc and 2 more",
            "left out, version control: .git",
        ]),
    ):  # fmt: skip
        plugin = callback(verbosity, hosts=("ct200",))
        plugin.v2_runner_on_ok(result(RELEASE, values))
        assert shown(plugin) == ["\n       ".join(["ct200  release  live", *more])]


@pytest.mark.parametrize(
    ("failures", "dark", "expected"),
    [
        ({}, {}, []),
        ({"ct200": 1}, {}, ["1 of 3 hosts failed: ct200"]),
        ({"b": 1, "a": 1}, {"c": 1}, ["2 of 3 hosts failed: a, b", "1 of 3 hosts unreachable: c"]),
    ],
)
def test_the_end_is_silent_when_all_is_well(
    failures: dict[str, int], dark: dict[str, int], expected: list[str]
) -> None:
    plugin = callback()
    plugin.v2_playbook_on_stats(SimpleNamespace(processed=dict.fromkeys("abc", 1), failures=failures, dark=dark))
    assert shown(plugin) == expected


@pytest.mark.parametrize(
    ("values", "color"),
    [
        ({}, "green"),
        ({"changed": True}, "yellow"),
        ({"idle": True}, "green"),
        ({"idle": False}, "bright purple"),
        ({"idle": False, "held_by_runs": ["r1"]}, "green"),
    ],
)
def test_colors_are_those_of_ansible(values: dict[str, Any], color: str) -> None:
    plugin = callback()
    plugin.v2_runner_on_ok(result(GPUS, {"summary": "x", **values}))
    assert plugin._display.colors == [color]
