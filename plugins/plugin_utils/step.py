# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What every step's action has in common: options from the docs, errors translated once, one shape of result."""

from __future__ import annotations

import traceback
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import StepError, TrainopsError
from ansible_collections.trainops.proxmox.plugins.plugin_utils.visible import cut_short, visible_values

display = Display()

# What Ansible itself acts on in a result. A step gives warnings of its own, the rest it never sets.
_ANSIBLES = {"ansible_facts", "deprecations", "exception", "invocation", "failed_when_result", "_ansible_no_log"}


# What comes of an answer that is not the worker's, wherever in a step it is first looked at.
_NOT_AS_AGREED = (KeyError, TypeError, IndexError, AttributeError, ValueError, OverflowError, RecursionError)


def _ours(values: dict[str, Any]) -> dict[str, Any]:
    """The values without what whoever is root in the container could say to Ansible with them."""
    return {name: value for name, value in values.items() if name not in _ANSIBLES and not name.startswith("_")}


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
            result.update(_ours(self.step(options, task_vars or {})))
        except AnsibleActionFail as error:
            result.update(failed=True, msg=error.message, code="option")
        except StepError as error:
            details = {name: value for name, value in _ours(error.details).items() if name != "warnings"}
            result.update(details, failed=True, msg=error.message, code=error.code)
        except TrainopsError as error:
            result.update(failed=True, msg=str(error), code="option")
        except _NOT_AS_AGREED as error:
            display.vvv(traceback.format_exc())
            what = cut_short(repr(error))
            text = f"{what}: a fault of trainops, or it was not the worker that was sent which answered (see -vvv)"
            result.update(failed=True, msg=text, code="protocol")
        if result.get("warnings"):
            # Ansible prints them without the host, among those of other hosts.
            host = (task_vars or {}).get("inventory_hostname", "")
            result["warnings"] = [f"{host}: {warning}" for warning in result["warnings"]]
        if result["failed"]:
            result.setdefault("summary", str(result["msg"]).splitlines()[0] if result["msg"] else "failed")
        return visible_values(result, "summary", "msg", "table", "warnings")

    def validate_argument_spec_from_docs(self) -> tuple[Any, dict[str, Any]]:
        """The task's options, checked against the docs of the module of the same name."""
        from ansible_collections.trainops.proxmox.plugins.plugin_utils.spec import argument_spec

        name = self._task.resolved_action or self._task.action
        validated: tuple[Any, dict[str, Any]] = self.validate_argument_spec(**argument_spec(name))
        return validated
