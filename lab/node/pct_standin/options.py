# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The command line as Perl's Getopt::Long and PVE's check of arguments read it. Pure: no effects."""

from __future__ import annotations

import re

from .failure import Failure

EXTRA = "extra-args"
TRUE = ("1", "on", "yes", "true")
FALSE = ("0", "off", "no", "false")


class Syntax:
    """How a command is called: its fixed arguments in order and its options, each "string" or "boolean"."""

    def __init__(
        self, name: str, arguments: tuple[str, ...] = ("vmid",), options: dict[str, str] | None = None
    ) -> None:
        self.name = name
        self.arguments = arguments
        self.options = options or {}

    @property
    def usage(self) -> str:
        words = [f"[<{word}>]" if word == EXTRA else f"<{word}>" for word in self.arguments]
        # the real one leaves a space after a command without arguments
        return " ".join(["pct", self.name, *(words or [""]), *(["[OPTIONS]"] if self.options else [])])

    def refuse(self, text: str, before: str = "") -> Failure:
        return Failure(f"{before}400 {text}\n{self.usage}\n", 2)


class Call:
    """A command line that was understood."""

    def __init__(self, vmid: int, arguments: dict[str, str], options: dict[str, str], extra: list[str]) -> None:
        self.vmid = vmid
        self.arguments = arguments
        self.options = options
        self.extra = extra


def understand(syntax: Syntax, argv: list[str]) -> Call:
    """Read the arguments after the command's name.

    :raises Failure: status 2 with what the real pct says.
    """
    words, options, complaints = getopt(argv, syntax.options)
    if complaints:
        raise syntax.refuse("unable to parse option", "".join(complaints))
    arguments = {}
    for name in syntax.arguments:
        if name == EXTRA:
            continue
        if not words:
            raise syntax.refuse("not enough arguments")
        arguments[name] = words.pop(0)
    if words and EXTRA not in syntax.arguments:
        raise syntax.refuse("too many arguments")
    for name, kind in syntax.options.items():
        if kind == "boolean" and name in options:
            options[name] = boolean(syntax, options[name])
    return Call(check_vmid(syntax, arguments), arguments, options, words)


def getopt(argv: list[str], known: dict[str, str]) -> tuple[list[str], dict[str, str], list[str]]:
    """Words, options and complaints, the options taken from anywhere before "--"."""
    words: list[str] = []
    options: dict[str, str] = {}
    complaints: list[str] = []
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return words + rest, options, complaints
        match = re.fullmatch(r"--?(?P<name>[^=]+)(?P<equals>=(?P<value>.*))?", word, re.DOTALL)
        if not match:
            words.append(word)
            continue
        name, complaint = expand(match["name"], known)
        if complaint:
            complaints.append(complaint)
            continue
        value, given = match["value"] or "", bool(match["equals"])
        if known[name] == "string":
            if value == "" and (given or not rest):
                complaints.append(f"Option {name} requires an argument\n")
                continue
            value = value if given else rest.pop(0)
        elif not given and rest and not re.match(r"--?.", rest[0], re.DOTALL):
            value = rest.pop(0)
        options[name] = value
    return words, options, complaints


def expand(name: str, known: dict[str, str]) -> tuple[str, str]:
    """The option that a name means, which may be shortened and in any case, and a complaint or ""."""
    hits = [option for option in known if option.startswith(name.lower())]
    if name.lower() in known:
        return name.lower(), ""
    if len(hits) > 1:
        return name, f"Option {name} is ambiguous ({', '.join(hits)})\n"
    return (hits[0], "") if hits else (name, f"Unknown option: {name}\n")


def boolean(syntax: Syntax, value: str) -> str:
    if value.lower() in ("", *TRUE):
        return "1"
    if value.lower() in FALSE:
        return "0"
    raise syntax.refuse("unable to parse boolean option")


def check_vmid(syntax: Syntax, arguments: dict[str, str]) -> int:
    text = arguments.get("vmid", "0")
    wrong = ""
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        wrong = f"type check ('integer') failed - got '{text}'"
    elif "vmid" in arguments and not re.fullmatch(r"[1-9][0-9]{2,8}", text):
        wrong = "invalid format - value does not look like a valid VM ID\n"
    if wrong:
        raise syntax.refuse(f"Parameter verification failed.\nvmid: {wrong}")
    return int(text)
