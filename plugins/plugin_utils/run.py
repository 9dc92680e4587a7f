# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a user wants to run, from the options of the step: checked before anything is asked. Pure."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Collection, Mapping
from typing import Any

from ansible.module_utils.common.validation import check_type_dict
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.words import ShellNeeded, split
from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import OptionError
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_select import understood, without_gpus

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
# What a run like an earlier one takes over from it, and what stands for nothing there.
TAKEN_OVER: dict[str, Any] = {
    "command": None,
    "script": None,
    "args": None,
    "env": {},
    "env_file": None,
    "pythonpath": [],
}
_RUN = re.compile(r"r[1-9][0-9]*")
_LEAST = {"idle_timeout": 0, "idle_interval": 0.1, "patience": 0, "timeout": 1, "lines": 0, "stall_seconds": 1}
# They name the run and its GPUs, so that what is running can be told from what is not.
_OURS = ("TRAINOPS_RUN", "TRAINOPS_RUN_ID", "TRAINOPS_RELEASE", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")


def check_options(options: Mapping[str, Any]) -> None:
    """Raise OptionError for what cannot be, whatever the container is like."""
    for name, least in _LEAST.items():
        value = options[name]
        if not least <= value < math.inf:
            raise OptionError(f"option {name}: {value:g} cannot be, it must be a number and at least {least:g}")
    for name in ("run", "like"):
        allowed = ("all",) if name == "run" and options["state"] == "stopped" else ()
        if options[name] and options[name] not in allowed and not _RUN.fullmatch(options[name]):
            more = ", or all" if allowed else ""
            raise OptionError(f"option {name}: {options[name]!r} is no run: give its id, such as r1{more}")
    if not os.path.isabs(options["root"]):
        raise OptionError(f"option root: {options['root']!r} is not an absolute path in the container")
    if options["state"] == "started":
        _check_command(options)
        if not without_gpus(options["select"]):
            understood(options["select"], options["count"])


def _check_command(options: Mapping[str, Any]) -> None:
    if not (options["command"] or options["script"] or options["like"]):
        raise OptionError(
            "nothing says what to run: add training_script: train.py to the vars in inventory.yml, or "
            "-e training_script=train.py. Instead of option script there may be option command, or option like"
        )
    if options["command"] and options["script"]:
        raise OptionError("option command and option script both say what to run: set one of them")
    if options["args"] and options["command"]:
        raise OptionError("option args belongs to option script: put the words into option command")
    if options["args"] and not (options["script"] or options["like"]):
        raise OptionError("option args is set, and option script is not: set it too")


def order(options: Mapping[str, Any]) -> dict[str, Any]:
    """The part of the worker's parameters that says what is started. Raises OptionError."""
    return {
        "release": options["release"] or None,
        "like": options["like"] or None,
        **_said(options),
        "python": options["python"],
        "pythonpath": list(options["pythonpath"]),
        "systemd": options["systemd"],
    }


def _said(options: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "command": words(options["command"], "command") or None,
        "script": options["script"] or None,
        "args": words(options["args"], "args"),
        "env": environment(options["env"]),
        "env_file": options["env_file"] or None,
    }


def set_apart(options: Mapping[str, Any], standing: Collection[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of a launch like an earlier run: the options that were said for it, and what else stands in the inventory.

    ``standing`` are the options whose value merely stands there. The second part is for the worker, which takes values
    from it that the earlier run had and that no record holds. Raises OptionError.
    """
    if not options["like"]:
        return dict(options), {}
    rest = {name: options[name] if name in standing else empty for name, empty in TAKEN_OVER.items()}
    said = {**options, **{name: empty for name, empty in TAKEN_OVER.items() if name in standing}}
    return said, {"standing": _said(rest)}


def words(value: Any, option: str) -> list[str]:
    """A list of words, or one text split as a shell would split it. Raises OptionError, which names the option."""
    if value is None or value == "":
        return []
    if isinstance(value, list):
        for number, word in enumerate(value, 1):
            if not _is_text(word):
                what = _kind(word)
                raise OptionError(f"option {option}: word {number} is {what}, no word: write it as a text, in quotes")
        return _without_nul([str(word) for word in value], option)
    if not _is_text(value):
        raise OptionError(f"option {option}: {_kind(value)} is neither a text nor a list of words")
    try:
        found = split(str(value))
    except ShellNeeded as error:
        raise OptionError(
            f"option {option}: no shell is between that would understand {str(error)!r}: put it into '...' where it is "
            "meant as it is; for a shell write a list, [bash, -c, '...']"
        ) from error
    except ValueError as error:
        raise OptionError(f"option {option}: its text cannot be split into words: {error}") from error
    if option == "command" and found and _ASSIGNMENT.match(found[0]):
        name = found[0].partition("=")[0]
        raise OptionError(f"option {option}: {name}=… is no program: set {name} in option env")
    return _without_nul(found, option)


def _kind(value: Any) -> str:
    """What a value is, for a sentence that may not show it: it may hold a secret."""
    kinds = {bool: "true or false", dict: "a mapping", list: "a list", type(None): "empty"}
    return next((said for kind, said in kinds.items() if isinstance(value, kind)), "a value")


def _is_text(value: Any) -> bool:
    """Whether there is one way to write it: YAML makes numbers of digits, and true of yes and on too."""
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _without_nul(found: list[str], option: str) -> list[str]:
    if any("\0" in word for word in found):
        raise OptionError(f"option {option}: a NUL byte is in no word that a program can be given")
    return found


def environment(env: Any) -> dict[str, str]:
    """Variables as texts. Raises OptionError, which names the variable and never shows its value."""
    try:
        env = check_type_dict(env if env is not None else {})
    except TypeError:
        what = "a list" if isinstance(env, list) else "a text" if isinstance(env, str) else "a value"
        fix = "write it as NAME: value, one a line"
        raise OptionError(f"option env: {what} is no mapping of names to values: {fix}") from None
    found = {}
    for number, (name, value) in enumerate(env.items(), 1):
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            fix = "letters, digits and _ make one"
            raise OptionError(f"option env: the name of variable {number} is no name of one: {fix}")
        if name in _OURS:
            fix = "choose GPUs by option select" if name.startswith("CUDA") else "leave it out"
            raise OptionError(f"option env: {name} is set for each run: {fix}")
        if not _is_text(value):
            raise OptionError(f"option env: the value of {name} is no text: write in quotes what the program wants")
        if "\0" in str(value):
            raise OptionError(f"option env: the value of {name} has a NUL byte, which no environment can hold")
        found[name] = str(value)
    return found
