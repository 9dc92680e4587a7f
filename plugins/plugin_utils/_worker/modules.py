# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where modules are: in the project's own tree, and in the interpreter that runs this.

Looking is all that happens: no module is executed, of packages neither (`importlib.util.find_spec` on a dotted name
would execute the package).
"""

from __future__ import annotations

import _imp
import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES, PathFinder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

PACKAGE, MODULE, NAMESPACE, OPAQUE = "package", "module", "namespace", "opaque"

# The order in which Python tries what a folder holds; a folder without any of them comes last.
_SUFFIXES = (*EXTENSION_SUFFIXES, ".py", ".pyc")


class Hit:
    """A module of the project. `path` is its file (a namespace's folder); nothing is known inside an OPAQUE one."""

    __slots__ = ("kind", "path")

    def __init__(self, kind: str, path: str) -> None:
        self.kind = kind
        self.path = path

    @property
    def folder(self) -> str | None:
        """The folder that holds its submodules, '' for the project's own; None for a plain module."""
        if self.kind == PACKAGE:
            return os.path.dirname(self.path)
        return self.path if self.kind == NAMESPACE else None

    @property
    def label(self) -> str:
        return self.path + "/" if self.kind == NAMESPACE else self.path


class Tree:
    """The project's files as modules. Paths are relative to the project, with `/`."""

    def __init__(self, kinds: dict[str, str]) -> None:
        """`kinds` maps each path to `python`, or to `opaque` for what can be imported but not read here."""
        self._kinds = kinds
        self._folders: set[str] = set()
        self._tops: dict[str, set[str]] = {}
        self._names: dict[str, list[str]] = {}
        for path in kinds:
            self._add(path)

    def _add(self, path: str) -> None:
        folder, name = os.path.split(path)
        self._tops.setdefault(name.partition(".")[0], set()).add(folder)
        while folder and folder not in self._folders:
            self._folders.add(folder)
            folder, name = os.path.split(folder)
            self._tops.setdefault(name, set()).add(folder)

    def step(self, folder: str, name: str) -> Hit | None:
        """The module `name` directly in `folder` ('' is the project itself)."""
        base = f"{folder}/{name}" if folder else name
        if self._kinds.get(base) == OPAQUE:
            return Hit(OPAQUE, base)
        namespace = Hit(NAMESPACE, base) if base in self._folders else None
        return self.package(base) or self._file(base, MODULE) or namespace

    def package(self, folder: str) -> Hit | None:
        """The package that `folder` is by an __init__ file of its own."""
        return self._file(f"{folder}/__init__" if folder else "__init__", PACKAGE)

    def _file(self, stem: str, kind: str) -> Hit | None:
        for suffix in _SUFFIXES:
            if stem + suffix in self._kinds:
                known = suffix == ".py" and self._kinds[stem + suffix] != OPAQUE
                return Hit(kind if known else OPAQUE, stem + suffix)
        return None

    def folders_with(self, name: str) -> list[str]:
        """The folders that hold a module `name`, at any depth."""
        return sorted(folder for folder in self._tops.get(name, ()) if self.step(folder, name))

    def names_in(self, folder: str) -> list[str]:
        """The modules directly in `folder`."""
        if folder not in self._names:
            names = (name for name, folders in self._tops.items() if folder in folders)
            self._names[folder] = sorted(name for name in names if name.isidentifier() and not name.startswith("__"))
        return self._names[folder]


class Outside:
    """The modules that this interpreter finds outside the project."""

    def __init__(self, search: Iterable[str] = (), released: str | None = None) -> None:
        """`search`: folders that the run will have on its path besides (PYTHONPATH).

        `released`: the folder of releases. What is live now will not be when these files are: it does not count.
        """
        self._path = [*search, *(entry for entry in sys.path if entry)]
        self._released = released
        self._specs: dict[str, Any] = {}

    def is_fixed(self, top: str) -> bool:
        """Built into the interpreter, so that no file of that name is ever imported."""
        return top in sys.builtin_module_names or _imp.is_frozen(top)

    def kind(self, top: str) -> str:
        """PACKAGE, MODULE or NAMESPACE; '' when there is none."""
        spec = self._spec(top)
        if spec is None:
            return ""
        if spec.submodule_search_locations is None:
            return MODULE
        return NAMESPACE if spec.loader is None else PACKAGE

    def origin(self, top: str) -> str:
        return getattr(self._spec(top), "origin", None) or ""

    def is_standard(self, top: str) -> bool:
        """Part of the standard library and found there. Python 3.9 has no list of its names."""
        if not self.kind(top) or top == "test":
            return False
        known = getattr(sys, "stdlib_module_names", None)
        if known is not None:
            return top in known
        return os.path.dirname(self.origin(top)).startswith(os.path.dirname(os.__file__)) and (
            "-packages" not in self.origin(top)
        )

    def missing_part(self, dotted: str) -> str:
        """The shortest prefix of a dotted name that is not there; '' when all is, or when a module may provide it."""
        parts = dotted.split(".")
        spec = self._spec(parts[0])
        if spec is None:
            return parts[0]
        for index, name in enumerate(parts[1:], 2):
            prefix = ".".join(parts[:index])
            # Some modules put others into sys.modules: `os.path`, and what a plain module names as its own.
            if prefix in sys.modules or spec.submodule_search_locations is None:
                return ""
            # The last part alone: PathFinder looks up the parent of a dotted name in sys.modules.
            spec = PathFinder.find_spec(name, list(spec.submodule_search_locations))
            if spec is None:
                return prefix
        return ""

    def _spec(self, top: str) -> Any:
        if top not in self._specs:
            self._specs[top] = self._find(top)
        return self._specs[top]

    def _find(self, top: str) -> Any:
        """As `import` would, also through the finders of editable installs; a top-level name executes nothing."""
        for finder in sys.meta_path:
            if finder is PathFinder:
                spec: Any = PathFinder.find_spec(top, self._path)
            elif type(finder).__module__ == "_distutils_hack":
                # It imports setuptools in order to answer; it stands in for distutils alone.
                spec = PathFinder.find_spec("setuptools", self._path) if top == "distutils" else None
            else:
                spec = _ask(finder, top)
            if spec is not None and not self._is_released(spec):
                return spec
        return None

    def _is_released(self, spec: Any) -> bool:
        return bool(self._released and spec.origin and os.path.realpath(spec.origin).startswith(self._released))


def _ask(finder: Any, top: str) -> Any:
    try:
        return finder.find_spec(top, None)
    except Exception:
        return None  # a broken finder of some package is not this project's fault
