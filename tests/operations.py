# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Operations of tests beside the worker's own."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils import exchange


def add_operations(monkeypatch: pytest.MonkeyPatch, sources: Mapping[str, str]) -> None:
    """Let every exchange carry these modules (name to source) too, until the test ends."""
    boot, _packed = exchange._worker()
    more = {f"trainops_worker.{name}": text for name, text in sources.items()}
    packed = exchange.pack({**exchange.worker_sources(), **more})
    monkeypatch.setattr(exchange, "_worker", lambda: (boot, packed))
