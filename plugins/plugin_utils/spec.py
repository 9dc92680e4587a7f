# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An action's argument spec, read from the docs of the doc-only module beside it, so that options are declared once."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import yaml
from ansible.errors import AnsibleError

_ARGUMENT_KEYS = ("type", "elements", "required", "default", "choices", "aliases", "no_log")


def _read(text: str) -> Any:
    """Parse docs; every task's process does it, and libyaml's loader is ten times faster."""
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def _option(option: dict[str, Any]) -> dict[str, Any]:
    spec = {key: option[key] for key in _ARGUMENT_KEYS if key in option}
    if "suboptions" in option:
        spec["options"] = {name: _option(inner) for name, inner in option["suboptions"].items()}
    return spec


@functools.cache
def argument_spec(module: str) -> dict[str, Any]:
    """The keyword arguments of ``validate_argument_spec`` for the module ``module`` (a FQCN or a bare name).

    Constraints between options stand in the module file as ``CONSTRAINTS`` (``mutually_exclusive``, ``required_if`` …).
    Raises AnsibleError when the module has no readable docs.
    """
    name = module.rpartition(".")[2]
    source = importlib.import_module(f"ansible_collections.trainops.proxmox.plugins.modules.{name}")
    documentation = _read(source.DOCUMENTATION)
    if not isinstance(documentation, dict):
        raise AnsibleError(f"module {module} has no documentation")
    options = dict(documentation.get("options") or {})
    for fragment in documentation.get("extends_documentation_fragment") or []:
        options = {**_fragment(fragment), **options}
    constraints: dict[str, Any] = getattr(source, "CONSTRAINTS", {})
    return {"argument_spec": {name: _option(option) for name, option in options.items()}, **constraints}


def _fragment(fragment: str) -> dict[str, Any]:
    """The options of one of this collection's own doc fragments (``trainops.proxmox.NAME[.PART]``)."""
    parts = fragment.split(".")
    if parts[:2] != ["trainops", "proxmox"]:
        return {}
    source = importlib.import_module(f"ansible_collections.trainops.proxmox.plugins.doc_fragments.{parts[2]}")
    part = parts[3].upper() if len(parts) > 3 else "DOCUMENTATION"
    options: dict[str, Any] = _read(getattr(source.ModuleDocFragment, part)).get("options") or {}
    return options
