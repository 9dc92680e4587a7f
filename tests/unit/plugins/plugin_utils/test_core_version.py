# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible_collections.trainops.proxmox.plugins.plugin_utils.core_version import NEEDED, too_old

ROOT = Path(__file__).resolve().parents[4]


@pytest.mark.parametrize("found", ["2.19.0", "2.19.0b1", "2.20.0.dev0", "2.21.5", "3.0.0", "10.1", "unknown"])
def test_new_enough_is_no_sentence(found: str) -> None:
    assert too_old(found, (3, 11), "/usr/bin/python3") == ""


@pytest.mark.parametrize("found", ["2.18.19", "2.9.27", "1.10.0", "2.18.0.dev0"])
def test_too_old_names_both_versions_and_the_command(found: str) -> None:
    assert too_old(found, (3, 11), "/opt/venv/bin/python") == (
        f"trainops.proxmox needs ansible-core 2.19 or newer, and this is {found}: upgrade it, for instance by "
        "/opt/venv/bin/python -m pip install --upgrade 'ansible-core>=2.19'"
    )


def test_an_old_python_cannot_upgrade_it() -> None:
    assert too_old("2.15.13", (3, 9), "/usr/bin/python3.9") == (
        "trainops.proxmox needs ansible-core 2.19 or newer, and this is 2.15.13: install it for Python 3.11 or newer, "
        "since /usr/bin/python3.9 is 3.9"
    )


def test_the_collection_and_the_package_ask_for_the_same_version() -> None:
    assert yaml.safe_load((ROOT / "meta/runtime.yml").read_text())["requires_ansible"] == ">=%d.%d.0" % NEEDED
    assert '"ansible-core>=%d.%d"' % NEEDED in (ROOT / "pyproject.toml").read_text()


def test_every_plugin_that_runs_on_the_controller_passes_the_check() -> None:
    plugins = [path for kind in ("action", "callback", "connection") for path in (ROOT / "plugins" / kind).glob("*.py")]
    assert plugins
    checked = "from ansible_collections.trainops.proxmox.plugins.plugin_utils"
    assert [path.name for path in plugins if checked not in path.read_text()] == []
