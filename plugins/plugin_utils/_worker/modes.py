# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Permissions as people write them: octal, or symbolic as chmod takes them (``u=rwX,g=rX,o=``)."""

from __future__ import annotations

import re

BITS = 0o7777
_CLAUSE = re.compile(r"([ugoa]*)((?:[-+=](?:[ugo]|[rwxXst]*))+)")
_STEP = re.compile(r"([-+=])([ugo]|[rwxXst]*)")
_SHIFTS = {"u": 6, "g": 3, "o": 0}
_READ, _WRITE, _RUN = 4, 2, 1
_SPECIAL = {"u": 0o4000, "g": 0o2000, "o": 0o1000}


def is_symbolic(text: str) -> bool:
    """Whether a text is a symbolic mode."""
    return all(_CLAUSE.fullmatch(clause) for clause in text.split(","))


def resolve(mode: int | str, base: int, is_folder: bool, umask: int) -> int:
    """The permission bits that ``mode``, bits or a symbolic mode, makes of the bits ``base``."""
    if isinstance(mode, int):
        return mode & BITS
    bits = base & BITS
    for clause in mode.split(","):
        match = _CLAUSE.fullmatch(clause)
        if match is None:
            raise ValueError(clause)
        # Without a letter for whom, chmod leaves alone what the umask forbids.
        whom, kept = (match[1].replace("a", "ugo"), 0) if match[1] else ("ugo", umask)
        runs = is_folder or bool(bits & 0o111)
        for sign, what in _STEP.findall(match[2]):
            bits = _step(bits, sorted(set(whom)), sign, what, kept, runs)
    return bits


def _step(bits: int, whom: list[str], sign: str, what: str, kept: int, runs: bool) -> int:
    change = mask = 0
    for who in whom:
        shift = _SHIFTS[who]
        change |= (_wanted(bits, what, runs) << shift) & ~kept
        change |= _SPECIAL[who] * (("s" in what and who != "o") or ("t" in what and who == "o"))
        mask |= 7 << shift | _SPECIAL[who]
    if sign == "+":
        return bits | change
    return bits & ~change if sign == "-" else bits & ~mask | change


def _wanted(bits: int, what: str, runs: bool) -> int:
    if what in _SHIFTS:
        return bits >> _SHIFTS[what] & 7
    return _READ * ("r" in what) | _WRITE * ("w" in what) | _RUN * ("x" in what or ("X" in what and runs))
