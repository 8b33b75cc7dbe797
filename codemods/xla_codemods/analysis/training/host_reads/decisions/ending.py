"""Code that ends the training on a bad value: `if not math.isfinite(loss): sys.exit(1)`.

Behind the step it ends as it would have ended in it: what is shown and saved waits in the same order.
"""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING

from ....loops import STEP
from ....nodes import walk
from ....syntax import walk_body
from ..blocked import Blocked
from ..readers.callers import callers_of
from ..sinks import runs_to_its_end

if TYPE_CHECKING:
    from ....scopes import FunctionNode
    from ....script import Script
    from ...training import Loop

_ENDS = "it ends the training, and"
_MOST_CALLERS = 3  # the number of callers through which an error is followed to its handler
# Exceptions that handlers catch when a training is only interrupted.
_INTERRUPTS = frozenset({"GeneratorExit", "KeyboardInterrupt", "StopIteration"})


def refuse_to_end_later(script: Script, statement: ast.AST, raised: str) -> None:
    """Raise `Blocked` unless the steps until then have no visible effect."""
    if script.path.endswith(".ipynb"):
        raise Blocked(f"{_ENDS} a notebook's kernel goes on, with the weights")
    loops = _stepping_loops(script, statement, ())
    if not all(_waits_at_its_end(loop) or _may_be_waited_for(loop) for loop in loops):
        raise Blocked(f"{_ENDS} the loop may be left by `return`, `else` or `yield`")
    if _saves_at_once(script):
        raise Blocked(f"{_ENDS} `torch.distributed.checkpoint` would write weights before that")
    scripts = [script] if raised == "SystemExit" else _goes_through(script, statement, ())
    for each in scripts:
        if line := _may_catch(each, raised):
            raise Blocked(f"{_ENDS} line {line} of `{each.path}` may catch what it raises, or save")


def _goes_through(script: Script, node: ast.AST, around: tuple[ast.AST, ...]) -> list[Script]:
    """The modules through which what `node` raises goes: this one, and those that call its function, or call a function
    that does. Raises `Blocked` where some are not known.
    """
    if any(isinstance(ancestor, ast.Lambda) for ancestor in script.ancestors(node)):
        raise Blocked(f"{_ENDS} a lambda does it")
    function = script.function(node)
    if function is None or function in around:
        return [script]
    if len(around) > _MOST_CALLERS:
        raise Blocked(f"{_ENDS} its callers are not followed further")
    inside = (*around, function)
    calls = _callers(script, function)
    return [script, *(s for other, call in calls for s in _goes_through(other, call, inside))]


def _may_catch(script: Script, raised: str) -> int:
    """The line behind which the program may go on, or save what has been trained: anything that shows something may raise
    it. 0 for none; a `try` for imports shows nothing.
    """
    for node, _ in script.index.of(ast.Try):
        imports = all(isinstance(s, (ast.Import, ast.ImportFrom, ast.Assign)) for s in node.body)
        if not imports and any(_catches(script, handler, raised) for handler in node.handlers):
            return node.lineno
        if any("save" in ast.unparse(s) for s in node.finalbody):
            return node.lineno
    for call, _ in script.index.calls_of("suppress"):
        if any(_may_be(script, raised, ast.unparse(kind)) for kind in call.args):
            return call.lineno
    return 0


def _saves_at_once(script: Script) -> bool:
    """True if weights are written without waiting for what is shown before: a checkpoint of them could come between."""
    return any(
        (script.dotted(call.func, scope) or "").startswith("torch.distributed.checkpoint.")
        for name in ("async_save", "save", "save_state_dict")
        for call, scope in script.index.calls_of(name)
    )


def _stepping_loops(script: Script, node: ast.AST, around: tuple[ast.AST, ...]) -> list[Loop]:
    """The loops in which the optimizer steps: the one around `node`, or those that call its function.

    Raises `Blocked` where nothing steps, some are not known, or an error may be caught on the way.
    """
    loop: Loop | None = script.training.loop_of(node)
    while loop is not None and not (loop.fed or STEP in loop.effects):
        loop = script.training.loop_of(loop.node)
    function = script.function(node)
    if loop is not None and isinstance(loop.node, (ast.For, ast.While)):
        if script.function(loop.node) is not function:
            raise Blocked(f"{_ENDS} a function that is made in the loop does it")
        if _is_tried(script, node, loop.node):
            raise Blocked(f"{_ENDS} it stands in `try:`")
        return [loop]
    if function is None or function in around or len(around) > _MOST_CALLERS:
        raise Blocked(f"{_ENDS} no loop that steps is seen around it")
    if _is_tried(script, node, function):
        raise Blocked(f"{_ENDS} it stands in `try:`")
    calls = _callers(script, function)
    if any(other is not script for other, _ in calls):
        raise Blocked(f"{_ENDS} other modules call `{function.name}`")
    inside = (*around, function)
    return [loop for _, call in calls for loop in _stepping_loops(script, call, inside)]


def _callers(script: Script, function: FunctionNode) -> list[tuple[Script, ast.Call]]:
    try:
        return callers_of(script, script, function)
    except Blocked:
        text = f"{_ENDS} callers of `{function.name}` that are not known here may go on"
        raise Blocked(text) from None


def _is_tried(script: Script, node: ast.AST, within: ast.AST) -> bool:
    """True if a `try` stands between `node` and what it stands within."""
    for ancestor in script.ancestors(node):
        if ancestor is within:
            return False
        if isinstance(ancestor, ast.Try):
            return True
    return True


def waited_behind(script: Script, statement: ast.AST) -> list[ast.stmt]:
    """The loops behind which what waits has to be waited for, since they do not do so themselves."""
    loops = _stepping_loops(script, statement, ())
    return [
        loop.node
        for loop in loops
        if isinstance(loop.node, (ast.For, ast.While)) and not _waits_at_its_end(loop)
    ]


def _waits_at_its_end(loop: Loop) -> bool:
    return loop.fed and runs_to_its_end(loop) and not _yields(loop)


def _may_be_waited_for(loop: Loop) -> bool:
    """Return True if the line after `loop` runs however the loop is left, except by an error."""
    node = loop.node
    assert isinstance(node, (ast.For, ast.While))
    leaves = any(isinstance(n, ast.Return) for n in walk_body(node.body))
    return not node.orelse and not leaves and not _yields(loop)


def _yields(loop: Loop) -> bool:
    """Return True if other code takes what `loop` yields, and may abandon it."""
    return any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in walk(loop.node))


def _catches(script: Script, handler: ast.ExceptHandler, raised: str) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or _may_be(script, raised, ast.unparse(kind)) for kind in kinds)


def _may_be(script: Script, raised: str, caught: str) -> bool:
    """True if an error called `raised` may be one of those called `caught`."""
    if caught in _INTERRUPTS:
        return False
    kinds, known = _kinds(script, raised), getattr(builtins, caught, None)
    name = known.__name__ if isinstance(known, type) else caught  # `IOError` is `OSError`
    return kinds is None or name in kinds


def _kinds(script: Script, name: str) -> set[str] | None:
    """Return the class of an error called `name` and its base classes. None if unknown."""
    found = script.module.bindings.get(name, [])
    if not found:
        known = getattr(builtins, name, None)
        return {c.__name__ for c in known.__mro__} if isinstance(known, type) else None
    made = found[0].node
    if len(found) > 1 or not isinstance(made, ast.ClassDef):
        return None
    kinds = {name}
    for base in made.bases:
        above = _kinds(script, base.id) if isinstance(base, ast.Name) and base.id != name else None
        if above is None:
            return None
        kinds |= above
    return kinds
