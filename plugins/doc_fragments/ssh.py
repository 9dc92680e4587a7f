# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of ansible-core's own ssh connection, taken from the ansible-core that runs."""

from __future__ import annotations

import json
from typing import Any

import yaml
from ansible.plugins.connection import ssh

# Options that the connection plugin of this collection declares itself, with another default or meaning.
_OWN = {"pipelining", "use_tty", "ssh_args", "control_path", "host"}


def _without_versions(value: Any) -> Any:
    """Versions there are ansible-core's, and would be read as this collection's."""
    if isinstance(value, dict):
        return {
            key: _without_versions(inner) for key, inner in value.items() if key not in ("version_added", "deprecated")
        }
    if isinstance(value, list):
        return [_without_versions(inner) for inner in value]
    return value


def _options() -> dict[str, Any]:
    # Every task's process reads this: without libyaml's loader it takes 60 ms, and a safe_dump below 25 ms.
    options = yaml.load(ssh.DOCUMENTATION, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))["options"]
    return {name: _without_versions(option) for name, option in options.items() if name not in _OWN}


class ModuleDocFragment:
    """Options of ``ansible.builtin.ssh`` that mean the same here."""

    DOCUMENTATION: str = json.dumps({"options": _options()})
