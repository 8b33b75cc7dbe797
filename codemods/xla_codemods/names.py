"""Which dotted name does a local name stand for?

Scopes and their bindings, read from the standard `ast`, each scope only when somebody asks.
A name is resolved only where every import that binds it agrees and nothing else rebinds it:
a shadowed, rebound or ambiguous name resolves to nothing, which makes a rule silent, not wrong.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Union

from .nodes import children

FunctionNode = Union[ast.FunctionDef, ast.AsyncFunctionDef]
Comprehension = Union[ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp]
ScopeNode = Union[ast.Module, FunctionNode, ast.ClassDef, ast.Lambda, Comprehension]

# Read from the text: a line of a docstring that looks like one only makes a name less sure.
_GLOBAL = re.compile(r"^[ \t]*global[ \t]+([\w, \t]+)", re.MULTILINE)

# Path into an unpacked value: an index, or `ITERATED` for "one element of it".
ITERATED = -1_000_000


class Binding(NamedTuple):
    """One place that binds a name: `value` unpacked along `path` is what it is bound to."""

    how: str  # import, fallback, assign, augment, for, with, parameter, def, class, except, ...
    node: ast.AST
    value: ast.expr | None = None
    path: tuple[int, ...] = ()
    dotted: str = ""  # of an import


class Scope:
    """A module, function, class, lambda or comprehension; `bindings` are collected on first use."""

    __slots__ = (
        "_bindings",
        "_globals",
        "_rebound",
        "_resolved",
        "has_walrus",
        "module",
        "node",
        "parent",
        "stars",
        "text",
    )

    def __init__(self, node: ScopeNode, parent: Scope | None, text: str = "") -> None:
        self.node = node
        self.parent = parent
        self.module: Scope = parent.module if parent is not None else self
        self.text: str = parent.text if parent is not None else text  # the file's
        self.has_walrus: bool = parent.has_walrus if parent is not None else ":=" in text
        self.stars: list[str] = []
        self._bindings: dict[str, list[Binding]] | None = None
        self._globals: set[str] = set()
        self._rebound: frozenset[str] | None = None
        self._resolved: dict[str, str | None] = {}

    @property
    def bindings(self) -> dict[str, list[Binding]]:
        """Local name -> everything in this scope that binds it, in source order."""
        if self._bindings is None:
            self._bindings = {}
            _Collector(self, self._bindings).scope(self.node)
        return self._bindings

    @property
    def rebound(self) -> frozenset[str]:
        """Names of the module that some function declares `global`, to bind them."""
        if self._rebound is None:
            self._rebound = frozenset()
            if isinstance(self.node, ast.Module) and "global " in self.text:
                found = _GLOBAL.findall(self.text)
                self._rebound = frozenset(n.strip() for names in found for n in names.split(","))
        return self._rebound

    @property
    def function(self) -> FunctionNode | None:
        """The function that this scope is, or lies in."""
        scope: Scope | None = self
        while scope is not None:
            if isinstance(scope.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                return scope.node
            scope = scope.parent
        return None

    def find(self, name: str) -> tuple[Scope, list[Binding]] | None:
        """The scope that `name`, read here, belongs to, and its bindings there; None for an unknown name.

        A class's own names are not seen from its methods, as in Python.
        """
        scope: Scope | None = self
        while scope is not None:
            if scope is self or not isinstance(scope.node, ast.ClassDef):
                found = scope.bindings.get(name)
                if name in scope._globals:
                    return scope._elsewhere(name, found or [])
                if found:
                    return scope, found
            scope = scope.parent
        return None

    def _elsewhere(self, name: str, here: list[Binding]) -> tuple[Scope, list[Binding]]:
        """A `global` or `nonlocal` name: bound outside, and here."""
        outer = self.parent.find(name) if self.parent is not None else None
        if outer is None:
            return self.module, here
        return outer[0], [*outer[1], *here]

    def dotted(self, name: str) -> str | None:
        """The dotted name that local `name` stands for, if it is surely an imported one."""
        resolved = self._resolved
        if name not in resolved:
            resolved[name] = None  # guards `cuda = cuda`
            resolved[name] = self._dotted(name)
        return resolved[name]

    def _dotted(self, name: str) -> str | None:
        found = self.find(name)
        if found is None:
            return _from_star(name, self.module)
        scope, bindings = found
        if name in scope.rebound:
            return None
        candidates = {b.dotted for b in bindings if b.how == "import"}
        others = [b for b in bindings if b.how not in _IMPORTED and not _is_fallback(b)]
        if others:
            return scope._alias(others) if not candidates else None
        return candidates.pop() if len(candidates) == 1 else None

    def _alias(self, bindings: list[Binding]) -> str | None:
        """`cuda = torch.cuda`: a module under a second name."""
        if len(bindings) != 1 or bindings[0].how != "assign" or bindings[0].path:
            return None
        dotted = resolve(bindings[0].value, self)
        return dotted if dotted in MODULES else None


# A fallback stands in the `except` of a `try` that imports the name from torch, which is there.
_IMPORTED = frozenset({"import", "fallback"})

# Modules that people give a second name by assignment.
MODULES = frozenset(
    {
        "torch",
        "torch.accelerator",
        "torch.amp",
        "torch.backends.cuda",
        "torch.backends.cudnn",
        "torch.cuda",
        "torch.cuda.amp",
        "torch.cuda.nvtx",
        "torch.distributed",
        "torch.nn",
        "torch.nn.functional",
        "torch.optim",
        "torch.utils.data",
        "apex.amp",
        "apex.optimizers",
    }
)

# What `from <module> import *` brings that matters here.
STAR_EXPORTS = {
    "torch": frozenset({"cuda", "device", "load", "save", "manual_seed", "no_grad", "optim", "nn"}),
    "torch.cuda": frozenset({"is_available", "device_count", "synchronize", "empty_cache", "amp"}),
    "torch.cuda.amp": frozenset({"GradScaler", "autocast", "custom_bwd", "custom_fwd"}),
    "torch.amp": frozenset({"GradScaler", "autocast", "custom_bwd", "custom_fwd"}),
    "torch.optim": frozenset({"Adadelta", "Adagrad", "Adam", "AdamW", "LBFGS", "RMSprop", "SGD"}),
    "torch.nn": frozenset({"DataParallel", "Module"}),
    "torch.utils.data": frozenset({"DataLoader", "Dataset", "IterableDataset"}),
}


def resolve(node: ast.AST | None, scope: Scope) -> str | None:
    """The dotted name of a Name, an attribute chain, or `getattr(torch, "cuda")`; None for anything else."""
    root = node
    while type(root) is ast.Attribute:
        root = root.value
    if isinstance(root, ast.Name):
        base = scope.dotted(root.id)
    elif isinstance(root, ast.Call) and getattr(root.func, "id", "") == "getattr":
        base = _getattr(root, scope)
    else:
        return None
    if root is node or not base:
        return base or None
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return f"{base}.{'.'.join(reversed(parts))}"


def _getattr(call: ast.Call, scope: Scope) -> str | None:
    match call.args:
        case [value, ast.Constant(value=str(attribute)), *_] if scope.find("getattr") is None:
            base = resolve(value, scope)
            return f"{base}.{attribute}" if base else None
    return None


def _from_star(name: str, module: Scope) -> str | None:
    """`name` from the only star import that can bring it; an unknown star import could shadow it."""
    module.bindings  # noqa: B018 - collects the star imports
    if not module.stars or any(star not in STAR_EXPORTS for star in module.stars):
        return None
    homes = {star for star in module.stars if name in STAR_EXPORTS[star]}
    return f"{homes.pop()}.{name}" if len(homes) == 1 else None


def _is_fallback(binding: Binding) -> bool:
    """`autocast = None` beside an import of it, or its bare annotation: not another meaning."""
    if binding.how == "delete":
        return True
    if binding.how != "assign" or binding.path:
        return False
    return binding.value is None or (
        isinstance(binding.value, ast.Constant) and binding.value.value in (None, False)
    )


class _Collector:
    """Collects the bindings of one scope, without entering the scopes inside it."""

    def __init__(self, scope: Scope, into: dict[str, list[Binding]]) -> None:
        self.into = into
        self.fallbacks: frozenset[str] = frozenset()  # names that torch has given already
        self.outer = scope._globals
        self.stars = scope.stars
        self.has_walrus = scope.module.has_walrus

    def scope(self, node: ScopeNode) -> None:
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            for generator in node.generators:
                self.target(generator.target, "for", generator, generator.iter, (ITERATED,))
            return
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
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
            for index, element in enumerate(target.elts):
                self.target(element, how, node, value, (*path, index))
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
                self.add(alias.asname, Binding("import", node, dotted=alias.name))
            else:
                root = alias.name.partition(".")[0]
                self.add(root, Binding("import", node, dotted=root))

    def import_from(self, node: ast.ImportFrom) -> None:
        home = "." * node.level + (node.module or "")
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
            for pattern in ast.walk(case.pattern):
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
            if not isinstance(
                child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
            ):
                stack.append(child)


_STATEMENTS: dict[type[ast.AST], Callable[..., None]] = {
    ast.Assign: _Collector.assign,
    ast.AnnAssign: _Collector.ann_assign,
    ast.AugAssign: _Collector.aug_assign,
    ast.For: _Collector.loop,
    ast.AsyncFor: _Collector.loop,
    ast.If: _Collector.branch,
    ast.While: _Collector.branch,
    ast.With: _Collector.with_,
    ast.AsyncWith: _Collector.with_,
    ast.Try: _Collector.try_,
    ast.Import: _Collector.import_,
    ast.ImportFrom: _Collector.import_from,
    ast.FunctionDef: _Collector.define,
    ast.AsyncFunctionDef: _Collector.define,
    ast.ClassDef: _Collector.define,
    ast.Global: _Collector.declare,
    ast.Nonlocal: _Collector.declare,
    ast.Delete: _Collector.delete,
    ast.Match: _Collector.match,
    ast.Expr: _Collector.expression,
}
if hasattr(ast, "TryStar"):  # Python 3.11
    _STATEMENTS[ast.TryStar] = _Collector.try_
