# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a release or rollback did, as values for the controller."""

from __future__ import annotations

import contextlib
import os
import stat

from .channel import WorkerError
from .look import Look, actions
from .store import Store, lstat, sentence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_TEXT_BYTES = 256 * 1024
ALL_TEXT_BYTES = 4 * 1024 * 1024  # of all texts of a diff


def no_strays() -> dict[str, Any]:
    """What :func:`.strays.strays` returns where there are none."""
    return {"count": 0, "bytes": 0, "names": [], "paths": []}


class Switched:
    """What a deploy or rollback did.

    activation: the number of what is live now; adopted: the release that keeps what was there; received: bytes from the
    controller; pruned: ids of removed releases; foreign: paths in removed trees that nobody listed; strays: what went
    out of view with the release that was live; troubles: sentences on what could not be put away after the switch.
    """

    def __init__(self) -> None:
        self.activation = 0
        self.adopted: str | None = None
        self.received = 0
        self.pruned: list[str] = []
        self.foreign: list[str] = []
        self.strays = no_strays()
        self.troubles: list[str] = []
        self.waits_for: str | None = None

    @contextlib.contextmanager
    def putting_away(self, store: Store) -> Iterator[None]:
        """For work after the switch: what goes wrong there is told, and is no failure of what is live already.

        The next run does it again.
        """
        try:
            yield
        except (OSError, WorkerError) as error:
            self.troubles.append(sentence(error, store.root))


def result(
    params: dict[str, Any],
    release: str,
    after: dict[str, dict[str, Any]],
    seen: Look,
    switched: Switched,
    before: dict[str, str | None] | None,
) -> dict[str, Any]:
    """The result of a release or rollback.

    release_id, previous_release_id, activation; changed; actions: {path: added | changed | removed | adopted}, all
    other files are unchanged (adopted: only in the release that keeps what was there); gone: the entries of those
    removed or adopted; bytes_sent; adopted: the release that keeps what was there, or null; drift: paths that somebody
    had changed in the live release; mended: paths and links that were put right in place; pruned: ids; foreign: paths
    in removed releases that nobody listed; strays: what went out of view, see :mod:`.strays`; troubles: sentences on
    what could not be put away afterwards; before: {path: text or null} where a diff was asked for; waits_for: in check
    mode, who holds the lock now, or null.
    """
    visible = seen.visible()
    done = {path: action for path, action in actions(visible, after).items() if action != "unchanged"}
    for path, action in done.items():
        if action == "removed" and path in seen.plain:
            done[path] = "adopted"
    links = [*seen.names.missing, *seen.names.stale]
    live = release == seen.live and seen.untouched()
    gone = {path: public(visible[path]) for path, action in done.items() if action in ("removed", "adopted")}
    return {
        "release_id": release,
        "previous_release_id": seen.live,
        "root": params["root"],
        "name": params["name"],
        "activation": switched.activation,
        "changed": not live or bool(links or seen.verdict.mended or switched.pruned),
        "actions": done,
        "gone": gone,
        "bytes_sent": switched.received,
        "adopted": switched.adopted,
        "drift": sorted(seen.verdict.drift),
        "mended": sorted({*seen.verdict.mended, *(links if live else ())}),
        "pruned": switched.pruned,
        "foreign": switched.foreign,
        "strays": switched.strays,
        "troubles": switched.troubles,
        "waits_for": switched.waits_for,
        "before": before,
    }


def public(entry: dict[str, Any]) -> dict[str, Any]:
    """What results tell of a manifest's entry."""
    return {key: entry[key] for key in ("type", "mode", "size", "sha256", "target") if key in entry}


def texts(store: Store, seen: Look, after: dict[str, dict[str, Any]]) -> dict[str, str | None]:
    """The text of each file that changes or goes, as it is now; None for what is no text or too large to show."""
    visible, budget = seen.visible(), ALL_TEXT_BYTES
    found: dict[str, str | None] = {}
    live = store.open_tree(seen.live)
    try:
        for path, action in actions(visible, after).items():
            if action in ("changed", "removed") and visible[path]["type"] == "file":
                found[path] = read_text(store.root_fd if path in seen.plain else live, path, budget)
                budget -= len(found[path] or "")
    finally:
        if live >= 0:
            os.close(live)
    return found


def read_text(folder: int, path: str, budget: int) -> str | None:
    """A regular file's text; None when it is none, not UTF-8, or larger than what a person reads."""
    info = lstat(folder, path)
    if info is None or not stat.S_ISREG(info.st_mode) or info.st_size > min(_TEXT_BYTES, budget):
        return None
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        data = os.read(fd, _TEXT_BYTES)
    finally:
        os.close(fd)
    try:
        return None if b"\0" in data else data.decode("utf-8")
    except UnicodeDecodeError:
        return None
