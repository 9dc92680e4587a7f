"""What ``trainops init`` does: look at a node and a container, and write the three files of a user's folder."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trainops.errors import FileExists, ProjectNotFound
from trainops.operations import existing
from trainops.results import Reason, Result
from trainops.runner import run_playbook
from trainops.targets import Target, containers, nodes, read_target
from trainops.values import literal, looks_like_template, printable

_HEAD = """\
# Which containers, on which nodes, and what goes where. Written by trainops init, yours to edit: add hosts, and see
# ansible-doc -t role -l trainops.proxmox for all variables.
"""
_COMMENT = 200  # characters
_CONFIG = """\
[defaults]
inventory = inventory.yml
stdout_callback = trainops.proxmox.summary
"""
_PLAYBOOK = """\
---
- name: Deploy
  ansible.builtin.import_playbook: trainops.proxmox.deploy_training
"""


@dataclass(frozen=True)
class Found:
    """What a survey found, as values; those of steps that did not run are None.

    ``node``, ``survey`` and ``release`` are the results of the modules node_info, training_survey and training_release
    (in check mode); in the latter, ``failed`` says whether a deploy would be refused. ``message`` says what went wrong,
    ``project`` is what ``training_project`` will be, ``scripts`` are the Python files on its first level.
    """

    target: Target
    project: str | list[str]
    reason: Reason
    message: str
    node: dict[str, Any] | None
    survey: dict[str, Any] | None
    release: dict[str, Any] | None
    scripts: tuple[str, ...] = ()

    @property
    def ready(self) -> bool:
        """Whether enough is known to write the files."""
        return self.reason is Reason.OK and self.survey is not None

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {**asdict(self), "ok": self.reason is Reason.OK}


def survey(
    target: str,
    projects: Sequence[str] = (),
    *,
    root: str | None = None,
    python: str | None = None,
    timeout: float | None = None,
) -> Found:
    """Look at a node and, when ``target`` names one, at a container; nothing is changed anywhere.

    ``projects`` are the folders and files that will be deployed, by default the current folder. Raises WrongTarget,
    ProjectNotFound, and what run_playbook raises.
    """
    wanted = read_target(target)
    if wanted.root and root and wanted.root != os.path.normpath(root):
        raise ProjectNotFound(f"{target!r} and --root {root} name two folders: give one of them")
    cwd = Path.cwd()
    paths = [existing(path, cwd) for path in projects or ["."]]
    values = {
        "training_project": paths if len(paths) > 1 else paths[0],
        "training_root": wanted.root or root,
        "training_python": python,
    }
    groups = nodes([wanted])
    if wanted.vmid is not None:
        given = {name: literal(value) for name, value in values.items() if value}
        groups |= containers([wanted], given, need_root=False)
    result = run_playbook("survey_training", inventory=groups, timeout=timeout)
    short = [_near(path, cwd) for path in paths]
    return Found(
        target=wanted,
        project=short if len(short) > 1 else short[0],
        reason=result.reason,
        message=_message(result),
        node=_values(result, "node"),
        survey=_values(result, "survey"),
        release=_first_deploy(result),
        scripts=_scripts(paths),
    )


def _scripts(paths: Sequence[str]) -> tuple[str, ...]:
    """The names of the Python files that a person may have meant to run; none where a folder cannot be read."""
    found: list[str] = []
    for path in map(Path, paths):
        with contextlib.suppress(OSError):
            names = [one.name for one in path.iterdir() if one.is_file()] if path.is_dir() else [path.name]
            found += [name for name in names if name.endswith(".py") and not name.startswith(("_", "."))]
    return tuple(sorted(set(found)))


def script(names: Sequence[str]) -> str:
    """The script among ``names`` that trains, as far as a name says so; otherwise ``train.py``."""
    training = [name for name in names if name.startswith("train")] or [name for name in names if "train" in name]
    if "train.py" in names or not names:
        return "train.py"
    return names[0] if len(names) == 1 else training[0] if len(training) == 1 else "train.py"


def _message(result: Result) -> str:
    """What went wrong, once: node and container are reached by one login, and fail by one sentence."""
    steps = [step for host in result.hosts.values() for step in host.steps if step.failed or step.unreachable]
    return "\n".join(dict.fromkeys(step.summary for step in steps)) or result.message


def _near(path: str, cwd: Path) -> str:
    """As a person would write it: relative where it is below the current folder."""
    relative = os.path.relpath(path, cwd)
    return path if relative.startswith("..") else relative


def _values(result: Result, step: str) -> dict[str, Any] | None:
    found = [one.step(step) for one in result.hosts.values()]
    good = [one.values for one in found if one and not one.failed and not one.unreachable]
    return good[0] if good else None


def _first_deploy(result: Result) -> dict[str, Any] | None:
    """What a deploy would do, with ``failed``: Ansible leaves that out of what it tells of an error that is ignored.

    A refusal of ours has a code; what Ansible refuses before the step has nothing of the step's own.
    """
    release = _values(result, "release")
    if release is None:
        return None
    summary = next(step.summary for one in result.hosts.values() if (step := one.step("release")))
    return {"summary": summary, **release, "failed": "code" in release or "release_id" not in release}


def files(found: Found) -> dict[str, str]:
    """The three files by name: inventory.yml, ansible.cfg and deploy_training.yml."""
    return {"inventory.yml": inventory(found), "ansible.cfg": _CONFIG, "deploy_training.yml": _PLAYBOOK}


def inventory(found: Found) -> str:
    """The text of inventory.yml, with what was found as comments."""
    seen = found.survey or {}
    values = [
        "    ansible_connection: trainops.proxmox.pct",
        *_project(found.project),
        f"    training_root: {_scalar(seen.get('root') or found.target.root or '/root')}",
        *_python(seen),
        f"   {_comment(f'training_script: {_scalar(script(found.scripts))} # what trainops launch runs')}",
        *_big(seen),
    ]
    return _HEAD + "\n".join(["---", "training:", "  hosts:", *_host(found), "  vars:", *values]) + "\n"


def _host(found: Found) -> list[str]:
    """The lines of the container among the hosts."""
    target, node = found.target, (found.node or {}).get("node")
    lines = [
        f"    ct{target.vmid}:",
        f"      ansible_host: {_scalar(target.address)}"
        + (_comment(f"the node ({node}), not the container") if node else ""),
        f"      ansible_user: {_scalar(target.user)}" if target.user else "",
        f"      ansible_port: {target.port}" if target.port else "",
        f"      proxmox_vmid: {target.vmid}",
    ]
    return [line for line in lines if line]


def _scalar(value: Any) -> str:
    """A value as YAML writes it on one line, whatever is in it."""
    import yaml

    mark = "!unsafe " if isinstance(value, str) and looks_like_template(value) else ""
    # Only between double quotes everything that is no letter of a line is written out.
    style = '"' if isinstance(value, str) and not value.isprintable() else None
    dumped: str = yaml.safe_dump(value, default_style=style, allow_unicode=True, width=1_000_000)
    return mark + dumped.removesuffix("\n").removesuffix("\n...")


def _comment(text: str) -> str:
    """A comment at the end of a line, which ends with it: whoever is root in a container chose some of the words."""
    return f" # {printable(text[:_COMMENT])}"


def _project(project: str | list[str]) -> list[str]:
    if isinstance(project, str):
        return [f"    training_project: {_scalar(project)}"]
    return ["    training_project:", *(f"      - {_scalar(path)}" for path in project)]


def _python(seen: dict[str, Any]) -> list[str]:
    path = seen.get("python")
    if not path:
        return ["    # No Python was found in the container: install one, and name it here.", "    # training_python:"]
    said: dict[str, Any] = next((one for one in seen.get("pythons") or [] if one["path"] == path), {})
    has = ", ".join([str(said.get("version", "")), *([f"torch {said['torch']}"] if said.get("torch") else [])])
    return [f"    training_python: {_scalar(path)}{_comment(has)}"]


def _big(seen: dict[str, Any]) -> list[str]:
    """What is too big to be shipped is left out, for the user to say where it should live."""
    if not seen.get("big"):
        return []
    from ansible_collections.trainops.proxmox.plugins.plugin_utils.lines import size

    told = [f"      - {_scalar(one['exclude'])}{_comment(size(one['bytes']))}" for one in seen["big"]]
    return ["    training_exclude: # too big to ship; what the container has of it: name it in training_shared", *told]


def write(found: Found, folder: Path, *, force: bool = False) -> list[str]:
    """Write the files into ``folder`` and return the names of those that were not there before.

    Raises FileExists when one is there with other content, before any is written; ``force`` overwrites it.
    """
    wanted = files(found)
    there = {name: _content(folder / name) for name in wanted}
    other = [name for name in wanted if there[name] is not None and there[name] != wanted[name]]
    if other and not force:
        raise FileExists(
            f"{' and '.join(other)} of this folder {'have' if len(other) > 1 else 'has'} other content, nothing was "
            "written: overwrite with --force, go to another folder, or add this below hosts of the group training:\n\n"
            + "\n".join(_host(found))
        )
    changed = [name for name in wanted if there[name] != wanted[name]]
    for name in changed:
        _replace(folder / name, wanted[name])
    return changed


def _content(path: Path) -> str | None:
    try:
        if path.is_symlink() and not path.exists():
            raise FileExists(f"{path} is a link that leads nowhere: remove it, then run again")
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise FileExists(f"{path} is no plain file: remove it, then run again")
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FileExists(f"{path} cannot be read: {error.strerror}") from error


def _replace(path: Path, text: str) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644), "w", encoding="utf-8") as stream:
            stream.write(text)
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise FileExists(f"{path} cannot be written: {error.strerror}") from error
