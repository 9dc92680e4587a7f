"""What a run of a playbook came to, as plain values read from its events."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

_READING = ("check", "gpus", "state", "node", "survey")  # steps that change nothing
_COMPARING = "diff_training"
_READERS = (_COMPARING, "training_logs", "training_status", "why_training")  # playbooks that change nothing
_ENDINGS = ("runner_on_ok", "runner_on_failed", "runner_on_unreachable")


class Reason(StrEnum):
    """Why a run is what it is."""

    OK = "ok"
    DIFFERS = "differs"
    FAILED = "failed"
    UNREACHABLE = "unreachable"
    CANCELED = "canceled"
    DEADLINE = "deadline"
    INCOMPLETE = "incomplete"


@dataclass(frozen=True)
class StepResult:
    """What one task did on one host.

    ``step`` is ``check``, ``release``, ``gpus`` for this collection's steps and the task's name for any other;
    ``action`` is the module's full name, ``summary`` one line for a person, ``values`` the module's whole result.
    ``failed`` and ``unreachable`` are false for what the playbook ignores.
    """

    host: str
    step: str
    action: str
    changed: bool
    failed: bool
    unreachable: bool
    summary: str
    values: dict[str, Any] = dataclasses.field(repr=False)


@dataclass(frozen=True)
class HostResult:
    """What a run did on one host, its steps in their order."""

    host: str
    ok: bool
    changed: bool
    failed: bool
    unreachable: bool
    steps: tuple[StepResult, ...]

    def step(self, name: str) -> StepResult | None:
        """The host's last result of the step ``name`` (``check``, ``release``, ``gpus`` …); None when it never ran."""
        return next((step for step in reversed(self.steps) if step.step == name), None)


@dataclass(frozen=True)
class Result:
    """What a run came to: plain values, complete, to be read any number of times.

    ``rc`` is ansible-playbook's exit status (None when it had to be ended), ``message`` a sentence for a person (empty
    when all is well), ``output`` all that was printed (the first MiB of a log that a step follows), ``seconds`` the
    time it took.
    """

    ok: bool
    reason: Reason
    rc: int | None
    playbook: str
    check: bool
    hosts: dict[str, HostResult]
    message: str
    output: str
    seconds: float

    def __repr__(self) -> str:
        """Short enough to be printed; the steps and their values are in ``hosts``, all of it in :meth:`as_dict`."""
        hosts = ", ".join(self.hosts) or "no host"
        message = f": {self.message}" if self.message else ""
        return f"<Result {self.reason} of {self.playbook} on {hosts} after {self.seconds:g} s{message}>"

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        return dataclasses.asdict(self)


class Interrupted(KeyboardInterrupt):
    """An interrupt while a playbook ran; nothing of it is left on this machine.

    ``result`` is what had come of it by then, ``under_way`` the step that each host was in.
    """

    def __init__(self, result: Result, under_way: dict[str, str]) -> None:
        super().__init__()
        self.result = result
        self.under_way = under_way


@dataclass(frozen=True)
class Ending:
    """How a run ended, as the process around it knows: its status, and whether it was ended early and by what.

    ``lost`` is a sentence about why its account did not arrive, where that is known.
    """

    rc: int | None
    aborted: Reason | None
    seconds: float
    lost: str = ""


def read_result(events: Iterable[Mapping[str, Any]], ending: Ending, playbook: str, check: bool) -> Result:
    """The result of a run from ansible-runner's events (dicts with ``event``, ``event_data``, ``stdout``)."""
    events = list(events)
    steps: dict[str, list[StepResult]] = {}
    begun = under_way(events)
    stats: Mapping[str, Any] | None = None
    output, complete = [], True
    for event in events:
        # ansible-runner passes an event on without its content when it could not read the file that holds it.
        complete &= "event" in event
        if event.get("stdout"):
            output.append(str(event["stdout"]).replace("\r\n", "\n"))
        data = event.get("event_data") or {}
        if event.get("event") == "playbook_on_stats":
            stats = data
        elif event.get("event") in _ENDINGS:
            step = _step(str(event["event"]), data)
            steps.setdefault(step.host, []).append(step)
    hosts = {host: _host(host, tuple(steps.get(host, ())), stats) for host in _names(steps, stats)}
    text = "\n".join(output)
    reason = _reason(hosts, ending, complete and stats is not None)
    if reason is Reason.OK and _stem(playbook) == _COMPARING and _differing(hosts):
        reason = Reason.DIFFERS
    return Result(
        ok=reason is Reason.OK,
        reason=reason,
        rc=ending.rc,
        playbook=playbook,
        check=check,
        hosts=hosts,
        message=_early(ending, hosts, {} if check or _reads(playbook) else begun, check)
        if ending.aborted
        else _message(reason, hosts, ending, text),
        output=text,
        seconds=round(ending.seconds, 3),
    )


def under_way(events: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The step that each host was in when the events ended; without those that were in none."""
    begun: dict[str, str] = {}
    for event in events:
        data = event.get("event_data") or {}
        if event.get("event") == "runner_on_start":
            begun[str(data.get("host", ""))] = _step_name(data)
        elif event.get("event") in (*_ENDINGS, "runner_on_skipped"):
            begun.pop(str(data.get("host", "")), None)
    return begun


def _step(event: str, data: Mapping[str, Any]) -> StepResult:
    # Not at the head of this file: with an ansible-core that is too old it cannot be imported, see trainops.core.
    from ansible_collections.trainops.proxmox.plugins.plugin_utils import lines, visible

    values = {key: value for key, value in (data.get("res") or {}).items() if not key.startswith("_ansible_")}
    values.pop("invocation", None)
    bad = event != "runner_on_ok"
    action = str(data.get("resolved_action") or data.get("task_action") or "")
    said = str(values.get("summary") or values.get("msg") or "").partition("\n")[0]
    return StepResult(
        host=str(data.get("host", "")),
        step=_step_name(data),
        action=action,
        changed=bool(values.get("changed")),
        failed=event == "runner_on_failed" and not data.get("ignore_errors"),
        unreachable=event == "runner_on_unreachable",
        summary=visible.one_line(lines.failure(values)[0] if bad else said),
        values=values,
    )


def _step_name(data: Mapping[str, Any]) -> str:
    from ansible_collections.trainops.proxmox.plugins.plugin_utils import lines

    action = str(data.get("resolved_action") or data.get("task_action") or "")
    return lines.step_word(action) or str(data.get("task", ""))


def _names(steps: Mapping[str, Any], stats: Mapping[str, Any] | None) -> list[str]:
    return sorted({*steps, *((stats or {}).get("processed") or {})})


def _host(host: str, steps: tuple[StepResult, ...], stats: Mapping[str, Any] | None) -> HostResult:
    """Ansible's own count decides, since it knows what was rescued; without one, what the steps said."""
    if stats is None:
        failed, unreachable = (any(getattr(step, what) for step in steps) for what in ("failed", "unreachable"))
    else:
        failed, unreachable = (bool((stats.get(what) or {}).get(host)) for what in ("failures", "dark"))
    return HostResult(
        host=host,
        ok=stats is not None and not failed and not unreachable,
        changed=any(step.changed for step in steps),
        failed=failed,
        unreachable=unreachable,
        steps=steps,
    )


def _reason(hosts: Mapping[str, HostResult], ending: Ending, complete: bool) -> Reason:
    if ending.aborted is not None:
        return ending.aborted
    if any(host.failed for host in hosts.values()):
        return Reason.FAILED
    if any(host.unreachable for host in hosts.values()):
        return Reason.UNREACHABLE
    if ending.rc:
        return Reason.FAILED
    if not complete:
        return Reason.INCOMPLETE
    return Reason.OK if hosts else Reason.FAILED


def _reads(playbook: str) -> bool:
    return _stem(playbook) in _READERS


def _stem(playbook: str) -> str:
    """The name of a playbook, of a file or a collection's."""
    return playbook.removesuffix(".yml").rpartition("/")[2].rpartition(".")[2]


def _differing(hosts: Mapping[str, HostResult]) -> list[StepResult]:
    """The comparisons that found something."""
    return [step for host in hosts.values() for step in host.steps if step.values.get("differs") is True]


def _early(ending: Ending, hosts: Mapping[str, HostResult], begun: Mapping[str, str], check: bool) -> str:
    """Why a run was ended early, and what it had done by then; ``begun`` are the steps under way, by host."""
    said = "canceled before its end"
    if ending.aborted is Reason.DEADLINE:
        said = f"not finished within its deadline, ended after {ending.seconds:.0f} s"
    done = [step for host in hosts.values() for step in host.steps if step.changed and not check]
    parts = [f"{step.host} {step.step}: {step.summary}" for step in done]
    parts += [
        f"{host} {step}: under way, it may have taken effect" for host, step in begun.items() if step not in _READING
    ]
    if ending.lost:
        return "; ".join([ending.lost, *parts])
    return f"{said}; {'; '.join(parts) or 'nothing was changed by then'}"


def _message(reason: Reason, hosts: Mapping[str, HostResult], ending: Ending, output: str) -> str:
    if reason is Reason.OK:
        return ""
    if reason is Reason.DIFFERS:
        return "; ".join(f"{step.host}: {step.summary}" for step in _differing(hosts))
    if reason is Reason.INCOMPLETE:
        return "ansible-playbook ended without its account of what it did: see the output"
    bad = [step for host in hosts.values() for step in host.steps if step.failed or step.unreachable]
    if bad and any(host.failed or host.unreachable for host in hosts.values()):
        return "; ".join(f"{step.host} {step.step}: {step.summary}" for step in bad)
    if not ending.rc:
        return "no host did anything: does the inventory have the playbook's hosts, and does the limit leave some?"
    return _error(output) or f"ansible-playbook ended with status {ending.rc}"


def _error(output: str) -> str:
    """What ansible-playbook itself complained of, from its first error on."""
    texts = output.splitlines()
    first = next((number for number, text in enumerate(texts) if "ERROR" in text), len(texts))
    return "\n".join(texts[first:]).strip()
