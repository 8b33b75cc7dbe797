"""Trackers of libraries and loggers of the project, which store or show the values that they are given.

A call that logs to such an object is deferred and names the object (`to=logger`): pending calls run before any other use of it.
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from typing import TYPE_CHECKING

from ....inference.makers import elements, library_of, makers
from ....nodes import walk
from ....syntax import unparsed
from ..blocked import Blocked
from ..readers.modules import class_elsewhere
from ..sinks import may_read_files
from .recording import TRACKERS, only_records

if TYPE_CHECKING:
    from ....script import Script

# Of these an object does much else.
_LOG_METHODS = {
    "accelerate": frozenset({"log", "log_images"}),
    "lightning": frozenset({"log", "log_dict"}),
    "lightning_fabric": frozenset({"log", "log_dict"}),
}
_ENDING = frozenset({"close", "end", "end_run", "end_training", "finish", "stop"})


def logged_to(script: Script, call: ast.Call) -> str | None:
    """Return the text of the object that the statement `call` logs to: `logger`, `self.writer`; None if it does more."""
    func = call.func
    if not isinstance(func, ast.Attribute) or func.attr in _ENDING:
        return None
    if not isinstance(script.parent(call), ast.Expr):
        return None
    owner = _named(func.value)
    if owner is None:
        return None
    made = makers(script, owner)
    library = library_of(made)
    if library in _LOG_METHODS:
        return unparsed(owner) if func.attr in _LOG_METHODS[library] else None
    if library in TRACKERS:
        return unparsed(owner)
    loop = script.training.loop_of(call)
    if loop is None or any(map(may_read_files, walk(loop.node))):
        return None
    if owner is func.value and _is_own_recorder(script, owner, func.attr, made):
        return unparsed(owner)
    return None


def takes_tensors(script: Script, call: ast.Call) -> bool:
    """True if `call` tells a library's tracker, to which a copy of a tensor on the host is what the tensor is.

    loguru writes down where it lies.
    """
    owner = _named(call.func.value) if isinstance(call.func, ast.Attribute) else None
    library = library_of(makers(script, owner)) if owner is not None else ""
    return library in _LOG_METHODS or (library in TRACKERS and library != "loguru")


def logged_in_each_step(script: Script, owner: str, always: Collection[ast.AST]) -> list[ast.Call]:
    """Return the calls that log to `owner` in every step.

    Raises `Blocked` if the object is used for a result there: it would have to wait for the deferred calls.
    """
    found: list[ast.Call] = []
    for node in always:
        if not isinstance(node, (ast.Name, ast.Attribute)) or unparsed(node) != owner:
            continue
        if not isinstance(node.ctx, ast.Load):
            continue
        statement = script.statement(node)
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and logged_to(script, call) == owner:
            found.append(call)
        elif library_of(makers(script, node)) in _LOG_METHODS:
            continue
        elif not _is_tested(script.parent(node)):
            raise Blocked(f"the script uses `{owner}` in other ways in every step")
    return found


def _named(node: ast.expr) -> ast.expr | None:
    """Return `run` of `run["loss"]`, `self.logger`; a computed object has no name, except `Logger.current_logger()`."""
    while isinstance(node, ast.Subscript):
        node = node.value
    inner = node.func if isinstance(node, ast.Call) and not (node.args or node.keywords) else node
    while isinstance(inner, ast.Attribute):
        inner = inner.value
    return node if isinstance(inner, ast.Name) else None


def _is_tested(parent: ast.AST | None) -> bool:
    """`if writer is not None:`, `if writer:`."""
    match parent:
        case ast.Compare(ops=[ast.Is() | ast.IsNot()]) | ast.UnaryOp(op=ast.Not()) | ast.If():
            return True
    return False


def _is_own_recorder(script: Script, owner: ast.expr, method: str, made: set[str]) -> bool:
    """Return True if `owner` is of a class of the project whose `method` only stores and shows its arguments."""
    try:
        classes = _classes_of(script, owner, made, method)
        return bool(classes) and all(
            found is not None and only_records(script, *found, method) for found in classes
        )
    except Blocked:
        return False


def _classes_of(
    script: Script, owner: ast.expr, made: set[str], method: str
) -> list[tuple[Script, ast.ClassDef] | None]:
    """Return the class of `logger`, or the classes of all `callbacks` in `for callback in callbacks:`."""
    each = elements(script, owner) if isinstance(owner, ast.Name) else None
    if each is None:
        return [_class_of(script, owner, made, method)]
    return [_class_of(script, one, makers(script, one), method) for one in each]


def _class_of(
    script: Script, owner: ast.expr, made: set[str], method: str
) -> tuple[Script, ast.ClassDef] | None:
    """Return the class if no class that derives from it may have another such method."""
    value = script.value(owner)
    if isinstance(value.definition, ast.ClassDef):
        found: tuple[Script, ast.ClassDef] | None = script, value.definition
    else:
        found = class_elsewhere(script, next(iter(made))) if len(made) == 1 else None
    if found is None or isinstance(owner, ast.Call):
        return found
    home, definition = found
    if {name.rpartition(".")[2] for name in made} == {definition.name}:
        return found
    derived = any(
        other is not definition and definition in home.inference.lineage(other)
        for other, _ in home.index.of(ast.ClassDef)
    )
    return None if derived or home.is_imported_elsewhere(definition.name) else found
