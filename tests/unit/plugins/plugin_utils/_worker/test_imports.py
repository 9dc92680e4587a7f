# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which imports of a project resolve, what is said of those that do not, and whether that refuses the project."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.imports import import_problems
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.modules import Outside, Tree
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.source_facts import Unreadable, read_source


def facts_of(path: str, text: str) -> dict[str, Any] | None:
    """A source's facts, None where it does not compile."""
    try:
        return read_source(path, text.encode())
    except Unreadable:
        return None


def problems(files: Mapping[str, str], **options: Any) -> list[str]:
    """What is found in the files: errors as they are said, warnings marked; a missing module by its name alone."""
    facts = {path: facts_of(path, text) for path, text in files.items() if path.endswith(".py")}
    tree = Tree({path: "python" if path in facts else "opaque" for path in files})
    found = import_problems(facts, tree, Outside(options.pop("outside", ())), **options)
    return [
        f"{one['file']}:{one['line']}:{one['column']}: {'' if one['severity'] == 'error' else 'warning: '}"
        f"{'no ' + one['module'] if 'module' in one else ''}{one['message']}"
        for one in found
    ]


def test_the_model_lost_the_name_that_the_trainer_imports() -> None:
    files = {
        "train.py": "import os\n\nfrom dflash_model import DFlashConfig\n",
        "dflash_model.py": "class DFlashConf:\n    pass\n",
    }
    assert problems(files) == ["train.py:3:1: dflash_model.py has no name DFlashConfig (did you mean DFlashConf?)"]


RESOLVES: dict[str, dict[str, str]] = {
    "module, package, folder without __init__, nested": {
        "a.py": "import b, c, d.e, c.f.g\nfrom b import x\nfrom c import f, y\nfrom d import e\nfrom c.f.g import z\n",
        "b.py": "x = 1\n",
        "c/__init__.py": "y = 1\n",
        "c/f/__init__.py": "",
        "c/f/g.py": "z = 1\n",
        "d/e.py": "",
    },
    "relative": {
        "p/__init__.py": "from .a import x\nfrom . import b\n",
        "p/a.py": "x = 1\n",
        "p/b.py": "from . import a\nfrom .a import x\nfrom .q.c import y\nfrom . import x as z\n",
        "p/q/c.py": "y = 1\nfrom .. import a\nfrom ..a import x\n",
    },
    "standard library, also what a module puts into sys.modules": {
        "a.py": "import os.path, xml.etree.ElementTree, sys, time\nfrom os import path\nfrom logging import config\n"
    },
    "star import within the project": {
        "a.py": "from b import x, y\nfrom b import *\n",
        "b.py": "from c import *\nfrom d import *\n",
        "c.py": "x = _z = 1\n",
        "d.py": "from b import *\ny = 1\n",
    },
    "star import of what __all__ names": {
        "a.py": "from b import _x\n",
        "b.py": "from c import *\n",
        "c.py": "__all__ = ['_x']\n_x = 1\n",
    },
    "star import of what is added to __all__": {
        "a.py": "from b import x, _y\n",
        "b.py": "from c import *\n",
        "c.py": "from d import *\n__all__ = []\n__all__.extend(dir())\n",
        "d.py": "x = 1\n_y = 1\n__all__ = ['x'] + ['_y']\n",
    },
    "a package that imports from itself by its full name": {
        "p/__init__.py": "from p.p import x\nimport p.p\n",
        "p/p.py": "x = 1\n",
    },
    "names that every module has": {"a.py": "from b import __name__, __file__, __doc__\n", "b.py": ""},
    "conditional definitions": {
        "a.py": "from b import x, y, z\n",
        "b.py": "if q:\n    x = 1\nelse:\n    def y(): ...\ntry:\n    z = 1\nexcept ImportError:\n    z = 2\n",
    },
    "a file that does not compile may have any name": {"a.py": "from b import x\n", "b.py": "return\n"},
    "binary modules, links and shared names are not looked into": {
        "a.py": "import fast\nfrom fast import x\nfrom linked import y\nimport data.deep.z\nfrom data.w import v\n",
        "fast.abi3.so": "",
        "linked": "",
        "data": "",
    },
    "a script's own folder, and that of its parents": {
        "tools/run.py": "import helper\nfrom helper import x\nimport main\n",
        "tools/helper.py": "x = 1\n",
        "tools/sub/deep.py": "import helper\n",
        "main.py": "",
    },
    "a folder of data does not hide a module": {
        "a.py": "import json.decoder\nfrom json import loads\n",
        "json/x.py": "",
    },
    "the standard library wins where a package has a file of its name": {
        "p/__init__.py": "",
        "p/queue.py": "",
        "p/a.py": "from queue import Queue\n",
    },
    "a handler that works": {"a.py": "try:\n    import nowhere\nexcept ImportError:\n    import json as nowhere\n"},
    "a handler that is not needed": {
        "a.py": "try:\n    import json\nexcept ImportError:\n    import nowhere as json\n"
    },
    "not for this version": {"a.py": "import sys\nif sys.version_info < (3, 7):\n    import nowhere\n"},
    "for type checkers": {
        "a.py": "if TYPE_CHECKING:\n    from b import X\n",
        "b.py": "if TYPE_CHECKING:\n    from json import JSONDecoder as X\n",
    },
    "the program sets its path": {
        "a.py": "import sys\nsys.path.insert(0, 'lib')\nfrom m import x\n",
        "lib/m.py": "x = 1\n",
    },
    "names that a package exports lazily": {
        "a.py": "from p import X, Y\n",
        "p/__init__.py": "__all__ = ['X']\ndef __getattr__(n): ...\nif TYPE_CHECKING:\n    from .q import Y\n",
        "p/q.py": "Y = 1\n",
    },
    "a package at the top": {
        "__init__.py": "x = 1\n",
        "a.py": "from . import x, b\nfrom .b import y\n",
        "b.py": "y = 1\n",
    },
}


@pytest.mark.parametrize("name", RESOLVES)
def test_resolves(name: str) -> None:
    assert problems(RESOLVES[name]) == []


NO_PARENT = "relative import at the project's top level, where a file has no parent package"
NOT_ON_PATH = "of the project, which is not on Python's path unless the run sets it"
BESIDE = "beside this file, which Python finds only when it starts this file itself"

BROKEN: dict[str, tuple[dict[str, str], list[str]]] = {
    "a name in a function and under a condition is as gone": (
        {"a.py": "def f():\n    from b import x\nif q:\n    from b import y\n", "b.py": ""},
        ["a.py:2:5: b.py has no name x", "a.py:4:5: b.py has no name y"],
    ),
    "__all__ binds nothing": (
        {"a.py": "from b import x\n", "b.py": "__all__ = ['x']\n"},
        ["a.py:1:1: b.py has no name x, though its __all__ lists it"],
    ),
    "another file has it": (
        {"a.py": "from b import config\n", "b.py": "from c import config as x\n", "c.py": "config = 1\n"},
        ["a.py:1:1: b.py has no name config (c.py has it)"],
    ),
    "private names do not come with a star": (
        {"a.py": "from b import _x\n", "b.py": "from c import *\n", "c.py": "_x = 1\n"},
        ["a.py:1:1: b.py has no name _x (c.py has it)"],
    ),
    "modules of a package": (
        {"a.py": "import p.modle\nfrom p import modle\nimport p.model.x\n", "p/__init__.py": "", "p/model.py": ""},
        [
            "a.py:1:1: p/__init__.py has no module modle (did you mean model?)",
            "a.py:2:1: p/__init__.py has no name modle (did you mean model?)",
            "a.py:3:1: p/model.py is a module and not a package, so there is no p.model.x",
        ],
    ),
    "a folder without __init__": (
        {"a.py": "import n.y\nfrom n import z\n", "n/x.py": ""},
        ["a.py:1:1: n/ has no module y", "a.py:2:1: n/ has no module z"],
    ),
    "relative imports without a package": (
        {
            "a.py": "from . import b\nfrom .b import c\n",
            "b.py": "",
            "p/__init__.py": "from .. import b\nfrom ... import b\n",
        },
        [
            f"a.py:1:1: {NO_PARENT}: write `import ...`",
            f"a.py:2:1: {NO_PARENT}: write `from b import ...`",
            "p/__init__.py:1:1: relative import beyond the project's top-level package",
            "p/__init__.py:2:1: relative import beyond the project's top-level package",
        ],
    ),
    "a relative import of a name": (
        {"p/__init__.py": "from .a import x\nfrom .c import d\n", "p/a.py": ""},
        ["p/__init__.py:1:1: p/a.py has no name x", "p/__init__.py:2:1: p/__init__.py has no module c"],
    ),
    "nowhere": (
        {"a.py": "import nowhere.x\nfrom elsewhere import y\nimport modle\n", "model.py": ""},
        ["a.py:1:1: no nowhere", "a.py:2:1: no elsewhere", "a.py:3:1: no modle (did you mean model?)"],
    ),
    "neither the module nor its replacement": (
        {"a.py": "try:\n    import nowhere\nexcept ImportError:\n    import elsewhere\n"},
        ["a.py:2:5: warning: no nowhere", "a.py:4:5: no elsewhere"],
    ),
    "a file is not what it imports under its own name": (
        {"p/__init__.py": "", "p/nowhere.py": "from nowhere.x import y\n"},
        [f"p/nowhere.py:1:1: warning: nowhere is in p/ {NOT_ON_PATH}"],
    ),
    "under the main guard": (
        {"a.py": "if __name__ == '__main__':\n    import nowhere\n"},
        ["a.py:2:5: no nowhere"],
    ),
    "may be missing: in a function, under a condition, in a try, for type checkers": (
        {
            "a.py": "def f():\n    import no_1\nif f():\n    import no_2\ntry:\n    import no_3\n"
            "except ImportError:\n    pass\nif TYPE_CHECKING:\n    import no_4\n"
        },
        [
            "a.py:2:5: warning: no no_1",
            "a.py:4:5: warning: no no_2",
            "a.py:6:5: warning: no no_3",
            "a.py:10:5: warning: no no_4",
        ],
    ),
    "a name of the project in a try": (
        {"a.py": "try:\n    from b import x\nexcept ImportError:\n    x = None\n", "b.py": ""},
        ["a.py:2:5: warning: b.py has no name x"],
    ),
    "names that may be bound unseen": (
        {
            "a.py": "from b import x\nfrom c import x\nfrom d import x\nfrom e import x\nfrom f import x\n",
            "b.py": "def __getattr__(name): ...\n",
            "c.py": "from os.path import *\n",
            "d.py": "globals().update(x=1)\n",
            "e.py": "if TYPE_CHECKING:\n    from b import y as x\n",
            "f.py": "from c import *\n",
        },
        [
            "a.py:1:1: warning: b.py may have no name x: it uses __getattr__",
            "a.py:2:1: warning: c.py may have no name x: it imports * from os.path",
            "a.py:3:1: warning: d.py may have no name x: it uses globals()",
            "a.py:4:1: warning: e.py may have no name x: it binds it only under `if TYPE_CHECKING`",
            "a.py:5:1: warning: f.py may have no name x: it imports * from os.path",
        ],
    ),
    "a name that another file sets": (
        {"a.py": "from b import x\n", "b.py": "", "c.py": "import b\nb.x = 1\n"},
        ["a.py:1:1: warning: b.py may have no name x: another file sets an attribute of that name"],
    ),
    "a name under the main guard": (
        {"a.py": "from b import x\n", "b.py": "if __name__ == '__main__':\n    x = 1\n"},
        ['a.py:1:1: warning: b.py may have no name x: it binds it only under `if __name__ == "__main__"`'],
    ),
    "a package that extends its path": (
        {"a.py": "import p.x\n", "p/__init__.py": "__path__ = __import__('pkgutil').extend_path(__path__, __name__)\n"},
        ["a.py:1:1: warning: p/__init__.py has no module x"],
    ),
    "a module of an installed package": (
        {"a.py": "import xml.nowhere\n"},
        ["a.py:1:1: warning: the installed xml seems to have no module nowhere"],
    ),
    "elsewhere in the project": (
        {"a.py": "import m\n", "src/m.py": ""},
        [f"a.py:1:1: warning: m is in src/ {NOT_ON_PATH}"],
    ),
    "beside a file of a package": (
        {"p/__init__.py": "", "p/a.py": "import b\n", "p/b.py": ""},
        [
            f"p/a.py:1:1: warning: b is {BESIDE}: write `from . import b`",
        ],
    ),
    "hides the standard library": (
        {"random.py": "", "a.py": "import os\nimport random\n"},
        ["random.py:1:1: warning: hides the standard library's random, which a.py:2 imports: rename it"],
    ),
    "hides the standard library from other modules": (
        {"queue/__init__.py": ""},
        ["queue/__init__.py:1:1: warning: hides the standard library's queue: rename it"],
    ),
    "is never imported": (
        {"time.py": "x = 1\n", "a.py": "from time import x\n"},
        ["time.py:1:1: warning: never imported: time is built into Python, which a.py:1 imports"],
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_does_not_resolve(name: str) -> None:
    files, expected = BROKEN[name]
    assert problems(files) == expected


def test_a_file_hides_an_installed_module_that_the_project_imports(tmp_path: Path) -> None:
    (tmp_path / "datasets.py").write_text("")
    files = {"datasets.py": "", "a.py": "import datasets\n"}
    hidden = f"datasets.py:1:1: warning: hides the installed datasets ({tmp_path}/datasets.py), which a.py:1 imports"
    assert problems(files, outside=[str(tmp_path)]) == [hidden]
    assert problems({"datasets.py": ""}, outside=[str(tmp_path)]) == []


def test_folders_of_the_project_on_the_path_of_the_run() -> None:
    files = {"a.py": "import m\nfrom m import x\n", "src/m.py": "x = 1\n"}
    assert problems(files, search=["src"]) == []


def test_modules_that_may_be_missing() -> None:
    assert problems({"a.py": "import flash_attn.x\n"}, optional=["flash_attn"]) == []


def test_a_folder_and_an_installed_one_of_the_same_name_are_one(tmp_path: Path) -> None:
    (tmp_path / "space").mkdir()
    (tmp_path / "space" / "there.py").write_text("")
    files = {"a.py": "import space.there\nimport space.here\nfrom space import there, gone\n", "space/here.py": ""}
    assert problems(files, outside=[str(tmp_path)]) == ["a.py:3:1: space/ has no module gone"]


def test_no_module_of_a_package_is_executed(tmp_path: Path) -> None:
    (tmp_path / "boom").mkdir()
    (tmp_path / "boom" / "__init__.py").write_text("raise SystemExit('executed')\n")
    (tmp_path / "boom" / "sub.py").write_text("raise SystemExit('executed')\n")
    assert problems({"a.py": "import boom.sub\nfrom boom.sub import x\n"}, outside=[str(tmp_path)]) == []
    assert "boom" not in sys.modules
