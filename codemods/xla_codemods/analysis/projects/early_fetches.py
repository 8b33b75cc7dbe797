"""Batches that a loop which trains fetches between the forward and the backward pass: what gives them, in any module."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import NamedTuple

from ...flow.closure import reach
from ...flow.edges import sources
from ..loops import BACKWARD, FORWARD, PASSING, STEP
from ..parsed_file import ParsedFile
from ..syntax import name_of
from .callees import Target, callees_of
from .passed_arguments import passed_arguments
from .project import COMPUTES_GRADIENTS
from .sources import Place, ValueSources

Effects = Callable[[ParsedFile, Iterable[ast.AST]], frozenset[str]]


class _Fetched(NamedTuple):
    """The expressions that give the batches, and the functions: of each its module, class and name."""

    nodes: frozenset[ast.expr] = frozenset()
    functions: frozenset[tuple[str, str, str]] = frozenset()


def is_fetched_early(
    script: ParsedFile, loop: ast.AST, driver: ast.expr, effects_of: Effects
) -> bool:
    """Return True if a loop of the program that trains fetches early from `driver`, or from the function around `loop`."""
    own = script.cached(_fetched, effects_of)
    target = callees_of(script).target(script.index, script.function(loop) or loop)
    if driver in own.nodes or target is None or _named(target) in own.functions:
        return driver in own.nodes or target is not None

    def elsewhere(other: ParsedFile) -> _Fetched:
        return _fetched(other, effects_of)

    paths: set[str] = set()
    if not script.project.is_alone:
        modules, path = script.project.modules, script.project.path
        paths = set(modules.graph.programs(path) - {path} - modules.tests)
        paths &= modules.having(COMPUTES_GRADIENTS) & modules.having(("next(",))
    found = (script.of_module(path, elsewhere) for path in sorted(paths))
    return any(each is not None and _named(target) in each.functions for each in found)


def _named(target: Target) -> tuple[str, str, str]:
    """Return how other modules know `target`; a class gives batches by `__iter__`."""
    owner, name = target.owner, target.function.name
    owner_name = owner.name if owner is not None else ""
    return target.home.path, owner_name, "__iter__" if name == "__init__" else name


def _fetched(script: ParsedFile, effects_of: Effects) -> _Fetched:
    calls = [call for call, _ in script.index.calls_of("next") if call.args]
    early = [Place(c.args[0], script.index) for c in calls if _is_early(script, c, effects_of)]
    if not early:
        return _Fetched()
    values = ValueSources(passed_arguments(script))
    reached = reach(early, lambda place: _from(values, place))
    targets = (values.callees.called(place.home, place.node) for place in reached)
    nodes = frozenset(place.node for place in reached)
    return _Fetched(nodes, frozenset(_named(target) for target in targets if target is not None))


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
    passes = {FORWARD, BACKWARD, STEP}
    before = (found for s in block[:at][::-1] if (found := effects_of(script, [s]) & passes))
    after = (found for s in block[at + 1 :] if (found := effects_of(script, [s]) & passes))
    follows = next(after, frozenset())
    return next(before, frozenset()) == {FORWARD} and follows - {STEP} == {BACKWARD}
