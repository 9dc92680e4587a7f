# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lines of a run's log beside lines of ours: whatever a run prints, nobody takes it for ours. Pure.

With several hosts each line begins with its host. With one the log is shown as it is, but for a line that looks as if
it were ours: that has a margin, ``| ``, with which no line of ours begins.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.trainops.proxmox.plugins.plugin_utils.visible import visible

MARGIN = "| "
_ANY = "\0"  # a letter of another script, which may look like any of ours
_ALIKE = str.maketrans("01|i", "olll")
# What Ansible and the command begin lines with, as they look by _look.
_ANSIBLES = re.compile(
    r"\[(?:deprecatlon )?(?:warnlng|error)\]:|(?:task|play|runnlng handler) \[|play recap|\S+ of \S+ hosts?\b"
    r"|(?:tralnops|fatal|ok|changed|sklpplng|falled|unreachable|lncluded|check mode): "
)
_LOOKED_AT = 200


class Lines:
    """The lines of one log on the way to a terminal on which ours appear too."""

    def __init__(self, task_vars: Mapping[str, Any]) -> None:
        host = str(task_vars.get("inventory_hostname", ""))
        hosts = task_vars.get("ansible_play_hosts_all") or [host]
        self._before = f"{host:<{max(map(len, hosts))}} | " if len(hosts) > 1 else ""
        self._host = _look(host)
        self._beneath = True  # an indented line beneath one of ours would look as if it belonged to that

    def ours(self) -> None:
        """A line of ours was shown."""
        self._beneath = True

    def shown(self, lines: Sequence[str]) -> list[str]:
        """Lines of the log as a terminal may get them."""
        return [f"{self._before or self._margin(line)}{visible(line)}" for line in lines]

    def _margin(self, line: str) -> str:
        self._beneath = self._beneath and line[:1].isspace()
        return MARGIN if self._beneath or self._is_like_ours(line) else ""

    def _is_like_ours(self, line: str) -> bool:
        text = _look(line[:_LOOKED_AT]).lstrip()
        if _ANSIBLES.match(text.replace(_ANY, "")):
            return True
        begin, behind = text[: len(self._host)], text[len(self._host) :][:1]
        if len(begin) < len(self._host) or any(a not in (b, _ANY) for a, b in zip(begin, self._host, strict=True)):
            return False
        # Some letters are as blank as a blank; where all are of another script it is only that.
        return behind in ("", " ") or (behind == _ANY and bool(begin.strip(_ANY)))


def _look(text: str) -> str:
    """What a text looks like: no case, nothing unseen, blanks as blanks, and characters that look alike as one."""
    found = []
    for char in unicodedata.normalize("NFKD", text).casefold():
        category = unicodedata.category(char)
        if category in ("Mn", "Me", "Cf", "Cc") and char != "\t":
            continue
        if char == "\t" or category.startswith("Z"):
            found.append(" ")
        else:
            found.append(char if char.isascii() else _ANY)
    return "".join(found).translate(_ALIKE)
