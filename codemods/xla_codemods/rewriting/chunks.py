"""Choose the lines of a file that libcst must parse for given edits.

libcst costs ten times what `ast` does, and an edit concerns a statement or the header of a compound one: so
only those lines are parsed, wrapped so that they stand alone, and put back. All other bytes stay what they are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Union

from ..edits import STATEMENT_EDITS, Edit
from ..source import Source

# Nodes with separate lines: a statement, or the `except` clause of one.
Owner = Union[ast.stmt, ast.ExceptHandler]

_BLOCKS = ("body", "orelse", "finalbody", "handlers")


class Chunk(NamedTuple):
    """Lines `first` to `last` (from 1, inclusive): whole statements, or one statement's header."""

    first: int
    last: int
    owners: tuple[Owner, ...]
    header: bool
    edits: list[Edit]


class Wrapped(NamedTuple):
    """A chunk's text between what makes it stand alone; `depth` is how many blocks the prefix opens around it."""

    prefix: str
    text: str
    suffix: str
    depth: int


def chunks(
    source: Source, edits: Iterable[Edit], parents: Mapping[ast.AST, ast.AST]
) -> list[Chunk]:
    """The chunks that hold `edits`, in source order, none overlapping another."""
    found = [_chunk(source, edit, parents) for edit in edits]
    found.sort(key=lambda chunk: (chunk.first, -chunk.last, chunk.header))
    merged: list[Chunk] = []
    for chunk in found:
        if merged and chunk.first <= merged[-1].last:
            merged[-1].edits.extend(chunk.edits)
        else:
            merged.append(chunk)
    return merged


def wrap(source: Source, chunk: Chunk) -> Wrapped:
    """`chunk` as a module that libcst parses."""
    newline = source.newline
    text = "".join(source.lines[chunk.first - 1 : chunk.last])
    indent = indentation(source.lines[chunk.first - 1])
    prefix, depth = (f"if 1:{newline}", 1) if indent else ("", 0)
    if not chunk.header:
        return Wrapped(prefix, text, "", depth)
    owner = chunk.owners[0]
    if isinstance(owner, ast.ExceptHandler):
        prefix += f"{indent}try:{newline}{indent} pass{newline}"
    elif isinstance(owner, ast.If) and text.lstrip().startswith("elif"):
        prefix += f"{indent}if 1:{newline}{indent} pass{newline}"
    inside = indentation(source.lines[first_line(_body(owner)[0]) - 1])
    return Wrapped(prefix, text, f"{inside}pass{newline}", depth)


def indentation(line: str) -> str:
    """The white space that `line` begins with."""
    return line[: len(line) - len(line.lstrip(" \t"))]


def first_line(node: Owner) -> int:
    """The line of the first decorator, or of the statement itself."""
    decorators = getattr(node, "decorator_list", None)
    return int(min([node.lineno, *(d.lineno for d in decorators or ())]))


def last_line(node: Owner) -> int:
    """The last line of `node`."""
    return node.end_lineno or node.lineno


def block_of(node: Owner, parents: Mapping[ast.AST, ast.AST]) -> list[Owner]:
    """The statements among which `node` stands."""
    parent = parents.get(node)
    for name in _BLOCKS:
        block = getattr(parent, name, None)
        if isinstance(block, list) and node in block:
            return block
    return [node]


def owner_of(node: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> Owner:
    """The statement (or except clause) that `node` belongs to."""
    while not isinstance(node, (ast.stmt, ast.ExceptHandler)):
        node = parents[node]
    return node


def _chunk(source: Source, edit: Edit, parents: Mapping[ast.AST, ast.AST]) -> Chunk:
    owner = owner_of(edit.node, parents)
    whole = isinstance(edit, STATEMENT_EDITS)
    if not whole and not isinstance(owner, (ast.Match, ast.Try)) and _body(owner):
        header = _header(source, owner, edit)
        if header is not None:
            return header
    return _whole(source, owner, edit, parents)


def _header(source: Source, owner: Owner, edit: Edit) -> Chunk | None:
    """From the first line of `owner` to the line before its body; None where they share a line."""
    body = first_line(_body(owner)[0])
    if body <= last_header_line(owner):
        return None
    return Chunk(first_line(owner), body - 1, (owner,), True, [edit])


def last_header_line(owner: Owner) -> int:
    """The line on which the header's last expression ends."""
    ends = [owner.lineno]
    for name, value in ast.iter_fields(owner):
        if name not in _BLOCKS and name != "cases":
            for node in value if isinstance(value, list) else [value]:
                ends += [n.end_lineno or 0 for n in _positioned(node)]
    return max(ends)


def _positioned(node: object) -> list[ast.expr]:
    if isinstance(node, ast.expr):
        return [node]
    if isinstance(node, (ast.arguments, ast.withitem, ast.keyword)):
        return [n for n in ast.walk(node) if isinstance(n, ast.expr)]
    return []


def _whole(source: Source, owner: Owner, edit: Edit, parents: Mapping[ast.AST, ast.AST]) -> Chunk:
    """`owner` and whatever shares its lines."""
    parent = parents.get(owner)
    if isinstance(owner, ast.ExceptHandler) or _is_elif(source, owner):
        assert isinstance(parent, ast.stmt)
        return _whole(source, parent, edit, parents)
    block = block_of(owner, parents)
    start = end = block.index(owner)
    while start > 0 and last_line(block[start - 1]) == first_line(block[start]):
        start -= 1
    while end + 1 < len(block) and first_line(block[end + 1]) == last_line(block[end]):
        end += 1
    first, last = first_line(block[start]), last_line(block[end])
    before = source.lines[first - 1].encode()[: block[start].col_offset]
    if before.strip() and isinstance(parent, (ast.stmt, ast.ExceptHandler)):  # `if x: statement`
        return _whole(source, parent, edit, parents)
    last = _with_comments(source, block[end], last)
    return Chunk(first, last, tuple(block[start : end + 1]), False, [edit])


def _with_comments(source: Source, owner: Owner, last: int) -> int:
    """The last line of the comments that end the block of `owner`: those indented as deep as it."""
    if not _body(owner):
        return last
    depth = len(indentation(source.lines[first_line(owner) - 1]))
    line = last
    while line < len(source.lines) and (text := source.lines[line]).lstrip(" \t").startswith(
        ("#", "\n", "\r")
    ):
        line += 1
        if "#" in text:
            if len(indentation(text)) <= depth:
                break
            last = line
    return last


def _is_elif(source: Source, owner: Owner) -> bool:
    return isinstance(owner, ast.If) and source.lines[owner.lineno - 1].encode()[
        owner.col_offset :
    ].startswith(b"elif")


def _body(owner: Owner) -> list[ast.stmt]:
    return getattr(owner, "body", None) or []
