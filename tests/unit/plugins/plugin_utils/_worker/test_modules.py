# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where modules are, in a project's tree and in this interpreter."""

from __future__ import annotations

import sys
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.modules import Outside, Tree

TREE = Tree(
    {
        "a.py": "python",
        "p/__init__.py": "python",
        "p/b.py": "python",
        "p.py": "python",
        "n/deep/c.py": "python",
        f"fast{EXTENSION_SUFFIXES[0]}": "opaque",
        "fast.py": "python",
        "q/__init__.pyc": "opaque",
        "linked": "opaque",
        "tool": "python",
    }
)


@pytest.mark.parametrize(
    ("folder", "name", "kind", "path"),
    [
        ("", "a", "module", "a.py"),
        ("", "p", "package", "p/__init__.py"),
        ("p", "b", "module", "p/b.py"),
        ("", "n", "namespace", "n"),
        ("n", "deep", "namespace", "n/deep"),
        ("n/deep", "c", "module", "n/deep/c.py"),
        ("", "fast", "opaque", f"fast{EXTENSION_SUFFIXES[0]}"),
        ("", "q", "opaque", "q/__init__.pyc"),
        ("", "linked", "opaque", "linked"),
        ("", "tool", None, None),
        ("p", "a", None, None),
    ],
)
def test_step(folder: str, name: str, kind: str | None, path: str | None) -> None:
    hit = TREE.step(folder, name)
    assert (hit and hit.kind, hit and hit.path) == (kind, path)


def test_looking_around() -> None:
    assert TREE.names_in("") == ["a", "fast", "linked", "n", "p", "q", "tool"]
    assert TREE.names_in("n") == ["deep"]
    assert TREE.folders_with("c") == ["n/deep"]
    assert TREE.folders_with("tool") == []
    package = TREE.package("p")
    assert package and package.folder == "p"
    assert TREE.package("n") is None


@pytest.mark.parametrize(
    ("dotted", "missing"),
    [
        ("json", ""),
        ("json.decoder", ""),
        ("json.nope", "json.nope"),
        ("json.nope.deeper", "json.nope"),
        ("os.path", ""),
        ("math.anything", ""),
        ("nowhere.at.all", "nowhere"),
        ("space.inner", ""),
        ("space.inner.leaf", ""),
        ("space.inner.gone", "space.inner.gone"),
    ],
)
def test_missing_part(dotted: str, missing: str, tmp_path: Path) -> None:
    (tmp_path / "space" / "inner").mkdir(parents=True)
    (tmp_path / "space" / "inner" / "leaf.py").write_text("raise SystemExit('executed')\n")
    assert Outside([str(tmp_path)]).missing_part(dotted) == missing


def test_kinds_and_origins(tmp_path: Path) -> None:
    (tmp_path / "space").mkdir()
    (tmp_path / "mine.py").write_text("")
    outside = Outside([str(tmp_path)])
    assert [outside.kind(name) for name in ("json", "queue", "space", "mine", "nowhere")] == [
        "package",
        "module",
        "namespace",
        "module",
        "",
    ]
    assert outside.origin("mine") == str(tmp_path / "mine.py")
    assert [outside.is_standard(name) for name in ("json", "sys", "mine", "nowhere", "pytest", "test")] == [
        True,
        True,
        False,
        False,
        False,
        False,
    ]
    assert outside.is_fixed("time") and not outside.is_fixed("json")


def test_is_standard_without_the_list_of_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(sys, "stdlib_module_names")
    outside = Outside()
    assert [outside.is_standard(name) for name in ("json", "queue", "pytest", "nowhere")] == [True, True, False, False]


def test_finders_of_editable_installs_are_asked_and_broken_ones_are_not_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Editable:
        @classmethod
        def find_spec(cls, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
            return ModuleSpec(name, None, origin="elsewhere") if name == "editable" else None

    class Broken:
        @classmethod
        def find_spec(cls, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
            raise RuntimeError("no")

    monkeypatch.setattr(sys, "meta_path", [Broken, *sys.meta_path, Editable])
    outside = Outside()
    assert outside.missing_part("editable") == ""
    assert outside.missing_part("nowhere") == "nowhere"
