"""The commas between arguments or elements, with the line ends and comments behind them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import libcst as cst

Node = cst.CSTNode


def separator(args: Sequence[cst.Arg]) -> cst.Comma:
    """The comma that the other arguments are separated with."""
    for arg in args:
        if isinstance(arg.comma, cst.Comma):
            return cast(cst.Comma, comma_with(arg.comma, None))
    return cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))


def behind(node: Node) -> object:
    """The white space behind an argument or element, and its comma."""
    comma = getattr(node, "comma", None)
    if isinstance(comma, cst.Comma):
        return comma.whitespace_after
    return getattr(node, "whitespace_after_arg", None)


def comment(space: object) -> cst.TrailingWhitespace | None:
    """The end of the line that `space` begins with, if a comment stands there."""
    if isinstance(space, cst.ParenthesizedWhitespace) and space.first_line.comment is not None:
        return space.first_line
    return None


def with_comment(space: object, comment: cst.TrailingWhitespace | None) -> object:
    """`space` with this comment at the end of the line, or with none."""
    if not isinstance(space, cst.ParenthesizedWhitespace):
        return space
    line = comment or space.first_line.with_changes(
        comment=None, whitespace=cst.SimpleWhitespace("")
    )
    return space.with_changes(first_line=line)


def comma_with(comma: object, comment: cst.TrailingWhitespace | None) -> object:
    if not isinstance(comma, cst.Comma):
        return comma
    return comma.with_changes(whitespace_after=with_comment(comma.whitespace_after, comment))


def without(elements: Sequence[Node], gone: set[int]) -> list[Node]:
    """`elements` but those at the indices `gone`; the last one keeps the closing white space."""
    end = max((k for k in range(len(elements)) if k not in gone), default=-1)
    kept: list[Node] = []
    for k, element in enumerate(elements):
        if k not in gone:
            kept.append(element)
        elif kept and k < end:
            kept[-1] = _taking_over(kept[-1], behind(element))
    if kept and len(elements) - 1 in gone:
        last = elements[-1]
        note = comment(behind(kept[-1]))
        changes: dict[str, object] = {"comma": comma_with(last.comma, note)}  # type: ignore[attr-defined]
        if isinstance(last, cst.Arg):
            closing: object = last.whitespace_after_arg
            if note is not None and not isinstance(last.comma, cst.Comma):
                if not isinstance(
                    closing, cst.ParenthesizedWhitespace
                ):  # `)` goes below the comment
                    closing = behind(kept[-1])
            changes["whitespace_after_arg"] = with_comment(closing, note)
        kept[-1] = kept[-1].with_changes(**changes)
    return kept


def _taking_over(before: Node, space: object) -> Node:
    """Return `before` with the end of the line and the separate comment lines that followed the removed part."""
    comma = getattr(before, "comma", None)
    if not isinstance(comma, cst.Comma) or not isinstance(space, cst.ParenthesizedWhitespace):
        return before
    own = comma.whitespace_after
    if isinstance(own, cst.ParenthesizedWhitespace):
        lines = [line for line in space.empty_lines if line.comment is not None]
        space = own.with_changes(empty_lines=[*own.empty_lines, *lines])
    return before.with_changes(comma=comma.with_changes(whitespace_after=space))
