# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Do the imports of a project's files resolve: between the files themselves, and in the interpreter that runs this.

What is certain to fail is an error. What Python may still resolve at run time (names bound dynamically, star imports
from elsewhere, TYPE_CHECKING, imports that a `try` guards) is a warning.
"""

from __future__ import annotations

import os

from .facts import ALWAYS, NEVER, TYPING
from .modules import MODULE, NAMESPACE, OPAQUE, PACKAGE, Hit, Outside, Tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

ERROR, WARNING = "error", "warning"

# Names that every module has without binding them.
_IMPLICIT = frozenset(
    f"__{name}__" for name in ("name", "doc", "package", "loader", "spec", "file", "cached", "builtins", "dict", "path")
)


def problem(file: str, line: int, column: int, severity: str, code: str, message: str, **more: Any) -> dict[str, Any]:
    """One finding. line and column count from 1; severity is ERROR or WARNING."""
    return dict(more, file=file, line=line, column=column, severity=severity, code=code, message=message)


_NEAR: dict[tuple[str, tuple[str, ...]], str] = {}


class Trouble:
    """Why an import does not resolve. `module`: the top-level module that is nowhere; certain: Python must fail."""

    __slots__ = ("certain", "code", "message", "module")

    def __init__(self, code: str, message: str, certain: bool = True, module: str = "") -> None:
        self.code = code
        self.message = message
        self.certain = certain
        self.module = module


class Import:
    """One import statement as the facts have it."""

    __slots__ = ("column", "fallback", "guard", "level", "line", "module", "names", "when")

    def __init__(self, record: list[Any]) -> None:
        self.line, self.column, self.level, self.module, self.names, self.when, self.guard, self.fallback = record


def import_problems(
    facts: dict[str, dict[str, Any] | None],
    tree: Tree,
    outside: Outside,
    search: Iterable[str] = (),
    optional: Iterable[str] = (),
) -> list[dict[str, Any]]:
    """Every import of every file that does not resolve, and project files that hide other modules.

    `facts` maps each Python file to its facts, None where it did not compile: then any name may come from it.
    `search`: folders of the project that are on the run's path besides its top. `optional`: top-level modules that may
    be missing. The problem of a module that is nowhere has its name under `module` and, as message, only what may be
    meant instead: where else it is costs a search, which is left to the caller.
    """
    resolver = Resolver(facts, tree, outside, search)
    allowed = frozenset(optional)
    found = []
    for path in sorted(facts):
        known = facts[path]
        if known:
            found += _file_problems(path, [Import(record) for record in known["imports"]], resolver, allowed)
    return found + _hiding(facts, tree, outside)


def _file_problems(
    path: str, imports: list[Import], resolver: Resolver, optional: frozenset[str]
) -> list[dict[str, Any]]:
    outcomes = [(item, resolver.troubles(path, item)) for item in imports if item.when != NEVER]
    failing = {item.guard for item, troubles in outcomes if troubles}
    helped = {item.fallback for item, _troubles in outcomes} - {
        item.fallback for item, troubles in outcomes if troubles
    }
    found = []
    for item, troubles in outcomes:
        # The handler of a `try` runs only if an import in its body failed; a handler that works settles the matter.
        if (item.fallback and item.fallback not in failing) or (item.guard and item.guard in helped):
            continue
        for trouble in troubles:
            if trouble.module in optional:
                continue
            severity = _severity(item, trouble)
            more = {"module": trouble.module} if trouble.module else {}
            found.append(problem(path, item.line, item.column, severity, trouble.code, trouble.message, **more))
    return found


def _severity(item: Import, trouble: Trouble) -> str:
    if item.guard or item.when == TYPING or not trouble.certain:
        return WARNING
    # Whoever imports a module in a function or under a condition may well do without it.
    return WARNING if trouble.module and item.when != ALWAYS else ERROR


class Resolver:
    """Follows imports through the project as Python would, and out of it."""

    def __init__(
        self, facts: dict[str, dict[str, Any] | None], tree: Tree, outside: Outside, search: Iterable[str]
    ) -> None:
        self._facts = facts
        self._tree = tree
        self._outside = outside
        self._search = list(search)
        known = [one for one in facts.values() if one]
        self._changes_path = any("path" in one for one in known)
        self._set_names = {name for one in known for name in one.get("sets", ())}

    def troubles(self, path: str, item: Import) -> list[Trouble]:
        """Why the import in the file at `path` does not resolve; none when it does, or when nobody can tell."""
        first: list[Trouble] = []
        for target in self._targets(path, item.level, item.module):
            found = self._target_troubles(path, target, item)
            if not found:
                return []
            first = first or found
        top, *rest = item.module.split(".")
        for hit in self._far_hits(path, top) if item.level == 0 else ():
            if not self._target_troubles(path, self._descend(hit, top, rest), item):
                return []
        return first or [self._nowhere(top)]

    def _target_troubles(self, path: str, target: Hit | Trouble | None, item: Import) -> list[Trouble]:
        if target is None:
            return []
        if isinstance(target, Trouble):
            return [target]
        missing = [self._name_trouble(target, name) for name in item.names or () if name != "*"]
        # For a type checker alone it is enough that the name may be there.
        found = [trouble for trouble in missing if trouble and (trouble.certain or item.when != TYPING)]
        if not found and item.level == 0:
            found += self._beside(path, item.module.partition(".")[0])
        return found

    def _targets(self, path: str, level: int, module: str) -> list[Hit | Trouble | None]:
        """What the module may be, the likeliest first; None stands for one outside, or one that cannot be judged."""
        if level:
            return [self._relative(path, level, module)]
        top, *rest = module.split(".")
        if self._outside.is_fixed(top):
            return [None]
        firm, near = self._hits(["", *self._search], top), self._near_hits(path, top)
        regular = [[hit for hit in hits if hit.kind != NAMESPACE] for hits in (firm, near)]
        installed = self._outside.kind(top)
        found: list[Hit | None] = [*regular[0]]
        if not found and installed in (PACKAGE, MODULE):
            found.append(None)
        found += regular[1]
        # A folder without __init__.py comes after everything else of its name, wherever that is.
        found = found or [*firm, *near] or ([None] if installed else [])
        return [self._descend(hit, top, rest) if hit else self._outside_module(module) for hit in found]

    def _hits(self, folders: Iterable[str], top: str) -> list[Hit]:
        return [hit for folder in dict.fromkeys(folders) for hit in [self._tree.step(folder, top)] if hit]

    def _near_hits(self, path: str, top: str) -> list[Hit]:
        """In the file's own folder, for a script that is started, and above it, for what such a script imports."""
        own, *above = _folders_of(path)
        hits = self._hits([own, *(folder for folder in above if not self._tree.package(folder))], top)
        # A file that wraps a module of its own name means the other one.
        return [hit for hit in hits if hit.path != path]

    def _far_hits(self, path: str, top: str) -> list[Hit]:
        """Where a module is looked for only to give the benefit of the doubt."""
        above = [folder for folder in _folders_of(path)[1:] if self._tree.package(folder)]
        return self._hits(above + (self._tree.folders_with(top) if self._changes_path else []), top)

    def _relative(self, path: str, level: int, module: str) -> Hit | Trouble | None:
        folder = os.path.dirname(path)
        for _step in range(level - 1):
            if not folder:
                return Trouble("relative-import", _no_parent(level, module))
            folder = os.path.dirname(folder)
        if not folder and not self._tree.package(""):
            return Trouble("relative-import", _no_parent(level, module))
        start = self._tree.package(folder) or Hit(NAMESPACE, folder)
        return self._descend(start, folder.replace("/", "."), module.split(".") if module else [])

    def _descend(self, hit: Hit, dotted: str, rest: list[str]) -> Hit | Trouble | None:
        for name in rest:
            if hit.kind == OPAQUE:
                return None
            folder = hit.folder
            if folder is None:
                text = f"{hit.path} is a module and not a package, so there is no {dotted}.{name}"
                return Trouble("no-module", text, certain=not self._is_dynamic(hit))
            found = self._tree.step(folder, name)
            if found is None and hit.kind == NAMESPACE and self._outside.missing_part(f"{dotted}.{name}") == "":
                return None
            if found is None:
                text = f"{hit.label} has no module {name}{_near(name, self._tree.names_in(folder))}"
                return Trouble("no-module", text, certain=not self._is_dynamic(hit))
            hit, dotted = found, f"{dotted}.{name}"
        return hit

    def _outside_module(self, module: str) -> Trouble | None:
        missing = self._outside.missing_part(module)
        if not missing:
            return None
        parent, _dot, name = missing.rpartition(".")
        return Trouble("no-module", f"the installed {parent} seems to have no module {name}", certain=False)

    def _nowhere(self, top: str) -> Trouble:
        folders = self._tree.folders_with(top)
        if folders:
            text = f"{top} is in {folders[0]}/ of the project, which is not on Python's path unless the run sets it"
            return Trouble("no-module", text, certain=False)
        return Trouble("no-module", _near(top, self._tree.names_in("")), module=top)

    def _beside(self, path: str, top: str) -> list[Trouble]:
        """A module that only the file's own package folder holds is found when that file is the one started."""
        folder = os.path.dirname(path)
        beside = self._tree.step(folder, top) if folder and self._tree.package(folder) else None
        if beside is None or self._changes_path or self._outside.kind(top):
            return []
        others = [*self._hits(["", *self._search], top), *self._near_hits(path, top), *self._far_hits(path, top)]
        if any(hit.path != beside.path for hit in others):
            return []
        text = f"{top} is beside this file, which Python finds only when it starts this file itself"
        return [Trouble("no-module", f"{text}: write `from . import {top}`", certain=False)]

    def _name_trouble(self, hit: Hit, name: str) -> Trouble | None:
        """Whether `from <hit> import name` works."""
        why = self._lacks(hit, name, frozenset())
        if why is None:
            return None
        if why:
            return Trouble("no-name", f"{hit.label} may have no name {name}: {why}", certain=False)
        if hit.kind == NAMESPACE:
            folder = hit.folder or ""
            text = f"{hit.label} has no module {name}{_near(name, self._tree.names_in(folder))}"
            return Trouble("no-module", text)
        return Trouble("no-name", f"{hit.label} has no name {name}{self._instead(hit, name)}")

    def _lacks(self, hit: Hit, name: str, seen: frozenset[str]) -> str | None:
        """None: it has the name, or nobody can tell. '': it has not. Else why it may yet have it."""
        if hit.kind == OPAQUE or name in _IMPLICIT:
            return None
        if hit.folder is not None and self._tree.step(hit.folder, name):
            return None
        if hit.kind == NAMESPACE:
            return "" if self._outside.missing_part(f"{hit.path.replace('/', '.')}.{name}") else None
        facts = self._facts.get(hit.path)
        if facts is None or name in facts["names"]:
            return None
        # The usual way to export lazily: the name stands there for readers, __getattr__ brings it.
        if facts.get("dynamic") == "__getattr__" and (name in facts.get("only", ()) or name in facts.get("all", ())):
            return None
        if name in facts.get("only", {}):
            return f"it binds it only under `{facts['only'][name]}`"
        reasons = [self._star_lacks(hit, star, name, seen | {hit.path}) for star in facts.get("stars", ())]
        if None in reasons:
            return None
        if "dynamic" in facts:
            reasons.append(f"it uses {facts['dynamic']}")
        if name in self._set_names:
            reasons.append("another file sets an attribute of that name")
        return next((reason for reason in reasons if reason), "")

    def _star_lacks(self, hit: Hit, star: list[Any], name: str, seen: frozenset[str]) -> str | None:
        level, module = star
        text = "." * level + module
        for target in self._targets(hit.path, level, module):
            if not isinstance(target, Hit) or target.kind == OPAQUE:
                return f"it imports * from {text}"
            if target.path in seen:
                continue
            public = _is_exported(self._facts.get(target.path) or {}, name)
            why = self._lacks(target, name, seen)
            if why != "":
                return why if public else ""
        return ""

    def _is_dynamic(self, hit: Hit) -> bool:
        facts = self._facts.get(hit.path) if hit.kind in (MODULE, PACKAGE) else {}
        return facts is None or "dynamic" in facts or "__path__" in facts.get("names", ())

    def _instead(self, hit: Hit, name: str) -> str:
        """What the user may have meant, to be put behind the message."""
        facts = self._facts.get(hit.path) or {}
        if name in (facts.get("all") or ()):
            return ", though its __all__ lists it"
        elsewhere = sorted(path for path, known in self._facts.items() if known and name in _defined(known))
        modules = [] if hit.folder is None else self._tree.names_in(hit.folder)
        near = _near(name, [*facts.get("names", ()), *modules])
        return near or (f" ({elsewhere[0]} has it)" if elsewhere else "")


def _is_exported(facts: dict[str, Any], name: str) -> bool:
    """Whether a star import brings the name, if the module has it."""
    if facts.get("open"):
        return True
    return name in facts["all"] if "all" in facts else not name.startswith("_")


def _folders_of(path: str) -> list[str]:
    """The folder of a file and those above it, the project's own ('') last."""
    folders = [os.path.dirname(path)]
    while folders[-1]:
        folders.append(os.path.dirname(folders[-1]))
    return folders


def _no_parent(level: int, module: str) -> str:
    if level > 1:
        return "relative import beyond the project's top-level package"
    fix = f"from {module} import" if module else "import"
    return f"relative import at the project's top level, where a file has no parent package: write `{fix} ...`"


def _defined(facts: dict[str, Any]) -> set[str]:
    """Names that a file binds itself, not by importing them."""
    imported = {name for record in facts["imports"] for name in record[4] or ()}
    return set(facts["names"]) - imported


def _near(name: str, candidates: Iterable[str]) -> str:
    """What may have been meant, to be put behind a message. The same name is often missed by many files."""
    key = (name, tuple(sorted(set(candidates))))
    if key not in _NEAR:
        import difflib  # only a failing check pays for it

        close = difflib.get_close_matches(name, key[1], n=2, cutoff=0.75)
        _NEAR[key] = f" (did you mean {' or '.join(close)}?)" if close else ""
    return _NEAR[key]


def _hiding(facts: dict[str, dict[str, Any] | None], tree: Tree, outside: Outside) -> list[dict[str, Any]]:
    """Files at the project's top whose name another module has: the release comes first on Python's path."""
    importers: dict[str, str] = {}
    for path in sorted(facts):
        for record in (facts[path] or {}).get("imports", ()):
            if record[2] == 0:
                importers.setdefault(record[3].partition(".")[0], f"{path}:{record[0]}")
    found = []
    for top in tree.names_in(""):
        hit = tree.step("", top)
        text = _hides(top, importers.get(top), outside) if hit and hit.kind in (MODULE, PACKAGE) else ""
        if hit and text:
            found.append(problem(hit.path, 1, 1, WARNING, "hidden-module", text))
    return found


def _hides(top: str, importer: str | None, outside: Outside) -> str:
    who = f", which {importer} imports" if importer else ""
    if outside.is_fixed(top):
        return f"never imported: {top} is built into Python{who}" if importer else ""
    if outside.is_standard(top):
        return f"hides the standard library's {top}{who}: rename it"
    if importer and outside.kind(top) in (MODULE, PACKAGE):
        return f"hides the installed {top} ({outside.origin(top)}){who}"
    return ""
