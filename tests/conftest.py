# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ansible's finder of collections must be in place before anything of a collection is imported.

Python finds the collection without it too, but then Ansible never loads its metadata and no plugin of it.
"""

from __future__ import annotations

import os

from ansible.plugins.loader import init_plugin_loader
from ansible.utils.collection_loader import AnsibleCollectionConfig

from tests.artefacts import python_artefacts, tarball, wheel
from tests.hanging import pytest_runtest_protocol

# Fixtures, built once, whichever tests need them, and a hook.
__all__ = ["pytest_runtest_protocol", "python_artefacts", "tarball", "wheel"]

# Of tests that run side by side each process has a lab of its own.
if worker := os.environ.get("PYTEST_XDIST_WORKER"):
    os.environ["TRAINOPS_LAB"] = f"{os.environ.get('TRAINOPS_LAB') or 'test'}-{worker}"

if AnsibleCollectionConfig.collection_finder is None:
    init_plugin_loader()
