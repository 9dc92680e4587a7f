# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How the tests of pct write their tables, and how a row of one is run on the node of the lab."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from lab.errors import LabError
from lab.instance import find, selected_name
from lab.nodes import Node, nodes

ON_NODE = Path(__file__).with_name("on_node.py").read_text(encoding="utf-8")
W = "/var/tmp/w"
SRC = f"{W}/src.txt"
#: 200 is privileged as the 901 of the measurements, 201 unprivileged as their 902.
BOTH = (200, 201)


def node() -> Node:
    """The node that 200, 201 and 202 are on."""
    lab = find(selected_name())
    if lab is None:
        raise LabError("the lab is not up: python -m lab up")
    return next(one for one in nodes(lab) if one.name == "pve1")


class Driver:
    """A process on the node that runs functions of on_node.py; one serves all tests, since starting it takes time."""

    def __init__(self) -> None:
        argv = node().enter(["python3", "-c", ON_NODE])
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def call(self, function: str, **job: Any) -> Any:
        """What the function returns; AssertionError with what it raised."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([function, job]) + "\n")
        self._process.stdin.flush()
        result, error = json.loads(self._process.stdout.readline() or '[null, "the driver on the node has ended"]')
        assert not error, error
        return result

    def end(self) -> None:
        self._process.communicate()


@dataclass(frozen=True)
class Row:
    """One row: a script before, a pct command, what it answers, a script after and what that then shows.

    In every text {ct} stands for the vmid. A pair of texts is (on 200, on 201).
    """

    case: str
    argv: tuple[str, ...]
    status: int = 0
    out: str | tuple[str, str] = ""
    err: str | tuple[str, str] = ""
    before: str = ""
    after: str = ""
    state: str | tuple[str, str] = ""
    env: dict[str, str] | None = None
    cwd: str = "/"
    umask: int = 0o022
    stdin: str | None = None
    repeat: int = 1
    on: tuple[int, ...] = BOTH

    def texts(self, ct: int) -> Row:
        """The row for one container."""

        def pick(text: str | tuple[str, str]) -> str:
            chosen = text if isinstance(text, str) else text[BOTH.index(ct)]
            return chosen.replace("{ct}", str(ct))

        argv = tuple(word.replace("{ct}", str(ct)) for word in self.argv)
        return replace(self, argv=argv, out=pick(self.out), err=pick(self.err), state=pick(self.state))


def table(section: str, rows: list[Row]) -> list[Any]:
    """The rows of a section for each container that they are for, as parameters with ids."""
    return [pytest.param(row, ct, id=f"{section}-{ct}-{row.case}") for row in rows for ct in row.on]


def run(driver: Driver, row: Row, ct: int) -> dict[str, Any]:
    """What a row shows: "before", "status", "out", "err", "after"."""
    told = {"argv": row.texts(ct).argv, "before": row.before, "after": row.after, "env": row.env}
    how = {"cwd": row.cwd, "umask": row.umask, "stdin": row.stdin, "repeat": row.repeat}
    return dict(driver.call("row", ct=ct, **told, **how))


def expected(row: Row, ct: int) -> dict[str, Any]:
    """What it must show."""
    texts = row.texts(ct)
    return {"before": "", "status": row.status, "out": texts.out, "err": texts.err, "after": texts.state}
