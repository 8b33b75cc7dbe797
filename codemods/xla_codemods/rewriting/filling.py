"""Expressions put where others stood, in parentheses where they need them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import libcst as cst

Node = cst.CSTNode


class NodeTransformer(cst.CSTTransformer):
    """A transformer of whole nodes: libcst's own looks for a method per attribute of each node, too."""

    def on_visit_attribute(self, node: Node, attribute: str) -> None:
        """Do nothing."""

    def on_leave_attribute(self, original_node: Node, attribute: str) -> None:
        """Do nothing."""


class Fill(NodeTransformer):
    """Puts expressions where their names stand, in parentheses where they need them."""

    def __init__(self, values: Mapping[str, cst.BaseExpression]) -> None:
        super().__init__()
        self.values = values
        self.fresh = {id(value) for value in values.values()}

    def on_leave(self, original_node: Node, updated_node: Node) -> Node:  # type: ignore[override]
        """Return the expression for a name, and other nodes with parentheses around such expressions."""
        if isinstance(updated_node, cst.Name):
            return self.values.get(updated_node.value, updated_node)
        return with_parentheses(updated_node, self.fresh)


def with_parentheses(node: Node, fresh: Collection[int]) -> Node:
    """Return `node` with parentheses around those of the `fresh` operands that would otherwise be read differently."""
    operands = ((name, new, getattr(node, name)) for name, new in _OPERANDS.get(type(node), ()))
    changes = {name: new(operand) for name, new, operand in operands if id(operand) in fresh}
    return node.with_changes(**changes) if changes else node


_BARE_IN_CALLS = (
    cst.BinaryOperation,
    cst.BooleanOperation,
    cst.Comparison,
    cst.IfExp,
    cst.Subscript,
    cst.UnaryOperation,
)


def _bare(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return an argument without its parentheses, since the call has some: `f(x / 2)`, of `(x / 2).item()`."""
    node = _whole(node)
    match node:
        case cst.BaseExpression(
            lpar=[cst.LeftParen(whitespace_after=cst.SimpleWhitespace())],
            rpar=[cst.RightParen(whitespace_before=cst.SimpleWhitespace())],
        ) if isinstance(node, _BARE_IN_CALLS):
            return node.with_changes(lpar=[], rpar=[])
    return node


_MODULE = cst.Module([])
_ATOMS = (
    cst.Name,
    cst.Attribute,
    cst.Call,
    cst.Subscript,
    cst.BaseNumber,
    cst.BaseString,
    cst.BaseList,
    cst.BaseSet,
    cst.BaseDict,
    cst.Ellipsis,
)


def has_parentheses(node: Node) -> bool:
    return bool(getattr(node, "lpar", ()))


def _atom(node: cst.BaseExpression) -> cst.BaseExpression:
    if has_parentheses(node) or (isinstance(node, _ATOMS) and not isinstance(node, cst.Integer)):
        return node
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def _primary(node: cst.BaseExpression) -> cst.BaseExpression:
    """The owner of an attribute, or what is called: `loss` of `(loss if scaler is None else scaler.scale(loss)).backward()`."""
    return _atom(_whole(node))


def _operand(node: cst.BaseExpression) -> cst.BaseExpression:
    node = _whole(node)
    return node if isinstance(node, cst.BaseNumber) else _atom(node)


def _clause(node: cst.BaseExpression) -> cst.BaseExpression:
    """An operand of `and`, `or` and `not`."""
    node = _whole(node)
    return node if isinstance(node, (cst.Comparison, cst.UnaryOperation)) else _operand(node)


def _branch(node: cst.BaseExpression) -> cst.BaseExpression:
    """The first branch or the test of a conditional expression."""
    node = _whole(node)
    return _atom(node) if isinstance(node, (cst.IfExp, cst.Lambda, cst.NamedExpr)) else node


def _whole(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return a value without its parentheses if it is an atom on one line: `f(x=g())`, of `f(x=(a if b else c))`."""
    if not isinstance(node, _ATOMS) or not node.lpar:
        return node
    plain = node.with_changes(lpar=[], rpar=[])
    around = (*(p.whitespace_after for p in node.lpar), *(p.whitespace_before for p in node.rpar))
    has_comments = any("#" in _MODULE.code_for_node(space) for space in around)
    return node if has_comments or "\n" in _MODULE.code_for_node(plain) else plain


# Where an expression that took another's place may need parentheses, or no longer needs them.
_OPERANDS: dict[
    type[Node], tuple[tuple[str, Callable[[cst.BaseExpression], cst.BaseExpression]], ...]
] = {
    cst.Attribute: (("value", _primary),),
    cst.Call: (("func", _primary),),
    cst.Subscript: (("value", _primary),),
    cst.Await: (("expression", _primary),),
    cst.UnaryOperation: (("expression", _operand),),
    cst.BinaryOperation: (("left", _operand), ("right", _operand)),
    cst.BooleanOperation: (("left", _clause), ("right", _clause)),
    cst.Comparison: (("left", _operand),),
    cst.ComparisonTarget: (("comparator", _operand),),
    cst.IfExp: (("body", _branch), ("test", _branch)),
    cst.StarredElement: (("value", _operand),),
    cst.Arg: (("value", _bare),),
    cst.Assign: (("value", _whole),),
    cst.DictElement: (("value", _whole),),
    cst.Param: (("default", _whole),),
}
