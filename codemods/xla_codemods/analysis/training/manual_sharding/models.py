"""Models that a sharding call or a pipeline call changes, if that call is not migrated.

A model is followed by `flow`, and through `.to(...)`, wrappers, containers, its parts, and functions of other modules.
A model that cannot be followed is unknown; the caller decides what that means.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple, Union

from ....flow.closure import reach
from ....flow.edges import sources
from ....patterns import Pattern
from ...scopes import FunctionNode
from ...script import Script
from ...syntax import argument_for, name_of, parameters, returned, root_of, unparsed
from ..tensors.parameters_of import Sources
from .calls import left_calls, may_be_in_the_project, model_of, sharding_modules

# An expression, a binding, or an attribute with the scope of its first name.
_Node = Union[ast.AST, tuple[object, str]]

_MOVES = frozenset("to cuda cpu float double half bfloat16 train eval requires_grad_".split())
_PARTS = frozenset(
    "modules children named_modules named_children values items parameters named_parameters".split()
)
# Functions of models that iterate over them, or hold them.
_PASSING = frozenset(
    "enumerate zip reversed list tuple iter sorted Sequential ModuleList ModuleDict".split()
)

# `nn.Linear(size, size)` receives a number, not a model.
_LAYER = Pattern(r"torch\.nn\.(?!DataParallel)[A-Z]\w*$")


class Why(NamedTuple):
    """Which call is left, and in which other file ("": in this one)."""

    name: str
    path: str = ""

    def __str__(self) -> str:
        return f"`{self.name}`" + (f" in {self.path}" if self.path else "")


class LeftModels:
    """The models of one file that calls of `calls` shard."""

    def __init__(self, script: Script, alone: bool = False) -> None:
        """`alone`: without following functions of other modules."""
        self.script = script
        self.sources = Sources(script)
        self.calls = left_calls(script)
        self._same: dict[_Node, Why] = {}  # what may be a sharded model
        self._wholes: dict[_Node, Why] = {}  # what may have one as a part
        sharded = [(node, Why(c.name)) for c in self.calls for node in (c.model, c.call)]
        for node, why in (*sharded, *(() if alone else self._sharded_elsewhere())):
            start: list[_Node] = [node] if node is not None else []
            for found, step in ((self._same, self._origins), (self._wholes, self._owners)):
                for each in reach(start, step):
                    found.setdefault(each, why)

    def of(self, node: ast.AST) -> Why | None:
        """Return why the model `node` is not migrated; None if nothing shows that."""
        start: list[_Node] = [node]
        same = (self._wholes.get(each) for each in reach(start, self._makers))
        parts = (self._same.get(each) for each in reach(start, self._owners))
        return next(filter(None, (*same, *parts)), None)

    def of_optimizer(self, optimizer: ast.expr | None) -> Why | None:
        """Why the step of `optimizer` is left: one of its models is, or nothing shows whose parameters it has."""
        owners = self.sources.of_optimizer(optimizer) if optimizer is not None else []
        for owner in owners:
            if (why := self.of(owner)) is not None:
                return why
        if owners and not any(map(self._is_unknown, owners)):
            return None
        if self.calls:
            return Why(self.calls[0].name)
        return self.elsewhere()

    def elsewhere(self) -> Why | None:
        """A call that is left in another module of the programs that load this one."""
        project = self.script.project
        for path in sorted(sharding_modules(project.modules) & project.programs):
            other = self.script.of_module(path, _alone)
            if other is not None and other.calls:
                return Why(other.calls[0].name, path)
        return None

    def _is_unknown(self, owner: ast.expr) -> bool:
        """Return True if `owner` may be a parameter or an attribute that this file gives no value."""
        start: list[_Node] = [owner]
        return any(
            isinstance(node, ast.Attribute)
            or (isinstance(node, ast.Name) and self.sources.is_parameter(node))
            for node in reach(start, self._origins)
            if isinstance(node, ast.expr) and not sources(self.script, node)
        )

    def _sharded_elsewhere(self) -> Iterator[tuple[ast.expr, Why]]:
        """Yield what functions of other modules shard: `apply_fsdp(model, mesh)`, `model = sharded()`."""
        if not may_be_in_the_project(self.script):
            return
        project = self.script.project
        for call, _ in self.script.index.of(ast.Call):
            dotted = self.script.dotted(call.func)
            found = project.definition(dotted) if dotted is not None else None
            if found is None or found[1] not in sharding_modules(project.modules):
                continue
            other = self.script.of_module(found[1], _alone)
            if other is None or not other.calls:
                continue
            functions = (f for f, _ in other.script.index.of(ast.FunctionDef))
            line = getattr(found[0], "lineno", 0)  # `found` is of another tree of the same module
            shared = (pair for f in functions if f.lineno == line for pair in _shared(call, f))
            for node, inside in shared:
                if node is not None and (why := other.of(inside)) is not None:
                    yield node, why._replace(path=found[1])

    def _origins(self, node: _Node) -> Iterator[_Node]:
        """Yield what is the same model as `node`: its bindings, and where its value comes from."""
        match node:
            case ast.Name():
                yield from (binding.node for binding in self.script.reaching(node))
            case ast.Attribute(attr="module", value=owner):
                yield owner
            case ast.Attribute() if isinstance(
                root := root_of(node, ast.Attribute, ast.Subscript), ast.Name
            ):
                home = self.script.index.scope(root).find(root.id)
                yield (home[0] if home else None, unparsed(node))
            case ast.Call(func=ast.Attribute(attr=name, value=owner)) if name in _MOVES:
                yield owner
            case ast.Call(args=args) if name_of(node.func) in _PASSING:
                yield from args
            case ast.Call() if self._wraps(node):
                yield from filter(None, [model_of(node)])
            case ast.Tuple(elts=below) | ast.List(elts=below) | ast.Dict(values=below):
                yield from below
            case ast.ListComp(elt=one) | ast.GeneratorExp(elt=one) | ast.Starred(value=one):
                yield one
        if isinstance(node, ast.expr):
            yield from sources(self.script, node)

    def _wraps(self, call: ast.Call) -> bool:
        """Return True if `call` returns the model that it receives, or a wrapper around it."""
        dotted = self.script.dotted(call.func) or ""
        is_of_torch = dotted.startswith("torch.") and not _LAYER.match(dotted)
        return is_of_torch or any(left.call is call for left in self.calls)

    def _makers(self, node: _Node) -> Iterator[_Node]:
        """Yield the same models, and of what `node` is made: `model` for `wrap(model)`."""
        yield from self._origins(node)
        if isinstance(node, ast.Call):
            yield from filter(None, [model_of(node)])

    def _owners(self, node: _Node) -> Iterator[_Node]:
        """Yield the same models, and those that `node` is a part of."""
        yield from self._origins(node)
        match node:
            case ast.Attribute(value=owner) | ast.Subscript(value=owner):
                yield from [owner] if name_of(owner) != "self" else []
            case ast.Call(func=ast.Attribute(attr=name, value=owner)) if name in _PARTS:
                yield owner
            case ast.Name():
                bindings = self.script.reaching(node)
                yield from (b.value for b in bindings if b.how == "for" and b.value is not None)


def _shared(call: ast.Call, function: FunctionNode) -> Iterator[tuple[ast.expr | None, ast.AST]]:
    """Yield pairs of the same value: outside of `function`, which `call` runs, and inside."""
    for parameter in parameters(function):
        yield argument_for(parameter.arg, function, call, skip_self=False), parameter
    yield from ((call, value) for value in returned(function))


def _alone(script: Script) -> LeftModels:
    return LeftModels(script, alone=True)
