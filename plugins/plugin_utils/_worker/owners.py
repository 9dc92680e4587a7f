# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Users and groups of the container by name or number, and which numbers it has at all."""

from __future__ import annotations

from .channel import WorkerError

_FIXES = {
    "owner": "create the user (ansible.builtin.user), correct the name, or give its number",
    "group": "create the group (ansible.builtin.group), correct the name, or give its number",
}


def identity(option: str, value: str | None) -> int | None:
    """The number of the ``owner`` or ``group`` (that is ``option``) called ``value``, None where none is asked for.

    Raises WorkerError("owner") for one that the container does not have, or cannot have.
    """
    if value is None:
        return None
    number = int(value) if value.isascii() and value.isdigit() else _by_name(option, value)
    spans = _spans("uid" if option == "owner" else "gid")
    if not any(first <= number < first + count for first, count in spans):
        has = ", ".join(f"{first} to {first + count - 1}" for first, count in spans)
        raise WorkerError(
            "owner", f"option {option}: {value} is no id of this container, which has {has}: give one of these"
        )
    return number


def _by_name(option: str, name: str) -> int:
    import grp
    import pwd

    try:
        return pwd.getpwnam(name).pw_uid if option == "owner" else grp.getgrnam(name).gr_gid
    except KeyError:
        what = "user" if option == "owner" else "group"
        text = f"option {option}: the container has no {what} {name!r}: {_FIXES[option]}"
        raise WorkerError("owner", text) from None


def _spans(kind: str) -> list[tuple[int, int]]:
    """First id and number of ids of each range that is mapped here: all of them but in an unprivileged container."""
    with open(f"/proc/self/{kind}_map", encoding="ascii") as lines:
        rows = [line.split() for line in lines]
    return [(int(first), int(count)) for first, _outside, count in rows]
