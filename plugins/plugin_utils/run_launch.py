# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The controller's side of a launch: which GPUs the run gets, or who holds them, said while the worker waits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import StepError
from ansible_collections.trainops.proxmox.plugins.plugin_utils.exchange import ConnectionLost
from ansible_collections.trainops.proxmox.plugins.plugin_utils.frames import Frame
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_result import check_wish, gpu_summary, refusal
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_select import Selection
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_text import WIDTH, summary, table
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_wait import Clock
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpus import Gpu, Snapshot, given_to

# How long a lost connection is made again, and the pauses between.
PATIENCE_SECONDS = 60.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 5.0
NO_GPU = "For a run without GPUs set option select to 0."


@dataclass(frozen=True)
class Verdict:
    """One look, what was selected in it, and the GPUs that a run gets: none unless as many as wanted are idle."""

    found: Snapshot
    selection: Selection
    chosen: tuple[Gpu, ...]


def verdict(found: Snapshot, runs: Iterable[Mapping[str, Any]], select: Any, count: int | None) -> Verdict:
    """Which of the GPUs a new run gets; ``runs`` are those that live in the container, each with its ``gpus``.

    Raises OptionError for GPUs that do not exist.
    """
    owner = {gpu["uuid"]: str(run["run"]) for run in runs for gpu in run["gpus"]}
    found = replace(found, gpus=tuple(given_to(gpu, owner.get(str(gpu.uuid))) for gpu in found.gpus))
    selection = check_wish(found, select, count) or Selection((), count)
    return Verdict(found, selection, selection.choose(lambda gpu: gpu.verdict == "idle"))


def refused(no: Verdict, width: int = WIDTH) -> StepError:
    """Why a run cannot start: the line, the table of the GPUs and who holds them, and the fix."""
    found, selection = no.found, no.selection
    code, fix = refusal(found, selection, "idle_timeout")
    if not found.gpus:
        line, fix = gpu_summary(found), NO_GPU
    elif not selection.candidates:
        line = f"too few GPUs match option select now; {summary(Selection(found.gpus), found.view)}"
    else:
        line = summary(selection, found.view)
    shown = table(found, selection.candidates, width) if selection.candidates else ""
    line = f"not started: {line}"
    details = {
        "gpus": [gpu.as_result() for gpu in selection.candidates or found.gpus],
        "view": found.view,
        "view_reason": found.view_reason,
        "table": shown,
        "run": None,
        "summary": line,
    }
    return StepError(code, "\n".join(part for part in (line, shown, fix) if part), details)


class Conversation:
    """Answers the worker that waits with everything looked at; keeps what it decided, for the result."""

    def __init__(self, see: Callable[[dict[str, Any], str | None], Snapshot], options: Mapping[str, Any]) -> None:
        self.verdict: Verdict | None = None
        self.ready: dict[str, Any] = {}
        self._see = see
        self._options = options

    @property
    def refused(self) -> Verdict | None:
        """The verdict when the run was refused by it."""
        return self.verdict if self.verdict and not self.verdict.chosen else None

    def answer(self, frame: dict[str, Any]) -> Iterable[Frame]:
        """The answer to ``ready``: go on with these GPUs, or stop."""
        if frame["kind"] != "ready":
            raise AnsibleError(f"unexpected frame {frame['kind']!r} from the worker")
        self.verdict, self.ready = None, frame
        if frame["gpus"] is not None:
            found = self._see(frame["gpus"], frame["node_view"])
            self.verdict = verdict(found, frame["runs"], self._options["select"], self._options["count"])
        if self.refused:
            return [Frame("stop")]
        chosen = self.verdict.chosen if self.verdict else ()
        return [Frame("go", {"gpus": [{"index": gpu.index, "uuid": gpu.uuid} for gpu in chosen]})]


def once(ask: Callable[[], dict[str, Any]], clock: Clock, note: Callable[[str], None]) -> dict[str, Any]:
    """Ask until there is an answer, over as many connections as that takes.

    Only what was lost after the worker's hello is asked again; the worker knows by the token in the question whether it
    did it already. Raises ConnectionLost when that took longer than PATIENCE_SECONDS, and what ``ask`` raises.
    """
    lost: ConnectionLost | None = None
    end = pause = 0.0
    while True:
        try:
            return ask()
        except AnsibleConnectionFailure as error:
            if lost is None:
                if not isinstance(error, ConnectionLost):
                    raise
                lost, end = error, clock.now() + PATIENCE_SECONDS
                note("the connection was lost, asking again")
            if clock.now() >= end:
                raise _unknown(error) from None
        pause = min(max(2 * pause, _FIRST_PAUSE), _LONGEST_PAUSE)
        clock.sleep(pause)


def _unknown(error: AnsibleConnectionFailure) -> ConnectionLost:
    return ConnectionLost(
        f"{error}. The connection was lost while the run was started, and could not be made again: whether it "
        "runs is not known. See trainops status (or training_status.yml) before it is launched again"
    )
