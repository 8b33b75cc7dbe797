"""Blocks and lines of statements: taken out of what they stood in, joined, emptied, with their comments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import libcst as cst

Node = cst.CSTNode


def unwrapped(node: cst.With, branch: str) -> list[Node]:
    """The statements of a block, with the comments before and at the end of it."""
    block: Node | None = node.body
    if branch != "body":
        otherwise = getattr(node, branch)
        block = otherwise.body if isinstance(otherwise, (cst.Else, cst.Finally)) else otherwise
    if block is None:
        return [nothing(node.leading_lines)]
    if isinstance(block, cst.If):  # an `elif` becomes the `if`
        return [block.with_changes(leading_lines=[*node.leading_lines, *block.leading_lines])]
    if isinstance(block, cst.SimpleStatementSuite):
        line = cst.SimpleStatementLine(block.body, trailing_whitespace=block.trailing_whitespace)
        return with_leading([line], node)
    block = cast(cst.IndentedBlock, block)
    body: list[Node] = list(block.body)
    comments = [
        cst.EmptyLine(comment=line.comment) for line in block.footer if line.comment is not None
    ]
    if comments:
        body.append(nothing(comments))
    return with_leading(body, node)


def with_comments_of(old: Node, body: list[Node]) -> list[Node]:
    """`body`, which takes the place of an `if`, behind the comments that stood in that."""
    if not body or not isinstance(old, cst.If):
        return body
    found = _Comments()
    old.body.visit(found)
    lines = [*found.lines, *getattr(body[0], "leading_lines", ())]
    return [body[0].with_changes(leading_lines=lines), *body[1:]]


class _Comments(cst.CSTVisitor):
    """Comments of statements, not those in parentheses, which are part of an expression."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[cst.EmptyLine] = []

    def on_visit(self, node: Node) -> bool:
        """Take comments."""
        if isinstance(node, cst.Comment):
            self.lines.append(cst.EmptyLine(comment=node))
        return not isinstance(node, cst.ParenthesizedWhitespace)


def with_leading(body: list[Node], old: Node, at_the_top: bool = True) -> list[Node]:
    """`body` whose first statement begins with the comments and blank lines of `old`."""
    if not body:
        return [nothing(getattr(old, "leading_lines", ()))]
    leading = getattr(old, "leading_lines", ())
    if isinstance(old, (cst.ClassDef, cst.FunctionDef)) and any(s is old for s in body[1:]):
        above = [line for line in leading if line.comment is None]
        rest = [_apart(s) if s is old and at_the_top else s for s in body[1:]]
        return [body[0].with_changes(leading_lines=above), *rest]
    lines = [*leading, *getattr(body[0], "leading_lines", ())]
    rest = [s.with_changes(leading_lines=()) if s is old else s for s in body[1:]]
    return [body[0].with_changes(leading_lines=lines), *rest]


def _apart(definition: Node) -> Node:
    """Return a class or function with blank lines before it: two, as at the beginning of the rewritten part."""
    leading = definition.leading_lines  # type: ignore[attr-defined]
    if leading and leading[0].comment is None:
        return definition
    blank = cst.EmptyLine(indent=False)
    return definition.with_changes(leading_lines=[blank, blank, *leading])


def with_trailing(body: list[Node], line: cst.SimpleStatementLine) -> list[Node]:
    """`body` whose last line ends as `line` does."""
    if isinstance(body[-1], cst.SimpleStatementLine):
        body[-1] = body[-1].with_changes(trailing_whitespace=line.trailing_whitespace)
    return body


def small_statements(lines: list[Node]) -> list[cst.BaseSmallStatement]:
    """The small statements of these lines."""
    return [s for line in lines if isinstance(line, cst.SimpleStatementLine) for s in line.body]


def one_line(suite: Node, smalls: list[cst.BaseSmallStatement]) -> Node:
    """`if x: a(); b()`."""
    return suite.with_changes(body=joined_by_semicolons(smalls) or [cst.Pass()])


class Nothing(cst.SimpleStatementLine):
    """A removed line, until the block around it has taken the comments before it. (libcst itself drops empty
    lines together with their comments.)
    """


def nothing(leading_lines: Sequence[cst.EmptyLine]) -> Nothing:
    return Nothing([cst.Pass()], leading_lines=leading_lines)


def joined_by_semicolons(body: list[cst.BaseSmallStatement]) -> list[cst.BaseSmallStatement]:
    if not body:
        return []
    joined = [
        s if isinstance(s.semicolon, cst.Semicolon) else s.with_changes(semicolon=_SEMICOLON)
        for s in body[:-1]
    ]
    return [*joined, body[-1].with_changes(semicolon=cst.MaybeSentinel.DEFAULT)]


_SEMICOLON = cst.Semicolon(whitespace_after=cst.SimpleWhitespace(" "))
