# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which releases go, and how: at once as a whole, and never with what nobody listed."""

from __future__ import annotations

import os

from .history import settled
from .mounts import is_held
from .running import releases_run
from .runs import releases_in_use
from .scratch import RETIRED, Scratch, retire, standing
from .store import ADOPTED, Store, lstat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def surplus(ids: list[str], records: list[dict[str, Any]], live: str, keep: int, used: set[str]) -> list[str]:
    """Which of ``ids`` a deploy may remove, given the activations: all but the ``keep`` last ones that were live.

    What is live, what was live before it, what was adopted and what a run uses stays in any case.
    """
    order: list[str] = []
    for record in reversed(records):
        if record["release"] not in order:
            order.append(record["release"])
    ours = [release for release in order if not release.startswith(ADOPTED)]
    stays = {live, *order[:2], *ours[:keep], *used}
    return [release for release in ids if release not in stays and not release.startswith(ADOPTED)]


def _may_go(store: Store, ids: list[str], records: list[dict[str, Any]], live: str, keep: int) -> list[str]:
    """The same, without what a process in the container was started from, and what an attribute holds where it is."""
    gone = surplus(ids, records, live, keep, releases_in_use(store))
    used = releases_run(store) if gone else set[str]()
    return [release for release in gone if not (release in used or is_held(store.releases_fd, release, closely=True))]


def to_prune(store: Store, release: str, adopted: str | None, keep: int) -> list[str]:
    """What a deploy of ``release`` will remove when it has kept what was there as ``adopted``."""
    ids = {*standing(store), release, *([adopted] if adopted else [])} if store.exists() else set[str]()
    records, _number = settled(store)
    kept = [{"release": adopted}] if adopted and adopted not in {one["release"] for one in records} else []
    return _may_go(store, sorted(ids), [*records, *kept, {"release": release}], release, keep)


def to_prune_first(store: Store, going: list[str]) -> list[str]:
    """What of that may go before the deploy, to make room for it.

    Not what is live, nor what was before: should the deploy fail, a rollback must still lead there.
    """
    records, _number = settled(store)
    live = records[-1]["release"] if records else ""
    before = surplus(standing(store), records, live, 2, set()) if store.exists() else []
    return [one for one in going if one in before]


def prune(scratch: Scratch, live: str, keep: int) -> tuple[list[str], list[str]]:
    """Remove surplus releases. Returns their ids, and where files are now that were in them and that nobody listed."""
    store = scratch.store
    gone = _may_go(store, standing(store), settled(store)[0], live, keep)
    if gone and lstat(scratch.fd, RETIRED) is None:
        os.mkdir(RETIRED, 0o700, dir_fd=scratch.fd)
    for release in gone:
        # Out of the releases in one step: what is there is whole at every instant.
        os.rename(release, f"{RETIRED}/{release}", src_dir_fd=store.releases_fd, dst_dir_fd=scratch.fd)
    foreign = retire(store, f"{scratch.name}/{RETIRED}", gone)
    for release in gone:
        os.unlink(f"{release}.json", dir_fd=store.releases_fd)
    return gone, foreign
