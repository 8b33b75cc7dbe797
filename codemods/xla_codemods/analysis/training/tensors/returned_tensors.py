"""Tensors that functions of the program compute from their arguments: `acc1, acc5 = accuracy(output, y)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....flow.closure import reach
from ....flow.containers import appended
from ...index import Index
from ...inference.library_types import FACTORIES, is_tensor_function
from ...projects.callees import Target, callees_of, filled
from ...script import Script
from ...syntax import returned

# Methods whose results are on the host or are no tensors, and attributes that are tensors.
_LEAVES = frozenset("cpu cuda dim item numel numpy size stride to tolist".split())
_TENSORS = frozenset({"T", "mT", "data", "grad"})


def tensor_arguments(script: Script, node: ast.expr) -> list[ast.expr]:
    """Return the arguments of calls that the value of `node` is computed from, on the device of these arguments.

    The calls are of functions of the program. The list is empty if `node` may have another value.
    """
    calls = list(_calls(script, node))
    found = [list(_arguments(script, call)) for call in calls if call is not None]
    return [a for each in found for a in each] if len(found) == len(calls) and all(found) else []


def _calls(script: Script, node: ast.expr) -> Iterator[ast.Call | None]:
    """Yield the calls that return `node` or a list with it, and None for another value."""
    match node:
        case ast.Call():
            yield node
        case ast.Subscript(value=ast.Call() | ast.Name() as owner):
            yield from _calls(script, owner)
        case ast.Name():
            for binding in script.reaching(node):
                is_call = binding.how in {"assign", "for"} and isinstance(binding.value, ast.Call)
                yield binding.value if is_call else None  # type: ignore[misc]


def _arguments(script: Script, call: ast.Call) -> Iterator[ast.expr]:
    """Yield what `call` passes for the parameters that the function's result is computed from."""
    callees = callees_of(script)
    target = callees.called(script.index, call.func)
    handed = callees.handed(script.index, call)
    if target is None or handed is None or target.function.decorator_list:
        return
    names = _parameters_behind(target)
    yield from (argument for name, argument in filled(handed, target) if name in names)


def _parameters_behind(target: Target) -> set[str]:
    """Return the parameters that the returned tensors are computed from, on the device of the parameters."""
    home = target.home
    reached = reach(returned(target.function), lambda part: _parts(home, part))
    names = (part for part in reached if isinstance(part, ast.Name))
    return {n.id for n in names if any(b.how == "parameter" for b in home.reaching(n))}


def _parts(home: Index, node: ast.expr) -> list[ast.expr]:
    """Return what `node`, a tensor or a container of tensors, is computed from."""
    match node:
        case ast.Name():
            values = [b.value for b in home.reaching(node) if b.value is not None]
            return [*values, *appended(home, node)]
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return elements
        case ast.ListComp(elt=element):
            return [element]
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case ast.Compare(left=left, ops=ops, comparators=others):
            is_bool = isinstance(ops[0], (ast.In, ast.Is, ast.IsNot, ast.NotIn))
            return [] if is_bool else [left, *others]
        case ast.UnaryOp(operand=inner) | ast.Subscript(value=inner):
            return [inner]
        case ast.Attribute(value=inner, attr=name) if name in _TENSORS:
            return [inner]
        case ast.Call(func=func, args=args):
            dotted = home.dotted(func) or ""
            home_of, _, name = dotted.rpartition(".")
            if home_of.startswith("torch") or is_tensor_function(dotted):
                return [] if name in FACTORIES else args
            if not home_of and isinstance(func, ast.Attribute) and func.attr not in _LEAVES:
                return [func.value]
    return []
