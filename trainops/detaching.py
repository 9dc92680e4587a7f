"""What is said of an interrupt: what was done by then, what is not known, and of runs that they go on elsewhere."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from trainops.results import Interrupted, StepResult
from trainops.targets import looks_like_run

_ACTION = "trainops.proxmox.training_run"
# What the step says before the first line of a log; a line of the log itself never looks so.
_FOLLOWED = re.compile(r"^(\S+) +run +the log of (r\d+)$", re.MULTILINE)
# What it says of a run that was asked to stop and has not ended at once.
_ASKED = re.compile(r"^(\S+) +run +(r\d+) was asked to stop\b.*$", re.MULTILINE)
_RELEASE = "trainops.proxmox.training_release"
_ALIVE = ("starting", "running")


def of_a_follower(words: Sequence[str], options: Mapping[str, Any], interrupt: BaseException) -> str:
    """A run was followed; ``words`` are the run and the targets of the command line."""
    said = next((word for word in words if looks_like_run(word)), "")
    followed = _followed(said, interrupt) if isinstance(interrupt, Interrupted) else {}
    goes_on = ", ".join(f"{run} on {host}" for host, run in followed.items()) or "what has begun"
    goes_on += " go on" if len(followed) > 1 else " goes on"
    return f"detached, nothing was stopped: {goes_on}; to come back: {_command('logs -f', words, options)}"


def _followed(said: str, interrupt: Interrupted) -> dict[str, str]:
    """The runs whose logs were read, by host: ``said``, or the one that the step named before its first line."""
    hosts = sorted(host for host, step in interrupt.under_way.items() if step == "run")
    told = dict(_FOLLOWED.findall(interrupt.result.output))
    return {host: run for host in hosts if (run := said or told.get(host, ""))}


def of_a_launch(words: Sequence[str], options: Mapping[str, Any], interrupt: BaseException) -> str:
    """A launch: what was started by then, and of which hosts that is not known."""
    parts = _of_runs(words, options, interrupt)
    started = _started(interrupt)
    if _living(started):
        parts[0] = f"detached, nothing was stopped: {parts[0]}"
    return "; ".join(parts) or ("canceled, no run goes on" if started else "canceled, nothing was started")


def of_a_stop(words: Sequence[str], options: Mapping[str, Any], interrupt: BaseException) -> str:
    """A stop: what ended by then, what was asked to and goes on, and of which hosts that is not known.

    ``words`` are the run and the targets of the command line.
    """
    if not isinstance(interrupt, Interrupted) or options.get("check_mode"):
        return "canceled, nothing was stopped"
    steps = [step for host in interrupt.result.hosts.values() for step in host.steps]
    parts = [f"{step.host}: {step.summary}" for step in steps if step.action == _ACTION and step.changed]
    stopping = sorted(host for host, step in interrupt.under_way.items() if step == "run")
    told = dict(_ASKED.findall(interrupt.result.output))
    asked = {host: told[host] for host in stopping if host in told}
    if asked:
        goes_on = ", ".join(f"{run} on {host}" for host, run in asked.items())
        were, ends = ("was", "it ends") if len(asked) == 1 else ("were", "they end")
        again = _command("stop", words, options)
        parts.append(f"{goes_on} {were} asked to stop and may go on until {ends}: {again} waits again and then kills")
    if unknown := [host for host in stopping if host not in told]:
        look = _command("status", [word for word in words if word != "all" and not looks_like_run(word)], options)
        parts.append(f"whether a run on {', '.join(unknown)} was asked to stop is not known: {look} tells")
    return "; ".join(["canceled", *(parts or ["nothing was stopped"])])


def of_a_release(words: Sequence[str], options: Mapping[str, Any], interrupt: BaseException) -> str:
    """A deploy, rollback or eject: where it was done by then, and where that is not known.

    ``words`` are the targets of the command line.
    """
    if not isinstance(interrupt, Interrupted):
        return "canceled, nothing was changed"
    steps = [step for host in interrupt.result.hosts.values() for step in host.steps]
    done = [step for step in steps if step.action == _RELEASE and step.changed]
    parts = [f"{step.host}: {step.summary}" for step in done]
    unknown = sorted(host for host, step in interrupt.under_way.items() if step == "release")
    if unknown and not options.get("check_mode"):
        look = _command("status", words, options)
        parts.append(f"on {', '.join(unknown)} what was live or what was to be is live, and all of it: {look} tells")
    runs = _of_runs(words, options, interrupt)  # with training_launch a deploy starts them too
    first = "canceled" if runs else "canceled, nothing of it goes on"
    if done and all(map(_went_live, done)) and not options.get("check_mode"):
        where = ", ".join(f"{step.host} ({_short(step)})" for step in done)
        first = f"canceled after the release went live on {where}"
        back = f"to go back: {_command('rollback', words, options)}"
        parts = [*parts[len(done) :], *([] if unknown or runs else [back])]
        return "; ".join([first, *parts, *runs])
    return "; ".join([first, *(parts + runs or ["nothing was changed"])])


def _went_live(step: StepResult) -> bool:
    """Whether it made a release live in the place of another one."""
    release, before = step.values.get("release_id"), step.values.get("previous_release_id")
    return bool(release and before and release != before)


def _short(step: StepResult) -> str:
    from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.store import short_id

    return short_id(str(step.values["release_id"]))


def _of_runs(words: Sequence[str], options: Mapping[str, Any], interrupt: BaseException) -> list[str]:
    """What goes on, how to come back to it, and of which hosts it is not known whether a run was started."""
    started, parts = _started(interrupt), []
    unknown = _unknown(interrupt, started) if isinstance(interrupt, Interrupted) else []
    living = _living(started)
    if living:
        goes_on = ", ".join(f"{run} on {host}" for host, run in living.items())
        runs = set(living.values())
        back = _command("logs -f", [*runs, *words] if len(runs) == 1 else words, options)
        parts += [f"{goes_on} {'goes' if len(living) == 1 else 'go'} on", f"to come back: {back}"]
    if unknown:
        look = _command("status", words, options)
        parts.append(f"whether a run was started on {', '.join(unknown)} is not known: {look} tells")
    return parts


def _started(interrupt: BaseException) -> dict[str, tuple[str, bool]]:
    """The runs that were started, by host, each with whether it was alive when it was heard of last."""
    if not isinstance(interrupt, Interrupted):
        return {}
    found: dict[str, tuple[str, bool]] = {}
    for step in (step for host in interrupt.result.hosts.values() for step in host.steps if step.action == _ACTION):
        run, state = step.values.get("run"), step.values.get("state")
        # A refusal names a run too: one that is in the way, or the number of one that never began.
        refused = state is None and (step.failed or step.unreachable or bool(step.values.get("failed")))
        if run and not refused:
            found[step.host] = (str(run), state is None or state in _ALIVE)
    return found


def _living(started: Mapping[str, tuple[str, bool]]) -> dict[str, str]:
    return {host: run for host, (run, alive) in started.items() if alive}


def _unknown(interrupt: Interrupted, started: Mapping[str, object]) -> list[str]:
    return sorted(host for host, step in interrupt.under_way.items() if step == "run" and host not in started)


def _command(command: str, words: Sequence[str], options: Mapping[str, Any]) -> str:
    where = [f"--inventory={path}" for path in options["inventory"]]
    where += [f"--limit={options['limit']}"] if options["limit"] else []
    where += [f"--name={options['name']}"] if options["name"] else []
    return shlex.join(["trainops", *command.split(), *words, *where])
