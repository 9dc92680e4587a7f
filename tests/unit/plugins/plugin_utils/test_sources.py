# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An operation travels with every module that it can come to import, and with no others."""

from __future__ import annotations

import ast
import json
import zlib

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils.sources import packed_sources, worker_sources

OPERATIONS = sorted(name for name, text in worker_sources().items() if "\ndef run(channel" in text)


def unpacked(packed: bytes) -> dict[str, str]:
    size, _newline, data = packed.partition(b"\n")
    assert int(size) == len(data)
    modules: dict[str, str] = json.loads(zlib.decompress(data))
    return modules


def imported(source: str) -> set[str]:
    """The modules beside it that a module imports, at its top or in a function."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            found |= {node.module} if node.module else {alias.name for alias in node.names}
    return {f"trainops_worker.{name}" for name in found}


def test_there_are_operations() -> None:
    assert {"check", "gpus", "release", "launch", "stop", "why"} <= set(OPERATIONS)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_an_operation_imports_comes_with_it(operation: str) -> None:
    modules = unpacked(packed_sources(operation))
    needed = set().union(*map(imported, modules.values()))
    begun = {"trainops_worker", "trainops_worker.channel", f"trainops_worker.{operation}"}
    assert set(modules) == needed | begun


def test_an_operation_that_there_is_not_brings_only_the_conversation() -> None:
    assert set(unpacked(packed_sources("no-such"))) == {"trainops_worker", "trainops_worker.channel"}
