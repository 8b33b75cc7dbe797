"""Branches that say the same once loss scaling is gone.

`if use_amp: scaler.scale(loss).backward()` `else: loss.backward()` has nothing left to decide: the two branches
are compared as they will be after the rewrite, and if they are equal, one of them replaces the `if`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....edits import Edit, Replace, Unwrap
from ...nodes import walk
from ...parsed_file import ParsedFile
from ...syntax import is_elif, is_pure

_IGNORED = frozenset({"ctx", "type_comment", "kind"})


class Changes:
    """What a rule does to a file, as far as it decides what a branch will say."""

    def __init__(self) -> None:
        self.removed: set[ast.stmt] = set()
        self.replaced: dict[
            ast.expr, ast.expr
        ] = {}  # by a part of itself, or by another expression
        self.steps: dict[ast.Call, tuple[ast.expr, list[ast.expr]]] = {}  # optimizer, arguments
        self.unwrapped: set[ast.stmt] = set()  # `with` statements
        self.changed: set[ast.AST] = set()


def collapsed(script: ParsedFile, changes: Changes) -> Iterator[tuple[ast.If | ast.IfExp, Edit]]:
    """The `if`s (statements and expressions) around changes whose branches have become the same."""
    seen: set[ast.AST] = set()
    for node in changes.changed:
        for ancestor in script.ancestors(node):
            if ancestor in seen or isinstance(ancestor, (ast.FunctionDef, ast.ClassDef)):
                break
            seen.add(ancestor)
            if isinstance(ancestor, ast.If) and _decides_nothing(ancestor, script, changes):
                # the branch that scaled nothing is the cleaner one: its comments do not speak of scaling
                yield (
                    ancestor,
                    Unwrap(ancestor, "orelse" if node in _inside(ancestor.body) else "body"),
                )
            elif isinstance(ancestor, ast.IfExp) and is_pure(ancestor.test):
                body, orelse = _shape(ancestor.body, changes), _shape(ancestor.orelse, changes)
                if body == orelse:
                    yield ancestor, Replace(ancestor, "{0}", (ancestor.orelse,))


def vanishes(node: ast.If, script: ParsedFile, changes: Changes) -> bool:
    """True if all that stands in `node` is removed, so that it goes too."""
    return (
        not node.orelse
        and is_pure(node.test)
        and not is_elif(node, script.parents)
        and not _block(node.body, changes)
    )


def _decides_nothing(node: ast.If, script: ParsedFile, changes: Changes) -> bool:
    if not node.orelse or is_elif(node, script.parents) or not is_pure(node.test):
        return False
    return _block(node.body, changes) == _block(node.orelse, changes)


def _inside(body: list[ast.stmt]) -> set[ast.AST]:
    return {node for statement in body for node in walk(statement)}


def _block(body: list[ast.stmt], changes: Changes) -> list[object]:
    found: list[object] = []
    for statement in body:
        if statement in changes.removed or isinstance(statement, ast.Pass):
            continue
        if statement in changes.unwrapped and isinstance(statement, ast.With):
            found += _block(statement.body, changes)
            continue
        found.append(_shape(statement, changes))
    return found


def _shape(node: object, changes: Changes) -> object:
    """What `node` will be, comparable."""
    if isinstance(node, list):
        return [_shape(item, changes) for item in node]
    if not isinstance(node, ast.AST):
        return node
    if node in changes.replaced:
        return _shape(changes.replaced[node], changes)
    if isinstance(node, ast.Call):
        step = _step(node, changes)
        if step is not None:
            optimizer, arguments = step
            return ["step", _shape(optimizer, changes), *(_shape(a, changes) for a in arguments)]
    fields = [_shape(v, changes) for k, v in ast.iter_fields(node) if k not in _IGNORED]
    return [type(node).__name__, *fields]


def _step(call: ast.Call, changes: Changes) -> tuple[ast.expr, list[ast.expr]] | None:
    """`optimizer.step(...)`, the scaler's, or the runtime's: the optimizer and the other arguments."""
    if call in changes.steps:
        return changes.steps[call]
    match call.func:
        case ast.Attribute(value=optimizer, attr="step"):
            return optimizer, [*call.args, *(k.value for k in call.keywords)]
    return None
