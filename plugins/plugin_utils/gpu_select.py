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

_WHOLE = re.compile(r"[-+]?\d{1,9}")
_RANGE = re.compile(r"(\d{1,3})-(\d{1,3})")
_NAME = re.compile(r"\d+|(GPU|MIG)-[\w/-]+", re.IGNORECASE)


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


def understood(wanted: Any = None, count: int | None = None) -> tuple[str | list[Any] | None, int | None]:
    """What can be said of a selection before any GPU was seen: (an expression, a list, or None for all; a count).

    Raises OptionError, which names the option.
    """
    if isinstance(wanted, str):
        wanted = wanted.strip()
        wanted = None if wanted in ("", "all") else int(wanted) if _WHOLE.fullmatch(wanted) else wanted
    if isinstance(wanted, int) and not isinstance(wanted, bool):
        if count is not None:
            raise OptionError(f"option select: {wanted} is a count and option count: {count} is another: give one")
        if wanted < 1:
            raise OptionError(f"option select: {wanted} GPUs are wanted, it must be at least 1")
        return None, wanted
    if count is not None and count < 1:
        raise OptionError(f"option count: {count} GPUs are wanted, it must be at least 1")
    if isinstance(wanted, str) and all(map(_NAME.fullmatch, words := _words(wanted))):
        wanted = words
    if wanted is not None and not isinstance(wanted, str | list):
        raise OptionError(
            f"option select: {wanted!r} is neither a count, a list of indexes or UUIDs, nor a JMESPath expression"
        )
    if isinstance(wanted, str):
        _compiled(wanted)
    elif wanted is not None:
        _check_items(wanted)
    return wanted, count


def _words(text: str) -> list[str]:
    """The words of a list as a person types it: ``0,2`` or ``[0, 2]``, and ``0-3`` as we write it."""
    found: list[str] = []
    for word in text.removeprefix("[").removesuffix("]").replace(",", " ").split():
        ends = _RANGE.fullmatch(word)
        found += map(str, range(int(ends[1]), int(ends[2]) + 1)) if ends and int(ends[1]) <= int(ends[2]) else [word]
    return found or [text]


def _check_items(wanted: list[Any]) -> None:
    if not wanted:
        raise OptionError("option select: the list is empty: name at least one GPU, or leave the option out for all")
    for item in wanted:
        if isinstance(item, bool) or not _NAME.fullmatch(str(item).strip()):
            raise OptionError(f"option select: {item!r} is no GPU: a list holds indexes such as 0 and UUIDs")


def select(gpus: Sequence[Gpu], wanted: Any = None, count: int | None = None) -> Selection:
    """The GPUs that ``wanted`` names: a count, a list of indexes and UUIDs, a JMESPath expression, or None for all.

    With ``count`` so many of the named ones are wanted. Raises OptionError, which names the option and the GPUs there.
    """
    option = "select" if count is None else "count"
    wanted, count = understood(wanted, count)
    found = list(gpus) if wanted is None else _named(gpus, wanted)
    if count is not None and count > len(found):
        there = "is" if len(found) == 1 else "are"
        wish = f"{count} {'GPU is' if count == 1 else 'GPUs are'} wanted"
        raise OptionError(f"option {option}: {wish}, and there {there} {len(found)} to choose from: {_list(found)}")
    return Selection(tuple(found), count)


def _named(gpus: Sequence[Gpu], wanted: str | list[Any]) -> list[Gpu]:
    if isinstance(wanted, str):
        return _by_expression(gpus, wanted)
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
    raise OptionError(f"option select: there is no GPU {text} among those here: {_list(gpus)}")


def _compiled(expression: str) -> Any:
    """The expression, ready to search with. Raises OptionError for one that could never select anything."""
    try:
        import jmespath
        from jmespath.exceptions import ArityError, JMESPathError, UnknownFunctionError
    except ImportError as error:
        raise OptionError(
            f"option select: the expression {expression!r} needs the Python package jmespath on the controller: "
            "pip install jmespath"
        ) from error
    try:
        compiled = jmespath.compile(expression)
    except JMESPathError as error:
        raise _invalid(expression, error) from error
    try:
        compiled.search([])
    except (ArityError, UnknownFunctionError) as error:
        raise _invalid(expression, error) from error
    except JMESPathError:
        pass  # it wants GPUs to look at
    return compiled


def _invalid(expression: str, error: Exception) -> OptionError:
    reason = " ".join(str(error).split())
    return OptionError(f"option select: {expression!r} is no valid JMESPath expression: {reason}")


def _by_expression(gpus: Sequence[Gpu], expression: str) -> list[Gpu]:
    from jmespath.exceptions import JMESPathError

    try:
        value = _compiled(expression).search([gpu.as_result() for gpu in gpus])
    except JMESPathError as error:
        raise _invalid(expression, error) from error
    items = value if isinstance(value, list) else [value]
    if not items or value is None:
        raise OptionError(f"option select: the expression {expression!r} matches none of the GPUs here: {_list(gpus)}")
    return _unique(gpus, [_from_value(gpus, item, expression) for item in items])


def _from_value(gpus: Sequence[Gpu], item: Any, expression: str) -> Gpu:
    """A GPU from what an expression returned for it: the whole object, its UUID or its index."""
    if isinstance(item, dict):
        item = item.get("index") if item.get("uuid") is None else item["uuid"]
    if isinstance(item, bool) or not isinstance(item, int | str):
        raise OptionError(
            f"option select: the expression {expression!r} returns {item!r}, which is no GPU: let it return the "
            "objects themselves, their uuid or their index, as in [?memory_total_mib >= `80000`]"
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


def without_gpus(select: Any) -> bool:
    """Whether a run without GPUs is wanted: none of them is something else than all of them."""
    if isinstance(select, str):
        return select.strip() in ("0", "[]")
    if isinstance(select, list):
        return not select
    return isinstance(select, int) and not isinstance(select, bool) and select == 0
