# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run is to be: what was said, and the rest as an earlier run had it.

What was said for this launch wins over the earlier run. What merely stands in an inventory (``standing``) does not: it
only lends the values that the earlier run had and that no record holds.
"""

from __future__ import annotations

from .channel import WorkerError
from .environment import check_given, read_env_file
from .run_key import are_others, is_another, key_of
from .runs import find_run
from .secret import shown_words
from .store import some

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .runs import Run
    from .store import Store

_GIVEN = ("command", "script", "args", "env", "env_file", "pythonpath")


class Wanted:
    """``given`` is {command, script, args, env, env_file, pythonpath}; ``notes`` are sentences for the user."""

    def __init__(self, given: dict[str, Any], notes: list[str]) -> None:
        self.given = given
        self.notes = notes


def wanted(store: Store, params: dict[str, Any]) -> Wanted:
    """What was asked for, the rest as the run ``like`` had it.

    Raises WorkerError("secret") for a value that the other run had, that was not recorded and stands nowhere.
    """
    said: dict[str, Any] = {key: params.get(key) for key in _GIVEN}
    said["env"], said["pythonpath"] = dict(said["env"] or {}), list(said["pythonpath"] or [])
    if not params.get("like"):
        return Wanted(said, [])
    other = find_run(store, params["like"])
    if not other.record.get("wanted"):
        raise WorkerError("no-run", f"what {other.id} was started with was not recorded: give its command")
    return _Like(store, other, said, params.get("standing") or {}, params["root"]).wanted()


class _Like:
    def __init__(self, store: Store, other: Run, said: dict[str, Any], standing: dict[str, Any], root: str) -> None:
        self.other = other
        self.theirs: dict[str, Any] = other.record["wanted"]
        self.said = said
        self.standing = standing
        self.root = root
        self.key = key_of(store)
        self.notes: list[str] = []

    def wanted(self) -> Wanted:
        """All of it."""
        said, theirs = self.said, self.theirs
        words = self._words()
        more = {name: said[name] or theirs[name] for name in ("env_file", "pythonpath")}
        return Wanted({**words, "env": self._env(), **more}, self.notes)

    def _words(self) -> dict[str, Any]:
        said, theirs = self.said, self.theirs
        if said["command"] or said["script"]:
            return {name: said[name] for name in ("command", "script", "args")}
        if said["args"] and theirs["script"]:
            return {"command": None, "script": theirs["script"], "args": said["args"]}
        found = {name: theirs[name] for name in ("command", "script", "args")}
        if "command" not in (self.other.record.get("digests") or {}):
            return found
        # Some of its words were not recorded: those that stand in the inventory, if they are the same but for these.
        option = "command" if theirs["command"] else "args"
        words = self.standing.get(option) or []
        if shown_words(words) != theirs[option]:
            fix = "give them again, or keep the secret in training_env_file"
            raise WorkerError("secret", f"{self.other.id} had words in training_{option} that are not recorded: {fix}")
        if are_others(self.other.record, self.key, words):
            self.notes.append(f"{self.other.id} had another secret in training_{option}, which is not recorded")
        return {**found, option: words}

    def _env(self) -> dict[str, Any]:
        said, theirs = self.said["env"], self.theirs["env"]
        standing = check_given(self.standing.get("env") or {}, "training_env")
        hidden = [name for name, value in theirs.items() if value is None and name not in said]
        lent = self._lent(hidden, standing) if hidden else {}
        if others := [name for name in hidden if is_another(self.other.record, self.key, name, lent[name])]:
            had = f"{self.other.id} had another value of {some(others)}, which is not recorded"
            self.notes.append(f"{had}: the present one is taken")
        unused = [
            name
            for name, value in standing.items()
            if name not in said and name not in hidden and theirs.get(name) != value
        ]
        if unused:
            as_it_was = f"as in {self.other.id}, not as training_env has it now: {some(sorted(unused))}"
            self.notes.append(f"{as_it_was} (what -e training_env says wins)")
        return {**theirs, **lent, **said}

    def _lent(self, names: list[str], standing: dict[str, str]) -> dict[str, str]:
        """The present values of variables that were not recorded."""
        found = dict(standing)
        if self.standing.get("env_file") and not set(names) <= set(found):
            found = {**read_env_file(str(self.standing["env_file"]), self.root), **found}
        if missing := [name for name in names if name not in found]:
            fix = "give it again in training_env, or keep it in training_env_file"
            raise WorkerError("secret", f"{self.other.id} had {', '.join(missing)}, whose value is not recorded: {fix}")
        return {name: found[name] for name in names}
