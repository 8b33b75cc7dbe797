"""Calls that compute gradients, or run a model, in another module: `trainer.step(batch)`, `p_sample(model, x, t)`."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable

from ...flow.closure import reach
from ..inference.values import CLASS, INSTANCE, MODULE
from ..loops import BACKWARD, calls_outside_loops, scaled_by_name
from ..once import once
from ..parsed_file import ParsedFile
from ..projects.callees import Target, callees_of, filled
from ..projects.project import COMPUTES_GRADIENTS, Modules
from ..scopes import FunctionNode
from ..syntax import name_of

_OF_CLASSES = frozenset({CLASS, INSTANCE, MODULE})
# Functions with these calls mark their own steps.
_OF_STEPS = frozenset({"backward", "mark_step", "optimizer_step", "step", "sync"})


def computes_gradients_elsewhere(script: ParsedFile, call: ast.Call) -> bool:
    """Return True if a function of another module that `call` runs computes gradients, outside its loops."""
    if not may_compute_gradients_elsewhere(script) or _is_of_a_library(script, call.func):
        return False
    target = _elsewhere(script, call)
    if target is None:
        return False
    known = _known(script)
    if target.function not in known:
        reached = reach([target], lambda each: _called(script, each))
        found = any(map(_is_backward, (c for t in reached for c in _calls(t))))
        others = () if found else (t.function for t in reached if t.home is not script.index)
        known.update(dict.fromkeys((target.function, *others), found))
    return known[target.function]


def runs_a_passed_model(
    script: ParsedFile, call: ast.Call, is_model: Callable[[ast.expr], bool]
) -> bool:
    """Return True if a function of another module, not in a loop there, calls a model that `call` passes."""
    target = None if script.project.is_alone else _elsewhere(script, call)
    handed = callees_of(script).handed(script.index, call) if target is not None else None
    if target is None or handed is None:
        return False
    models = {name for name, argument in filled(handed, target) if is_model(argument)}
    calls = _calls(target) if models else []
    names = {getattr(each.func, "id", "") for each in calls}
    is_step = any(name_of(each.func) in _OF_STEPS for each in calls)
    return not (is_step or models.isdisjoint(names))


def _elsewhere(script: ParsedFile, call: ast.Call) -> Target | None:
    """Return the function of another module that `call` runs."""
    target = callees_of(script).called(script.index, call.func)
    return target if target is not None and target.home is not script.index else None


def _is_of_a_library(script: ParsedFile, func: ast.expr) -> bool:
    """Return True for functions of Python and installed packages, and for methods of tensors, texts, loaders, ..."""
    dotted = script.dotted(func)
    if dotted is not None:
        return not script.project.has(dotted)
    if isinstance(func, ast.Attribute):
        kinds = script.value(func.value).kinds
        return bool(kinds) and kinds.isdisjoint(_OF_CLASSES)
    return isinstance(func, ast.Name) and hasattr(builtins, func.id)


@once
def may_compute_gradients_elsewhere(script: ParsedFile) -> bool:
    """Return True if the file imports modules that compute gradients, directly or through others."""
    if script.project.is_alone:
        return False
    modules, path = script.project.modules, script.project.path
    return bool(modules.graph.loaded_by(path) & modules.having(COMPUTES_GRADIENTS) - {path})


def _loading_gradients(modules: Modules) -> frozenset[str]:
    """Return the modules that load another one which computes gradients, or do so themselves."""

    def found() -> frozenset[str]:
        return frozenset().union(*map(modules.graph.loading, modules.having(COMPUTES_GRADIENTS)))

    return modules.remembered(("load modules that compute gradients", ""), found)


def _known(script: ParsedFile) -> dict[FunctionNode, bool]:
    """The functions of other modules that some file asked about: True if they compute gradients."""
    return script.project.modules.remembered(("compute gradients", ""), dict)


def _calls(target: Target) -> list[ast.Call]:
    """Return the calls that each call of `target` makes once."""
    return target.home.cached(calls_outside_loops, target.function)


def _called(script: ParsedFile, target: Target) -> list[Target]:
    is_barren = _known(script).get(target.function) is False
    if is_barren or target.home.path not in _loading_gradients(script.project.modules):
        return []
    callees = callees_of(script)
    called = (callees.called(target.home, call.func) for call in _calls(target))
    return [each for each in called if each is not None]


def _is_backward(call: ast.Call) -> bool:
    return name_of(call.func) == BACKWARD or scaled_by_name(call) is not None
