# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What every step's action has in common: options from the docs, errors translated once, one shape of result."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import StepError, TrainopsError

display = Display()


class StepAction(ActionBase):
    """An action whose module of the same name holds its docs and options, and no code."""

    _supports_check_mode = True
    _supports_async = False
    _requires_connection = True

    def step(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Do the step. Returns the result's values; ``summary`` is the one line a person reads.

        May raise StepError and TrainopsError, which fail the task, and AnsibleConnectionFailure, which makes the host
        unreachable.
        """
        raise NotImplementedError

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        result.update(changed=False, failed=False)
        try:
            _validation, options = self.validate_argument_spec_from_docs()
            result.update(self.step(options, task_vars or {}))
        except AnsibleActionFail as error:
            result.update(failed=True, msg=error.message, code="option")
        except StepError as error:
            result.update(error.details, failed=True, msg=error.message, code=error.code)
        except TrainopsError as error:
            result.update(failed=True, msg=str(error), code="option")
        if result.get("warnings"):
            # Ansible prints them without the host, among those of other hosts.
            host = (task_vars or {}).get("inventory_hostname", "")
            result["warnings"] = [f"{host}: {warning}" for warning in result["warnings"]]
        if result["failed"]:
            result.setdefault("summary", str(result["msg"]).splitlines()[0] if result["msg"] else "failed")
        return result

    def validate_argument_spec_from_docs(self) -> tuple[Any, dict[str, Any]]:
        """The task's options, checked against the docs of the module of the same name."""
        from ansible_collections.trainops.proxmox.plugins.plugin_utils.spec import argument_spec

        name = self._task.resolved_action or self._task.action
        validated: tuple[Any, dict[str, Any]] = self.validate_argument_spec(**argument_spec(name))
        return validated
