"""Batches that a loop which trains fetches between the forward and the backward pass: what gives them, in any module."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable

from ...flow.closure import reach
from ...flow.edges import sources
from ..loops import BACKWARD, FORWARD, PASSING, STEP
from ..parsed_file import ParsedFile
from ..syntax import name_of
from .callees import Target, callees_of
from .passed_arguments import passed_arguments
from .project import COMPUTES_GRADIENTS
from .sources import Place, ValueSources

_PASSES = frozenset({BACKWARD, FORWARD, STEP})

Effects = Callable[[ParsedFile, Iterable[ast.AST]], frozenset[str]]


def is_fetched_early(
    script: ParsedFile, loop: ast.AST, driver: ast.expr, effects_of: Effects
) -> bool:
    """Return True if a loop of the program that trains fetches early from `driver`, or from the function around `loop`."""
    target = callees_of(script).target(script.index, script.function(loop) or loop)
    wanted: set[object] = {driver, *map(_named, filter(None, [target]))}
    if wanted & script.cached(_fetched, effects_of):
        return True
    if script.project.is_alone:
        return False

    def elsewhere(other: ParsedFile) -> frozenset[object]:
        return _fetched(other, effects_of)

    modules, path = script.project.modules, script.project.path
    fetching = modules.having(COMPUTES_GRADIENTS) & modules.having(("next(",))
    paths = sorted(fetching & modules.graph.programs(path) - {path})
    return any(wanted & (script.of_module(each, elsewhere) or set()) for each in paths)


def _named(target: Target) -> tuple[str, str, str]:
    """Return how other modules know `target`; a class gives batches by `__iter__`."""
    owner, name = target.owner, target.function.name
    owner_name = owner.name if owner is not None else ""
    return target.home.path, owner_name, "__iter__" if name == "__init__" else name


def _fetched(script: ParsedFile, effects_of: Effects) -> frozenset[object]:
    """Return the expressions that give the batches fetched early, and the names of the functions."""
    calls = [call for call, _ in script.index.calls_of("next") if call.args]
    early = [Place(c.args[0], script.index) for c in calls if _is_early(script, c, effects_of)]
    values = ValueSources(passed_arguments(script))
    reached = reach(early, lambda place: _from(values, place))
    targets = (values.callees.called(place.home, place.node) for place in reached)
    return frozenset((*(place.node for place in reached), *map(_named, filter(None, targets))))


def _from(values: ValueSources, place: Place) -> list[Place]:
    """Return what the iterator at `place` takes from, and the function that makes it."""
    node, home, _ = place
    found = sources(home, node)
    if isinstance(node, ast.Call):
        is_passing = name_of(node.func) in {*PASSING, "partial"}
        found = [node.func, *(node.args[:1] if is_passing else ())]
    return [*(Place(each, home) for each in found), *values.of(place)]


def _is_early(script: ParsedFile, call: ast.Call, effects_of: Effects) -> bool:
    statement = script.statement(call)
    block = script.block(statement)
    at = block.index(statement)
    before = (effects_of(script, [each]) & _PASSES for each in block[:at][::-1])
    after = (effects_of(script, [each]) & _PASSES for each in block[at + 1 :])
    follows = next(filter(None, after), frozenset())
    return next(filter(None, before), frozenset()) == {FORWARD} and follows - {STEP} == {BACKWARD}
