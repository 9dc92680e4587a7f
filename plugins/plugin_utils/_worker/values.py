# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Values that a run prints, found by patterns with named groups: ``step 12 loss 3.4 tokens/s 1200``. Pure."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Union

    Value = Union[int, float, str]

_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
_FIGURE = r"(?:%s|nan|[-+]?inf)" % _NUMBER
_SPEED = r"(?:tokens?/s(?:ec)?|tok/s|tokens_per_s(?:ec(?:ond)?)?)"
# A name and its number with nothing but blanks, "=" or ":" between, and the speed also as "1200 tokens/s". What was
# saved "at step 12", or resumed "from step 12", is no step that was made.
DEFAULT = (
    r"(?i)(?<!at )(?<!from )\bstep\b[\s=:]{1,4}(?P<step>\d+)",
    r"(?i)\bloss\b[\s=:]{1,4}(?P<loss>%s)" % _FIGURE,
    r"(?i)(?P<tokens_per_s>%s)\s?%s(?![\s=:]{1,4}\d)" % (_NUMBER, _SPEED),
    r"(?i)\b%s[\s=:]{1,4}(?P<tokens_per_s>%s)" % (_SPEED, _NUMBER),
)
# What a line must have for each of them, in small letters: most lines of most logs have none, and are passed over.
_WORDS = ("step", "loss", "tok", "tok")
_LONGEST = 4096  # of a line that is searched: a pattern may take its time with each character


class Pattern:
    """A compiled pattern, the names of its groups, and a word that every line it matches has ("" for any)."""

    def __init__(self, pattern: re.Pattern[str], word: str = "") -> None:
        self.finditer = pattern.finditer
        self.names = tuple(pattern.groupindex)
        self.word = word


def compiled(patterns: Iterable[str] | None) -> list[Pattern]:
    """The patterns, those of DEFAULT for None. Raises ValueError, which names the one that cannot be used."""
    if patterns is None:
        return [Pattern(re.compile(text), word) for text, word in zip(DEFAULT, _WORDS)]
    found = []
    for text in patterns:
        try:
            pattern = re.compile(text)
        except re.error as error:
            raise ValueError("%r is no regular expression: %s" % (text, error)) from None
        if not pattern.groupindex:
            raise ValueError("%r has no named group, such as (?P<loss>[0-9.]+), so it has no value" % text)
        found.append(Pattern(pattern))
    return found


def find(lines: Sequence[str], patterns: Sequence[Pattern]) -> dict[str, Value]:
    """What each named group matched last, in the order of the patterns' groups; the last match in a line counts."""
    names = [name for pattern in patterns for name in pattern.names]
    found: dict[str, Value] = {}
    wanted, left = set(names), list(patterns)
    for line in reversed(lines):
        text = line[:_LONGEST]
        small = text.lower()
        for pattern in left:
            matches = list(pattern.finditer(text)) if pattern.word in small else ()
            for name, value in matches[-1].groupdict().items() if matches else ():
                if value is not None and name in wanted:
                    found[name] = number(value)
        if not wanted.isdisjoint(found):
            wanted.difference_update(found)
            left = [pattern for pattern in left if not wanted.isdisjoint(pattern.names)]
            if not left:
                break
    return {name: found[name] for name in dict.fromkeys(names) if name in found}


def number(text: str) -> Value:
    """A number as a number; anything else, also "nan" and "inf", which JSON does not have, as its text."""
    try:
        return int(text) if re.fullmatch(r"[-+]?\d{1,18}", text) else _finite(text)
    except ValueError:
        return text


def _finite(text: str) -> Value:
    value = float(text) if re.fullmatch(_NUMBER, text) else None
    return text if value is None or value in (float("inf"), float("-inf")) else value
