# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One text as the words that a POSIX shell would make of it, and an error for what only a shell can do. Pure.

Quotes and backslashes mean what they mean in sh, so `shlex.split`, which keeps the backslash of ``"\\$"``, is not
enough. Patterns (``*``) and braces stay as they are, as in a shell where nothing matches; a line's end is a blank.
"""

from __future__ import annotations

import re

from .secret import shown_words

_BLANKS = " \t\n"
_OPERATORS = re.compile(r"&&|\|\||;;|>>|<<|[0-9]?>&[0-9]|\|&|&>|[|&;<>()]")
_EXPANDS = re.compile(r"\$(?:\{[^}]{0,40}\}?|\(|[A-Za-z_]\w{0,40}|[0-9@*#?$!-])")
_ESCAPED = '$`"\\'


class ShellNeeded(ValueError):
    """A part of the text on which a shell would act; the message is that part, of a secret only its first sign."""


def split(text: str) -> list[str]:
    """The words. Raises ShellNeeded, and ValueError for a quote that is never closed."""
    splitter = _Splitter(text)
    try:
        return splitter.words()
    except ShellNeeded as error:
        words = [*splitter.found, "".join(splitter.word or []) + str(error)]
        if str(error).startswith("$") and shown_words(words)[-1] != words[-1]:
            raise ShellNeeded("$") from None
        raise


class _Splitter:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.found: list[str] = []
        self.word: list[str] | None = None  # None between words: '' is a word too

    def words(self) -> list[str]:
        """All of them."""
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in _BLANKS:
                self._end()
                self.at += 1
            elif char == "\\":
                self._escaped()
            elif char == "'":
                self._single()
            elif char == '"':
                self._double()
            else:
                self._plain(char)
        self._end()
        return self.found

    def _end(self) -> None:
        if self.word is not None:
            self.found.append("".join(self.word))
        self.word = None

    def _take(self, text: str, length: int) -> None:
        if self.word is None:
            self.word = []
        self.word.append(text)
        self.at += length

    def _escaped(self) -> None:
        following = self.text[self.at + 1 : self.at + 2]
        if not following:
            raise ValueError("there is nothing behind the backslash at its end")
        if following == "\n":  # the line goes on
            self.at += 2
        else:
            self._take(following, 2)

    def _single(self) -> None:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            raise ValueError("the ' is never closed")
        self._take(self.text[self.at + 1 : end], end + 1 - self.at)

    def _double(self) -> None:
        self._take("", 1)
        while self.at < len(self.text):
            char, following = self.text[self.at], self.text[self.at + 1 : self.at + 2]
            if char == '"':
                self.at += 1
                return
            if char == "\\" and following == "\n":
                self.at += 2
            elif char == "\\" and following and following in _ESCAPED:
                self._take(following, 2)
            else:
                self._refuse_expansion(char)
                self._take(char, 1)
        raise ValueError('the " is never closed')

    def _plain(self, char: str) -> None:
        self._refuse_expansion(char)
        operator = _OPERATORS.match(self.text, self.at)
        if operator:
            raise ShellNeeded(operator[0])
        following = self.text[self.at + 1 : self.at + 2]
        if char == "$" and following in ("'", '"') and following:
            raise ShellNeeded(f"${following}")
        if self.word is None and char == "#":
            raise ShellNeeded("#")
        if self.word is None and char == "~":
            raise ShellNeeded("~")
        self._take(char, 1)

    def _refuse_expansion(self, char: str) -> None:
        if char == "`":
            raise ShellNeeded("`")
        expansion = _EXPANDS.match(self.text, self.at) if char == "$" else None
        if expansion:
            raise ShellNeeded(expansion[0])
