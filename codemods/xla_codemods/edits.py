"""Edits of a fix, as plain data: a rule names the `ast` node and the change, `rewrite` makes it with libcst.

Texts are Python; `{0}`, `{1}` ... in them stand for `holes`: expressions of the source that are kept as they
are written, with the edits made inside them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import NamedTuple, Union


class Replace(NamedTuple):
    """The expression `node` becomes `text`. `is_moved`: its old text is unchanged in another place."""

    node: ast.expr
    text: str
    holes: tuple[ast.expr, ...] = ()
    is_moved: bool = False


class DropArgument(NamedTuple):
    """`argument` (a positional expression or a keyword) leaves the call `node`."""

    node: ast.Call
    argument: ast.expr | ast.keyword


class RenameArgument(NamedTuple):
    """The keyword argument `argument` of the call `node` is given as `name`, in its place."""

    node: ast.Call
    argument: ast.keyword
    name: str


class AddArgument(NamedTuple):
    """`text` (`name=value`, or a positional value) comes behind the arguments of `node`, before any `**kwargs`."""

    node: ast.Call
    text: str
    holes: tuple[ast.expr, ...] = ()


class DropEntry(NamedTuple):
    """The entry with key `key` leaves the dict display `node`."""

    node: ast.Dict
    key: ast.expr


class DropElement(NamedTuple):
    """`element` leaves the list, tuple or set display `node`."""

    node: ast.List | ast.Tuple | ast.Set
    element: ast.expr


class ReplaceStatement(NamedTuple):
    """The statement `node` becomes `text`: nothing, one statement or several lines."""

    node: ast.stmt
    text: str = ""
    holes: tuple[ast.expr, ...] = ()


class InsertBefore(NamedTuple):
    """`text` is inserted as separate lines before the statement `node`."""

    node: ast.stmt
    text: str


class InsertAfter(NamedTuple):
    """`text` is inserted as separate lines after the statement `node`."""

    node: ast.stmt
    text: str


class Unwrap(NamedTuple):
    """The block of the compound statement `node` takes its place: its `body`, `orelse` or `finalbody`."""

    node: ast.With | ast.AsyncWith | ast.If | ast.For | ast.Try
    branch: str = "body"


class DropBranch(NamedTuple):
    """A block in which nothing is left leaves the compound statement `node`: without its `body` an `if` asks the
    opposite, and a `try` has its `else` in the place of it.
    """

    node: ast.If | ast.Try
    branch: str


class DropItem(NamedTuple):
    """One of several context managers leaves the `with` statement `node`."""

    node: ast.With | ast.AsyncWith
    item: ast.withitem


class DropDecorator(NamedTuple):
    """`decorator` leaves the definition `node`."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    decorator: ast.expr


class DropAlias(NamedTuple):
    """The import of `alias` leaves the import statement `node`."""

    node: ast.Import | ast.ImportFrom
    alias: ast.alias


# Any of these.
Edit = Union[
    Replace,
    DropArgument,
    RenameArgument,
    AddArgument,
    DropEntry,
    DropElement,
    ReplaceStatement,
    InsertBefore,
    InsertAfter,
    Unwrap,
    DropBranch,
    DropItem,
    DropDecorator,
    DropAlias,
]

# Edits of a whole statement; the others change an expression or a header.
STATEMENT_EDITS = (ReplaceStatement, InsertBefore, InsertAfter, Unwrap, DropBranch, DropItem)


def remove(statement: ast.stmt) -> ReplaceStatement:
    """Take `statement` away."""
    return ReplaceStatement(statement)


def removed(edits: Iterable[Edit]) -> set[ast.stmt]:
    """The statements that `edits` remove, and put nothing in the place of."""
    edits = list(edits)
    beside = {e.node for e in edits if isinstance(e, (InsertBefore, InsertAfter))}
    return {
        e.node
        for e in edits
        if isinstance(e, ReplaceStatement) and not e.text and e.node not in beside
    }
