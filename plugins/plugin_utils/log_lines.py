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

from ansible_collections.trainops.proxmox.plugins.plugin_utils.visible import one_line, visible

MARGIN = "| "
# What _look has for characters that are not ASCII: a letter of another script, one of a script whose characters
# resemble few of ours, a sign, and what is blank in one terminal and nothing at all in another.
_LETTER, _IDEOGRAPH, _SIGN, _FILLER = "\0\1\2\3"
_ANY = _LETTER + _IDEOGRAPH + _SIGN
_ALIKE = str.maketrans("01|i", "olll")
_FILLERS = frozenset("\u115f\u1160\u2800\U00013441\U00013442\U0001d159")  # as they are after NFKD
_IDEOGRAPHS = ("CJK ", "HIRAGANA ", "KATAKANA ", "HANGUL ", "BOPOMOFO ", "YI ")
_NOTHING = ("Mn", "Me", "Cf", "Cc", "Cn", "Co", "Cs")
_LOOKED_AT = 200


def _alike(text: str) -> str:
    """A pattern of what may look like a text: each letter any letter, each sign any sign of another script."""
    parts = []
    for char in text.translate(_ALIKE):
        others = _ANY if char.isalnum() else _SIGN
        parts.append(char if char == " " else f"[{re.escape(char)}{others}]")
    return "".join(parts)


# What Ansible and the command begin lines with.
_BEGINNINGS = (
    *(f"[{kind}]:" for kind in ("warning", "error", "deprecation warning")),
    *(f"{kind} [" for kind in ("task", "play", "running handler")),
    "play recap",
    *(f"{word}: " for word in ("trainops", "fatal", "ok", "changed", "skipping", "failed", "unreachable", "included")),
    "check mode: ",
)
_ANSIBLES = re.compile("|".join([*map(_alike, _BEGINNINGS), rf"\S+ {_alike('of')} \S+ {_alike('host')}"]))


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
        return [f"{self._before or self._margin(line)}{visible(one_line(line))}" for line in lines]

    def _margin(self, line: str) -> str:
        self._beneath = self._beneath and line[:1].isspace()
        return MARGIN if self._beneath or self._is_like_ours(line) else ""

    def _is_like_ours(self, line: str) -> bool:
        text = _look(line[:_LOOKED_AT])
        return any(
            _is_like_ansibles(look) or self._is_like_the_host(look)
            for look in {text.replace(_FILLER, filler).lstrip() for filler in ("", " ")}
        )

    def _is_like_the_host(self, text: str) -> bool:
        begin, behind = text[: len(self._host)], text[len(self._host) :][:1]
        if len(begin) < len(self._host) or any(
            a != b and a not in _ANY for a, b in zip(begin, self._host, strict=True)
        ):
            return False
        # Some letters are as blank as a blank; where all are of another script it is only that.
        return behind in ("", " ") or (behind in _ANY and bool(begin.strip(_ANY)))


def _is_like_ansibles(text: str) -> bool:
    """Whether a text begins as lines of Ansible and of the command do; one all of ideographs is only as long."""
    found = _ANSIBLES.match(text)
    if found and found[0].strip(_IDEOGRAPH + _SIGN + " :[]"):
        return True
    return bool(_ANSIBLES.match(re.sub(f"[{_ANY}]", "", text)))  # one letter more deceives as well


def _look(text: str) -> str:
    """What a text looks like: no case, nothing unseen, blanks as blanks, and characters that look alike as one."""
    return "".join(map(_look_of, unicodedata.normalize("NFKD", text).casefold())).translate(_ALIKE)


def _look_of(char: str) -> str:
    category = unicodedata.category(char)
    if char in _FILLERS:
        return _FILLER
    if char == "\t" or category.startswith("Z"):
        return " "
    if category in _NOTHING:
        return ""
    if char.isascii():
        return char
    if category.startswith(("L", "N")) and category != "Lm":
        return _IDEOGRAPH if unicodedata.name(char, "").startswith(_IDEOGRAPHS) else _LETTER
    return _SIGN
