"""Names of models that a sharding call or a pipeline call changes, if that call is not migrated.

A name is followed through assignments, loops over layers, functions of this file and of other modules, `.to(...)`
and wrappers. A name that cannot be followed is unknown; the caller decides what that means.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ....source import Source
from ...nodes import walk
from ...syntax import argument_for
from ..tensors.parameters_of import Sources
from .calls import LeftCall, left_calls, may_be_in_the_project, model_of, sharding_modules

if TYPE_CHECKING:
    from ...scopes import FunctionNode
    from ...script import Script

Path = tuple[object, ...]  # ("model", "layers"), with the scope that the first name is of

_MOVES = frozenset("to cuda cpu float double half bfloat16 train eval requires_grad_".split())
_PARTS = frozenset(
    "modules children named_modules named_children values items parameters named_parameters".split()
)
_ITERATES = frozenset("enumerate zip reversed list tuple iter sorted".split())
_CONTAINERS = ("Sequential", "ModuleList", "ModuleDict")


class Why(NamedTuple):
    """Which call is left, and in which other file ("": in this one)."""

    name: str
    path: str = ""

    def __str__(self) -> str:
        return f"`{self.name}`" + (f" in {self.path}" if self.path else "")


class LeftModels:
    """The models of one file that calls of `calls` shard."""

    def __init__(self, script: Script, alone: bool = False) -> None:
        """`alone`: without asking what functions of other modules do."""
        self.script = script
        self.sources = Sources(script)
        self.calls = left_calls(script)
        self._paths: dict[Path, Why] = {}
        self._numbered: dict[Path, tuple[int, Why]] = {}  # in the order of `_paths`
        self._around: dict[Path, tuple[int, Why]] = {}  # what the first of `_paths` is a part of
        self._both: list[tuple[Path, Path]] = []  # one model under two names
        self._onwards: list[tuple[Path, Path]] = []  # the second is made of the first
        self._entered: list[ast.AST] = []  # functions whose results are being looked at
        for left in self.calls:
            self._start(left)
        if not alone:
            self._ask_others()
        if self._paths:
            self._gather()
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

    def _start(self, left: LeftCall) -> None:
        why = Why(left.name)
        if left.model is not None:
            self._add(left.model, why)
        self._add_targets(left.call, why)

    def _add(self, model: ast.expr, why: Why) -> None:
        for path, _ in self._models_in(model):
            self._note(path, why)

    def _note(self, path: Path, why: Why) -> None:
        if path in self._paths:
            return
        entry = len(self._paths), why
        self._paths[path] = why
        self._numbered[path] = entry
        for length in range(len(path)):
            self._around.setdefault(path[:length], entry)

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
        for parameter in (
            *function.args.posonlyargs,
            *function.args.args,
            *function.args.kwonlyargs,
        ):
            why = other.of_parameter(function, parameter.arg)
            given = argument_for(parameter.arg, function, call, skip_self=False)
            if why is not None and given is not None:
                self._add(given, Why(why.name, path))
        for returned in _returned(function):
            if (why := other.of(returned)) is not None or (
                isinstance(returned, ast.Call) and any(c.call is returned for c in other.calls)
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
        match node:
            case ast.Tuple(elts=several) | ast.List(elts=several):
                for one in several:
                    yield from self._models_in(one)
            case ast.IfExp(body=one, orelse=other):
                yield from self._models_in(one)
                yield from self._models_in(other)
            case ast.BoolOp(values=several):
                for one in several:
                    yield from self._models_in(one)
            case ast.Starred(value=one) | ast.Await(value=one) | ast.NamedExpr(value=one):
                yield from self._models_in(one)
            case ast.ListComp(elt=one) | ast.GeneratorExp(elt=one):
                yield from self._models_in(one)
            case ast.Dict(values=several):
                for one in several:
                    yield from self._models_in(one)
            case _:
                path = self._path(node)
                if path is not None:
                    yield path, True
                elif isinstance(node, ast.Call):
                    yield from self._models_of_call(node)

    def _models_of_call(self, call: ast.Call) -> Iterator[tuple[Path, bool]]:
        name = _last(call.func)
        if name in _ITERATES or name in _CONTAINERS:
            for argument in call.args:
                yield from self._models_in(argument)
            return
        definition = self.script.value(call.func).definition
        if isinstance(definition, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if definition in self._entered:
                return  # it calls itself
            self._entered.append(definition)
            for returned in _returned(definition):
                yield from [(path, True) for path, same in self._models_in(returned) if same]
            self._entered.pop()
            return
        given = model_of(call)
        if given is None:
            return
        same = (self.script.dotted(call.func) or "").startswith("torch.") or any(
            left.call is call for left in self.calls
        )
        for path, _ in self._models_in(given):
            yield path, same

    # Along the file.

    def _gather(self) -> None:
        index = self.script.index
        for assign, _ in index.of(ast.Assign):
            for target in assign.targets:
                self._link(target, assign.value)
        for named, _ in index.of(ast.AnnAssign):
            if named.value is not None:
                self._link(named.target, named.value)
        for walrus, _ in index.of(ast.NamedExpr):
            self._link(walrus.target, walrus.value)
        for loop, _ in index.of(ast.For):
            for target in _elements(loop.target):
                self._link(target, loop.iter)
        for comprehension, _ in index.of(ast.comprehension):
            for target in _elements(comprehension.target):
                self._link(target, comprehension.iter)
        for call, _ in index.of(ast.Call):
            self._link_parameters(call)

    def _link(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            values: list[ast.expr] = [value] * len(target.elts)
            if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts):
                values = value.elts
            for k, (one, given) in enumerate(zip(target.elts, values)):
                if given is value and isinstance(value, ast.Call):
                    self._link_item(one, value, k, len(target.elts))
                else:
                    self._link(one, given)
            return
        to = self._path(target)
        if to is None:
            return
        for path, same in self._models_in(value):
            (self._both if same else self._onwards).append((path, to))

    def _link_item(self, target: ast.expr, call: ast.Call, item: int, of: int) -> None:
        """`model, optimizer = make()`: the item that the function returns in that place."""
        to = self._path(target)
        definition = self.script.value(call.func).definition
        if to is None or not isinstance(definition, ast.FunctionDef):
            return
        for returned in _returned(definition):
            if isinstance(returned, ast.Tuple) and len(returned.elts) == of:
                for path, _ in self._models_in(returned.elts[item]):
                    self._both.append((path, to))

    def _link_parameters(self, call: ast.Call) -> None:
        function: ast.AST | None = self.script.value(call.func).definition
        if isinstance(function, ast.ClassDef):
            function = next(
                (s for s in function.body if getattr(s, "name", "") == "__init__"), None
            )
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return
        skip = isinstance(self.script.parent(function), ast.ClassDef)
        arguments = function.args
        for parameter in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            given = argument_for(parameter.arg, function, call, skip_self=skip)
            if given is not None:
                for path, _ in self._models_in(given):
                    self._both.append((path, ((id(function), parameter.arg),)))

    def _follow(self) -> None:
        while True:
            new: dict[Path, Why] = {}
            for one, other in self._both:
                for here, there in ((one, other), (other, one)):
                    why = self._known(here)
                    if why is not None and there not in self._paths:
                        new[there] = why
            for one, other in self._onwards:
                why = self._known(one)
                if why is not None and other not in self._paths:
                    new[other] = why
            if not new:
                return
            for path, why in new.items():
                self._note(path, why)

    def _known(self, path: Path) -> Why | None:
        """Why `path`, or what it is a part of, is left; or that of which a part is, if it is a name that is a model's."""
        parts = (path[:length] for length in range(len(path) + 1))
        found = [self._numbered[part] for part in parts if part in self._numbered]
        if path in self._around and path != ("self",):
            found.append(self._around[path])
        return min(found)[1] if found else None


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
    return LeftModels(type(script)(Source(modules.files[path]), path), alone=True)


def _returned(function: FunctionNode | ast.FunctionDef) -> Iterator[ast.expr]:
    for node in walk(function):
        if isinstance(node, ast.Return) and node.value is not None:
            yield node.value


def _elements(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, (ast.Tuple, ast.List)):
        for element in node.elts:
            yield from _elements(element)
    else:
        yield node


def _is_same_member(one: Path, other: Path) -> bool:
    """`self.model` in a class, and `trainer.model` outside of it."""
    if len(one) < 2 or len(other) < 2 or (one[0] == "self") is (other[0] == "self"):
        return False
    return one[1] == other[1]


def _last(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
