# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: summary
type: stdout
short_description: One line a host and step
version_added: 0.1.0
author:
  - trainops contributors (!UNKNOWN)
description:
  - Prints what a person wants to know of a deploy. One line for each host and step of this collection,
    and nothing for what went well and changed nothing in other modules.
  - A failure is printed with its whole message, beneath the host's line. At the end nothing is printed when all is
    well, otherwise how many hosts failed or could not be reached, and which.
  - With C(-v) every task has a line, and a release what of the project it left out and why. With C(-vv) the result
    is beneath, with C(-vvv) the traceback of a failure as well.
  - Lines come out at once, also through a pipe or into a file.
requirements:
  - Set as C(stdout_callback) in the section C(defaults) of C(ansible.cfg), or in the environment variable
    E(ANSIBLE_STDOUT_CALLBACK). The command C(trainops) uses it by itself.
extends_documentation_fragment:
  - result_format_callback
"""

EXAMPLES = r"""
# ansible.cfg beside the playbook
# [defaults]
# stdout_callback = trainops.proxmox.summary
"""

import contextlib
import functools
import sys
from typing import TYPE_CHECKING, Any

from ansible import constants as C
from ansible.executor.stats import AggregateStats
from ansible.playbook.play import Play
from ansible.playbook.task import Task
from ansible.playbook.task_include import TaskInclude
from ansible.plugins.callback import CallbackBase
from ansible.plugins.loader import action_loader, connection_loader
from ansible_collections.trainops.proxmox.plugins.plugin_utils import lines
from ansible_collections.trainops.proxmox.plugins.plugin_utils.run_table import table as table_of_runs
from ansible_collections.trainops.proxmox.plugins.plugin_utils.spec import argument_spec
from ansible_collections.trainops.proxmox.plugins.plugin_utils.visible import visible_diff

if TYPE_CHECKING:
    from ansible.executor.task_result import CallbackTaskResult  # not in an ansible-core that is too old to go on

_RUN = "trainops.proxmox.training_run"
_WITH_TABLE = ("trainops.proxmox.gpu_info", _RUN)
_EXPLAINING = ("ansible.builtin.assert", "ansible.builtin.fail", "ansible.builtin.validate_argument_spec")


def _color(what: str) -> str:
    """The user's colour for ``what`` (``OK``, ``CHANGED``, ``ERROR`` …); whether there are any, display decides."""
    return str(C.config.get_config_value(f"COLOR_{what}"))


@functools.cache
def _preload(action: str) -> None:
    """Load here what the process of each host's task needs: it is forked from this one and finds it loaded.

    Reading the docs of connection and step takes 50 ms of CPU, for hundreds of hosts several times a deploy.
    """
    connection_loader.get("trainops.proxmox.pct", class_only=True)
    if action_loader.has_plugin(action):  # a module with code of its own is not run here
        action_loader.get(action, class_only=True)
        argument_spec(action)


class CallbackModule(CallbackBase):
    """The lines of a deploy, on standard output and in Ansible's log."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "trainops.proxmox.summary"

    def __init__(self) -> None:
        super().__init__()
        self._width = 0
        self._hosts = ""
        self._check_mode_told = False
        self._runs: list[tuple[str, dict[str, Any]]] = []

    def v2_playbook_on_start(self, playbook: Any) -> None:
        # Through a pipe Python would keep the lines back until the end.
        with contextlib.suppress(AttributeError, ValueError):
            sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]

    def v2_playbook_on_play_start(self, play: Play) -> None:
        self._hosts = str(play.hosts if isinstance(play.hosts, str) else ",".join(map(str, play.hosts or [])))
        names = play.get_variable_manager().get_vars(play=play).get("ansible_play_hosts_all", [])
        self._width = max(map(len, names), default=0)
        if play.check_mode and not self._check_mode_told:
            self._check_mode_told = True
            self._display.display("check mode: this is what would happen, nothing is changed", color=_color("SKIP"))

    def v2_playbook_on_task_start(self, task: Task, is_conditional: bool) -> None:
        if lines.step_word(task.resolved_action):
            _preload(str(task.resolved_action))

    def v2_playbook_on_no_hosts_matched(self) -> None:
        self._display.display(
            f"no host matches {self._hosts!r}, so nothing was done: see ansible-inventory --graph", color=_color("WARN")
        )

    def v2_runner_on_ok(self, result: CallbackTaskResult) -> None:
        self._handle_warnings(result.result)
        if isinstance(result.task, TaskInclude) or self._items_were_shown(result):
            return
        self._ok(result)

    def v2_runner_item_on_ok(self, result: CallbackTaskResult) -> None:
        self._handle_warnings(result.result)
        if self._step(result):
            self._ok(result)

    def v2_runner_on_failed(self, result: CallbackTaskResult, ignore_errors: bool = False) -> None:
        self._handle_warnings(result.result)
        self._bad(result, "failed, ignored" if ignore_errors else "FAILED", _color("ERROR"))

    def v2_runner_item_on_failed(self, result: CallbackTaskResult) -> None:
        self._handle_warnings(result.result)
        self._bad(result, "FAILED", _color("ERROR"))

    def v2_runner_on_unreachable(self, result: CallbackTaskResult) -> None:
        self._handle_warnings(result.result)
        ignored = result.task.ignore_unreachable
        self._bad(result, "unreachable, ignored" if ignored else "UNREACHABLE", _color("UNREACHABLE"))

    def v2_runner_on_skipped(self, result: CallbackTaskResult) -> None:
        self._handle_warnings(result.result)
        if self._display.verbosity:
            self._display.display(self._line(result, "skipped"), color=_color("SKIP"))

    def v2_runner_retry(self, result: CallbackTaskResult) -> None:
        following, of = result.result.get("attempts", 0), result.result.get("retries", 0)
        text = f"not yet, attempt {following} of {of} follows"
        self._display.display(self._line(result, text), color=_color("SKIP"))

    def v2_on_file_diff(self, result: CallbackTaskResult) -> None:
        for one in result.result["results"] if self._is_loop(result) else [result.result]:
            if one.get("diff") and (one.get("changed") or self._step(result)):
                diff = self._get_diff(visible_diff(one["diff"]))
                if diff:
                    self._display.display(diff.rstrip("\n"))

    def v2_playbook_on_stats(self, stats: AggregateStats) -> None:
        self._show_runs()
        total = len(stats.processed)
        for what, counted, color in (
            ("failed", stats.failures, _color("ERROR")),
            ("unreachable", stats.dark, _color("UNREACHABLE")),
        ):
            if hosts := sorted(counted):
                self._display.display(lines.ended_badly(what, hosts, total), color=color)

    def _ok(self, result: CallbackTaskResult) -> None:
        values = result.result
        if result.task.resolved_action == _RUN and "runs" in values and not self._display.verbosity:
            self._runs.append((result.host.get_name(), dict(values)))
            return
        changed = bool(values.get("changed"))
        always = bool(values.get("_ansible_verbose_always"))
        if not (self._step(result) or changed or always or self._display.verbosity):
            return
        color = _color("CHANGED") if changed else _color("OK")
        if values.get("idle") is False and not values.get("held_by_runs"):
            color = _color("WARN")
        text = str(values.get("summary") or ("changed" if changed else "ok"))
        if always:
            text = self._said(result) or text
        line, *rest = text.splitlines()
        if always and rest:
            line, rest = "", [line, *rest]  # what was laid out in columns stays so
        if result.task.resolved_action in _WITH_TABLE:
            rest += str(values.get("table") or "").splitlines()
        if self._display.verbosity:
            rest += lines.left_out(values.get("left_out") or [])
        if self._display.verbosity > 1 and not always:
            rest += self._dump_results(values, indent=4).splitlines()
        self._display.display(self._under(self._line(result, line).rstrip(), rest), color=color)

    def _show_runs(self) -> None:
        """The runs of all hosts, which are one table: it is whole when everybody has answered."""
        if self._runs:
            self._display.display(table_of_runs(sorted(self._runs, key=lambda one: one[0])))
            self._runs = []

    def _bad(self, result: CallbackTaskResult, word: str, color: str) -> None:
        headline, rest = lines.failure(result.result)
        if not self._explained(result) and (path := result.task.get_path()):
            rest.append(f"at {path}")
        if self._display.verbosity > 2:
            self._handle_exception(result.result)
        if self._display.verbosity > 1:
            rest += self._dump_results(result.result, indent=4).splitlines()
        self._display.display(self._under(self._line(result, f"{word}  {headline}"), rest), color=color)

    def _said(self, result: CallbackTaskResult) -> str:
        """What ``debug`` was asked to say."""
        self._clean_results(result.result, result.task.action)
        message = result.result.get("msg")
        return message if isinstance(message, str) else str(self._dump_results(result.result))

    def _line(self, result: CallbackTaskResult, text: str) -> str:
        if step := self._step(result):  # what it says is of the host, wherever it runs
            return lines.step_line(result.host.get_name(), self._width, step, text)
        host = self.host_label(result)
        item = "item" in result.result or "_ansible_item_label" in result.result
        name = result.task.get_name() + (f" ({self._get_item_label(result.result)})" if item else "")
        return lines.task_line(host, self._width, name, text)

    def _under(self, line: str, rest: list[str]) -> str:
        return lines.beneath(line, rest, self._width + 2)

    def _items_were_shown(self, result: CallbackTaskResult) -> bool:
        return self._step(result) is not None and self._is_loop(result)

    def _explained(self, result: CallbackTaskResult) -> bool:
        """Whether the message was written for people, who need no place in a playbook to understand it."""
        return self._step(result) is not None or result.task.resolved_action in _EXPLAINING

    @staticmethod
    def _is_loop(result: CallbackTaskResult) -> bool:
        return bool(result.task.loop) and "results" in result.result

    @staticmethod
    def _step(result: CallbackTaskResult) -> str | None:
        return lines.step_word(result.task.resolved_action or result.task.action)
