# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ansible-core that this collection needs.

It imports nothing of Ansible and nothing newer than Python 3.9: an old ansible-core on an old Python reads it too.
"""

from __future__ import annotations

import re

NEEDED = (2, 19)  # as requires_ansible of meta/runtime.yml says; a test compares them
NEEDED_PYTHON = (3, 11)  # of that ansible-core, on the controller


def too_old(found: str, python: tuple[int, int], executable: str) -> str:
    """A sentence for an ansible-core of version ``found`` that is too old, empty when it is not.

    ``python`` and ``executable`` are those that run it; they decide how it can be upgraded.
    """
    numbers = re.match(r"(\d+)\.(\d+)", found)
    if numbers is None or (int(numbers[1]), int(numbers[2])) >= NEEDED:
        return ""
    if python < NEEDED_PYTHON:
        remedy = "install it for Python %d.%d or newer, " % NEEDED_PYTHON
        remedy += f"since {executable} is %d.%d" % python
    else:
        remedy = f"upgrade it, for instance by {executable} -m pip install --upgrade 'ansible-core>=%d.%d'" % NEEDED
    return "trainops.proxmox needs ansible-core %d.%d or newer, " % NEEDED + f"and this is {found}: {remedy}"
