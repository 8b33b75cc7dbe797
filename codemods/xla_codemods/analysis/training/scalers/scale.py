"""`scaler.get_scale()`: without loss scaling the scale is 1 and never changes, so no step is skipped."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....edits import Edit, Replace, Unwrap, remove
from ...parsed_file import ParsedFile
from ...scopes import Scope
from ...syntax import is_elif, is_pure
from .branches import Changes

Fixed = tuple["ast.expr | ast.stmt", tuple[Edit, ...]]


def fold_scales(script: ParsedFile, scales: list[ast.Call], changes: Changes) -> Iterator[Fixed]:
    """Edits for the calls `scales`, for what compares their results, and for what depends on that."""
    folding = _Folding(script, scales, changes)
    for call in scales:
        yield from folding.scale(call)


class _Folding:
    def __init__(self, script: ParsedFile, scales: list[ast.Call], changes: Changes) -> None:
        self.script = script
        self.scales = set(scales)
        self.changes = changes
        self.done: set[ast.AST] = set()

    def scale(self, call: ast.Call) -> Iterator[Fixed]:
        """One `get_scale()`: compared at once, or kept in a name and compared later."""
        name = self._bound(call)
        loads: list[ast.expr] = [*self.script.index.reads_of(*name)] if name is not None else []
        folded = [self._comparison(node) for node in (loads or [call])]
        for comparison in folded:
            if comparison is not None and comparison not in self.done:
                self.done.add(comparison)
                yield from self._fold(comparison, _HOLDS[type(comparison.ops[0])])
        if name is not None and loads and all(folded):
            yield self._removed(call)
        elif name is not None or not all(folded):
            yield call, (Replace(call, "1.0"),)

    def _comparison(self, node: ast.expr) -> ast.Compare | None:
        """The comparison of two scales that `node` is one side of."""
        parent = self.script.parent(node)
        if (
            isinstance(parent, ast.Compare)
            and len(parent.ops) == 1
            and type(parent.ops[0]) in _HOLDS
        ):
            if self._is_scale(parent.left) and self._is_scale(parent.comparators[0]):
                return parent
        return None

    def _is_scale(self, node: ast.expr) -> bool:
        if node in self.scales:
            return True
        bindings = self.script.bindings(node)
        return bool(bindings) and all(b.value in self.scales and not b.path for b in bindings)

    def _fold(self, node: ast.expr, truth: bool) -> Iterator[Fixed]:
        """`node` is known to be `truth`."""
        parent = self.script.parent(node)
        if isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not):
            yield from self._fold(parent, not truth)
        elif (
            isinstance(parent, ast.If)
            and parent.test is node
            and not is_elif(parent, self.script.parents)
        ):
            self.changes.changed.add(parent)
            if truth or parent.orelse:
                yield parent, (Unwrap(parent, "body" if truth else "orelse"),)
            else:
                self.changes.removed.add(parent)
                yield parent, (remove(parent),)
        elif isinstance(parent, ast.BoolOp) and self._is_neutral(node, parent, truth):
            self.done.add(parent)
            others = tuple(value for value in parent.values if value is not node)
            word = " and " if truth else " or "
            text = word.join(f"{{{k}}}" for k in range(len(others)))
            yield node, (Replace(parent, text, others),)
        elif isinstance(parent, ast.BoolOp) and self._decides(parent, truth):
            yield from self._fold(parent, truth)
        elif (name := self._bound(node)) is not None and (
            loads := self.script.index.reads_of(*name)
        ):
            for load in loads:
                yield from self._fold(load, truth)
            yield self._removed(node)
        else:
            yield node, (Replace(node, str(truth)),)

    def _is_neutral(self, node: ast.expr, whole: ast.BoolOp, truth: bool) -> bool:
        """True if `whole` has the same value, or as a condition the same truth, without its part `node`."""
        if isinstance(whole.op, ast.And) is not truth or whole in self.done:
            return False
        return whole.values[-1] is not node or self._is_condition(whole)

    def _decides(self, whole: ast.BoolOp, truth: bool) -> bool:
        """True if a part of the condition `whole` that is `truth` decides it, and the other parts do nothing."""
        is_decisive = isinstance(whole.op, ast.Or) is truth
        return is_decisive and self._is_condition(whole) and all(map(is_pure, whole.values))

    def _is_condition(self, node: ast.expr) -> bool:
        parent = self.script.parent(node)
        return isinstance(parent, (ast.If, ast.While, ast.IfExp, ast.Assert)) and (
            parent.test is node
        )

    def _bound(self, node: ast.expr) -> tuple[Scope, str] | None:
        """The local name that `node` is bound to, if nothing else is."""
        statement = self.script.parent(node)
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            return None
        target = statement.targets[0]
        if not isinstance(target, ast.Name):
            return None
        scope = self.script.index.scope(statement)
        if not all(
            b.value in self.scales or b.value is node for b in scope.bindings.get(target.id, ())
        ):
            return None
        return scope, target.id

    def _removed(self, node: ast.expr) -> Fixed:
        statement = self.script.statement(node)
        self.changes.removed.add(statement)
        return node, (remove(statement),)


_HOLDS = {
    ast.Lt: False,
    ast.Gt: False,
    ast.NotEq: False,
    ast.LtE: True,
    ast.GtE: True,
    ast.Eq: True,
}
