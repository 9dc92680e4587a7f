# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is mounted where in the container: names that no rename can replace."""

from __future__ import annotations


def mount_points() -> list[str]:
    """The real paths of all mount points."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
        fields = [line.split(" ")[4] for line in lines]
    return [_unescape(field) for field in fields]


def _unescape(field: str) -> str:
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        field = field.replace(code, char)
    return field
