# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The step `run`: a run of a release is started, watched, stopped, listed or explained."""

from __future__ import annotations

import getpass
import os
import secrets
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ansible.utils.display import Display
from ansible.utils.vars import load_extra_vars
from ansible_collections.trainops.proxmox.plugins.plugin_utils import (
    run_free,
    run_result,
    run_table,
    run_watch,
    run_why,
)
from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import StepError
from ansible_collections.trainops.proxmox.plugins.plugin_utils.exchange import Reply, Request, exchange, no_answer
from ansible_collections.trainops.proxmox.plugins.plugin_utils.frames import Frame
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_look import ask, check_numbers, look, seen
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_select import without_gpus
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_text import summary
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_wait import Clock, wait
from ansible_collections.trainops.proxmox.plugins.plugin_utils.lines import step_line
from ansible_collections.trainops.proxmox.plugins.plugin_utils.log_lines import Lines
from ansible_collections.trainops.proxmox.plugins.plugin_utils.named_step import NamedStep
from ansible_collections.trainops.proxmox.plugins.plugin_utils.project import project_name
from ansible_collections.trainops.proxmox.plugins.plugin_utils.run import (
    check_options,
    order,
    set_apart,
)
from ansible_collections.trainops.proxmox.plugins.plugin_utils.run_launch import Conversation, once, refused, verdict
from ansible_collections.trainops.proxmox.plugins.plugin_utils.run_project import Comparison
from ansible_collections.trainops.proxmox.plugins.plugin_utils.tell import COLUMNS, indent, teller
from ansible_collections.trainops.proxmox.plugins.plugin_utils.variables import sources, standing

display = Display()
_CLOCK = Clock(time.monotonic, time.sleep)
_DEPLOY_SECONDS = 60.0  # to wait for a deploy that is at work
_ACTIVATIONS = 5  # in the table of a single host
_LINES = 200  # of each log, to find its values in


class ActionModule(NamedStep):
    """Its options and results are documented in the module of the same name."""

    def step(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        check_numbers(options)
        rest: dict[str, Any] = {}
        if options["state"] == "started":
            options, rest = set_apart(options, self._standing(task_vars))
        check_options(options)
        name = options["name"]
        if not name and options["project"] and options["state"] != "listed":
            name = project_name(options["project"], os.getcwd())
        options = {**options, "name": name or None, "root": os.path.normpath(options["root"])}
        states: Mapping[str, Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]] = {
            "started": partial(self._start, rest),
            "stopped": self._stop,
            "watched": self._watch,
            "listed": self._list,
            "explained": self._explain,
        }
        return states[options["state"]](options, task_vars)

    def _standing(self, task_vars: dict[str, Any]) -> set[str]:
        """The options that nobody said for this launch: they merely stand in the inventory."""
        host = task_vars["hostvars"].raw_get(task_vars["inventory_hostname"])
        variables = sources(self._task.get_ds(), str(self._task.action))
        return standing(variables, load_extra_vars(self._loader), task_vars, host)

    def _start(self, rest: dict[str, Any], options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        # Made once: whatever happens to connections, the container knows this start by it.
        params = {
            **_whose(options),
            **order(options),
            **rest,
            "token": secrets.token_hex(16),
            "patience": min(_DEPLOY_SECONDS, options["timeout"] / 2),
            "check_mode": bool(self._task.check_mode),
        }
        question, view = (None, None) if without_gpus(options["select"]) else ask(self._connection, options)
        request = Request(
            "launch", {**params, "gpus": question}, options["python"], options["timeout"], view, view_for="ready"
        )
        compared = Comparison(options, os.getcwd())
        talk = Conversation(lambda reading, text: seen(self._connection, options, reading, text), options)
        end = _CLOCK.now() + options["idle_timeout"]
        while True:
            done, no = self._launch(request, talk, task_vars)
            left = end - _CLOCK.now()
            if no is None:
                break
            if self._task.check_mode or left <= 0:
                raise no
            self._wait(options, left, task_vars)
        if done["state"] == "possible":
            notes = compared.notes(talk.ready["release_id"])
            return run_result.foretold(talk.ready, talk.verdict, notes, deployed=not options["compare"])
        notes = compared.notes(done["run"]["release"])
        return run_result.started(done, talk.verdict, notes, unwatched=options["unwatched"])

    def _launch(
        self, request: Request, talk: Conversation, task_vars: dict[str, Any]
    ) -> tuple[dict[str, Any], StepError | None]:
        """What the worker says, and the refusal where GPUs are not idle."""
        show = teller(display.display, task_vars, "run")
        try:
            done = once(
                lambda: exchange(self._connection, request, talk.answer, show).result,
                _CLOCK,
                lambda text: self._say(task_vars, text),
            )
        except StepError as error:
            if error.code != "gpus-held":  # another launch was quicker by a moment
                raise
            return {}, error
        no = talk.refused if done["state"] == "refused" else None
        return done, refused(no, (display.columns or COLUMNS) - indent(task_vars)) if no else None

    def _wait(self, options: dict[str, Any], left: float, task_vars: dict[str, Any]) -> None:
        """Until the wanted GPUs look idle, or the time is over; whether they are is for the next start to say."""
        _CLOCK.sleep(min(options["idle_interval"], left))
        wait(
            lambda: look(self._connection, options),
            lambda found: verdict(found, [], options["select"], options["count"]).selection,
            lambda found, selection, waited: self._say(
                task_vars, f"waiting for GPUs, {waited:.0f} s: {summary(selection, found.view)}"
            ),
            _CLOCK,
            timeout=max(left - options["idle_interval"], 0.1),
            interval=options["idle_interval"],
        )

    def _stop(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        more = {"signal": options["signal"], "patience": options["patience"], "check_mode": bool(self._task.check_mode)}
        timeout = options["timeout"] + options["patience"]
        show = teller(display.display, task_vars, "run")
        try:
            done = self._exchange("stop", {**_whose(options), **more}, options, timeout, show).result
        except StepError as error:
            if error.code != "no-run" or options["run"] not in (None, "all"):
                raise
            return run_result.stopped([])  # of many hosts some never had a run
        runs = [one["run"] for one in done["stopped"]]
        uuids = {gpu["uuid"] for run in runs for gpu in run["gpus"]}
        held = ""
        if uuids and any(one["changed"] for one in done["stopped"]) and not self._task.check_mode:
            ids = [run["run"] for run in runs]
            held, _found = run_free.wait_until_free(lambda: look(self._connection, options), uuids, ids, _CLOCK)
        return run_result.stopped(done["stopped"], held, bool(self._task.check_mode))

    def _watch(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        wanted = run_watch.wish(options)

        def ask_once(params: dict[str, Any], receive: run_watch.Frames) -> dict[str, Any]:
            def answer(frame: dict[str, Any]) -> list[Frame]:
                receive(frame)
                return []

            timeout = params["seconds"] + run_watch.MARGIN_SECONDS
            return exchange(self._connection, Request("follow", params, options["python"], timeout), answer).result

        log = Lines(task_vars)

        def show(lines: Sequence[str]) -> None:
            display.display("\n".join(log.shown(lines)))

        def note(text: str) -> None:
            self._say(task_vars, text)
            log.ours()

        screen = run_watch.Screen(show if options["show"] else run_watch.hide, note)
        return run_watch.watched(wanted, run_watch.watch(ask_once, wanted, screen, _CLOCK))

    def _list(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        params = {"root": options["root"], "name": options["name"], "logs": max(options["lines"], _LINES)}
        done = self._exchange("runs", params, options, options["timeout"]).result
        found = run_result.listed(done, options["values"], options["lines"])
        if quiet := run_result.silent(found["runs"], options["stall_seconds"]):
            run_result.mark_stalled(quiet, look(self._connection, {**options, "node_view": False}))
        found["history"] = _history(options, task_vars)
        text = run_table.summary(found)
        return {**found, "summary": text, "msg": text, "table": run_table.table([("", found)])}

    def _explain(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        inside = hasattr(self._connection, "open_session")
        request = Request("why", run_why.params(options), options["python"], options["timeout"], run_why.view(options))
        done = exchange(self._connection, request)
        vmid = int(self._connection.get_option("vmid")) if inside else None
        return run_why.explained(done.result, done.node_view, vmid)

    def _exchange(
        self,
        operation: str,
        params: dict[str, Any],
        options: dict[str, Any],
        timeout: float,
        show: Callable[[dict[str, Any]], None] | None = None,
    ) -> Reply:
        return exchange(self._connection, Request(operation, params, options["python"], timeout), no_answer, show)

    def _say(self, task_vars: dict[str, Any], text: str) -> None:
        host = str(task_vars.get("inventory_hostname", ""))
        display.display(step_line(host, indent(task_vars) - 2, "run", text))


def _history(options: dict[str, Any], task_vars: dict[str, Any]) -> int:
    """How many activations a table shows: of many hosts it stays short."""
    if options["history"] is not None:
        return max(0, int(options["history"]))
    return _ACTIVATIONS if len(task_vars.get("ansible_play_hosts_all") or [""]) == 1 else 0


def _whose(options: dict[str, Any]) -> dict[str, Any]:
    """Which project, which run, and who asks."""
    who = f"{getpass.getuser()}@{socket.gethostname()}"
    return {"root": options["root"], "name": options["name"], "run": options["run"] or None, "who": who}
