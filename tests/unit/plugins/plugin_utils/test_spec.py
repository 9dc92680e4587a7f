# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Argument specs from the docs of the doc-only modules."""

from __future__ import annotations

import sys
import types

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils.spec import argument_spec

MODULES = "ansible_collections.trainops.proxmox.plugins.modules"
DOCUMENTATION = """
options:
  name: {description: A name., type: str, required: true}
  parts:
    description: Parts.
    type: list
    elements: dict
    default: []
    suboptions:
      kind: {description: Its kind., type: str, choices: [a, b]}
"""


@pytest.fixture
def documented(monkeypatch: pytest.MonkeyPatch) -> str:
    module = types.ModuleType(f"{MODULES}.documented")
    module.DOCUMENTATION = DOCUMENTATION  # type: ignore[attr-defined]
    module.CONSTRAINTS = {"mutually_exclusive": [["name", "parts"]]}  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return "trainops.proxmox.documented"


def test_options_are_what_the_docs_say(documented: str) -> None:
    assert argument_spec(documented) == {
        "argument_spec": {
            "name": {"type": "str", "required": True},
            "parts": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {"kind": {"type": "str", "choices": ["a", "b"]}},
            },
        },
        "mutually_exclusive": [["name", "parts"]],
    }
