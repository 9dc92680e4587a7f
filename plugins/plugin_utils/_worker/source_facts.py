# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one Python source says: does it compile, which names does it bind, what does it import.

`read_source` is the whole interface. Its facts are plain JSON values, so they can be kept beside a release and serve
again for as long as the bytes and the interpreter stay the same.
"""

from __future__ import annotations

import _ast  # the classes alone: importing `ast` costs milliseconds that each check would pay
import os
import re
import sys
import warnings

from .facts import ALWAYS, NEVER, SOMETIMES, TYPING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, Callable

_PARSE_ONLY = 0x400  # ast.PyCF_ONLY_AST
_COMPILE_ERRORS = (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError)
_IMPORT_ERRORS = frozenset(("ImportError", "ModuleNotFoundError", "Exception", "BaseException"))
_DYNAMIC_TEXT = re.compile(rb"\b(?:globals|vars|locals)\s*\(\s*\)|\b(?:exec|setattr)\s*\(|\bsys\s*\.\s*modules\b")
_CATCHERS = ("suppress", "raises", "assertRaises")
_CODING = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*[-\w.]+")
_LONE_CR = re.compile(rb"\r(?!\n)")


class Unreadable(Exception):
    """A source that this interpreter refuses. line and column count from 1."""

    def __init__(self, line: int, column: int, message: str) -> None:
        super().__init__(message)
        self.line = max(1, line)
        self.column = max(1, column)
        self.message = message


def read_source(path: str, data: bytes) -> dict[str, Any]:
    """Compile one source from its bytes, as the import system would, and return its facts.

    Nothing is executed and nothing is written. Facts, all but `names` and `imports` only where they say something:

    - names: names bound at module level
    - only: {name: why} names that are bound only where an importer never comes by
    - all: the strings of `__all__`; open: true when it has more than can be seen
    - stars: [[level, module]] star imports at module level
    - dynamic: what may bind names that cannot be seen, such as `__getattr__`
    - imports: [[line, column, level, module, names or null, when, guard, fallback]]: `names` is null for
      `import module`; `when` is one of ALWAYS, SOMETIMES, TYPING, NEVER; `guard` numbers the `try` that catches a
      failing import and `fallback` the one whose handler the import is in (0: none)
    - sets: attributes that are assigned on imported modules
    - path: true when the program changes sys.path
    - warnings: [[line, column, message]] SyntaxWarnings of the compiler

    Raises Unreadable for whatever the interpreter refuses.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tree = _compiled_tree(path, data)
    deep: dict[str, Any] = {"names": [], "imports": [], "dynamic": "code too deep to look through"}
    facts = _Reader(data).read(tree) if tree is not None else deep
    found = sorted({(w.lineno, str(w.message)) for w in caught if issubclass(w.category, SyntaxWarning)})
    if found:
        facts["warnings"] = [[line, 1, message] for line, message in found]
    return facts


def _compiled_tree(path: str, data: bytes) -> Any:
    """The tree of a module that the compiler passes too; None for code too deep for a tree but not for compiling."""
    try:
        tree = compile(data, path, "exec", _PARSE_ONLY, dont_inherit=True)
        # The parser alone accepts files that cannot run, such as `return` outside a function.
        compile(tree, path, "exec", dont_inherit=True)
        return tree
    except (RecursionError, MemoryError):
        pass
    except _COMPILE_ERRORS as exc:
        raise _refusal(data, exc) from None
    try:
        compile(data, path, "exec", dont_inherit=True)
    except _COMPILE_ERRORS as exc:
        raise _refusal(data, exc) from None
    return None


def _refusal(data: bytes, exc: BaseException) -> Unreadable:
    """What the interpreter said, with a place also where it gives none (null bytes, encodings, depth)."""
    message = str(exc.args[0]) if exc.args else str(exc) or type(exc).__name__
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return Unreadable(1, 1, "the file is UTF-16; Python sources are UTF-8 unless they declare another encoding")
    if b"\0" in data and "null byte" in message:
        before = data[: data.index(b"\0")]
        return Unreadable(_lines(before) + 1, len(before) - _line_start(before) + 1, message)
    if isinstance(exc, SyntaxError):
        name = type(exc).__name__  # IndentationError and TabError say more than their messages
        kind = "" if name == "SyntaxError" else f"{name}: "
        line = exc.lineno or _coding_line(data)
        return Unreadable(line, exc.offset or 1, kind + message)
    return Unreadable(1, 1, f"{type(exc).__name__}: {message}")


def _lines(data: bytes) -> int:
    return data.count(b"\n") + len(_LONE_CR.findall(data))


def _line_start(data: bytes) -> int:
    return max(data.rfind(b"\n"), data.rfind(b"\r")) + 1


def _coding_line(data: bytes) -> int:
    """The line that declares the encoding (1 or 2), else 1."""
    lines = data.split(b"\n", 2)
    return 2 if len(lines) > 1 and not _CODING.match(lines[0]) and _CODING.match(lines[1]) else 1


class _Place:
    """Where a statement stands. Places are values: `inside` returns a changed copy."""

    __slots__ = ("binds", "fallback", "guard", "only", "top", "when")

    def __init__(self) -> None:
        self.binds = True  # names bound here are names of the module
        self.top = True  # a statement of the module's body itself
        self.when = ALWAYS
        self.only = ""  # why an importer never comes by here
        self.guard = 0
        self.fallback = 0

    def inside(self, **changes: Any) -> _Place:
        if not changes and not self.top:
            return self
        place = _Place()
        for field in self.__slots__:
            setattr(place, field, changes.get(field, getattr(self, field)))
        place.top = False
        return place

    def branch(self, truth: bool | None, typing: bool = False) -> _Place:
        """The place of a branch whose condition is known to be `truth` for this interpreter, or unknown."""
        if truth is False and typing:
            return self.inside(when=TYPING, only=self.only or "if TYPE_CHECKING")
        if truth is False:
            return self.inside(when=NEVER, only=self.only or "a condition that is false for this Python")
        if truth is None and self.when == ALWAYS:
            return self.inside(when=SOMETIMES)
        return self.inside()


class _Reader:
    """Collects the facts of one tree: visits statements only, and expressions where the text calls for it."""

    def __init__(self, data: bytes) -> None:
        self._names: set[str] = set()
        self._only: dict[str, str] = {}
        self._imports: dict[tuple[Any, ...], list[Any]] = {}
        self._aliases: set[str] = set()
        self._sets: list[tuple[str, str]] = []
        self._stars: list[list[Any]] = []
        self._all: list[str] | None = None
        self._seen_all = 0
        self._mentions_all = data.count(b"__all__")
        self._dynamic = ""
        self._tries = 0
        self._walrus = b":=" in data
        self._maybe_dynamic = _DYNAMIC_TEXT.search(data) is not None
        self._path = b"sys.path" in data
        self._visits: dict[str, Callable[[Any, _Place], None]] = {
            "Import": self._import,
            "ImportFrom": self._import_from,
            "FunctionDef": self._function,
            "AsyncFunctionDef": self._function,
            "ClassDef": self._class,
            "Assign": self._assign,
            "AugAssign": self._assign,
            "AnnAssign": self._assign,
            "TypeAlias": self._assign,
            "Delete": self._delete,
            "For": self._for,
            "AsyncFor": self._for,
            "While": self._while,
            "If": self._if,
            "With": self._with,
            "AsyncWith": self._with,
            "Try": self._try,
            "TryStar": self._try,
            "Match": self._match,
            "Global": self._global,
        }

    def read(self, tree: Any) -> dict[str, Any]:
        self._body(tree.body, _Place())
        if self._maybe_dynamic:
            self._read_dynamic(tree)
        if "__getattr__" in self._names:
            self._dynamic = "__getattr__"
        facts: dict[str, Any] = {"names": sorted(self._names), "imports": list(self._imports.values())}
        only = {name: why for name, why in self._only.items() if name not in self._names}
        sets = sorted({attribute for alias, attribute in self._sets if alias in self._aliases})
        for key, value in (
            ("only", only),
            ("all", self._all),
            ("stars", self._stars),
            ("open", self._mentions_all > self._seen_all),
            ("dynamic", self._dynamic),
            ("sets", sets),
            ("path", self._path),
        ):
            if value:
                facts[key] = value
        return facts

    def _read_dynamic(self, tree: Any) -> None:
        for node in _walk(tree):
            self._dynamic = self._dynamic or _dynamic_call(node)
            if type(node).__name__ == "Call" and _last_name(node.func) == "setattr" and len(node.args) == 3:
                owner, name = getattr(node.args[0], "id", ""), getattr(node.args[1], "value", None)
                if isinstance(name, str):
                    self._sets.append((owner, name))
                elif owner in self._aliases:
                    self._dynamic = self._dynamic or "setattr()"

    def _body(self, statements: Iterable[Any], place: _Place) -> None:
        for node in statements:
            visit = self._visits.get(type(node).__name__)
            if visit is not None:
                visit(node, place)
            if self._walrus and place.binds:
                self._bind_walrus(node, place)

    def _bind(self, name: str, place: _Place) -> None:
        if not place.binds:
            return
        if place.only:
            self._only.setdefault(name, place.only)
        else:
            self._names.add(name)

    def _bind_target(self, target: Any, place: _Place) -> None:
        kind = type(target).__name__
        if kind == "Name":
            self._bind(target.id, place)
        elif kind in ("Tuple", "List"):
            for part in target.elts:
                self._bind_target(part, place)
        elif kind == "Starred":
            self._bind_target(target.value, place)
        elif kind == "Attribute" and type(target.value).__name__ == "Name":
            self._sets.append((target.value.id, target.attr))

    def _bind_walrus(self, node: Any, place: _Place) -> None:
        """Names that `:=` binds in the statement's own expressions; a comprehension's too belong to the module."""
        for part in _expressions(node):
            if type(part).__name__ == "NamedExpr":
                self._bind(part.target.id, place)

    def _import(self, node: Any, place: _Place) -> None:
        for alias in node.names:
            bound = alias.asname or alias.name.partition(".")[0]
            self._bind(bound, place)
            self._aliases.add(bound)
            self._record(node, place, 0, alias.name, None)

    def _import_from(self, node: Any, place: _Place) -> None:
        module, level = node.module or "", node.level or 0
        for alias in node.names:
            if alias.name != "*":
                self._bind(alias.asname or alias.name, place)
                self._aliases.add(alias.asname or alias.name)
            elif not place.only:
                self._stars.append([level, module])
        if module != "__future__":
            self._record(node, place, level, module, [alias.name for alias in node.names])

    def _record(self, node: Any, place: _Place, level: int, module: str, names: list[str] | None) -> None:
        key = (level, module, None if names is None else tuple(names), place.when, place.guard, place.fallback)
        record = [node.lineno, node.col_offset + 1, level, module, names, place.when, place.guard, place.fallback]
        self._imports.setdefault(key, record)

    def _function(self, node: Any, place: _Place) -> None:
        self._bind(node.name, place)
        when = SOMETIMES if place.when == ALWAYS else place.when
        # A guard around a definition does not guard the call.
        self._body(node.body, place.inside(binds=False, when=when, guard=0, fallback=0))

    def _class(self, node: Any, place: _Place) -> None:
        self._bind(node.name, place)
        self._body(node.body, place.inside(binds=False))

    def _assign(self, node: Any, place: _Place) -> None:
        if getattr(node, "value", None) is None:
            return  # an annotation alone binds nothing
        targets = node.targets if type(node).__name__ == "Assign" else [getattr(node, "target", None) or node.name]
        for target in targets:
            self._bind_target(target, place)
            if place.binds and getattr(target, "id", None) == "__all__":
                self._read_all(node)

    def _read_all(self, node: Any) -> None:
        parts = getattr(node.value, "elts", None)
        strings: list[Any] = [getattr(part, "value", None) for part in parts or ()]
        texts = [text for text in strings if isinstance(text, str)]
        if parts is None or len(texts) != len(strings):
            return
        self._seen_all += 1
        before = self._all or [] if type(node).__name__ == "AugAssign" else []
        self._all = [*before, *texts]

    def _delete(self, node: Any, place: _Place) -> None:
        if place.top:
            self._names.difference_update(getattr(target, "id", "") for target in node.targets)

    def _for(self, node: Any, place: _Place) -> None:
        self._bind_target(node.target, place)
        self._while(node, place)

    def _while(self, node: Any, place: _Place) -> None:
        self._body(node.body, place.inside())
        self._body(node.orelse, place.inside())

    def _if(self, node: Any, place: _Place) -> None:
        if _is_main_test(node.test):
            # The started script does come by, but nobody who imports from it.
            self._body(node.body, place.inside(only=place.only or 'if __name__ == "__main__"'))
            self._body(node.orelse, place.inside())
            return
        truth = _truth(node.test)
        typing = truth is not None and any(_last_name(part) == "TYPE_CHECKING" for part in _walk(node.test))
        self._body(node.body, place.branch(truth, typing))
        self._body(node.orelse, place.branch(None if truth is None else not truth, typing))

    def _with(self, node: Any, place: _Place) -> None:
        guard = place.guard
        for item in node.items:
            if item.optional_vars is not None:
                self._bind_target(item.optional_vars, place)
            call = item.context_expr
            if type(call).__name__ == "Call" and _last_name(call.func) in _CATCHERS and _catches_imports(call.args):
                self._tries += 1
                guard = self._tries
        self._body(node.body, place.inside(guard=guard))

    def _try(self, node: Any, place: _Place) -> None:
        guard, number = place.guard, 0
        if any(handler.type is None or _catches_imports([handler.type]) for handler in node.handlers):
            self._tries += 1
            guard = number = self._tries
        self._body(node.body, place.inside(guard=guard))
        for handler in node.handlers:
            if handler.name:
                self._bind(handler.name, place)
            self._body(handler.body, place.inside(fallback=number or place.fallback))
        self._body(node.orelse, place.inside())
        self._body(node.finalbody, place.inside())

    def _match(self, node: Any, place: _Place) -> None:
        for case in node.cases:
            for part in _walk(case.pattern):
                name = getattr(part, "name", None) or getattr(part, "rest", None)
                if isinstance(name, str):
                    self._bind(name, place)
            self._body(case.body, place.branch(None))

    def _global(self, node: Any, place: _Place) -> None:
        self._names.update(node.names)


def _walk(node: Any) -> Iterator[Any]:
    """The node and all below it, in no promised order."""
    todo = [node]
    while todo:
        current = todo.pop()
        yield current
        todo.extend(_children(current))


def _children(node: Any) -> Iterator[Any]:
    for field in node._fields:
        value = getattr(node, field, None)
        if isinstance(value, list):
            yield from (part for part in value if isinstance(part, _ast.AST))
        elif isinstance(value, _ast.AST):
            yield value


def _expressions(statement: Any) -> Iterator[Any]:
    """The expressions of a statement itself: not of statements in its body, not of a lambda's body."""
    todo = [part for part in _children(statement) if not isinstance(part, _ast.stmt)]
    while todo:
        current = todo.pop()
        yield current
        if type(current).__name__ == "Lambda":
            todo.append(current.args)
        else:
            todo.extend(part for part in _children(current) if not isinstance(part, _ast.stmt))


def _last_name(node: Any) -> str:
    """`b` of `b` and of `a.b`, else ''."""
    return getattr(node, "id", None) or getattr(node, "attr", None) or ""


def _catches_imports(types: Iterable[Any]) -> bool:
    return any(_last_name(part) in _IMPORT_ERRORS for node in types for part in getattr(node, "elts", [node]))


def _is_main_test(test: Any) -> bool:
    if type(test).__name__ != "Compare" or len(test.ops) != 1 or type(test.ops[0]).__name__ != "Eq":
        return False
    sides = (test.left, test.comparators[0])
    return any(getattr(side, "id", "") == "__name__" for side in sides) and any(
        getattr(side, "value", "") == "__main__" for side in sides
    )


def _truth(test: Any) -> bool | None:
    """What a condition is for this interpreter at run time, None where only the run knows."""
    kind = type(test).__name__
    if kind == "Constant":
        return bool(test.value)
    if _last_name(test) == "TYPE_CHECKING":
        return False
    if kind == "UnaryOp" and type(test.op).__name__ == "Not":
        inner = _truth(test.operand)
        return None if inner is None else not inner
    if kind == "BoolOp":
        return _truth_of_all(type(test.op).__name__, [_truth(part) for part in test.values])
    if kind == "Compare" and len(test.ops) == 1:
        return _compare(_constant(test.left), type(test.ops[0]).__name__, _constant(test.comparators[0]))
    return None


def _truth_of_all(operator: str, parts: list[bool | None]) -> bool | None:
    deciding = operator == "Or"  # one True decides `or`, one False decides `and`
    if deciding in parts:
        return deciding
    return None if None in parts else not deciding


def _constant(node: Any) -> Any:
    """The value of a literal, of sys.version_info, sys.platform and os.name; None for all else."""
    kind = type(node).__name__
    if kind == "Constant":
        return node.value
    if kind == "Tuple":
        values = [_constant(part) for part in node.elts]
        return None if None in values else tuple(values)
    if kind == "Attribute":
        owner = (getattr(node.value, "id", ""), node.attr)
        if owner == ("sys", "version_info"):
            return tuple(sys.version_info)
        if owner == ("sys", "platform"):
            return sys.platform
        if owner == ("os", "name"):
            return os.name
    return None


def _compare(left: Any, operator: str, right: Any) -> bool | None:
    if left is None or right is None or type(left) is not type(right):
        return None
    try:
        if operator in ("Lt", "LtE"):
            return bool(left < right or (operator == "LtE" and left == right))
        if operator in ("Gt", "GtE"):
            return bool(left > right or (operator == "GtE" and left == right))
    except TypeError:
        return None
    return {"Eq": left == right, "NotEq": left != right}.get(operator)


def _dynamic_call(node: Any) -> str:
    """What the node does that may bind names unseen, such as `globals()`; '' when nothing."""
    kind = type(node).__name__
    if kind == "Call" and type(node.func).__name__ == "Name":
        name = node.func.id
        if name == "exec" or (name in ("globals", "vars", "locals") and not node.args):
            return f"{name}()"
    if kind == "Attribute" and node.attr == "modules" and getattr(node.value, "id", "") == "sys":
        return "sys.modules"
    return ""
