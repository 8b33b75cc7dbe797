"""The libcst node of an `ast` node, by order.

Both trees are walked in source order; the k-th call of one is the k-th call of the other, and so for each
kind of node. No positions are needed (`ast` has none that can be trusted inside f-strings before Python 3.12,
libcst has none that are cheap). Where the counts differ, nothing is paired: the caller refuses the edit.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import libcst as cst

_KINDS: dict[type[ast.AST], Any] = {
    ast.Call: cst.Call,
    ast.Attribute: cst.Attribute,
    ast.Subscript: cst.Subscript,
    ast.Compare: cst.Comparison,
    ast.BoolOp: cst.BooleanOperation,
    ast.UnaryOp: cst.UnaryOperation,
    ast.BinOp: cst.BinaryOperation,
    ast.IfExp: cst.IfExp,
    ast.Dict: cst.Dict,
    ast.List: cst.List,
    ast.Set: cst.Set,
    ast.Tuple: cst.Tuple,
    ast.Lambda: cst.Lambda,
    ast.ListComp: cst.ListComp,
    ast.SetComp: cst.SetComp,
    ast.DictComp: cst.DictComp,
    ast.GeneratorExp: cst.GeneratorExp,
    ast.NamedExpr: cst.NamedExpr,
    ast.Await: cst.Await,
    ast.Name: cst.Name,
    ast.JoinedStr: cst.BaseString,
    ast.Constant: cst.BaseString,
    ast.Expr: cst.Expr,
    ast.Assign: cst.Assign,
    ast.AnnAssign: cst.AnnAssign,
    ast.AugAssign: cst.AugAssign,
    ast.Return: cst.Return,
    ast.Delete: cst.Del,
    ast.Assert: cst.Assert,
    ast.Raise: cst.Raise,
    ast.Global: cst.Global,
    ast.Nonlocal: cst.Nonlocal,
    ast.Pass: cst.Pass,
    ast.Break: cst.Break,
    ast.Continue: cst.Continue,
    ast.Import: cst.Import,
    ast.ImportFrom: cst.ImportFrom,
    ast.If: cst.If,
    ast.For: cst.For,
    ast.AsyncFor: cst.For,
    ast.While: cst.While,
    ast.With: cst.With,
    ast.AsyncWith: cst.With,
    ast.Try: cst.Try,
    ast.FunctionDef: cst.FunctionDef,
    ast.AsyncFunctionDef: cst.FunctionDef,
    ast.ClassDef: cst.ClassDef,
    ast.ExceptHandler: cst.ExceptHandler,
}

_NUMBERS = (cst.Integer, cst.Float, cst.Imaginary)


class _Word(cst.Name):
    """`True`, `False` and `None`: names to libcst, constants to `ast`. Stands for their kind only."""


class Unpaired(Exception):
    """The two trees do not have the same nodes; it should not happen, and nothing is edited then."""


def pair(
    owners: Iterable[ast.AST], root: cst.CSTNode, wanted: Iterable[ast.AST], *, header: bool = False
) -> dict[ast.AST, cst.CSTNode]:
    """The libcst nodes under `root` of the `wanted` nodes, which lie under `owners`, or in their headers."""
    left = list(wanted)
    kinds = {kind for node in left if (kind := _kind(node)) is not None}
    ours: dict[type[cst.CSTNode], list[ast.AST | None]] = {kind: [] for kind in kinds}
    for owner in owners:
        for node in in_header(owner) if header else in_order(owner):
            kind = _kind(node)
            if kind in kinds:
                ours[kind].append(node)
                if isinstance(node, ast.BoolOp):  # `a and b and c` is one node here, two in libcst
                    ours[kind] += [None] * (len(node.values) - 2)
    theirs = _collect(root, kinds)
    result: dict[ast.AST, cst.CSTNode] = {}
    for kind in kinds:
        if len(ours[kind]) != len(theirs[kind]):
            raise Unpaired(
                f"{len(ours[kind])} and {len(theirs[kind])} nodes of type {kind.__name__}"
            )
        result.update((a, b) for a, b in zip(ours[kind], theirs[kind]) if a is not None)
    missing = [node for node in left if node not in result]
    if missing:
        raise Unpaired(f"no {type(missing[0]).__name__} there")
    return result


def _kind(node: ast.AST) -> type[cst.CSTNode] | None:
    """Return the libcst class that stands for `node`; None if no edit uses such nodes."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, (str, bytes)):
            return cst.BaseString
        if node.value is None or isinstance(node.value, bool):
            return _Word
        return cst.BaseNumber if isinstance(node.value, (int, float, complex)) else None
    return _KINDS.get(type(node))


def in_order(node: ast.AST) -> Iterator[ast.AST]:
    """`node` and everything below it in source order, parents first.

    Strings are leaves except the expressions of f-strings; a subscript's bare tuple is no node of libcst's.
    """
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        children = list(_children(current))
        children.reverse()
        stack.extend(children)


def in_header(owner: ast.AST) -> Iterator[ast.AST]:
    """The statement `owner` and what stands in its header, in source order."""
    yield owner
    for child in _children(owner):
        if not isinstance(child, (ast.stmt, ast.ExceptHandler)):
            yield from in_order(child)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    special = _ORDERED.get(type(node))
    if special is not None:
        yield from special(node)
    else:
        yield from ast.iter_child_nodes(node)


def _call(node: ast.Call) -> Iterator[ast.AST]:
    yield node.func
    yield from written(node.args, node.keywords)


def _class(node: ast.ClassDef) -> Iterator[ast.AST]:
    yield from node.decorator_list
    yield from written(node.bases, node.keywords)
    yield from node.body


def written(values: list[ast.expr], keywords: list[ast.keyword]) -> list[ast.expr | ast.keyword]:
    """`f(a, k=b, *c)`: arguments as they are written."""
    both: list[ast.expr | ast.keyword] = [*values, *keywords]
    if values and keywords:
        both.sort(key=lambda n: (n.lineno, n.col_offset))
    return both


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.AST]:
    yield from node.decorator_list
    yield node.args
    if node.returns is not None:
        yield node.returns
    yield from node.body


def _arguments(node: ast.arguments) -> Iterator[ast.AST]:
    positional = [*node.posonlyargs, *node.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(node.defaults))
    defaults += node.defaults
    keywords = zip(node.kwonlyargs, node.kw_defaults)
    pairs = (*zip(positional, defaults), (node.vararg, None), *keywords, (node.kwarg, None))
    yield from (part for pair in pairs for part in pair if part is not None)


def _conditional(node: ast.IfExp) -> Iterator[ast.AST]:
    yield from (node.body, node.test, node.orelse)


def _dict(node: ast.Dict) -> Iterator[ast.AST]:
    for key, value in zip(node.keys, node.values):
        if key is not None:
            yield key
        yield value


def _mapping_pattern(node: ast.MatchMapping) -> Iterator[ast.AST]:
    for key, pattern in zip(node.keys, node.patterns):
        yield from (key, pattern)


def _joined(node: ast.JoinedStr) -> Iterator[ast.AST]:
    for value in node.values:
        if isinstance(value, ast.FormattedValue):
            yield value.value
            if isinstance(value.format_spec, ast.JoinedStr):
                yield from _joined(value.format_spec)


def _subscript(node: ast.Subscript) -> Iterator[ast.AST]:
    yield node.value
    if isinstance(node.slice, ast.Tuple):
        yield from node.slice.elts
    else:
        yield node.slice


_ORDERED: dict[type[ast.AST], Callable[..., Iterator[ast.AST]]] = {
    ast.Call: _call,
    ast.ClassDef: _class,
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.arguments: _arguments,
    ast.IfExp: _conditional,
    ast.Dict: _dict,
    ast.MatchMapping: _mapping_pattern,
    ast.JoinedStr: _joined,
    ast.Subscript: _subscript,
}


LEAVES = frozenset(
    {
        cst.Comment,
        cst.EmptyLine,
        cst.Name,
        cst.Newline,
        cst.ParenthesizedWhitespace,
        cst.SimpleString,
        cst.SimpleWhitespace,
        cst.TrailingWhitespace,
    }
)


def _collect(
    root: cst.CSTNode, kinds: set[type[cst.CSTNode]]
) -> dict[type[cst.CSTNode], list[cst.CSTNode]]:
    """The nodes of `kinds` under `root` in source order, as far as `ast` has a node for them."""
    found: dict[type[cst.CSTNode], list[cst.CSTNode]] = {kind: [] for kind in kinds}
    stack: list[cst.CSTNode] = [root]
    while stack:
        node = stack.pop()
        kind = _cst_kind(node)
        if kind in found:
            found[kind].append(node)
        if type(node) not in LEAVES:  # most nodes are white space or names
            stack += reversed(_cst_children(node))
    return found


def _cst_kind(node: cst.CSTNode) -> type[cst.CSTNode]:
    if isinstance(node, cst.Name):
        return _Word if node.value in {"True", "False", "None"} else cst.Name
    if isinstance(node, cst.BaseString):
        return cst.BaseString
    if isinstance(node, _NUMBERS):
        return cst.BaseNumber
    return type(node)


def _cst_children(node: cst.CSTNode) -> list[cst.CSTNode]:
    """The children that `ast` has too: no attribute, keyword or parameter names, no white space."""
    match node:
        case cst.Attribute() | cst.Arg():
            return [node.value]
        case cst.Param():
            return [n for n in (node.annotation, node.default) if isinstance(n, cst.CSTNode)]
        case cst.FunctionDef():
            before = [*node.decorators, node.params, node.returns, node.body]
            return [n for n in before if n is not None]
        case cst.ClassDef():
            return [*node.decorators, *node.bases, *node.keywords, node.body]
        case cst.Import() | cst.ImportFrom() | cst.Global() | cst.Nonlocal() | cst.MatchSingleton():
            return []
        case cst.ExceptHandler() | cst.ExceptStarHandler():
            return [n for n in (node.type, node.body) if n is not None]
        case cst.ConcatenatedString() | cst.FormattedString():
            return _string_parts(node)
        case cst.MatchAs() | cst.MatchStar():
            return (
                [node.pattern] if isinstance(node, cst.MatchAs) and node.pattern is not None else []
            )
        case cst.MatchMapping():
            return list(node.elements)
        case cst.MatchKeywordElement():
            return [node.pattern]
    return list(node.children)


def _string_parts(node: cst.CSTNode) -> list[cst.CSTNode]:
    """The expressions inside a string, format specifications included."""
    if isinstance(node, cst.ConcatenatedString):
        return [n for part in (node.left, node.right) for n in _string_parts(part)]
    if not isinstance(node, cst.FormattedString):
        return []
    parts: list[cst.CSTNode] = []
    for part in node.parts:
        if isinstance(part, cst.FormattedStringExpression):
            parts.append(part.expression)
            for inner in part.format_spec or ():
                if isinstance(inner, cst.FormattedStringExpression):
                    parts.append(inner.expression)
    return parts
