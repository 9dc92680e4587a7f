# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Digests of what the record of a run may not hold: they tell whether a later run has the same, and nothing else.

They are keyed, by a secret of the project that stays in the container, so that a record that is shown to others does
not let anybody try words until one fits.
"""

from __future__ import annotations

import json
import os

from .run_files import write_whole
from .runs import KEY, open_runs
from .secret import digest, shown_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from .store import Store

_BYTES = 32
_COMMAND = "command"
_VARIABLE = "environment "


def key_of(store: Store) -> bytes:
    """The key of a project's runs; empty when there is none."""
    runs_fd = open_runs(store)
    if runs_fd is None:
        return b""
    try:
        return _read_key(runs_fd)
    finally:
        os.close(runs_fd)


def _read_key(runs_fd: int) -> bytes:
    try:
        fd = os.open(KEY, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=runs_fd)
    except OSError:
        return b""
    with open(fd, "rb") as stream:
        return stream.read(_BYTES)


def make_key(runs_fd: int) -> bytes:
    """The same, in a folder of runs; makes it when there is none."""
    key = _read_key(runs_fd)
    if len(key) != _BYTES:
        key = os.urandom(_BYTES)
        write_whole(runs_fd, KEY, key)
    return key


def digests(key: bytes, hidden: Mapping[str, str], words: Sequence[str]) -> dict[str, str]:
    """The digests of variables, and of the words of a command if any of them is hidden."""
    found = {_VARIABLE + name: digest(key, name, value) for name, value in sorted(hidden.items())}
    if shown_words(words) != list(words):
        found[_COMMAND] = digest(key, _COMMAND, json.dumps(list(words)))
    return found


def is_another(record: Mapping[str, Any], key: bytes, name: str, value: str) -> bool:
    """Whether a variable that was not written down had another value, as far as that is known."""
    kept = (record.get("digests") or {}).get(_VARIABLE + name)
    return bool(kept and key) and kept != digest(key, name, value)


def are_others(record: Mapping[str, Any], key: bytes, words: Sequence[str]) -> bool:
    """The same of the words of its command."""
    kept = (record.get("digests") or {}).get(_COMMAND)
    return bool(kept and key) and kept != digest(key, _COMMAND, json.dumps(list(words)))
