"""The bindings of a scope: its names, each with every statement of the scope that binds it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Union

from .nodes import CALLABLES, COMPREHENSIONS, DEFINITIONS, children, walk

FunctionNode = Union[ast.FunctionDef, ast.AsyncFunctionDef]
Comprehension = Union[ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp]
ScopeNode = Union[ast.Module, FunctionNode, ast.ClassDef, ast.Lambda, Comprehension]

# A copy of the runtime is the runtime: `import xla_runtime as xla`.
_COPIES = {"xla_runtime": "xla_migrate.runtime"}

# Path into an unpacked value: an index, or `ITERATED` for "one element of it".
ITERATED = -1_000_000


class Binding(NamedTuple):
    """One place that binds a name: `value` unpacked along `path` is what it is bound to."""

    how: str  # import, fallback, assign, augment, for, with, parameter, def, class, except, ...
    node: ast.AST
    value: ast.expr | None = None
    path: tuple[int, ...] = ()
    dotted: str = ""  # of an import

    @property
    def whole(self) -> ast.expr | None:
        """Return the value of `name = value`, of `a, b = 0, []` too; None for other bindings."""
        return self.part if self.how == "assign" else None

    @property
    def part(self) -> ast.expr | None:
        """Return the part of the value that is bound; None for a part of what is no tuple."""
        value = self.value
        for step in self.path:
            if not isinstance(value, (ast.Tuple, ast.List)) or not 0 <= step < len(value.elts):
                return None
            value = value.elts[step]
        return value


class Collector:
    """Collects the bindings of one scope, without entering the scopes inside it."""

    def __init__(
        self,
        into: dict[str, list[Binding]],
        outer: set[str],
        stars: list[str],
        has_walrus: bool,
    ) -> None:
        """Collect into `into`; names declared `global` or `nonlocal` go to `outer`, homes of star imports to `stars`."""
        self.into = into
        self.fallbacks: frozenset[str] = frozenset()  # names that torch has given already
        self.outer = outer
        self.stars = stars
        self.has_walrus = has_walrus

    def scope(self, node: ScopeNode) -> None:
        if isinstance(node, COMPREHENSIONS):
            for generator in node.generators:
                self.target(generator.target, "for", generator, generator.iter, (ITERATED,))
            return
        if isinstance(node, CALLABLES):
            self.parameters(node.args)
        if not isinstance(node, ast.Lambda):
            self.block(node.body)

    def parameters(self, args: ast.arguments) -> None:
        positional = [*args.posonlyargs, *args.args]
        defaults: list[ast.expr | None] = [None] * (len(positional) - len(args.defaults))
        defaults += args.defaults
        for arg, default in (*zip(positional, defaults), *zip(args.kwonlyargs, args.kw_defaults)):
            self.add(arg.arg, Binding("parameter", arg, default))
        for rest in (args.vararg, args.kwarg):
            if rest is not None:
                self.add(rest.arg, Binding("parameter", rest))

    def block(self, body: Iterable[ast.stmt]) -> None:
        for statement in body:
            handler = _STATEMENTS.get(type(statement))
            if handler is not None:
                handler(self, statement)

    def add(self, name: str, binding: Binding) -> None:
        if name in self.fallbacks:
            binding = binding._replace(how="fallback")
        self.into.setdefault(name, []).append(binding)

    def target(
        self,
        target: ast.expr,
        how: str,
        node: ast.AST,
        value: ast.expr | None,
        path: tuple[int, ...] = (),
    ) -> None:
        if isinstance(target, ast.Name):
            self.add(target.id, Binding(how, node, value, path))
        elif isinstance(target, (ast.Tuple, ast.List)):
            for element, part, at in _paired(target.elts, value, path):
                self.target(element, how, node, part, at)
        elif isinstance(target, ast.Starred):
            self.target(target.value, how, node, None)

    # One handler per kind of statement.

    def assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self.target(target, "assign", node, node.value)
        self.walrus(node.value)

    def ann_assign(self, node: ast.AnnAssign) -> None:
        self.target(node.target, "assign", node, node.value)

    def aug_assign(self, node: ast.AugAssign) -> None:
        self.target(node.target, "augment", node, node.value)

    def loop(self, node: ast.For | ast.AsyncFor) -> None:
        self.target(node.target, "for", node, node.iter, (ITERATED,))
        self.block(node.body)
        self.block(node.orelse)

    def branch(self, node: ast.If | ast.While) -> None:
        self.walrus(node.test)
        self.block(node.body)
        self.block(node.orelse)

    def with_(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            if item.optional_vars is not None:
                self.target(item.optional_vars, "with", node, item.context_expr)
        self.block(node.body)

    def try_(self, node: ast.Try) -> None:
        self.block(node.body)
        outer = self.fallbacks
        self.fallbacks = outer | _from_torch(node.body)
        for handler in node.handlers:
            if handler.name:
                self.add(handler.name, Binding("except", handler))
            self.block(handler.body)
        self.fallbacks = outer
        self.block(node.orelse)
        self.block(node.finalbody)

    def import_(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.asname:
                dotted = _COPIES.get(alias.name, alias.name)
                self.add(alias.asname, Binding("import", node, dotted=dotted))
            else:
                root = alias.name.partition(".")[0]
                self.add(root, Binding("import", node, dotted=_COPIES.get(root, root)))

    def import_from(self, node: ast.ImportFrom) -> None:
        home = "." * node.level + (node.module or "")
        home = _COPIES.get(home, home)
        for alias in node.names:
            if alias.name == "*":
                self.stars.append(home)
            else:
                dotted = f"{home}{'' if home.endswith('.') else '.'}{alias.name}"
                self.add(alias.asname or alias.name, Binding("import", node, dotted=dotted))

    def define(self, node: FunctionNode | ast.ClassDef) -> None:
        how = "class" if isinstance(node, ast.ClassDef) else "def"
        self.add(node.name, Binding(how, node))

    def declare(self, node: ast.Global | ast.Nonlocal) -> None:
        self.outer.update(node.names)

    def delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            self.target(target, "delete", node, None)

    def match(self, node: ast.Match) -> None:
        for case in node.cases:
            for pattern in walk(case.pattern):
                name = getattr(pattern, "name", None) or getattr(pattern, "rest", None)
                if isinstance(name, str):
                    self.add(name, Binding("match", node))
            self.block(case.body)

    def expression(self, node: ast.Expr) -> None:
        self.walrus(node.value)

    def walrus(self, value: ast.expr) -> None:
        """`(n := ...)` can stand anywhere in an expression; few files have one."""
        if not self.has_walrus:
            return
        for node in walk_in_scope(value):
            if isinstance(node, ast.NamedExpr):
                self.target(node.target, "assign", node, node.value)


def _paired(
    targets: list[ast.expr], value: ast.expr | None, path: tuple[int, ...]
) -> Iterator[tuple[ast.expr, ast.expr | None, tuple[int, ...]]]:
    """Each of `targets`, with what is bound to it and the path into that. Behind a star elements are counted from the end."""
    given = value.elts if isinstance(value, (ast.Tuple, ast.List)) and not path else None
    first, last = _unstarred(targets)
    if given is not None:
        first, last = (min(pair) for pair in zip((first, last), _unstarred(given)))
    for index, element in enumerate(targets):
        behind = len(targets) - index
        if index < first and given is not None and isinstance(element, (ast.Tuple, ast.List)):
            yield element, given[index], ()
        elif index < first:
            yield element, value, (*path, index)
        elif given is not None and behind <= last:
            yield element, given[-behind], ()
        else:
            yield element, value, (*path, ITERATED)


def _unstarred(elements: list[ast.expr]) -> tuple[int, int]:
    """How many stand before the first starred one, and how many behind the last."""
    starred = [k for k, element in enumerate(elements) if isinstance(element, ast.Starred)]
    if not starred:
        return len(elements), len(elements)
    return starred[0], len(elements) - starred[-1] - 1


def _from_torch(body: list[ast.stmt]) -> frozenset[str]:
    """Names that these statements import from torch."""
    return frozenset(
        alias.asname or alias.name
        for statement in body
        if isinstance(statement, ast.ImportFrom)
        and not statement.level
        and (statement.module or "").partition(".")[0] == "torch"
        for alias in statement.names
    )


def walk_in_scope(node: ast.AST) -> Iterator[ast.AST]:
    """`node` and everything below it that belongs to the same scope, parents first."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        for child in children(current):
            if not isinstance(child, DEFINITIONS):
                stack.append(child)


_STATEMENTS: dict[type[ast.AST], Callable[..., None]] = {
    ast.Assign: Collector.assign,
    ast.AnnAssign: Collector.ann_assign,
    ast.AugAssign: Collector.aug_assign,
    ast.For: Collector.loop,
    ast.AsyncFor: Collector.loop,
    ast.If: Collector.branch,
    ast.While: Collector.branch,
    ast.With: Collector.with_,
    ast.AsyncWith: Collector.with_,
    ast.Try: Collector.try_,
    ast.Import: Collector.import_,
    ast.ImportFrom: Collector.import_from,
    ast.FunctionDef: Collector.define,
    ast.AsyncFunctionDef: Collector.define,
    ast.ClassDef: Collector.define,
    ast.Global: Collector.declare,
    ast.Nonlocal: Collector.declare,
    ast.Delete: Collector.delete,
    ast.Match: Collector.match,
    ast.Expr: Collector.expression,
}
if hasattr(ast, "TryStar"):  # Python 3.11
    _STATEMENTS[ast.TryStar] = Collector.try_
