# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A step that talks of the variables which users set, and that refuses those which nobody reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import OptionError
from ansible_collections.trainops.proxmox.plugins.plugin_utils.step import StepAction
from ansible_collections.trainops.proxmox.plugins.plugin_utils.variables import OWN, named, sources, unknown

_TEXTS = ("summary", "msg", "table")
_ROLES = "trainops.proxmox."
_PLAYBOOKS = Path(__file__).resolve().parents[2] / "playbooks"


class NamedStep(StepAction):
    """A StepAction whose messages name variables beside options, and that looks for misspelt ones."""

    _variables: dict[str, Any]

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        self._variables = task_vars or {}
        result = super().run(tmp, task_vars)
        variables = sources(self._task.get_ds(), str(self._task.action))
        for key in _TEXTS:
            if isinstance(result.get(key), str):
                result[key] = named(result[key], variables)
        if result.get("warnings"):
            result["warnings"] = [named(warning, variables) for warning in result["warnings"]]
        return result

    def validate_argument_spec_from_docs(self) -> tuple[Any, dict[str, Any]]:
        """The task's options. Raises OptionError when a variable is set that none of our roles has."""
        if self._is_ours():
            own = self._templar.template(self._variables.get(OWN))
            if own is not None and not isinstance(own, str | list):
                raise OptionError(f"{OWN} is {own!r}, it must be a list of names")
            if wrong := unknown(self._variables, own):
                raise OptionError(wrong)
        return super().validate_argument_spec_from_docs()

    def _is_ours(self) -> bool:
        """Whether the task is one of this collection's roles or playbooks, to which the variables are addressed."""
        role = self._task._role
        if role is not None:
            return str(role.get_name()).startswith(_ROLES)
        place, _colon, _line = str(self._task.get_path() or "").rpartition(":")
        return Path(place).resolve().parent == _PLAYBOOKS
