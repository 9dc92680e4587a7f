# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a launch would start, made of what was asked for and of what is there."""

from __future__ import annotations

import os
import sys

from .channel import WorkerError
from .command import Place, build, python_path, resolved, without_cwd
from .environment import base, check_given, read_env_file, with_paths
from .look import verify
from .run_like import Wanted, wanted
from .runs import find_run
from .secret import shown_words
from .store import Store, live_id, releases, short_id, some

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MOST = 200
_IN_PS = (
    "a word of the command looks like a secret: it is not recorded, but ps shows it to whoever is in the container "
    "or on the node: keep it in training_env_file"
)


class Plan:
    """What would be started, looked at before anybody is asked: all that can be wrong with it is said by now."""

    def __init__(self, store: Store, params: dict[str, Any]) -> None:
        self.release = choose_release(store, params["release"])
        verdict = verify(store, self.release)
        self.altered = sorted(verdict.drift)[:_MOST]
        if not store.has_tree(self.release):
            gone = store.path("releases", self.release)
            raise WorkerError("unknown-release", f"release {short_id(self.release)} is gone from {gone}: deploy again")
        asked: Wanted = wanted(store, params)
        self.given, self.notes = asked.given, [*asked.notes, *_other_code(store, params, self.release)]
        python = os.path.join(params["root"], params["python"] or sys.executable)
        tree = store.path("releases", self.release)
        self.place = Place(tree, sorted(verdict.files), params["root"], python, sys.version_info[:2])
        self.hidden: dict[str, str] = {}
        if self.given["env_file"]:
            self.hidden = read_env_file(str(self.given["env_file"]), params["root"])
        self.theirs = check_given(self.given["env"], "training_env")
        self.words, self.more = self._words()
        if shown_words(self.words) != self.words:
            self.notes.append(_IN_PS)

    def environment(self, caches: dict[str, str]) -> dict[str, str]:
        """All but the marks."""
        env = {**base(caches), **self.hidden, **self.theirs}
        return with_paths(env, self.place.python, python_path(self.given["pythonpath"], self.place))

    def from_file(self) -> set[str]:
        """The variables whose value the env file decides."""
        return set(self.hidden) - set(self.theirs)

    def _words(self) -> tuple[list[str], dict[str, str]]:
        words = resolved(build(self.given, self.place), self.environment({}), self.place)
        return without_cwd(words, self.place)


def _other_code(store: Store, params: dict[str, Any], release: str) -> list[str]:
    """A note where the run that this is to be like ran another release: it lends its command, not its code."""
    theirs = find_run(store, params["like"]).record.get("release") if params.get("like") else None
    if not theirs or theirs == release:
        return []
    what = f"{params['like']} ran {short_id(theirs)}; this runs"
    if params["release"]:  # which was said for this run
        return [f"{what} {short_id(release)}"]
    back = f"trainops rollback --to {short_id(theirs)} first for the same code"
    return [f"{what} the live {short_id(release)} ({back if store.has_tree(theirs) else 'the other is gone'})"]


def choose_release(store: Store, wanted: str | None) -> str:
    """The release to start: an id, its first characters, or the live one. Raises WorkerError naming what there is."""
    live = live_id(store)
    if wanted is None:
        if live is None:
            fix = "deploy first, or correct training_root and training_name"
            raise WorkerError("nothing-live", f"no release of {store.name} is live below {store.root}: {fix}")
        return live
    ids = releases(store) if store.exists() else []
    found = [one for one in ids if one == wanted] or [one for one in ids if len(wanted) >= 4 and one.startswith(wanted)]
    if len(found) == 1:
        return found[0]
    what = f"means {len(found)} releases" if found else "is no release"
    there = some([short_id(one) for one in ids]) or "none"
    raise WorkerError("unknown-release", f"{wanted} {what} of {store.name} below {store.root}; there are: {there}")
