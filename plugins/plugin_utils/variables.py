# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The variables that users set: which there are, and which of them an option's value comes from."""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

PREFIX = "training_"
OWN = "training_own_variables"

# Of the playbooks, and of the steps' own results.
_OTHERS = {
    "training_hosts",
    "training_check",
    "training_check_here",
    "training_check_python",
    "training_release",
    "training_gpus_found",
    "training_started",
    "training_watched",
    "training_stopped",
    "training_listed",
    "training_explained",
    "training_lines",
    "training_history",
    "training_follow",
    "training_stall_seconds",
    "training_launch",
    "training_survey_big_mib",
}
_ROLES = Path(__file__).resolve().parents[2] / "roles"


@functools.cache
def known() -> frozenset[str]:
    """The names of all variables: those of the roles' argument specs, and the few that belong to no role."""
    found = set(_OTHERS)
    for path in _ROLES.glob("*/meta/argument_specs.yml"):
        # Each host's process does it: reading the names out of the text costs a hundredth of parsing it.
        found.update(re.findall(rf"^ +({PREFIX}\w+):", path.read_text(encoding="utf-8"), re.MULTILINE))
    return frozenset(found)


def unknown(names: Iterable[str], own: Any = None) -> str:
    """A sentence about the names that begin as ours do and are not; empty when there are none.

    ``own`` is the value of ``training_own_variables``: a list, or its names in one text.
    """
    allowed = known() | set(re.split(r"[\s,]+", own) if isinstance(own, str) else map(str, own or []))
    strange = sorted(name for name in names if name.startswith(PREFIX) and name not in allowed)
    if not strange:
        return ""
    told = []
    for name in strange:
        words = sorted(one.removeprefix(PREFIX) for one in known())
        word = name.removeprefix(PREFIX)
        begun = [one for one in words if len(word) > 2 and one.startswith(f"{word}_")]
        near = difflib.get_close_matches(word, words, 1) or sorted(begun, key=len)
        told.append(f"{name} is no variable of trainops" + (f": did you mean {PREFIX}{near[0]}?" if near else ""))
    return f"{'; '.join(told)} (variables of your own: name them in the list {OWN})"


def sources(task: Any, action: str) -> dict[str, str]:
    """Which variable each option of a task is set from: {option: variable}, read from the task as it was written."""
    if not isinstance(task, Mapping):
        return {}
    module = action.rpartition(".")[2]
    written = next((value for key, value in task.items() if str(key).rpartition(".")[2] == module), None)
    if not isinstance(written, Mapping):
        return {}
    found = {str(option): re.match(r"\s*\{\{[\s(]*([A-Za-z_]\w*)", str(value)) for option, value in written.items()}
    return {option: match[1] for option, match in found.items() if match}


def standing(
    variables: Mapping[str, str], said: Iterable[str], values: Mapping[str, Any], host: Mapping[str, Any]
) -> set[str]:
    """The options whose value merely stands in the inventory, and was not said for this run of the playbook.

    ``variables`` as of :func:`sources`; ``said`` are the names that ``-e`` gave; ``values`` the variables as the task
    has them and ``host`` as the inventory does, which differ where the play, a role's user or the task sets one.
    """
    mine = {option: name for option, name in variables.items() if name.startswith(PREFIX) and name not in set(said)}
    return {option for option, name in mine.items() if name not in host or host[name] == values.get(name)}


def named(text: str, variables: Mapping[str, str]) -> str:
    """``text`` with the variable before each option that is set from one: ``training_gpu_count (option count)``.

    Messages say ``option count`` (our own) or ``argument 'count'`` and ``value of count`` (Ansible's).
    """

    def both(match: re.Match[str]) -> str:
        variable = variables.get(match["name"])
        if variable is None:
            return match[0]
        return ("value of " if match[0].startswith("value") else "") + f"{variable} (option {match['name']})"

    return re.sub(r"\b(?:option|argument|value of) (?P<quote>'?)(?P<name>\w+)(?P=quote)(?!\w)", both, text)
