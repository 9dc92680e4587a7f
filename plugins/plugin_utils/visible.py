# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text of others as it may be shown: whoever is root in a container writes names and messages that we print."""

from __future__ import annotations

import re
from typing import Any

# All that moves a cursor, changes a terminal or turns text round: C0 without newline and tab, DEL, C1, line and
# paragraph separators, and the controls of bidirectional text; and surrogates, which no output can encode.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_NO_BYTE = re.compile("[\ud800-\udc7f\udd00-\udfff]")  # surrogates that stand for no byte of a path
_LONGEST = 16_384
_PATH = 300
_LINE = "summary"  # the text of a result that is one line, whatever it says


def written_out(text: str) -> str:
    """``text`` with what a terminal would obey written out (``\\x1b``)."""
    return _UNSEEN.sub(lambda match: ascii(match[0])[1:-1], text)


def visible(text: str) -> str:
    """Like :func:`written_out`, and cut where no person reads on."""
    shown = written_out(text[:_LONGEST])
    return shown if len(text) <= _LONGEST else f"{shown} … ({len(text) - _LONGEST} characters more)"


def one_line(text: str) -> str:
    """``text`` on one line, written out: a line that a person reads is one, and no more can be forged after it.

    Whatever begins a line for a terminal, for :meth:`str.splitlines` or for YAML is written out, not only a newline.
    """
    return written_out(text).replace("\n", "\\n")


def cell(text: object) -> str:
    """What stands in a column of a table: one line, and not so long that it pushes all others away."""
    return one_line(cut_short(str(text))).replace("\t", "\\t")


def cut_short(text: str) -> str:
    """The beginning of a text that others may have made endless."""
    return text if len(text) <= _PATH else f"{text[:_PATH]}…"


def path_text(path: str, most: int = _PATH) -> str:
    """A path, or any other name, in a sentence: on one line whatever its bytes are (``\\xff``), and not endless."""
    shown = _NO_BYTE.sub(lambda match: ascii(match[0])[1:-1], path)
    shown = shown.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    shown = one_line(shown).replace("\t", "\\t")
    return shown if len(shown) <= most else f"{shown[: most // 2]}…{shown[-most // 2 :]}"


def visible_values(values: dict[str, Any], *names: str) -> dict[str, Any]:
    """``values`` with the texts (or lists of lines) under ``names`` made visible, and those of a ``diff``."""
    shown = dict(values)
    for name in names:
        value = values.get(name)
        if isinstance(value, str):
            shown[name] = visible(one_line(value) if name == _LINE else value)
        elif isinstance(value, list):
            shown[name] = [visible(one_line(item)) if isinstance(item, str) else item for item in value]
    if values.get("diff"):
        shown["diff"] = visible_diff(values["diff"])
    return shown


def visible_diff(diff: Any) -> Any:
    """Ansible's diff, or a list of them, as it may be shown: texts have lines, and headers are one line each."""
    if isinstance(diff, list):
        return [visible_diff(part) for part in diff]
    if not isinstance(diff, dict):
        return diff
    return {
        key: (one_line if str(key).endswith("_header") else written_out)(text) if isinstance(text, str) else text
        for key, text in diff.items()
    }
