"""Conditions on the rank, the names that hold a rank, and groups of processes."""

from __future__ import annotations

import ast
import re
from collections.abc import Container, Sequence
from typing import NamedTuple

from ....flow.closure import ends
from ....flow.edges import known_sources, sources
from ....patterns import Pattern
from ...nodes import walk
from ...parsed_file import ParsedFile
from ...syntax import keyword, name_of

_RANK = Pattern(
    r"(?:^|_)rank$|^get_(?:global_|local_)?rank$|^(?:local_)?process_index$|^global_ordinal$",
    re.IGNORECASE,
)
_OF_WHAT = r"(?:_(?:process|rank|worker|node|proc|ordinal|gpu|device))?"
_MASTER = Pattern(
    r"^(?:is_|am_|i_am_|ddp_)?(?:local_|global_|world_)?"
    rf"(?:main|master|chief|leader|rank_?(?:0|zero)|(?:process_)?zero_rank|process_(?:0|zero)){_OF_WHAT}$"
    rf"|^(?:is_)?global_zero$|^is_(?:local_|global_)?(?:root|primary|coordinator){_OF_WHAT}$",
    re.IGNORECASE,
)


# What holds a rank besides what is called so: `rank_names(script)`.
Ranks = Container[ast.expr]


class Guard(NamedTuple):
    """The replicas that a test admits: some only; `first` if it is the first one (else all the others)."""

    first: bool


def guard(test: ast.expr, ranks: Ranks = ()) -> Guard | None:
    """Return `test` as a test of the rank; None if all replicas pass, or that is unknown.

    `ranks`: further names that hold a rank (`rank_names`).
    """
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        if _is_rank(test.operand, ranks):
            return Guard(True)
        inner = guard(test.operand, ranks)
        return Guard(not inner.first) if inner is not None else None
    if isinstance(test, ast.BoolOp):
        return _bool(test, ranks)
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        return _compare(test.left, test.ops[0], test.comparators[0], ranks)
    if _MASTER.search(_last(test)):
        return Guard(True)
    return Guard(False) if _is_rank(test, ranks) else None


def mentions_rank(node: ast.AST, ranks: Ranks = ()) -> bool:
    """True if the value of an expression depends on which replica this is."""
    return any(
        isinstance(part, (ast.Name, ast.Attribute, ast.Subscript)) and _is_rank(part, ranks)
        for part in walk(node)
    )


def named_as_a_rank(node: ast.expr) -> bool:
    """`rank`, `args.local_rank`, `dist.get_rank()`, `rank % gpus_per_node`."""
    return _is_rank(node, ())


def _bool(test: ast.BoolOp, ranks: Ranks) -> Guard | None:
    """`a and rank == 0` admits the first; so does `not distributed or rank == 0` if there are several."""
    found = [g for value in test.values if (g := guard(value, ranks)) is not None]
    return found[0] if found else None


def _compare(left: ast.expr, op: ast.cmpop, right: ast.expr, ranks: Ranks) -> Guard | None:
    if _is_zero(left):
        left, right = right, left
    first = _first_if_rank(op, right)  # at once: for other comparisons no rank is searched
    return Guard(first) if first is not None and _is_rank(left, ranks) else None


def _first_if_rank(op: ast.cmpop, right: ast.expr) -> bool | None:
    """Return True if the rank that compares with `right` so is the first one, False if it is another."""
    match right:
        case ast.Constant() if _is_zero(right):
            if isinstance(op, (ast.Eq, ast.Is)):
                return True
            return False if isinstance(op, (ast.NotEq, ast.IsNot, ast.Gt)) else None
        case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
            if isinstance(op, (ast.In, ast.NotIn)) and any(map(_is_zero, elements)):
                return isinstance(op, ast.In)
    return None


def is_of_host(test: ast.expr, ranks: Ranks = ()) -> bool:
    """True if a test of the rank is one within the host: `local_rank == 0`, `rank % gpus_per_node == 0`."""
    return any(
        _is_rank_of_host(part)
        or (
            isinstance(part, (ast.Name, ast.Attribute, ast.Subscript))
            and (_is_rank(part, ()) or _MASTER.search(_last(part)) is not None)
            and "local" in _last(part).lower()
        )
        or (isinstance(part, (ast.Name, ast.Attribute)) and _is_another(part, ranks))
        for part in walk(test)
        if isinstance(part, ast.expr)
    )


def _is_another(node: ast.expr, ranks: Ranks) -> bool:
    """`gpu`: who calls a rank by another name means the device on this host."""
    return not _is_rank(node, ()) and node in ranks


def _is_rank_of_host(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and _is_rank(node.left, ())


def _is_rank(node: ast.expr, ranks: Ranks) -> bool:
    if _is_rank_of_host(node):
        return True
    return _RANK.search(_last(node)) is not None or node in ranks


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0


def _last(node: ast.expr) -> str:
    """The last name of what is tested, called or not."""
    if isinstance(node, ast.Call):
        node = node.func
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return str(node.slice.value).lower()
    return name_of(node)


_STARTS = ("spawn", "start_processes", "launch")
_VARIABLE = Pattern(r"(?:^|_)RANK$|^SLURM_(?:PROCID|LOCALID)$")
_ASKS = Pattern(r"environ|getenv|env", re.IGNORECASE)
_FIRST = ast.Name("rank", ast.Load())  # what a started process gets as its first argument


class RankNames:
    """The names and attributes of a file that hold a rank."""

    def __init__(self, script: ParsedFile) -> None:
        self.script = script

    def __contains__(self, node: object) -> bool:
        is_name = isinstance(node, (ast.Name, ast.Attribute))
        return is_name and self.script.cached(_holds_a_rank, node)


def _holds_a_rank(script: ParsedFile, node: ast.expr) -> bool:
    """Return True if a value of `node` is a rank, and all others stand for "the only one"."""
    values = ends([node], lambda value: _sources(script, value))
    others = [value for value in values if not _is_of_one(value)]
    return bool(others) and all(map(_is_rank_name, others))


def _is_rank_name(value: ast.expr) -> bool:
    match value:
        case ast.Subscript(value=owner, slice=ast.Constant(value=str(variable))):
            return bool(_VARIABLE.search(variable) and _ASKS.search(ast.unparse(owner)))
        case ast.Call(func=func, args=[ast.Constant(value=str(variable)), *_]):
            return bool(_VARIABLE.search(variable) and _ASKS.search(ast.unparse(func)))
    return named_as_a_rank(value)


def _is_of_one(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value in (0, -1, None)


def _sources(script: ParsedFile, value: ast.expr) -> Sequence[ast.expr]:
    """Return what `value` comes from; nothing for a rank, and for other expressions."""
    match value:
        case ast.Call(func=ast.Name(id="int"), args=[inner]):
            return [inner]
        case ast.IfExp():
            return sources(script, value)
        case ast.Attribute() if not named_as_a_rank(value):
            return sources(script, value)
        case ast.Name() if not named_as_a_rank(value):
            return [_FIRST] if _is_started(script, value) else known_sources(script, value)
    return []


def _is_started(script: ParsedFile, name: ast.Name) -> bool:
    """Return True if `name` is the first parameter of a function that is started in several processes."""
    calls = (call for start in _STARTS for call, _ in script.index.calls_of(start))
    given = (call.args[0] if call.args else keyword(call, "fn") for call in calls)
    started = {each.id for each in given if isinstance(each, ast.Name)}
    functions = (script.function(b.node) for b in script.reaching(name) if b.how == "parameter")
    return any(f.name in started and f.args.args[0].arg == name.id for f in functions if f)


def rank_names(script: ParsedFile) -> RankNames:
    """What holds a rank in this file besides what is called so, for `guard` and its relatives."""
    return script.cached(RankNames)


def is_host_backend(node: ast.expr | None) -> bool:
    """True if `node` names a backend that has nothing to do with CUDA."""
    return isinstance(node, ast.Constant) and node.value in {"gloo", "mpi", "ucc", "xla", "fake"}


# The runtime has these under the same names, with the same arguments: each with the place of its `group`.
COLLECTIVES = {
    "all_gather": 2,
    "all_gather_into_tensor": 2,
    "all_gather_object": 2,
    "all_reduce": 2,
    "all_to_all": 2,
    "all_to_all_single": 4,
    "barrier": 0,
    "broadcast": 2,
    "broadcast_object_list": 2,
    "gather": 3,
    "gather_object": 3,
    "new_group": None,
    "reduce": 3,
    "reduce_scatter": 3,
    "reduce_scatter_tensor": 3,
    "scatter": 3,
    "scatter_object_list": 3,
}


def group_of(call: ast.Call, name: str) -> ast.expr | None:
    """The group among whose members the collective `name` is; None for that of all."""
    given = keyword(call, "group")
    place = COLLECTIVES.get(name)
    if given is None and place is not None and place < len(call.args):
        given = call.args[place]
    return None if given is None or _is_of_all(given) else given


def _is_of_all(group: ast.expr) -> bool:
    """`None`, `dist.group.WORLD`."""
    if isinstance(group, ast.Constant):
        return True
    return isinstance(group, ast.Attribute) and group.attr == "WORLD"
