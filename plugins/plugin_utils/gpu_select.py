# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which GPUs a step means: a count, a list of indexes or UUIDs, or a JMESPath expression. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import OptionError
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpus import Gpu


@dataclass(frozen=True)
class Selection:
    """``candidates`` are all the GPUs that will do; ``count`` of them are wanted, or every one (None)."""

    candidates: tuple[Gpu, ...]
    count: int | None = None

    @property
    def wanted(self) -> int:
        """How many GPUs must be idle."""
        return len(self.candidates) if self.count is None else self.count

    def again(self, gpus: Sequence[Gpu]) -> Selection:
        """The same GPUs in a later look; one that is gone stays as it was last seen, as unknown."""
        now = {gpu.key: gpu for gpu in gpus}
        return Selection(tuple(now.get(gpu.key) or _gone(gpu) for gpu in self.candidates), self.count)

    def choose(self, idle: Callable[[Gpu], bool]) -> tuple[Gpu, ...]:
        """The GPUs to take: the lowest indexes among the idle ones, or none when too few are idle."""
        free = [gpu for gpu in self.candidates if idle(gpu)]
        return tuple(free[: self.wanted]) if len(free) >= self.wanted else ()


def _gone(gpu: Gpu) -> Gpu:
    reason = "it was listed before and is no longer"
    return Gpu(gpu.index, gpu.uuid, gpu.minor, gpu.row, (), "unknown", "gone", (reason,))


def select(gpus: Sequence[Gpu], wanted: Any = None, count: int | None = None) -> Selection:
    """The GPUs that ``wanted`` names: a count, a list of indexes and UUIDs, a JMESPath expression, or None for all.

    With ``count`` so many of the named ones are wanted. Raises OptionError, which names the option and the GPUs there.
    """
    if isinstance(wanted, str) and wanted.strip().isdigit():
        wanted = int(wanted)
    if isinstance(wanted, int) and not isinstance(wanted, bool):
        if count is not None:
            raise OptionError(f"select: {wanted} is a count and count: {count} is another: give one of them")
        wanted, count = None, wanted
    found = _named(gpus, wanted)
    if count is not None and not 1 <= count <= len(found):
        there = "is" if len(found) == 1 else "are"
        raise OptionError(f"{count} GPUs are wanted, and there {there} {len(found)} to choose from: {_list(found)}")
    return Selection(tuple(found), count)


def _named(gpus: Sequence[Gpu], wanted: Any) -> list[Gpu]:
    if wanted is None or wanted == "" or wanted == "all":
        return list(gpus)
    if isinstance(wanted, str) and re.fullmatch(r"[\s,]*((\d+|(GPU|MIG)-[\w-]+)[\s,]*)+", wanted):
        wanted = wanted.replace(",", " ").split()
    if isinstance(wanted, str):
        return _by_expression(gpus, wanted)
    if not isinstance(wanted, list):
        raise OptionError(
            f"select: {wanted!r} is neither a count, a list of indexes or UUIDs, nor a JMESPath expression"
        )
    if not wanted:
        raise OptionError("select: the list is empty: name at least one GPU, or leave the option out for all")
    return _unique(gpus, [_one(gpus, item) for item in wanted])


def _unique(gpus: Sequence[Gpu], chosen: Sequence[Gpu]) -> list[Gpu]:
    """In the order of their indexes, each once."""
    keys = {gpu.key for gpu in chosen}
    return [gpu for gpu in gpus if gpu.key in keys]


def _one(gpus: Sequence[Gpu], item: Any) -> Gpu:
    text = str(item).strip()
    for gpu in gpus:
        if text == str(gpu.index) or (gpu.uuid and text.lower() == gpu.uuid.lower()):
            return gpu
    raise OptionError(f"select: there is no GPU {text} among those here: {_list(gpus)}")


def _by_expression(gpus: Sequence[Gpu], expression: str) -> list[Gpu]:
    try:
        import jmespath
        from jmespath.exceptions import JMESPathError
    except ImportError as error:
        raise OptionError(
            f"select: the expression {expression!r} needs the Python package jmespath on the controller: "
            "pip install jmespath"
        ) from error
    try:
        value = jmespath.search(expression, [gpu.as_result() for gpu in gpus])
    except JMESPathError as error:
        reason = " ".join(str(error).split())
        raise OptionError(f"select: {expression!r} is no valid JMESPath expression: {reason}") from error
    items = value if isinstance(value, list) else [value]
    if not items or value is None:
        raise OptionError(f"select: the expression {expression!r} matches none of the GPUs here: {_list(gpus)}")
    return _unique(gpus, [_from_value(gpus, item, expression) for item in items])


def _from_value(gpus: Sequence[Gpu], item: Any, expression: str) -> Gpu:
    """A GPU from what an expression returned for it: the whole object, its UUID or its index."""
    if isinstance(item, dict):
        item = item.get("index") if item.get("uuid") is None else item["uuid"]
    if isinstance(item, bool) or not isinstance(item, int | str):
        raise OptionError(
            f"select: the expression {expression!r} returns {item!r}, which is no GPU: let it return the objects "
            "themselves, their uuid or their index, as in [?memory_total_mib >= `80000`]"
        )
    return _one(gpus, item)


def _list(gpus: Sequence[Gpu]) -> str:
    """``0-3 NVIDIA H200; 4 NVIDIA L40S``."""
    names: dict[str, list[int]] = {}
    for gpu in gpus:
        names.setdefault(gpu.row.name if gpu.row else "of unknown kind", []).append(gpu.index)
    return "; ".join(f"{ranges(indexes)} {name}" for name, indexes in names.items())


def ranges(numbers: Iterable[int]) -> str:
    """Numbers as a person writes them: ``0-3, 6``."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
