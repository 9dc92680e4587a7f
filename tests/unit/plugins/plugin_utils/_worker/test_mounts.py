# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Mount points as the kernel writes them."""

from __future__ import annotations

from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker import mounts


def test_mount_points_are_read_as_the_kernel_writes_them() -> None:
    assert "/proc" in mounts.mount_points()
    assert mounts._unescape("/a\\040b\\134c") == "/a b\\c"
