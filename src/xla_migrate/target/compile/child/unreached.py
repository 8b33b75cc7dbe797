"""Branches that the rehearsal did not take, although a later step of the training may: each can add a graph."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence, Set
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from ....verify.observe.process import where
from . import phases, records

_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_ORDERS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_TOOL = 1  # sys.monitoring.COVERAGE_ID
_WIDTH = 60  # of a condition that is quoted

_reached: dict[str, set[int]] = {}  # lines of the project's files
_earlier: dict[str, set[int]] = {}  # those that ran before the first optimizer step ended


def watch() -> None:
    """Note the lines of the project that run from now on, unless a debugger or a coverage tool does so.

    `sys.monitoring` (Python 3.12) calls back once for each line. Older versions trace the main thread: a rehearsal takes
    about 1.6 times as long.
    """
    if sys.version_info >= (3, 12):
        monitoring = sys.monitoring
        if monitoring.get_tool(_TOOL) is None:
            monitoring.use_tool_id(_TOOL, "xla-migrate")
            monitoring.register_callback(_TOOL, monitoring.events.LINE, _first)
            monitoring.set_events(_TOOL, monitoring.events.LINE)
    elif sys.gettrace() is None:
        sys.settrace(_called)


def forget_preparation() -> None:
    """After the first optimizer step, note all lines anew: later steps do not read options again."""
    if phases.steps == 1:
        _earlier.update(_reached)
        _reached.clear()
        if sys.version_info >= (3, 12):
            sys.monitoring.restart_events()


def tell() -> None:
    """Record the branches that were not reached."""
    if sys.gettrace() is _called:
        sys.settrace(None)
    if phases.steps < 2:  # the first step has run each condition of the training
        for file, lines in _earlier.items():
            _reached.setdefault(file, set()).update(lines)
    for file, lines in sorted(_reached.items()):
        path = Path(file)
        if path.suffix == ".py" and path.is_file():
            source = path.read_text(encoding="utf-8", errors="replace")
            for line, branch in unreached(source, lines, _earlier.get(file, set())):
                place = f"{where.within_project(file)}:{line}"
                records.write("unreached", place=place, branch=branch)


def _first(code: CodeType, line: int) -> Any:
    """Note a line, and ask for no more calls for it."""
    if where.is_in_project(code.co_filename):
        _reached.setdefault(code.co_filename, set()).add(line)
    return sys.monitoring.DISABLE  # type: ignore[attr-defined,unused-ignore]


def _called(frame: FrameType, event: str, argument: Any) -> Any:
    return _line if where.is_in_project(frame.f_code.co_filename) else None


def _line(frame: FrameType, event: str, argument: Any) -> Any:
    _reached.setdefault(frame.f_code.co_filename, set()).add(frame.f_lineno)
    return _line


def unreached(
    source: str, lines: set[int], earlier: Set[int] = frozenset()
) -> list[tuple[int, str]]:
    """Return the line and the text of each `if` whose body, or `else`, did not run, if its condition can change.

    A condition on options of the script or on the model's settings is the same in all steps.

    Args:
        source: of a module.
        lines: that ran in the training.
        earlier: lines that ran before it.
    """
    tree = ast.parse(source)
    names, attributes = set(_changing_names(tree)), set(_changing_attributes(tree))
    found, ran = [], lines | earlier
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and node.lineno in lines:
            branches = (("if", node.body), ("else of if", node.orelse))
            missed = [
                word for word, body in branches if _computes(body) and not _has_run(body, ran)
            ]
            if missed and _changes(node.test, names, attributes, _parameters(tree, node)):
                text = _shortened(ast.unparse(node.test))
                found += [(node.lineno, f"{word} {text}") for word in missed]
    return sorted(found)


def _has_run(body: Sequence[ast.stmt], lines: set[int]) -> bool:
    last = body[-1].end_lineno or body[-1].lineno
    return any(body[0].lineno <= line <= last for line in lines)


def _computes(body: Sequence[ast.stmt]) -> bool:
    """Return True if a statement calls something, and the script goes on after it."""
    return not _ends(body) and any(
        isinstance(part, (ast.Call, ast.AugAssign))
        for statement in body
        for part in ast.walk(statement)
    )


def _ends(body: Sequence[ast.stmt]) -> bool:
    """Return True if the last statement raises an error or calls `sys.exit()`."""
    last = body[-1] if body else None
    call = last.value if isinstance(last, ast.Expr) else None
    is_exit = isinstance(call, ast.Call) and ast.unparse(call.func).endswith("exit")
    return isinstance(last, ast.Raise) or is_exit


def _changes(test: ast.expr, names: set[str], attributes: set[str], parameters: set[str]) -> bool:
    """Return True if a part of the condition is assigned in a loop or in a method, or is a number that a caller passes."""
    parts = [*ast.walk(test)]
    if any(isinstance(part, ast.Attribute) and part.attr in attributes for part in parts):
        return True
    owners = {id(part.value) for part in parts if isinstance(part, ast.Attribute)}
    bare = {part.id for part in parts if isinstance(part, ast.Name) and id(part) not in owners}
    methods = {
        base.id
        for part in parts
        if isinstance(part, ast.Call)
        for base in ast.walk(part.func)
        if isinstance(base, ast.Name)
    }
    return bool((bare | methods) & names) or bool(_compared(test) & parameters)


def _compared(test: ast.expr) -> set[str]:
    """Return the names whose values are computed with, or compared with other values than None."""
    return {
        side.id
        for part in ast.walk(test)
        if isinstance(part, ast.BinOp)
        or (isinstance(part, ast.Compare) and isinstance(part.ops[0], _ORDERS))
        for side in ast.iter_child_nodes(part)
        if isinstance(side, ast.Name)
    }


def _parameters(tree: ast.Module, node: ast.If) -> set[str]:
    """Return the parameters of the functions that contain a statement."""
    return {
        argument.arg
        for function in ast.walk(tree)
        if isinstance(function, _FUNCTIONS)
        and function.lineno <= node.lineno <= (function.end_lineno or 0)
        for argument in ast.walk(function.args)
        if isinstance(argument, ast.arg)
    }


def _changing_names(tree: ast.Module) -> Iterator[str]:
    for loop in ast.walk(tree):
        if isinstance(loop, _LOOPS):
            for part in ast.walk(loop):
                if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                    yield part.id
        elif isinstance(loop, ast.AugAssign) and isinstance(loop.target, ast.Name):
            yield loop.target.id


def _changing_attributes(tree: ast.Module) -> Iterator[str]:
    """Yield the attributes that are assigned in loops, or in methods other than the constructor."""
    for owner in ast.walk(tree):
        if isinstance(owner, _LOOPS) or (
            isinstance(owner, _FUNCTIONS) and owner.name != "__init__"
        ):
            for part in ast.walk(owner):
                if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store):
                    yield part.attr


def _shortened(text: str) -> str:
    return text if len(text) <= _WIDTH else text[: _WIDTH - 3] + "..."
