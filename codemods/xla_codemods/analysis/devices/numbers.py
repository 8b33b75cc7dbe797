"""Devices given as numbers, followed from the number to the calls that move to it.

Through parameters, defaults, `partial`, spawned processes, attributes, options, entries of dicts and the project's modules. Where
a function does nothing with its parameter but move to it, whoever calls it hands it a device; elsewhere a number stays one, and
becomes a device where something is moved.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .. import flow
from ..inference.unpacking import part
from ..scopes import ITERATED, Binding, Scope, resolve
from ..syntax import statements
from .callees import Target, View, filled, scope_of
from .passed_arguments import PassedArgument, passed_arguments
from .places import assigned_to, default_of, entries
from .specs import (
    INDEX_NAME,
    is_device_name,
    is_host,
    is_index_of_tensor,
    last_name,
    leaves,
)
from .uses import MovedTo

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..index import Index
    from ..script import Script

_MOST_HANDS = 8  # through which a number comes
_RANKS = frozenset(
    {
        "torch.accelerator.current_device_index",
        "torch.cuda.current_device",
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
# How a parameter takes numbers: as they are, or as devices that its callers make of them.
NUMBER, DEVICE = "number", "device"


class Numbers:
    """The devices that are numbers, as the script sees them."""

    def __init__(self, script: Script) -> None:
        self.passed = passed_arguments(script)
        self.callees = self.passed.callees
        self.home = self.callees.home
        self._project = script.project
        self._kinds: dict[tuple[ast.AST, str], str | None] = {}
        self._answers: dict[ast.AST, bool] = {}
        self._moved_to = MovedTo(self.callees)
        # Locations visited for the current answer, so that each is visited only once.
        self._walked: set[ast.AST | tuple[ast.AST, str]] = set()
        self._cut = False  # whether that went through more than `_MOST_HANDS`

    def is_number(self, node: ast.expr) -> bool:
        """True if `node`, to which something is moved, may be a number."""
        if self._project is not None:
            self._project.asked = True
        return self._is_number(node, self.home.indexed.scope(node), self.home, 0)

    def _is_users_method(self, name: str) -> bool:
        """Return True if a module of the program defines a function of this name."""
        return self._project is not None and self._project.has_function(name)

    def is_given_as_device(self, node: ast.expr) -> bool:
        """True if `node` is a parameter for which the callers make devices of their numbers."""
        if not isinstance(node, ast.Name):
            return False
        scope = self.home.indexed.scope(node)
        found = scope.find(node.id)
        target = self.callees.target_of(found[0], self.home) if found is not None else None
        if found is None or target is None or any(b.how != "parameter" for b in found[1]):
            return False
        return self._kind(target, node.id, 0) == DEVICE

    def may_be_none(self, node: ast.expr) -> bool:
        """Return True if `node` is a parameter that is None by default: then nothing is moved."""
        found = self.home.indexed.scope(node).find(node.id) if isinstance(node, ast.Name) else None
        if found is None or not isinstance(node, ast.Name):
            return False
        bindings = flow.reaching(found[1], node, found[0], self.home.indexed.parents)
        return any(
            b.how == "parameter" and isinstance(b.value, ast.Constant) and b.value.value is None
            for b in bindings
        ) and not _is_asked_for(node, self.home.indexed.parents)

    def is_of_the_project(self, call: ast.Call) -> bool:
        """True if `call` runs a function of the project."""
        scope = self.home.indexed.scope(call)
        return self.callees.handed(self.home, call, scope) is not None

    def made_devices(self) -> Iterator[ast.expr]:
        """Arguments of the script's calls that are numbers, of functions that want a device for them."""
        wanted = self._names_of_functions()
        for call, scope in self.home.indexed.of(ast.Call):
            func = call.func
            last = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
            if last not in wanted or not (call.args or call.keywords):
                continue
            handed = self.callees.handed(self.home, call, scope)
            if handed is None or handed.target is None or handed.later:
                continue
            for name, argument in filled(handed, handed.target):
                if not _may_be_one(argument):
                    continue
                # Few functions do nothing but move, and that is cheap to see: first of all.
                if self._is_moved_to(handed.target, name) and self._is_number(
                    argument, scope, self.home, 0
                ):
                    if self._kind(handed.target, name, 0) == DEVICE:
                        yield argument

    def _names_of_functions(self) -> set[str]:
        """Last names of calls that may run a function of the project."""
        index = self.home.indexed
        names = {"__init__", *_defined(index)}
        if self._project is None:
            return names
        for path in sorted(self._project.modules.graph.imported.get(self.home.path, ())):
            view = self.callees.view(path)
            if view is not None:
                names |= _defined(view.indexed)
        for local, bindings in index.module.bindings.items():
            if any(b.how == "import" and self._project.has(b.dotted) for b in bindings):
                names.add(local)
        return names

    # What may be a number.

    def _is_number(self, node: ast.expr | None, scope: Scope, view: View, depth: int) -> bool:
        if node is None:
            return False
        if not isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)):
            return self._may_be_number(node, scope, view, depth)
        if node in self._answers:
            return self._answers[node]
        if not self._goes_to(node, depth):
            return False
        first = len(self._walked) == 1
        answer = self._may_be_number(node, scope, view, depth)
        if answer or first:
            self._answers[node] = answer
        if first:
            self._come_back(answer)
        return answer

    def _goes_to(self, place: ast.AST | tuple[ast.AST, str], depth: int) -> bool:
        """Return True if this answer has not visited `place` yet; a visited place was no number, or is pending."""
        self._cut = self._cut or depth > _MOST_HANDS
        if place in self._walked or depth > _MOST_HANDS:
            return False
        self._walked.add(place)
        return True

    def _come_back(self, found: bool) -> None:
        """The whole answer is there. If no number was reached, none is from any place on the way."""
        if not found and not self._cut:
            for place in self._walked:
                if isinstance(place, tuple):
                    self._kinds.setdefault(place, None)
                else:
                    self._answers.setdefault(place, False)
        self._walked.clear()
        self._cut = False

    def _may_be_number(self, node: ast.expr, scope: Scope, view: View, depth: int) -> bool:
        match node:
            case ast.Constant(value=value):
                return type(value) is int
            case ast.IfExp(test=test, body=body, orelse=orelse):
                if "is_available" in ast.unparse(test):
                    return False  # a choice of devices, which becomes one as a whole
                return any(self._is_number(n, scope, view, depth) for n in (body, orelse))
            case ast.BoolOp(values=values):
                return any(self._is_number(n, scope, view, depth) for n in values)
            case ast.NamedExpr(value=value):
                return self._is_number(value, scope, view, depth)
            case ast.BinOp(left=left, op=op, right=right) if isinstance(op, _ARITHMETIC):
                if isinstance(left, (ast.Constant, ast.JoinedStr)) and not self._is_number(
                    left, scope, view, depth
                ):
                    return False  # "cuda:%d" % rank
                return any(self._is_number(n, scope, view, depth + 1) for n in (left, right))
            case ast.Call():
                return self._is_called(node, scope, view, depth)
            case ast.Name():
                return self._is_named(node, scope, view, depth)
            case ast.Attribute() | ast.Subscript():
                return self._is_kept(node, scope, view, depth)
        return False

    def _is_called(self, call: ast.Call, scope: Scope, view: View, depth: int) -> bool:
        dotted = resolve(call.func, scope)
        if dotted in _RANKS:
            return True
        if isinstance(call.func, ast.Name) and call.func.id == "int":
            return scope.find("int") is None
        default = default_of(call)
        if default is not None:
            return self._is_number(default, scope, view, depth + 1)
        target = self.callees.called(view, call.func, scope)
        if target is None:
            last = getattr(call.func, "attr", getattr(call.func, "id", ""))
            if dotted is not None:
                return False
            return last.endswith("rank") or (
                is_index_of_tensor(call, scope) and not self._is_users_method(last)
            )
        if target.function.name == "__init__":
            return False
        handed = self.callees.handed(view, call, scope)
        given = dict(filled(handed, target)) if handed is not None else {}
        for value, home in _returned(target):
            chosen = isinstance(value, ast.IfExp) and "is_available" in ast.unparse(value.test)
            for leaf in () if chosen else leaves(value):
                if (name := _parameter(leaf, home)) in given:
                    # what this call hands over: `default(device, self.device)`, not what others do
                    if self._is_number(given[name], scope, view, depth + 1):
                        return True
                elif self._is_number(leaf, home, target.view, depth + 1):
                    return True
        return False

    def _is_named(self, node: ast.Name, scope: Scope, view: View, depth: int) -> bool:
        found = scope.find(node.id)
        if found is None:
            return False
        home, bindings = found
        if _is_made_where_named(node.id, [b.value for b in bindings], home):
            bindings = [b for b in bindings if b.how != "assign"]
        reaching = flow.reaching(bindings, node, home, view.indexed.parents)
        return any(self._is_bound(node.id, b, home, view, depth) for b in reaching)

    def _is_bound(self, name: str, binding: Binding, home: Scope, view: View, depth: int) -> bool:
        by_name = INDEX_NAME.match(name) is not None
        if binding.how == "parameter":
            return self._is_parameter(binding, home, view, depth)
        if binding.how == "for":
            return self._is_counted(binding, home, depth) or by_name
        if binding.how == "import":
            return self._is_imported(binding.dotted, view, depth)
        if binding.how not in {"assign", "augment"}:
            return False
        if isinstance(binding.node, ast.AnnAssign) and binding.value is None:
            return ast.unparse(binding.node.annotation) == "int"
        value = part(binding)
        if value is None:
            return by_name
        return self._is_number(value, home, view, depth + 1) or (
            by_name and isinstance(value, (ast.Call, ast.Attribute, ast.Subscript))
        )

    def _is_counted(self, binding: Binding, home: Scope, depth: int) -> bool:
        """`for rank in range(n)`, `for i, x in enumerate(...)`."""
        match binding.value:
            case ast.Call(func=ast.Name(id="range")):
                return True
            case ast.Call(func=ast.Name(id="enumerate")):
                return binding.path == (ITERATED, 0)
            case ast.List(elts=elements) | ast.Tuple(elts=elements) if binding.path == (ITERATED,):
                return any(isinstance(e, ast.Constant) and type(e.value) is int for e in elements)
        return False

    def _is_imported(self, dotted: str, view: View, depth: int) -> bool:
        """`from config import device`, where that module says `device = 0`."""
        found = view.modules.locate(dotted, view.path) if view.modules is not None else None
        if found is None or len(found[1]) != 1 or found[0] == view.path:
            return False
        other = self.callees.view(found[0])
        if other is None:
            return False
        (name,) = found[1]
        module = other.indexed.module
        return any(
            b.how == "assign" and self._is_bound(name, b, module, other, depth + 1)
            for b in module.bindings.get(name, ())
        )

    def _is_kept(
        self, node: ast.Attribute | ast.Subscript, scope: Scope, view: View, depth: int
    ) -> bool:
        """`self.device`, `args.device`, `config["device"]`."""
        last = last_name(node)
        if last is not None and INDEX_NAME.match(last):
            return True
        if isinstance(node, ast.Attribute):
            around = self.callees.class_around(view, scope)
            this = isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}
            if this and around is not None:
                bound = list(self.callees.attributes(view, around, node.attr))
                return not _is_made_where_named(node.attr, [b.value for _, b, _ in bound]) and any(
                    self._is_bound(node.attr, binding, home, of, depth + 1)
                    for of, binding, home in bound
                )
        given = [*assigned_to(node, view), *entries(node, scope, view)]
        if _is_made_where_named(last or "", [value for value, _ in given]):
            return False
        for value, home in given:
            if self._is_number(value, home, view, depth + 1):
                return True
        return any(
            self._is_number(value, home, source.view, depth + 1)
            for source in self._sources_of_owner(node.value, scope, view, depth)
            for value, home in (
                *assigned_to(_with_owner(node, source.node), source.view),
                *entries(_with_owner(node, source.node), source.scope, source.view),
            )
        )

    def _sources_of_owner(
        self, owner: ast.expr, scope: Scope, view: View, depth: int
    ) -> Iterator[PassedArgument]:
        """What is passed for the parameter `owner`: `args` of `args.device`."""
        found = scope.find(owner.id) if isinstance(owner, ast.Name) else None
        if found is None or depth > _MOST_HANDS or not isinstance(owner, ast.Name):
            return
        if any(b.how == "parameter" for b in found[1]):
            target = self.callees.target_of(found[0], view)
            if target is not None:
                yield from self.passed.of(target, owner.id)

    # Parameters.

    def _is_parameter(self, binding: Binding, home: Scope, view: View, depth: int) -> bool:
        assert isinstance(binding.node, ast.arg)
        said = ast.unparse(binding.node.annotation) if binding.node.annotation else ""
        if INDEX_NAME.match(binding.node.arg):
            return said in {"", "int", "Optional[int]", "int | None"}
        target = self.callees.target_of(home, view)
        return target is not None and self._kind(target, binding.node.arg, depth) == NUMBER

    def _kind(self, target: Target, name: str, depth: int) -> str | None:
        """How `target` takes its parameter `name`; None where no number comes there."""
        key = target.function, name
        if key in self._kinds:
            return self._kinds[key]
        if not self._goes_to(key, depth):
            return None
        first = len(self._walked) == 1
        kind = self._found_kind(target, name, depth)
        if kind is not None or first:
            self._kinds[key] = kind
        if first:
            self._come_back(kind is not None)
        return kind

    def _found_kind(self, target: Target, name: str, depth: int) -> str | None:
        default = _default(target, name)
        scope = scope_of(target)
        by_default = default is not None and self._is_number(default, scope, target.view, depth + 1)
        numbers = [
            source
            for source in self.passed.of(target, name)
            if self._is_number(source.node, source.scope, source.view, depth + 1)
        ]
        if not numbers and not by_default and not self._counts_processes(target, name):
            return None
        sure = not by_default and bool(numbers) and all(source.sure for source in numbers)
        return DEVICE if sure and self._is_moved_to(target, name) else NUMBER

    def _is_moved_to(self, target: Target, name: str) -> bool:
        """True if `target` does nothing with its parameter `name` but move to it, and does not call it a number."""
        return not INDEX_NAME.match(name) and self._moved_to.only(target, name)

    def _counts_processes(self, target: Target, name: str) -> bool:
        """True if `name` is the number that `mp.spawn` gives to each process."""
        return any(
            handed.first and handed.target is not None and _first_name(handed.target) == name
            for view, call, scope in self.passed.preparing(target.function.name, target.view)
            if (handed := self.callees.handed(view, call, scope)) is not None
            and handed.target is not None
            and handed.target.function is target.function
        )


def _defined(index: Index) -> set[str]:
    """Return the names of all functions, methods included, and of the classes of the module."""
    functions = {node.name for node, _ in index.of(ast.FunctionDef)}
    own = index.module.bindings.items()
    return functions | {name for name, found in own if found[0].how in {"def", "class"}}


def _is_made_where_named(
    name: str, values: list[ast.expr | None], scope: Scope | None = None
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
    numbers = [p for p in parts if not (isinstance(p, ast.Constant) and p.value is None)]
    return 0 < len(numbers) < len(parts) and all(is_index_of_tensor(p, scope) for p in numbers)


def _is_asked_for(node: ast.Name, parents: Mapping[ast.AST, ast.AST]) -> bool:
    """Return True if a test for None guards `node`."""
    child: ast.AST = node
    current = parents.get(node)
    while current is not None:
        if isinstance(current, (ast.If, ast.IfExp)) and child is not current.test:
            text = ast.unparse(current.test)
            if text in {f"{node.id} is not None", f"{node.id} is None", node.id, f"not {node.id}"}:
                return True
        child, current = current, parents.get(current)
    return False


def _may_be_one(node: ast.expr) -> bool:
    """Return True if an expression like `node` can be a number."""
    return type(node.value) is int if isinstance(node, ast.Constant) else isinstance(node, _NUMBERS)


def _parameter(node: ast.expr, scope: Scope) -> str:
    """Return the name of `node` if it is only a parameter of the function of `scope`, otherwise ""."""
    bindings = scope.bindings.get(node.id, ()) if isinstance(node, ast.Name) else ()
    alone = bool(bindings) and all(b.how == "parameter" for b in bindings)
    return node.id if isinstance(node, ast.Name) and alone else ""


def _with_owner(
    node: ast.Attribute | ast.Subscript, owner: ast.expr
) -> ast.Attribute | ast.Subscript:
    if isinstance(node, ast.Attribute):
        return ast.Attribute(owner, node.attr, ast.Load())
    return ast.Subscript(owner, node.slice, ast.Load())


def _default(target: Target, name: str) -> ast.expr | None:
    args = target.function.args
    positional = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(positional) - len(args.defaults)) + list(args.defaults)
    for arg, default in (*zip(positional, defaults), *zip(args.kwonlyargs, args.kw_defaults)):
        if arg.arg == name:
            return default
    return None


def _first_name(target: Target) -> str:
    args = target.function.args
    positional = [*args.posonlyargs, *args.args]
    skip = 1 if target.owner is not None and positional else 0
    return positional[skip].arg if len(positional) > skip else ""


def _returned(target: Target) -> Iterator[tuple[ast.expr, Scope]]:
    scope = scope_of(target)
    for node in statements(target.function.body):
        if isinstance(node, ast.Return) and node.value is not None:
            yield node.value, scope
