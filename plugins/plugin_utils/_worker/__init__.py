# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The worker: everything that happens inside the container.

The package never lands on a disk there. :mod:`boot` receives its sources with the request, imports them from memory and
runs one operation. Standard library only, Python 3.9 and newer, nothing of Ansible.
"""

from __future__ import annotations
