# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What came of the trials, as values and as a table. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

COLUMNS = (
    "runs",
    "before",
    "staged",
    "switched",
    "old live",
    "new live",
    "bad reads",
    "false ok",
    "leftovers",
    "next failed",
    "longest s",
)
#: The columns that must be 0 everywhere.
FAULTS = ("bad reads", "false ok", "leftovers", "next failed")


@dataclass(frozen=True)
class Outcome:
    """One interrupted deploy and the next one.

    ``when``: whether the moment was ``before`` anything was ``staged``, after that, or after the release had
    ``switched``. ``new``: whether the new release was live when the command had ended, ``ok`` whether it said so.
    ``seconds`` from the interruption to the command's end. ``problems``: what should not be, each a column and a text.
    """

    kind: str
    vmid: int
    when: str
    new: bool
    ok: bool
    seconds: float
    passes: int
    problems: tuple[tuple[str, str], ...] = ()


def row(outcomes: Sequence[Outcome]) -> list[str]:
    """The cells of some outcomes."""
    counts: dict[str, float] = {
        "runs": len(outcomes),
        **{when: sum(one.when == when for one in outcomes) for when in ("before", "staged", "switched")},
        "old live": sum(not one.new for one in outcomes),
        "new live": sum(one.new for one in outcomes),
        **{name: sum(column == name for one in outcomes for column, _text in one.problems) for name in FAULTS},
    }
    longest = max((one.seconds for one in outcomes), default=0.0)
    return [*(str(counts[name]) for name in COLUMNS[:-1]), f"{longest:.1f}"]


def table(outcomes: Iterable[Outcome], kinds: Sequence[str], vmids: Sequence[int]) -> str:
    """Kinds by containers, and the sums."""
    found = list(outcomes)
    rows = [["interrupted", "container", *COLUMNS]]
    for kind in kinds:
        for vmid in vmids:
            some = [one for one in found if (one.kind, one.vmid) == (kind, vmid)]
            if some:
                rows.append([kind, str(vmid), *row(some)])
    rows += [["all", str(vmid), *row([one for one in found if one.vmid == vmid])] for vmid in vmids]
    rows.append(["all", "", *row(found)])
    widths = [max(len(line[at]) for line in rows) for at in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in rows
    )


def problems(outcomes: Iterable[Outcome]) -> list[str]:
    """Everything that should not be, a line each."""
    return [
        f"{one.vmid}  {one.kind} ({one.when})  {column}: {text}" for one in outcomes for column, text in one.problems
    ]
