# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is tried, from a seed: kinds and containers in an order of their own, each at some part of a deploy. Pure."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

#: By what the moment is measured: the worker's changes (most happens there), bytes either way, time.
CLOCKS = ("steps", "steps", "steps", "bytes to the node", "bytes to the node", "bytes back", "time")


@dataclass(frozen=True)
class Trial:
    """One interruption: its kind, the clock, the part of the deploy (0 to 1), whether ssh has to log in anew."""

    kind: str
    clock: str
    part: float
    cold: bool


def trials(seed: int, vmid: int, count: int, weights: Sequence[tuple[str, int]]) -> list[Trial]:
    """So many trials of one container; every kind comes in proportion to its weight."""
    chance = random.Random(f"{seed}/{vmid}")
    kinds = list(_shares(count, weights))
    chance.shuffle(kinds)
    return [Trial(kind, chance.choice(CLOCKS), chance.random(), chance.random() < 0.5) for kind in kinds]


def again(seed: int, vmid: int) -> Iterator[float]:
    """Other parts of a deploy, for a trial whose moment never came."""
    chance = random.Random(f"{seed}/{vmid}/again")
    return (chance.random() for _n in itertools.count())


def _shares(count: int, weights: Sequence[tuple[str, int]]) -> Iterator[str]:
    """``count`` names, each as often as its weight says, the first ones once more where it does not come out even."""
    total = sum(weight for _name, weight in weights)
    ends = [0, *itertools.accumulate(weight for _name, weight in weights)]
    for (name, _weight), begin, end in zip(weights, ends, ends[1:], strict=False):
        yield from [name] * (count * end // total - count * begin // total)
