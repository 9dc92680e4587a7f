# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Operations of tests beside the worker's own."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils import sources


def add_operations(monkeypatch: pytest.MonkeyPatch, operations: Mapping[str, str]) -> None:
    """Let exchanges carry these modules (name to source) too where they need them, until the test ends."""
    known = {**sources.worker_sources(), **operations}
    monkeypatch.setattr(sources, "worker_sources", lambda: known)
