# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a Perl program makes of the caller's locale: it decodes its arguments by it, and complains about a wrong one."""

from __future__ import annotations

import locale
import os
import subprocess


def complaint(environment: dict[bytes, bytes]) -> bytes:
    """Perl's warning about a locale that is not installed, or nothing: the node's own perl is asked."""
    names = (name for name in environment if name == b"LANG" or name.startswith(b"LC_"))
    if all(environment[name] in (b"", b"C", b"POSIX", b"C.UTF-8") for name in names):
        return b""
    try:
        perl = subprocess.run(["/usr/bin/perl", "-e", "0"], env=environment, stderr=subprocess.PIPE, check=False)
    except FileNotFoundError:
        return b""
    return perl.stderr


def codeset(environment: dict[bytes, bytes]) -> str:
    """The character set of the caller's locale, "ascii" when it has none or names one that is not installed."""
    wanted = next((environment[n] for n in (b"LC_ALL", b"LC_CTYPE", b"LANG") if environment.get(n)), b"C")
    try:
        locale.setlocale(locale.LC_CTYPE, os.fsdecode(wanted))
    except locale.Error:
        return "ascii"
    name = locale.nl_langinfo(locale.CODESET)
    return "ascii" if name == "ANSI_X3.4-1968" else name


def decoded(argument: bytes, charset: str) -> str:
    """An argument as the real one sees it: what does not fit the character set is lost."""
    return argument.decode(charset, "replace")


def garbled(text: str) -> bytes:
    """A message as the real one's worker hands it on: cut by the bytes that its wide characters have too many."""
    data = text.encode("utf-8", "replace")
    return data if data.isascii() else data[: len(text)].rstrip(b"\n") + b"\n"
