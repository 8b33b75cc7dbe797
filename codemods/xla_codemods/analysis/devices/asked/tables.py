"""Tables by the type of a device: which keys one has, and where something is looked up in it that it has no key for on XLA."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from ...nodes import children
from ...scopes import resolve
from ...syntax import argument_for, name_of, parameters

if TYPE_CHECKING:
    from ...index import Index
    from ...parsed_file import ParsedFile
    from ...scopes import Scope

_ANY = "*"  # an unknown key
_DEEPEST = 4  # names from a table to its keys
_MAKERS = frozenset({"dict", "OrderedDict", "defaultdict", "ChainMap", "MappingProxyType"})
_READING = ("get", "pop", "__getitem__")


def lookups(script: ParsedFile, tells: Callable[[ast.expr, Scope], bool]) -> Iterator[ast.expr]:
    """Each `table[key]` and `table.get(key)` of a table with a key for CUDA and none for XLA.

    `tells` says whether a key is the type of a device, or its text.
    """
    keys = _Keys(script)
    for item, scope in script.index.of(ast.Subscript):
        if isinstance(item.ctx, ast.Load) and _may_be_text(item.slice):
            if tells(item.slice, scope) and _is_for_cuda(keys.of(item.value, scope, _DEEPEST)):
                yield item
    for name in _READING:
        for call, scope in script.index.calls_of(name):
            func = call.func
            if isinstance(func, ast.Attribute) and call.args and _may_be_text(call.args[0]):
                if tells(call.args[0], scope):
                    if _is_for_cuda(keys.of(func.value, scope, _DEEPEST)):
                        yield call


def _may_be_text(key: ast.expr) -> bool:
    return not isinstance(key, (ast.Constant, ast.Slice, ast.Tuple, ast.UnaryOp, ast.BinOp))


def _is_for_cuda(keys: set[str]) -> bool:
    return any("cuda" in key for key in keys) and not keys & {"xla", _ANY}


class _Keys:
    """The keys of tables, as far as texts say them."""

    def __init__(self, script: ParsedFile) -> None:
        self.script = script
        self.index: Index = script.index

    def of(self, table: ast.expr, scope: Scope, depth: int) -> set[str]:
        """The keys of what `table` stands for."""
        if depth == 0:
            return set()
        match table:
            case ast.Dict(keys=keys, values=values):
                found = _texts(keys)
                for key, value in zip(keys, values, strict=True):
                    if key is None:
                        found |= self.of(value, scope, depth - 1)
                return found
            case ast.DictComp(key=key, generators=[ast.comprehension(target=to, iter=walked)]):
                return self._comprehended(key, to, walked, scope, depth)
            case (
                ast.BinOp(op=ast.BitOr(), left=one, right=other) | ast.IfExp(body=one, orelse=other)
            ):
                return self.of(one, scope, depth) | self.of(other, scope, depth)
            case ast.Call(func=func, args=args, keywords=named):
                name = name_of(func)
                if name == "fromkeys":
                    return self._elements(args[0], scope, depth) if args else set()
                if name not in _MAKERS:
                    return set()
                found = {k.arg for k in named if k.arg is not None}
                for given in args:
                    found |= self._elements(given, scope, depth, 0)
                    found |= self.of(given, scope, depth - 1)
                return found
            case ast.Name(id=text):
                return self._named(table, text, scope, depth)
            case ast.Attribute(attr=text):
                return self._of_attribute(table, text, depth)
        return set()

    def _named(self, table: ast.expr, text: str, scope: Scope, depth: int) -> set[str]:
        home, bindings = scope.find(text) or (scope, [])
        found: set[str] = set()
        for binding in bindings:
            if binding.how == "import":
                found |= self._elsewhere(table, scope, depth)
            elif binding.how == "assign" and not binding.path and binding.value is not None:
                found |= self.of(binding.value, home, depth - 1)
        return found | self._put(text) if bindings else found

    def _of_attribute(self, table: ast.expr, text: str, depth: int) -> set[str]:
        found = self._put(f".{text}")
        for statement, scope in self.index.of(ast.Assign):
            for target in statement.targets:
                name = getattr(target, "attr", "")
                if isinstance(target, ast.Name) and isinstance(scope.node, ast.ClassDef):
                    name = target.id
                if name == text:
                    found |= self.of(statement.value, scope, depth - 1) | self._put(text)
        return found or self._elsewhere(table, self.index.scope(table), depth)

    def _elsewhere(self, table: ast.expr, scope: Scope, depth: int) -> set[str]:
        """The keys of a table of another module."""
        project = self.script.project
        dotted = resolve(table, scope) if project is not None else None
        bound = project.bound(dotted) if project is not None and dotted else None
        if bound is None or bound[0].how != "assign" or bound[0].value is None:
            return set()
        inside = project.modules.scope(bound[1])  # type: ignore[union-attr]
        return self.of(bound[0].value, inside, depth - 1) if inside is not None else set()

    def _put(self, text: str) -> set[str]:
        """The keys under which something is put into the table `text` later: `table["cuda"] = f`, `table.update(cuda=f)`."""
        written = self.script.cached(_Written)
        found: set[str] = set()
        for key, functions in written.keys.get(text, ()):
            if _text(key):
                found.add(_text(key))
            else:
                found |= self._given(key.id, functions) if isinstance(key, ast.Name) else {_ANY}
        for call in written.calls.get("update", ()):
            if isinstance(call.func, ast.Attribute) and _last(call.func.value) == text:
                found |= {k.arg for k in call.keywords if k.arg is not None}
                for given in call.args:
                    found |= self.of(given, self.script.module, 1)
        return found

    def _given(self, name: str, functions: tuple[_Function, ...]) -> set[str]:
        """What calls of a function give for its parameter `name`, in this file or in another: `@register("cuda")`."""
        own = [f for f in functions if name in {a.arg for a in parameters(f.node)}]
        if not own:
            return {_ANY}
        function = own[-1].node
        found: set[str] = set()
        for call in self.script.cached(_Written).calls.get(function.name, ()):
            given = argument_for(name, function, call, skip_self=own[-1].is_method)
            found.add(_text(given) or _ANY)
        if not found and self.script.project is not None:
            called = re.compile(rf"\b{re.escape(function.name)}\(\s*[\"'](\w+)[\"']")
            modules = self.script.project.modules
            for path in modules.with_word(function.name) & self.script.project.programs:
                found |= set(called.findall(modules.text(path)))
        return found or {_ANY}

    def _comprehended(
        self, key: ast.expr, target: ast.expr, walked: ast.expr, scope: Scope, depth: int
    ) -> set[str]:
        """`{kind: ... for kind in KINDS}`, `{v: k for k, v in TABLE.items()}`."""
        match key, target:
            case ast.Name(id=name), ast.Name(id=walks) if name == walks:
                return self._elements(walked, scope, depth)
            case ast.Name(id=name), ast.Tuple(elts=parts):
                names = [getattr(part, "id", "") for part in parts]
                if name in names:
                    return self._elements(walked, scope, depth, names.index(name))
        return set()

    def _elements(
        self, walked: ast.expr, scope: Scope, depth: int, place: int | None = None
    ) -> set[str]:
        """The texts that a loop over `walked` gives; `place`: those that stand there in each of its tuples."""
        if depth == 0:
            return set()
        match walked:
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
                if place is not None:
                    parts = [
                        part.elts[place]
                        for part in parts
                        if isinstance(part, (ast.Tuple, ast.List)) and len(part.elts) > place
                    ]
                return _texts(parts)
            case ast.Call(func=ast.Name(id="zip"), args=args) if place is not None:
                return self._elements(args[place], scope, depth) if len(args) > place else set()
            case ast.Call(func=ast.Attribute(value=table, attr="items")) if place == 1:
                return self._values(table, scope)
            case ast.Call(func=ast.Attribute(value=table, attr="values")) if place is None:
                return self._values(table, scope)
            case ast.Call(func=ast.Attribute(value=table, attr="items" | "keys")):
                return self.of(table, scope, depth - 1)
            case ast.Name(id=name):
                home, bindings = scope.find(name) or (scope, [])
                values = [b.value for b in bindings if b.how == "assign" and not b.path]
                found = {
                    text
                    for value in values
                    if value is not None
                    for text in self._elements(value, home, depth - 1, place)
                }
                return found or (self.of(walked, scope, depth - 1) if place is None else set())
        return set()

    def _values(self, table: ast.expr, scope: Scope) -> set[str]:
        """The texts that stand in a display of a dict."""
        found = scope.find(table.id) if isinstance(table, ast.Name) else None
        tables = [b.value for b in found[1]] if found is not None else [table]
        return _texts(v for one in tables if isinstance(one, ast.Dict) for v in one.values)


class _Function(NamedTuple):
    node: ast.FunctionDef | ast.AsyncFunctionDef
    is_method: bool


class _Written:
    """What the whole file puts into tables later, and its calls: also on lines that no rule listens to."""

    def __init__(self, script: ParsedFile) -> None:
        self.keys: dict[str, list[tuple[ast.expr, tuple[_Function, ...]]]] = {}
        self.calls: dict[str, list[ast.Call]] = {}
        self._look(script.tree, (), False)

    def _look(self, node: ast.AST, functions: tuple[_Function, ...], in_class: bool) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                functions = (*functions, _Function(node, in_class))
            case ast.Subscript(value=table, slice=key, ctx=ast.Store()):
                self.keys.setdefault(_last(table), []).append((key, functions))
            case ast.Call(func=func):
                name = name_of(func)
                self.calls.setdefault(name, []).append(node)
                if name == "setdefault" and node.args and isinstance(func, ast.Attribute):
                    self.keys.setdefault(_last(func.value), []).append((node.args[0], functions))
        for child in children(node):
            self._look(child, functions, isinstance(node, ast.ClassDef))


def _last(table: ast.expr) -> str:
    """What a table goes by: a name, or with a dot before it the attribute of whatever object."""
    return f".{table.attr}" if isinstance(table, ast.Attribute) else ast.unparse(table)


def _text(node: ast.AST | None) -> str:
    """A text that is written out; nothing for all else."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _texts(nodes: Iterable[ast.AST | None]) -> set[str]:
    return {text for node in nodes if (text := _text(node))}
