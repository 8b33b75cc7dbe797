"""Names that hold a rank without saying so: `gpu` of a worker that `mp.spawn` starts."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from typing import TYPE_CHECKING

from ....flow.closure import reach
from ....flow.edges import passed
from ....patterns import Pattern
from ...bindings import Binding, part
from ...syntax import keyword
from .guards import named_as_a_rank

if TYPE_CHECKING:
    from ...parsed_file import ParsedFile

_STARTS = ("spawn", "start_processes", "launch")
_VARIABLE = Pattern(r"(?:^|_)RANK$|^SLURM_(?:PROCID|LOCALID)$")
_ASKS = re.compile(r"environ|getenv|env", re.IGNORECASE)
_FIRST = ast.Name("rank", ast.Load())  # what a started process gets as its first argument
_UNKNOWN = ast.Name("?", ast.Load())


class RankNames:
    """The names and attributes of a file that hold a rank."""

    def __init__(self, script: ParsedFile) -> None:
        self.script = script

    def __contains__(self, node: object) -> bool:
        is_name = isinstance(node, (ast.Name, ast.Attribute))
        return is_name and self.script.cached(_holds_a_rank, node)


def _holds_a_rank(script: ParsedFile, node: ast.expr) -> bool:
    """Return True if a value of `node` is a rank, and all others stand for "the only one"."""
    reached = reach([node], lambda value: _sources(script, value))
    ends = [value for value in reached if not _sources(script, value)]
    others = [value for value in ends if not _is_of_one(value)]
    return bool(others) and all(map(_is_rank, others))


def _is_rank(value: ast.expr) -> bool:
    match value:
        case ast.Subscript(value=owner, slice=ast.Constant(value=str(variable))):
            return bool(_VARIABLE.search(variable) and _ASKS.search(ast.unparse(owner)))
        case ast.Call(func=func, args=[ast.Constant(value=str(variable)), *_]):
            return bool(_VARIABLE.search(variable) and _ASKS.search(ast.unparse(func)))
    return named_as_a_rank(value)


def _is_of_one(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value in (0, -1, None)


def _sources(script: ParsedFile, value: ast.expr) -> list[ast.expr]:
    """Return what `value` comes from; nothing for a rank, and for other expressions."""
    match value:
        case ast.Call(func=ast.Name(id="int"), args=[inner]):
            return [inner]
        case ast.IfExp(body=body, orelse=orelse):
            return [body, orelse]
        case ast.Attribute(attr=name) if not named_as_a_rank(value):
            return script.cached(_assigned)[name]
        case ast.Name() if not named_as_a_rank(value) and value is not _UNKNOWN:
            return [s for b in script.bindings(value) for s in _given(script, value, b)]
    return []


def _given(script: ParsedFile, name: ast.Name, binding: Binding) -> list[ast.expr]:
    """Return the values that `binding` gives `name`."""
    home = script.index.scope(name).find(name.id)
    function = home[0].function if home is not None else None
    if binding.how == "assign":
        return [part(binding) or _UNKNOWN]
    if binding.how != "parameter" or function is None:
        return [_UNKNOWN]
    if function.args.args[:1] == [binding.node] and _is_started(script, function.name):
        return [_FIRST]
    return [given or _UNKNOWN for given in passed(script, function, name.id)] or [_UNKNOWN]


def _is_started(script: ParsedFile, function: str) -> bool:
    """Return True if a function of that name is started in several processes."""
    calls = (call for start in _STARTS for call, _ in script.index.calls_of(start))
    started = (call.args[0] if call.args else keyword(call, "fn") for call in calls)
    return any(isinstance(first, ast.Name) and first.id == function for first in started)


def _assigned(script: ParsedFile) -> defaultdict[str, list[ast.expr]]:
    """Return what is assigned to attributes, by their last names: `args.rank, args.gpu = 0, 0`."""
    found: defaultdict[str, list[ast.expr]] = defaultdict(list)
    for node, _ in script.index.of(ast.Assign):
        for target in node.targets:
            targets = target.elts if isinstance(target, ast.Tuple) else [target]
            values = [node.value] * len(targets)
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                values = node.value.elts if len(node.value.elts) == len(targets) else values
            for one, value in zip(targets, values):
                if isinstance(one, ast.Attribute):
                    found[one.attr].append(value)
    return found


def rank_names(script: ParsedFile) -> RankNames:
    """What holds a rank in this file besides what is called so, for `guard` and its relatives."""
    return script.cached(RankNames)
