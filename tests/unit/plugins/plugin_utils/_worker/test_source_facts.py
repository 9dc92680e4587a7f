# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What one source says: refused or not and where, the names it binds, what it imports and under which condition."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.source_facts import Unreadable, read_source


def facts(text: str) -> dict[str, Any]:
    """The facts of a source."""
    return read_source("x.py", text.encode())


@pytest.mark.parametrize(
    ("data", "line", "column", "message"),
    [
        # What the parser alone lets through: only the compiler knows that these cannot run.
        (b"x = 1\nreturn x\n", 2, 1, "'return' outside function"),
        (b"await x\n", 1, 1, "'await' outside function"),
        (b"def f(a, a): pass\n", 1, None, "duplicate argument 'a' in function definition"),
        (b"y = 1\nnonlocal x\n", 2, 1, "nonlocal declaration not allowed at module level"),
        (b"if x:\n    break\n", 2, 5, "'break' outside loop"),
        (b"continue\n", 1, 1, "'continue' not properly in loop"),
        (
            b"x = 1\nfrom __future__ import annotations\n",
            2,
            None,
            "from __future__ imports must occur at the beginning",
        ),
        (b"yield 1\n", 1, 1, "'yield' outside function"),
        (b"def f():\n    x = 1\n    global x\n", 3, 5, "name 'x' is assigned to before global declaration"),
        (b"f(a=1, a=2)\n", 1, None, "keyword argument repeated"),
        (b"*a = 1\n", 1, None, "starred assignment target must be in a list or tuple"),
        (b"def f():\n    from x import *\n", 2, None, "import * only allowed at module level"),
        # What the parser refuses.
        (b"def f(:\n", 1, 7, "invalid syntax"),
        (b"x = (1,\n", 1, 5, "'(' was never closed"),
        (b"if x:\n  y\n z\n", 3, None, "IndentationError: unindent does not match"),
        (b"if x:\n\ty\n        z\n", 3, None, "TabError: inconsistent use of tabs"),
        # Bytes, as Python takes them.
        (b"x = 1\ny = '\0'\n", 2, 6, "null bytes"),
        (b"x = 1\r\ny = '\0'\r\n", 2, 6, "null bytes"),
        (b"x = 1\ny = '\xff'\n", 2, None, "'utf-8' codec can't decode byte 0xff"),
        (b"#!/usr/bin/python3\n# -*- coding: nonsense -*-\n", 2, 1, "unknown encoding: nonsense"),
        ("x = 1\n".encode("utf-16"), 1, 1, "UTF-16"),
        (b"x = '''", 1, 5, "unterminated triple-quoted string"),
        (b"(" * 300 + b")" * 300, 1, None, "too many nested parentheses"),
        (b"x = " + b"9" * 5000 + b"\n", 1, None, "Exceeds the limit"),
        (b"x = a" + b"+a" * 50000 + b"\n", 1, 1, "RecursionError"),
    ],
)
def test_what_the_interpreter_refuses(data: bytes, line: int, column: int | None, message: str) -> None:
    with pytest.raises(Unreadable) as caught:
        read_source("x.py", data)
    assert message in caught.value.message
    assert (caught.value.line, caught.value.column) == (line, column if column is not None else caught.value.column)
    assert caught.value.column >= 1


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xef\xbb\xbfx = 1\r\ny = 2\r\n",
        b"# -*- coding: latin-1 -*-\nx = '\xe9'\ny = 1\n",
        b"#!/usr/bin/env python3\n# vim: set fileencoding=cp1252 :\nx = '\x80'\ny = 1\n",
        b"x = 1\ry = 2\r",
        b"\x0cx = 1\ny = 2",
        b"async def f():\n    return [x async for x in y]\nx = y = 1\n",
    ],
)
def test_what_it_takes(data: bytes) -> None:
    assert read_source("x.py", data)["names"] in ([], ["x", "y"], ["f", "x", "y"])


def test_nothing_is_executed() -> None:
    facts("import sys\nsys.exit('executed')\nraise SystemExit\n")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import a, b.c, d.e as f\nfrom g import h, i as j\n", "a b f h j"),
        ("x = y = 1\nz: int = 2\nw: int\nx += 1\n", "x y z"),
        ("a, (b, *c), [d] = q\ne.f = g[h] = 1\n", "a b c d"),
        ("def f(a): b = 1\nclass C:\n    d = 1\nasync def g(): pass\n", "C f g"),
        ("for a, b in c: d = 1\nelse: e = 1\nwhile f: g = 1\n", "a b d e g"),
        ("with a as b, c as (d, e): f = 1\n", "b d e f"),
        ("try: a = 1\nexcept E as b: c = 1\nelse: d = 1\nfinally: e = 1\n", "a b c d e"),
        ("if x: a = 1\nelif y: b = 1\nelse: c = 1\n", "a b c"),
        (
            "match x:\n    case {'k': a, **b}: c = 1\n    case [d, *e] | (d, e): pass\n    case A(f=g) as h: pass\n",
            "a b c d e g h",
        ),
        (
            "(a := 1)\nif (b := 2): pass\n[c := d for d in e]\nf = lambda: (g := 1)\ndef h(i=(j := 1)): (k := 1)\n",
            "a b c f h j",
        ),
        ("def f():\n    global a, b\n    a = 1\n", "a b f"),
        ("a = b = 1\ndel a\n", "b"),
        ("a = 1\nif x:\n    del a\n", "a"),
        ("a = 1\ndel a\na = 2\n", "a"),
    ],
)
def test_names_bound_at_module_level(text: str, names: str) -> None:
    assert facts(text)["names"] == names.split()


@pytest.mark.parametrize(
    ("text", "only"),
    [
        ("if TYPE_CHECKING:\n    from a import b\n", {"b": "if TYPE_CHECKING"}),
        ("import typing as t\nif t.TYPE_CHECKING:\n    b = 1\nelse:\n    c = 1\n", {"b": "if TYPE_CHECKING"}),
        ("if not TYPE_CHECKING:\n    c = 1\nelse:\n    b = 1\n", {"b": "if TYPE_CHECKING"}),
        ("if TYPE_CHECKING:\n    b = 1\nb = 2\n", None),
        ("if __name__ == '__main__':\n    a = 1\n", {"a": 'if __name__ == "__main__"'}),
        ("if '__main__' == __name__:\n    a = 1\nelse:\n    b = 1\n", {"a": 'if __name__ == "__main__"'}),
        ("import sys\nif sys.version_info < (3, 8):\n    a = 1\n", {"a": "a condition that is false for this Python"}),
        ("import sys\nif sys.version_info >= (3, 8) and sys.platform != 'win32':\n    a = 1\n", None),
        (
            "import sys\nif sys.platform == 'win32' or os.name == 'nt':\n    a = 1\n",
            {"a": "a condition that is false for this Python"},
        ),
        ("if 0:\n    a = 1\n", {"a": "a condition that is false for this Python"}),
        ("if sys.version_info < '3':\n    a = 1\n", None),
        ("if x and TYPE_CHECKING:\n    a = 1\n", {"a": "if TYPE_CHECKING"}),
    ],
)
def test_names_that_an_importer_never_gets(text: str, only: dict[str, str] | None) -> None:
    assert facts(text).get("only") == only


@pytest.mark.parametrize(
    ("text", "imports"),
    [
        ("import a.b, c as d\n", [[1, 1, 0, "a.b", None, "always", 0, 0], [1, 1, 0, "c", None, "always", 0, 0]]),
        ("x = 1; from ..a import b, c\n", [[1, 8, 2, "a", ["b", "c"], "always", 0, 0]]),
        ("from . import (\n    a,\n)\n", [[1, 1, 1, "", ["a"], "always", 0, 0]]),
        ("from __future__ import annotations\n", []),
        ("import a\nimport a\n", [[1, 1, 0, "a", None, "always", 0, 0]]),
        ("def f():\n    import a\n", [[2, 5, 0, "a", None, "sometimes", 0, 0]]),
        ("class A:\n    import a\n", [[2, 5, 0, "a", None, "always", 0, 0]]),
        ("if x:\n    import a\n", [[2, 5, 0, "a", None, "sometimes", 0, 0]]),
        ("for x in y:\n    import a\n", [[2, 5, 0, "a", None, "always", 0, 0]]),
        ("if __name__ == '__main__':\n    import a\n", [[2, 5, 0, "a", None, "always", 0, 0]]),
        ("if TYPE_CHECKING:\n    import a\n", [[2, 5, 0, "a", None, "typing", 0, 0]]),
        ("if False:\n    import a\n", [[2, 5, 0, "a", None, "never", 0, 0]]),
        ("try:\n    import a\nexcept ValueError:\n    pass\n", [[2, 5, 0, "a", None, "always", 0, 0]]),
        (
            "try:\n    import a\nexcept (KeyError, builtins.ImportError):\n    import b\n",
            [[2, 5, 0, "a", None, "always", 1, 0], [4, 5, 0, "b", None, "always", 0, 1]],
        ),
        ("try:\n    import a\nexcept:\n    pass\n", [[2, 5, 0, "a", None, "always", 1, 0]]),
        ("with contextlib.suppress(ImportError):\n    import a\n", [[2, 5, 0, "a", None, "always", 1, 0]]),
        ("with pytest.raises(ImportError):\n    import a\n", [[2, 5, 0, "a", None, "always", 1, 0]]),
        ("with suppress(KeyError):\n    import a\n", [[2, 5, 0, "a", None, "always", 0, 0]]),
        ("try:\n    def f():\n        import a\nexcept ImportError: pass\n", [[3, 9, 0, "a", None, "sometimes", 0, 0]]),
    ],
)
def test_imports_and_their_conditions(text: str, imports: list[list[Any]]) -> None:
    assert facts(text)["imports"] == imports


@pytest.mark.parametrize(
    ("text", "dynamic"),
    [
        ("def __getattr__(name): ...\n", "__getattr__"),
        ("globals()['a'] = 1\n", "globals()"),
        ("def f():\n    vars()['a'] = 1\n", "vars()"),
        ("exec('a = 1')\n", "exec()"),
        ("def f(n):\n    from p import me\n    setattr(me, n, 1)\nsetattr(args, n, 2)\n", "setattr()"),
        ("setattr(args, n, 2)\n", None),
        ("import sys\nsys.modules[__name__] = x\n", "sys.modules"),
        ("a = vars(args)\nb.exec(1)\n# globals()\n'exec(1)'\n", None),
    ],
)
def test_what_may_bind_names_unseen(text: str, dynamic: str | None) -> None:
    assert facts(text).get("dynamic") == dynamic


def test_code_too_deep_for_a_tree_is_not_looked_through(monkeypatch: pytest.MonkeyPatch) -> None:
    # Between the depth that a tree may have and the one that compiles lies nothing in some versions: bring it about.
    from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker import source_facts

    def shallow(source: Any, path: str, mode: str, *flags: int, dont_inherit: bool) -> Any:
        if flags:
            raise RecursionError("maximum recursion depth exceeded during ast construction")
        return compile(source, path, mode, dont_inherit=dont_inherit)

    monkeypatch.setattr(source_facts, "compile", shallow, raising=False)
    assert "dynamic" in facts("x = 1\n")
    with pytest.raises(Unreadable, match="'return' outside function"):
        facts("return\n")


def test_the_rest() -> None:
    found = facts(
        "import sys, m\nfrom a import *\nfrom .b import *\n__all__ = ['x']\n__all__ += ['y']\n"
        "m.late = 1\nq.other = 2\nsys.path.append('z')\n"
    )
    assert found["stars"] == [[0, "a"], [1, "b"]]
    assert found["all"] == ["x", "y"]
    assert facts("__all__ = ['x']\n__all__.append(y)\n")["open"] is True
    assert found["sets"] == ["late"]
    assert facts("import m\nsetattr(m, 'late', 1)\nsetattr(q, 'other', 2)\n")["sets"] == ["late"]
    assert found["path"] is True
    assert not {"all", "open", "stars", "sets", "path", "only", "dynamic", "warnings"} & set(facts("x = 1\n"))


def test_warnings_of_the_compiler() -> None:
    assert facts("x = 1\ny = x is 1\n")["warnings"][0][:2] == [2, 1]
