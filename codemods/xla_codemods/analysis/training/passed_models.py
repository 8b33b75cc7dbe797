"""Calls that pass a model to a function of another module, which runs it: `x = p_sample(model, x, t)`."""

from __future__ import annotations

import ast
from collections.abc import Callable

from ..loops import calls_outside_loops
from ..parsed_file import ParsedFile
from ..projects.callees import callees_of, filled
from ..syntax import name_of

# Functions with these calls mark their own steps.
_OF_STEPS = frozenset({"backward", "mark_step", "optimizer_step", "step", "sync"})


def runs_a_passed_model(
    script: ParsedFile, call: ast.Call, is_model: Callable[[ast.expr], bool]
) -> bool:
    """Return True if a function of another module, not in a loop there, calls a model that `call` passes."""
    callees = callees_of(script)
    target = None if script.project.is_alone else callees.called(script.index, call.func)
    handed = callees.handed(script.index, call) if target is not None else None
    if target is None or handed is None or target.home is script.index:
        return False
    models = {name for name, argument in filled(handed, target) if is_model(argument)}
    calls = target.home.cached(calls_outside_loops, target.function) if models else []
    names = {getattr(each.func, "id", "") for each in calls}
    is_step = any(name_of(each.func) in _OF_STEPS for each in calls)
    return not (is_step or models.isdisjoint(names))
