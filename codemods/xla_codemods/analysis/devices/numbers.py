"""Devices given as numbers, followed from the number to the calls that move to it.

Through parameters, defaults, `partial`, spawned processes, attributes, options, entries of dicts and the project's modules. Where
a function does nothing with its parameter but move to it, whoever calls it hands it a device; elsewhere a number stays one, and
becomes a device where something is moved.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ...flow.closure import reach, trace
from .. import flow
from ..index import Index
from ..inference.values import TENSOR
from ..projects.callees import Target, filled, parameters, scope_of
from ..projects.passed_arguments import (
    PassedArgument,
    assigned_to,
    default_of,
    passed_arguments,
)
from ..projects.sources import Place, ValueSources
from ..scopes import ITERATED, Binding, Scope
from ..script import Script
from ..syntax import is_literal
from .given.elsewhere import is_settings
from .specs import (
    INDEX_NAME,
    is_device_name,
    is_host,
    is_index_of_tensor,
    last_name,
    leaves,
)
from .uses import MovedTo, is_calculated_with

_SOME = ast.Constant(0)  # a number that is known by its name, or by what returns it
_RANKS = frozenset(
    {
        "torch.cuda.device_count",
        "torch.distributed.get_global_rank",
        "torch.distributed.get_group_rank",
        "torch.distributed.get_node_local_rank",
        "torch.distributed.get_rank",
        "torch.distributed.get_world_size",
    }
)
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Mod, ast.FloorDiv)
# Expressions that may be a number.
_NUMBERS = (
    ast.Attribute,
    ast.BinOp,
    ast.BoolOp,
    ast.Call,
    ast.IfExp,
    ast.Name,
    ast.NamedExpr,
    ast.Subscript,
)
_COMPUTED = (ast.Call, ast.Attribute, ast.Subscript)


class Numbers:
    """The devices that are numbers, as the script sees them."""

    def __init__(self, script: Script) -> None:
        self.passed = passed_arguments(script)
        self.callees = self.passed.callees
        self._values = ValueSources(self.passed)
        self.home = self.callees.home
        self._project = script.project
        self._answers: dict[ast.AST, bool] = {}
        self._moved_to = MovedTo(self.callees)

    def is_number(self, node: ast.expr) -> bool:
        """Return True if `node`, to which something is moved, may be a number."""
        return self._is_number(Place(node, self.home))

    def is_given_as_device(self, node: ast.expr) -> bool:
        """Return True if `node` is a parameter for which the callers make devices of their numbers."""
        if not isinstance(node, ast.Name):
            return False
        found = self.home.scope(node).find(node.id)
        target = self.callees.target(self.home, found[0].node) if found is not None else None
        if found is None or target is None or any(b.how != "parameter" for b in found[1]):
            return False
        return self._takes_devices(target, node.id) and any(
            self._is_number(Place(*passed[:2])) for passed in self.passed.of(target, node.id)
        )

    def is_of_the_project(self, call: ast.Call) -> bool:
        """Return True if `call` runs a function of the project."""
        return self.callees.handed(self.home, call) is not None

    def made_devices(self) -> Iterator[ast.expr]:
        """Yield arguments of the script's calls that are numbers, of functions that want a device for them."""
        wanted = self._names_of_functions()
        for call, _ in self.home.of(ast.Call):
            if last_name(call.func) not in wanted or not (call.args or call.keywords):
                continue
            handed = self.callees.handed(self.home, call)
            if handed is None or handed.target is None or handed.later:
                continue
            for name, argument in filled(handed, handed.target):
                # All calls of a function are looked at last, which costs most.
                if (
                    (_is_int(argument) or isinstance(argument, _NUMBERS))  # it may be a number
                    and self._only_moves(handed.target, name)
                    and self._is_number(Place(argument, self.home))
                    and self._takes_devices(handed.target, name)
                ):
                    yield argument

    def _names_of_functions(self) -> set[str]:
        """Return the last names of calls that may run a function of the project."""
        index = self.home
        names = {"__init__", *_defined(index)}
        imported = map(self.callees.module, sorted(self._project.imported))
        names = names.union(*map(_defined, filter(None, imported)))
        for local, bindings in index.module.bindings.items():
            if any(b.how == "import" and self._project.has(b.dotted) for b in bindings):
                names.add(local)
        return names

    # Where a value comes from.

    def _is_number(self, place: Place) -> bool:
        reached = reach([place], self._sources, self._is_known)
        end = next(reversed(reached))
        answer = self._is_known(end)
        ended = trace(reached, end) if answer else reached
        self._answers.update((p.node, answer) for p in ended if p.node is not _SOME and not p.path)
        return answer

    def _is_known(self, place: Place) -> bool:
        """Return True if `place` is a number."""
        return not place.path and (_is_int(place.node) or self._answers.get(place.node, False))

    def _sources(self, place: Place) -> Iterator[Place]:
        """Yield the places that the value of `place` comes from; `_SOME` for an unknown number."""
        node, index, _ = place
        if place.path:
            yield from self._values.of(place)
        if place.path or node in self._answers:
            return
        match node:
            case ast.IfExp(test=test) if "is_available" in ast.unparse(test):
                return  # that becomes one device as a whole
            case ast.IfExp() | ast.BoolOp() | ast.NamedExpr():
                yield from self._values.of(place)
            case ast.BinOp(left=left, op=op, right=right) if isinstance(op, _ARITHMETIC):
                if _is_int(left) or not isinstance(left, (ast.Constant, ast.JoinedStr)):
                    yield from (Place(n, index) for n in (left, right))
            case ast.Call():
                yield from self._of_call(node, index)
            case ast.Name():
                yield from self._of_name(node, index)
            case ast.Attribute() | ast.Subscript():
                if INDEX_NAME.match(last_name(node) or ""):
                    yield Place(_SOME, index)
                elif not _is_of_a_tensor(node, index):
                    yield from self._of_kept(node, index)

    def _of_call(self, call: ast.Call, index: Index) -> Iterator[Place]:
        scope, dotted = index.scope(call), index.dotted(call.func)
        default = default_of(call)
        if isinstance(call.func, ast.Name) and call.func.id == "int":
            is_number = scope.find("int") is None
        elif default is not None:
            yield Place(default, index)
            return
        else:
            target = self.callees.called(index, call.func)
            if target is not None and dotted not in _RANKS:
                yield from self._values.of(Place(call, index))
                return
            is_number = dotted in _RANKS or (dotted is None and self._is_rank(call, scope))
        if is_number:
            yield Place(_SOME, index)

    def _is_rank(self, call: ast.Call, scope: Scope) -> bool:
        """Return True if an unknown function gives a number by its name."""
        last = last_name(call.func) or ""
        is_users = self._project.has_function(last)
        return last.endswith("rank") or (is_index_of_tensor(call, scope) and not is_users)

    def _of_name(self, node: ast.Name, index: Index) -> Iterator[Place]:
        found = index.scope(node).find(node.id)
        if found is None:
            return
        home, bindings = found
        if _is_made_where_named(node.id, [b.value for b in bindings], home):
            if not is_calculated_with(index, node):
                bindings = [b for b in bindings if b.how != "assign"]
        for binding in flow.reaching(bindings, node, home, index.parents):
            yield from self._bound(node.id, binding, index)

    def _bound(self, name: str, binding: Binding, index: Index) -> Iterator[Place]:
        some = Place(_SOME, index)
        by_name = INDEX_NAME.match(name) is not None
        if binding.how == "parameter":
            yield from self._of_parameter(binding, index)
        elif binding.how == "for":
            if by_name or _is_counted(binding):
                yield some
        elif binding.how == "import":
            yield from self._values.imported(binding.dotted, index)
        elif isinstance(binding.node, ast.AnnAssign) and binding.value is None:
            if ast.unparse(binding.node.annotation) == "int":
                yield some
        elif binding.how in {"assign", "augment"}:
            value = binding.part
            if by_name and (value is None or isinstance(value, _COMPUTED)):
                yield some
            elif value is not None:
                yield Place(value, index)

    def _of_kept(self, node: ast.Attribute | ast.Subscript, index: Index) -> Iterator[Place]:
        """`self.device`, `args.device`, `config["device"]`."""
        given = list(self._values.of(Place(node, index)))
        if _is_made_where_named(last_name(node) or "", [place.node for place in given]):
            if not is_calculated_with(index, node):
                return
        yield from given
        for owner in self._owners(node.value, index):
            same = assigned_to(_with_owner(node, owner.node), owner.home)
            yield from (Place(value, owner.home) for value in same)

    def _owners(self, owner: ast.expr, index: Index) -> Iterator[PassedArgument]:
        """Yield what is passed for the parameter `owner`: `args` of `args.device`."""
        if any(b.how == "parameter" for b in index.bindings(owner)):
            assert isinstance(owner, ast.Name)
            yield from self.passed.of_parameter(index, owner)

    # Parameters.

    def _of_parameter(self, binding: Binding, index: Index) -> Iterator[Place]:
        assert isinstance(binding.node, ast.arg)
        annotation = ast.unparse(binding.node.annotation) if binding.node.annotation else ""
        name = binding.node.arg
        if INDEX_NAME.match(name):
            if annotation in {"", "int", "Optional[int]", "int | None"}:
                yield Place(_SOME, index)
            return
        function = index.parents[index.parents[binding.node]]
        target = self.callees.target(index, function)
        if target is None or self._takes_devices(target, name):
            return
        if binding.value is not None:
            yield Place(binding.value, index)
        yield from (Place(*passed[:2]) for passed in self.passed.of(target, name))
        if self._counts_processes(target, name):
            yield Place(_SOME, index)

    def _only_moves(self, target: Target, name: str) -> bool:
        """Return True if `target` only moves to its parameter `name`, and does not call it a number."""
        return not INDEX_NAME.match(name) and self._moved_to.only(target, name)

    def _takes_devices(self, target: Target, name: str) -> bool:
        """Return True if the callers make devices of the numbers that they pass for `name`.

        Then `target` only moves to it, and neither its default nor an unknown call is a number.
        """
        if not self._only_moves(target, name):
            return False
        bindings = scope_of(target).bindings.get(name, ())
        by_default = [leaf for b in bindings if b.value is not None for leaf in leaves(b.value)]
        passed = list(self.passed.of(target, name))
        return (
            all(isinstance(d, ast.Constant) and not _is_int(d) for d in by_default)
            and bool(passed)
            and all(argument.sure for argument in passed)
            and not self._counts_processes(target, name)
        )

    def _counts_processes(self, target: Target, name: str) -> bool:
        """Return True if `name` is the number that `mp.spawn` gives to each process."""
        if next((arg.arg for arg in parameters(target)), "") != name:
            return False
        handed = self.passed.preparing(target)
        functions = (h.target.function for h in handed if h.first and h.target is not None)
        return target.function in functions


def _defined(index: Index) -> set[str]:
    """Return the names of all functions, methods included, and of the classes of the module."""
    functions = {node.name for node, _ in index.of(ast.FunctionDef)}
    own = index.module.bindings.items()
    return functions | {name for name, found in own if found[0].how in {"def", "class"}}


def _is_made_where_named(
    name: str, values: Sequence[ast.expr | None], scope: Scope | None = None
) -> bool:
    """True if what is called `name` may be the host, too: then its number becomes a device where it gets the name.

    The same holds if it is a tensor's device, or None.
    """
    if not is_device_name(name):
        return False
    parts = [leaf for value in values if value is not None for leaf in leaves(value)]
    if any(map(is_host, parts)):
        return True
    if scope is None:
        return False
    numbers = [p for p in parts if not is_literal(p, None)]
    return 0 < len(numbers) < len(parts) and all(is_index_of_tensor(p, scope) for p in numbers)


def _with_owner(
    node: ast.Attribute | ast.Subscript, owner: ast.expr
) -> ast.Attribute | ast.Subscript:
    if isinstance(node, ast.Attribute):
        return ast.Attribute(owner, node.attr, ast.Load())
    return ast.Subscript(owner, node.slice, ast.Load())


def _is_of_a_tensor(node: ast.Attribute | ast.Subscript, index: Index) -> bool:
    """Return True for `x.device`, also of an unknown object that is not called like options."""
    if not isinstance(node, ast.Attribute) or node.attr != "device":
        return False
    kinds = index.value(node.value).kinds
    return TENSOR in kinds or not (kinds or is_settings(node.value))


def _is_int(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


def _is_counted(binding: Binding) -> bool:
    """Return True for `rank` of `for rank in range(n)` and `i` of `for i, x in enumerate(...)`."""
    match binding.value:
        case ast.Call(func=ast.Name(id="range")):
            return True
        case ast.Call(func=ast.Name(id="enumerate")):
            return binding.path == (ITERATED, 0)
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return binding.path == (ITERATED,) and any(map(_is_int, elements))
    return False
