"""What the command's words do, as functions: each runs one ordinary playbook and returns its result."""

from __future__ import annotations

import math
import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trainops.errors import InventoryNotFound, ProjectNotFound, WrongOption, WrongTarget
from trainops.results import Result
from trainops.runner import run_playbook
from trainops.targets import FORM, Target, containers, looks_like_run, looks_like_target, nodes, read_target
from trainops.values import literal

_CONFIG = "ANSIBLE_CONFIG"
_SYSTEM = ("/etc/ansible/ansible.cfg", "/etc/ansible/hosts")

Texts = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def deploy(
    project: Texts | None = None,
    target: Texts | None = None,
    *,
    python: str | None = None,
    name: str | None = None,
    max_size: str | None = None,
    max_files: int | None = None,
    **options: Any,
) -> Result:
    """Check a project, make it live in containers and look at their GPUs.

    Without arguments: what the inventory of the current folder says. ``project`` is a folder or several folders and
    files, instead of the inventory's ``training_project``; ``target`` one or several ``root@10.1.2.6/200:/root``,
    instead of its hosts, and then ``project`` is the current folder unless it is given. ``python`` is the interpreter
    in the container, ``name`` the project's name there. ``max_size`` (``2GB``) and ``max_files`` are what the project
    may have, 0 for no limit. ``options`` are those of run_playbook.

    Raises ProjectNotFound, WrongTarget, and what run_playbook raises.
    """
    given = {"training_python": python, "training_name": name, **_limits(max_size, max_files)}
    return run_playbook("deploy_training", **_ordered(project, target, given, options, need_root=True))


def check(
    project: Texts | None = None,
    target: Texts | None = None,
    *,
    python: str | None = None,
    in_container: bool = False,
    max_size: str | None = None,
    max_files: int | None = None,
    **options: Any,
) -> Result:
    """Check that the sources compile and their imports resolve: on this machine, or by a container's own Python.

    Without ``target`` and ``in_container`` (those of the inventory) no container is reached: ``python`` is then an
    interpreter of this machine. Modules that it does not have are warnings, unless it was named here. Without an
    ansible.cfg in the current folder no inventory is needed either. Arguments and errors as those of :func:`deploy`.
    """
    given: dict[str, Any]
    if target is None and not in_container:
        given = {"training_check_python": python and _command(python, _cwd(options))}
        if options.get("inventory") is None and not (_cwd(options) / "ansible.cfg").exists():
            project = "." if project is None else project
            options["inventory"] = {"training": {"hosts": {"localhost": {}}}}
    else:
        given = {"training_python": python, "training_check_here": False}
    given.update(_limits(max_size, max_files))
    return run_playbook("check_training", **_ordered(project, target, given, options, need_root=False))


def diff(
    project: Texts | None = None,
    target: Texts | None = None,
    *,
    python: str | None = None,
    name: str | None = None,
    max_size: str | None = None,
    max_files: int | None = None,
    **options: Any,
) -> Result:
    """Say what differs from what is live: what was changed by hand in containers, and what the project has since.

    Nothing is changed. When something differs the result's ``reason`` is ``Reason.DIFFERS``, and the step ``release``
    of each host has ``values["by_hand"]`` and ``values["in_project"]``. Arguments, options and errors as those of
    :func:`deploy`.
    """
    given = {"training_python": python, "training_name": name, **_limits(max_size, max_files)}
    return run_playbook("diff_training", **_ordered(project, target, given, options, need_root=True))


def rollback(
    target: Texts | None = None,
    *,
    to: str | int | None = None,
    python: str | None = None,
    name: str | None = None,
    **options: Any,
) -> Result:
    """Go back to the release that was live before, or ``to`` an activation, a release id, or ``adopted``.

    Arguments, options and errors as those of :func:`deploy`.
    """
    given = {"training_rollback_to": None if to is None else str(to), "training_python": python, "training_name": name}
    try:
        order = _ordered((), target, given, options, need_root=True)
    except WrongTarget as error:
        bare = [text for text in _texts(target) if not (looks_like_target(text) or looks_like_run(text))]
        hint = f"; to go back to a release: trainops rollback --to {shlex.quote(bare[0])}" if bare else ""
        raise WrongTarget(f"{error}{hint}") from None
    return run_playbook("rollback_training", **order)


def eject(target: Texts | None = None, *, python: str | None = None, name: str | None = None, **options: Any) -> Result:
    """Turn a project's links in containers back into plain files and leave nothing of trainops there.

    Arguments, options and errors as those of :func:`deploy`.
    """
    given = {"training_python": python, "training_name": name}
    return run_playbook("eject_training", **_ordered((), target, given, options, need_root=True))


def launch(
    target: Texts | None = None,
    *,
    like: str | None = None,
    gpus: str | int | Sequence[str | int] | None = None,
    command: str | Sequence[str] | None = None,
    script: str | None = None,
    args: str | Sequence[str] | None = None,
    follow: bool = True,
    python: str | None = None,
    name: str | None = None,
    **options: Any,
) -> Result:
    """Start a run of the live release on idle GPUs; it goes on whatever becomes of this call.

    ``command``, or ``script`` with ``args``, says what to run, instead of the inventory; ``like`` an earlier run
    (``r1``) whose command and environment are used again, whatever the inventory says by now. ``gpus`` are a number of
    them, indexes, UUIDs or a JMESPath expression; 0 for none. ``follow`` returns when the run has shown a sign of life
    (``training_until``, by default the first values in its log) or is over; otherwise it returns when the run has
    started.

    The step ``run`` of each host's result has the run's id in ``values["run"]``. Arguments, options and errors as those
    of :func:`rollback`.
    """
    said: dict[str, Any] = {
        "training_like": like,
        "training_gpus": gpus if gpus is None or isinstance(gpus, str | int) else list(gpus),
        "training_command": command if command is None or isinstance(command, str) else list(command),
        "training_script": script,
        "training_args": args if args is None or isinstance(args, str) else list(args),
    }
    if command is not None and (script is not None or args is not None):
        more = "script" if script is not None else "arguments"
        raise WrongOption(f"a command and {more} both say what to run: give one of them")
    # What the inventory says else would be a second command, or arguments of another script.
    if command is not None:
        said.update(training_script="", training_args=[])
    elif script is not None:
        said.update(training_command=[], training_args=said["training_args"] or [])
    given = {"training_python": python, "training_name": name, "training_watch": follow}
    # They are said for this launch, also where the inventory is made of the command's own words.
    values = {name: literal(value) for name, value in said.items() if value is not None}
    options["extravars"] = {**values, **(options.get("extravars") or {})}
    return run_playbook("launch_training", **_ordered((), target, given, options, need_root=True))


def logs(
    run: str | None = None,
    target: Texts | None = None,
    *,
    follow: bool = False,
    lines: int = 100,
    python: str | None = None,
    name: str | None = None,
    **options: Any,
) -> Result:
    """Read the log of a run (``r1``), by default of the latest: its last ``lines`` lines, which ``on_output`` gets.

    ``follow`` goes on with each line as it comes, over connections that are lost and made again, until the run ends; a
    run that does not end well is a failure then. Arguments, options and errors as those of :func:`rollback`.
    """
    if lines < 0:
        raise WrongOption(f"lines {lines}: it is 0 or more")
    given = {
        "training_run": _run_id(run),
        "training_follow": follow,
        "training_lines": lines,
        "training_python": python,
        "training_name": name,
    }
    return run_playbook("training_logs", **_ordered((), target, given, options, need_root=True))


def status(
    target: Texts | None = None,
    *,
    history: int | None = None,
    python: str | None = None,
    name: str | None = None,
    **options: Any,
) -> Result:
    """The runs of all hosts: state, age, values, GPUs and release, in ``values["runs"]`` of each host's step ``run``.

    ``values["projects"]`` has what was live when; ``history`` of the last activations are printed, by default 5 of a
    single host and none of many, and of the runs that are over as many, at least 5 of each project.
    Arguments, options and errors as those of :func:`rollback`.
    """
    given = {"training_history": history, "training_python": python, "training_name": name}
    return run_playbook("training_status", **_ordered((), target, given, options, need_root=True))


def stop(
    run: str | None = None,
    target: Texts | None = None,
    *,
    signal: str | None = None,
    patience: float | None = None,
    python: str | None = None,
    name: str | None = None,
    **options: Any,
) -> Result:
    """Stop a run (``r1``, or ``all``), by default the only one that is alive.

    ``signal`` (``TERM`` or ``INT``) asks it, ``patience`` is the time in seconds that it has to save and end before it
    is killed. Arguments, options and errors as those of :func:`rollback`.
    """
    if patience is not None and not 0 <= patience < math.inf:
        raise WrongOption(f"patience {patience}: it is a number of seconds, 0 or more")
    given = {
        "training_run": run if run == "all" else _run_id(run),
        "training_stop_signal": signal,
        "training_stop_timeout": patience,
        "training_python": python,
        "training_name": name,
    }
    return run_playbook("stop_training", **_ordered((), target, given, options, need_root=True))


def why(
    run: str | None = None,
    target: Texts | None = None,
    *,
    python: str | None = None,
    name: str | None = None,
    **options: Any,
) -> Result:
    """Why a run (``r1``) ended, by default the latest: the most likely cause first, then the evidence.

    Arguments, options and errors as those of :func:`rollback`.
    """
    given = {"training_run": _run_id(run), "training_python": python, "training_name": name}
    return run_playbook("why_training", **_ordered((), target, given, options, need_root=True))


def _limits(max_size: str | None, max_files: int | None) -> dict[str, Any]:
    return {"training_max_size": max_size, "training_max_files": max_files}


def _run_id(run: str | None) -> str | None:
    if run is not None and not looks_like_run(run):
        raise WrongOption(f"{run!r} is no run: give its id, such as r1")
    return run


def gpus(target: Texts | None = None, **options: Any) -> Result:
    """Look at GPUs and at who holds them: of nodes (``root@10.1.2.6``), of containers, or of the inventory's hosts.

    On a node nothing is needed but nvidia-smi. Raises WrongTarget, and what run_playbook raises.
    """
    targets = [read_target(text) for text in _texts(target)]
    if not targets:
        _somewhere(options, "name a node (trainops gpus root@NODE) or a container")
        return run_playbook("gpu_status", **options)
    _alone(options)
    bare = [one for one in targets if one.vmid is None]
    inside = [one for one in targets if one.vmid is not None]
    groups = {**nodes(bare), **(containers(inside, {}, need_root=False) if inside else {})}
    hosts = [group for group in ("nodes", "training") if groups[group]["hosts"]] if inside else ["nodes"]
    extravars = {"training_hosts": hosts, **(options.get("extravars") or {})}
    return run_playbook("gpu_status", **{**options, "inventory": groups, "extravars": extravars})


def _ordered(
    project: Texts | None, target: Texts | None, given: Mapping[str, Any], options: dict[str, Any], *, need_root: bool
) -> dict[str, Any]:
    """The options of run_playbook that say what was said: as an inventory of its own, or beside the folder's.

    ``project`` may be empty, where none is needed; None means that none was named.
    """
    projects = [existing(path, _cwd(options)) for path in _texts(project)]
    targets: list[Target] = [read_target(text) for text in _texts(target)]
    values = {name: literal(value) for name, value in given.items() if value is not None}
    if projects:
        values["training_project"] = literal(projects if len(projects) > 1 else projects[0])
    if not targets:
        _somewhere(options)
        return {**options, "extravars": {**values, **(options.get("extravars") or {})}}
    _alone(options)
    if project is None:
        values["training_project"] = literal(existing(".", _cwd(options)))
    return {**options, "inventory": containers(targets, values, need_root=need_root)}


def _somewhere(
    options: Mapping[str, Any], fix: str = "begin with trainops init root@NODE, or name the container"
) -> None:
    """Raises InventoryNotFound where Ansible would find no inventory, and warn thrice before our sentence comes."""
    if options.get("inventory") is not None or any(os.environ.get(name) for name in ("ANSIBLE_INVENTORY", _CONFIG)):
        return
    cwd = _cwd(options)
    places = [cwd / "ansible.cfg", Path("~/.ansible.cfg").expanduser(), *map(Path, _SYSTEM)]
    if not any(place.exists() for place in places):
        raise InventoryNotFound(f"there is no inventory for {cwd}: {fix} on the line ({FORM}), or an inventory with -i")


def _alone(options: Mapping[str, Any]) -> None:
    if options.get("inventory") is not None:
        raise WrongOption("a target and an inventory both say where: give one of them")


def _texts(value: Texts | None) -> list[str]:
    if value is None:
        return []
    return [os.fspath(value)] if isinstance(value, str | os.PathLike) else [os.fspath(one) for one in value]


def _cwd(options: Mapping[str, Any]) -> Path:
    return Path(options.get("cwd") or ".").absolute()


def _command(python: str, cwd: Path) -> str:
    """An interpreter of this machine, as a path: what a shell would start by that name."""
    found = shutil.which(python) if os.sep not in python else os.path.join(cwd, Path(python).expanduser())
    if not found or not os.access(found, os.X_OK):
        raise WrongOption(f"there is no interpreter {found or python} on this machine: name one with --python")
    return os.path.normpath(found)


def existing(path: str, cwd: Path) -> str:
    """A project's folder or file as an absolute path. Raises ProjectNotFound."""
    if not path.strip():
        raise ProjectNotFound("an empty word is no project: is a variable of your script unset?")
    full = os.path.normpath(cwd / Path(path).expanduser())
    if not os.path.exists(full):
        raise ProjectNotFound(f"there is no {full}: name the project's folder or files (a container is written {FORM})")
    return full
