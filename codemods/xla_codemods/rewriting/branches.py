"""Compound statements without one of their blocks."""

from __future__ import annotations

from typing import cast

import libcst as cst

Node = cst.CSTNode


def without_branch(node: Node, branch: str) -> Node:
    """The `if` or `try` statement `node` without its `body`, `orelse` or `finalbody`."""
    if branch == "orelse":
        return node.with_changes(orelse=None)
    if branch == "finalbody":
        return node.with_changes(finalbody=None)
    if isinstance(node, cst.If):
        return _asking_the_opposite(node)
    otherwise = cast(cst.Else, cast(cst.Try, node).orelse)
    lines = [*cast(cst.Try, node).leading_lines, *otherwise.leading_lines]
    return node.with_changes(body=otherwise.body, orelse=None, handlers=(), leading_lines=lines)


def _asking_the_opposite(node: cst.If) -> cst.If:
    test, otherwise = opposite(node.test), node.orelse
    space = cst.SimpleWhitespace(" ")  # `if(x):` has none
    changed = node.with_changes(test=test, whitespace_before_test=space)
    if isinstance(otherwise, cst.Else):
        lines = [*node.leading_lines, *otherwise.leading_lines]
        return changed.with_changes(body=otherwise.body, orelse=None, leading_lines=lines)
    inner = cast(cst.If, otherwise)
    if inner.orelse is not None:
        deeper = node.body if isinstance(node.body, cst.IndentedBlock) else inner.body
        indent = deeper.indent if isinstance(deeper, cst.IndentedBlock) else "    "
        return changed.with_changes(body=cst.IndentedBlock([inner], indent=indent), orelse=None)
    both = cst.BooleanOperation(_clause(test), cst.And(), _clause(inner.test))
    lines = [*node.leading_lines, *inner.leading_lines]
    return changed.with_changes(test=both, body=inner.body, orelse=None, leading_lines=lines)


def opposite(test: cst.BaseExpression) -> cst.BaseExpression:
    """What is true where `test` is not."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return test.expression
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        (target,) = test.comparisons
        turned = _OPPOSITES.get(type(target.operator))
        if turned is not None:
            return test.with_changes(comparisons=[target.with_changes(operator=turned())])
    if isinstance(test, _LOOSE) and not test.lpar:
        test = _in_parentheses(test)
    return cst.UnaryOperation(cst.Not(), test)


def _clause(test: cst.BaseExpression) -> cst.BaseExpression:
    """`test` as a part of an `and`."""
    loose = isinstance(test, (cst.IfExp, cst.Lambda, cst.NamedExpr)) or (
        isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.Or)
    )
    return _in_parentheses(test) if loose and not test.lpar else test


def _in_parentheses(node: cst.BaseExpression) -> cst.BaseExpression:
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


_LOOSE = (cst.BooleanOperation, cst.IfExp, cst.Lambda, cst.NamedExpr)
_OPPOSITES: dict[type[cst.BaseCompOp], type[cst.BaseCompOp]] = {
    cst.Equal: cst.NotEqual,
    cst.NotEqual: cst.Equal,
    cst.Is: cst.IsNot,
    cst.IsNot: cst.Is,
    cst.In: cst.NotIn,
    cst.NotIn: cst.In,
}
