"""Names of models that a sharding call or a pipeline call changes, if that call is not migrated.

A name is followed through assignments, loops over layers, functions of this file and of other modules, `.to(...)`
and wrappers. A name that cannot be followed is unknown; the caller decides what that means.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ....flow.calls import argument, called
from ....flow.closure import reach
from ...syntax import argument_for, name_of, parameters, returned
from ..tensors.parameters_of import Sources
from .calls import left_calls, may_be_in_the_project, model_of, sharding_modules

if TYPE_CHECKING:
    from ...scopes import FunctionNode, Scope
    from ...script import Script

Path = tuple[object, ...]  # ("model", "layers"), with the scope that the first name is of

_MOVES = frozenset("to cuda cpu float double half bfloat16 train eval requires_grad_".split())
_PARTS = frozenset(
    "modules children named_modules named_children values items parameters named_parameters".split()
)
# Functions of models that iterate over them, or hold them.
_PASSING = frozenset(
    "enumerate zip reversed list tuple iter sorted Sequential ModuleList ModuleDict".split()
)


class Why(NamedTuple):
    """Which call is left, and in which other file ("": in this one)."""

    name: str
    path: str = ""

    def __str__(self) -> str:
        return f"`{self.name}`" + (f" in {self.path}" if self.path else "")


class _Part(NamedTuple):
    """An expression that may be the model; `is_same`: not one made of it; `is_returned`: by a function of the file."""

    node: ast.expr
    is_same: bool = True
    is_returned: bool = False


class LeftModels:
    """The models of one file that calls of `calls` shard."""

    def __init__(self, script: Script, alone: bool = False) -> None:
        """`alone`: without asking what functions of other modules do."""
        self.script = script
        self.sources = Sources(script)
        self.calls = left_calls(script)
        self._paths: dict[Path, Why] = {}
        for left in self.calls:
            if left.model is not None:
                self._add(left.model, Why(left.name))
            self._add_targets(left.call, Why(left.name))
        if not alone:
            self._ask_others()
        if self._paths:
            self._follow()

    @property
    def any(self) -> bool:
        """True if a model of this file is left."""
        return bool(self._paths or self.calls)

    def of(self, node: ast.expr) -> Why | None:
        """Return why the model `node` is not migrated; None if nothing shows that."""
        path = self._path(node)
        if path is None:
            return None
        for known, why in self._paths.items():
            short = min(len(path), len(known))
            if path[:short] == known[:short] or _is_same_member(path, known):
                return why
        return None

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
        if project is None:
            return None
        for path in sorted(sharding_modules(project.modules) & project.programs):
            other = _other(self.script, path)
            if other is not None and other.calls:
                return Why(other.calls[0].name, path)
        return None

    def _is_unknown(self, owner: ast.expr) -> bool:
        """A parameter that no call of this file gives, or an attribute that nothing here sets."""
        if isinstance(owner, ast.Name):
            found = self.script.index.scope(owner).find(owner.id)
            return found is None or any(
                b.how == "parameter" and not self._is_given(b.node) for b in found[1]
            )
        if not isinstance(owner, ast.Attribute):
            return True
        text = ast.unparse(owner)
        values = [s.value for s, _ in self.script.index.assignments(text)]
        return not values or any(
            isinstance(v, (ast.Name, ast.Attribute)) and v is not owner and self._is_unknown(v)
            for v in values
        )

    def _is_given(self, parameter: ast.AST) -> bool:
        arguments = self.script.parent(parameter)
        function = self.script.parent(arguments) if arguments is not None else None
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return False
        if function.args.args[:1] == [parameter] and isinstance(
            self.script.parent(function), ast.ClassDef
        ):
            return True  # self
        name = function.name
        if name == "__init__":
            name = getattr(self.script.parent(function), "name", name)
        return bool(self.script.index.calls_of(name))

    # From where.

    def _add(self, model: ast.expr, why: Why) -> None:
        for path, _ in self._models_in(model):
            self._paths.setdefault(path, why)

    def _add_targets(self, call: ast.Call, why: Why) -> None:
        statement = self.script.statement(call)
        if isinstance(statement, (ast.Assign, ast.AnnAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                self._add(target, why)

    def _ask_others(self) -> None:
        """`apply_fsdp(model, mesh)`, of another module of the project that shards what it is given."""
        project = self.script.project
        if project is None or not may_be_in_the_project(self.script):
            return
        for call, scope in self.script.index.of(ast.Call):
            dotted = scope.dotted(_root(call.func)) if _root(call.func) else None
            if not dotted or not project.has(dotted):
                continue
            rest = ast.unparse(call.func).partition(".")[2]
            found = project.definition(f"{dotted}.{rest}" if rest else dotted)
            if found is None or not isinstance(found[0], ast.FunctionDef):
                continue
            other = _other(self.script, found[1])
            if other is None or not other.calls:
                continue
            function = next(
                (
                    f
                    for f, _ in other.script.index.of(ast.FunctionDef)
                    if f.lineno == found[0].lineno
                ),
                None,
            )
            if function is not None:
                self._ask(call, function, other, found[1])

    def _ask(self, call: ast.Call, function: ast.FunctionDef, other: LeftModels, path: str) -> None:
        for parameter in parameters(function):
            why = other.of_parameter(function, parameter.arg)
            given = argument_for(parameter.arg, function, call, skip_self=False)
            if why is not None and given is not None:
                self._add(given, Why(why.name, path))
        for value in returned(function):
            if (why := other.of(value)) is not None or (
                isinstance(value, ast.Call) and any(c.call is value for c in other.calls)
            ):
                name = why.name if why is not None else other.calls[0].name
                self._add_targets(call, Why(name, path))

    def of_parameter(self, function: FunctionNode, name: str) -> Why | None:
        """Why the model that `function` is given as `name` is left."""
        first = (id(function), name)
        return next((why for path, why in self._paths.items() if path[0] == first), None)

    # What a name is of.

    def _path(self, node: ast.expr) -> Path | None:
        parts: list[object] = []
        while True:
            if isinstance(node, ast.Attribute):
                if node.attr != "module":
                    parts.append(node.attr)
                node = node.value
            elif isinstance(node, ast.Subscript):
                node = node.value
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if node.func.attr not in _MOVES | _PARTS:
                    return None
                node = node.func.value
            else:
                break
        if not isinstance(node, ast.Name):
            return None
        if node.id == "self":
            return ("self", *reversed(parts))
        found = self.script.index.scope(node).find(node.id)
        home = found[0].node if found is not None else None
        return ((id(home), node.id), *reversed(parts))

    def _models_in(self, node: ast.expr) -> Iterator[tuple[Path, bool]]:
        """The models that `node` may be, each with whether it is the same one, or may be made of it alone."""
        for part in reach([_Part(node)], self._parts):
            path = self._path(part.node)
            if path is not None:
                yield path, part.is_same

    def _parts(self, part: _Part) -> Iterator[_Part]:
        node = part.node
        below: list[ast.expr] = []
        match node:
            case ast.Tuple(elts=below) | ast.List(elts=below) | ast.BoolOp(values=below):
                pass
            case ast.Dict(values=below):
                pass
            case ast.IfExp(body=one, orelse=other):
                below = [one, other]
            case ast.Starred(value=one) | ast.Await(value=one) | ast.NamedExpr(value=one):
                below = [one]
            case ast.ListComp(elt=one) | ast.GeneratorExp(elt=one):
                below = [one]
            case ast.Call(args=args) if name_of(node.func) in _PASSING:
                below = args
            case ast.Call() if self._path(node) is None:
                yield from self._parts_of_call(node, part)
        yield from (part._replace(node=one) for one in below)

    def _parts_of_call(self, call: ast.Call, part: _Part) -> Iterator[_Part]:
        definition = self.script.value(call.func).definition
        if isinstance(definition, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for value in returned(definition):
                yield part._replace(node=value, is_returned=True)
            return
        model = model_of(call)
        same = (self.script.dotted(call.func) or "").startswith("torch.") or any(
            left.call is call for left in self.calls
        )
        if model is not None and (same or not part.is_returned):
            yield part._replace(node=model, is_same=part.is_same and same)

    # Along the file.

    def _gather(self) -> Iterator[tuple[Path, Path]]:
        """Yield pairs of names: the second is the same model as the first, or made of it."""
        index = self.script.index
        for assign, _ in index.of(ast.Assign):
            for target in assign.targets:
                yield from self._link(target, assign.value)
        for named, _ in index.of(ast.AnnAssign):
            if named.value is not None:
                yield from self._link(named.target, named.value)
        for walrus, _ in index.of(ast.NamedExpr):
            yield from self._link(walrus.target, walrus.value)
        loops: list[tuple[ast.For | ast.comprehension, Scope]] = [*index.of(ast.For)]
        for loop, _ in (*loops, *index.of(ast.comprehension)):
            for target in _elements(loop.target):
                yield from self._link(target, loop.iter)
        for call, _ in index.of(ast.Call):
            yield from self._link_parameters(call)

    def _link(self, target: ast.expr, value: ast.expr) -> Iterator[tuple[Path, Path]]:
        if isinstance(target, (ast.Tuple, ast.List)):
            values: list[ast.expr] = [value] * len(target.elts)
            if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts):
                values = value.elts
            for k, (one, given) in enumerate(zip(target.elts, values)):
                if given is value and isinstance(value, ast.Call):
                    yield from self._link_item(one, value, k, len(target.elts))
                else:
                    yield from self._link(one, given)
            return
        to = self._path(target)
        if to is not None:
            for path, same in self._models_in(value):
                yield path, to
                if same:
                    yield to, path

    def _link_item(
        self, target: ast.expr, call: ast.Call, item: int, of: int
    ) -> Iterator[tuple[Path, Path]]:
        """`model, optimizer = make()`: the item that the function returns in that place."""
        to = self._path(target)
        definition = self.script.value(call.func).definition
        if to is None or not isinstance(definition, ast.FunctionDef):
            return
        for value in returned(definition):
            if isinstance(value, ast.Tuple) and len(value.elts) == of:
                for path, _ in self._models_in(value.elts[item]):
                    yield from ((path, to), (to, path))

    def _link_parameters(self, call: ast.Call) -> Iterator[tuple[Path, Path]]:
        function = called(self.script, call)
        for parameter in parameters(function) if function is not None else ():
            assert function is not None
            given = argument(self.script, parameter.arg, function, call)
            if given is not None:
                to: Path = ((id(function), parameter.arg),)
                for path, _ in self._models_in(given):
                    yield from ((path, to), (to, path))

    def _follow(self) -> None:
        """Add the names that are linked to known ones, also to a part of one or to what one is a part of."""
        links: dict[object, list[tuple[Path, Path]]] = {}
        for here, there in self._gather():
            links.setdefault(here[0], []).append((here, there))

        def linked(path: Path) -> list[Path]:
            return [to for here, to in links.get(path[0], ()) if _is_part(path, here)]

        for path, origin in reach(list(self._paths), linked).items():
            if origin is not None:
                self._paths[path] = self._paths[origin]


def _other(script: Script, path: str) -> LeftModels | None:
    """The models of another module of the project."""
    assert script.project is not None
    modules = script.project.modules
    return modules.remembered(("left models", path), lambda: _read(script, path))


def _read(script: Script, path: str) -> LeftModels | None:
    assert script.project is not None
    modules = script.project.modules
    if path not in sharding_modules(modules) or modules.scope(path) is None:
        return None
    source = modules.source(path, modules.files[path])
    return LeftModels(type(script)(source, path), alone=True)


def _elements(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, (ast.Tuple, ast.List)):
        for element in node.elts:
            yield from _elements(element)
    else:
        yield node


def _is_part(known: Path, here: Path) -> bool:
    """Return True if one is a part of the other; but `self` is not a model."""
    short = min(len(known), len(here))
    return known[:short] == here[:short] and here != ("self",)


def _is_same_member(one: Path, other: Path) -> bool:
    """`self.model` in a class, and `trainer.model` outside of it."""
    if len(one) < 2 or len(other) < 2 or (one[0] == "self") is (other[0] == "self"):
        return False
    return one[1] == other[1]


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
