"""Makes edits: source and edits in, source out. The only room that parses with libcst.

Each chunk (see `chunks`) is parsed, its nodes are paired with the nodes of `ast` (see `pairing`), and one
transformer applies every edit as a function of the updated node, so that edits inside edits compose.
A chunk that libcst would not give back byte for byte is left alone, and its edits are refused with the reason.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from typing import NamedTuple, cast

import libcst as cst

from ..edits import Edit, removed
from ..source import Source
from .apply import Transformer
from .chunks import Chunk, block_of, chunks, indentation, wrap
from .comments import marked, without_marks
from .pairing import Unpaired, pair


class Refusal(NamedTuple):
    """Edits that were not made: the line of the place, and the reason."""

    line: int
    reason: str
    edits: tuple[Edit, ...]


class Rewritten(NamedTuple):
    """The new text, and what of the edits could not be made."""

    text: str
    refusals: list[Refusal]


class _Done(NamedTuple):
    chunk: Chunk
    text: str
    emptied: bool  # nothing but comments is left of it


def rewrite(source: Source, edits: Iterable[Edit], parents: Mapping[ast.AST, ast.AST]) -> Rewritten:
    """`source` with `edits` made. `parents` gives the parent of each `ast` node that an edit names."""
    edits = list(edits)
    marks = marked(source, removed(edits), parents)
    source = marks.source
    done: list[_Done] = []
    refusals: list[Refusal] = []
    for chunk in chunks(source, edits, parents):
        try:
            done.append(_rewrite_chunk(source, chunk))
        except (cst.ParserSyntaxError, Unpaired, RecursionError, _NotGivenBack) as error:
            refusals.append(Refusal(chunk.first, _reason(error), tuple(chunk.edits)))
    refused: set[ast.AST] = {edit.node for refusal in refusals for edit in refusal.edits}
    return Rewritten(without_marks(_splice(source, done, parents), marks, refused), refusals)


class _NotGivenBack(Exception):
    """libcst does not reproduce the chunk."""


def _reason(error: Exception) -> str:
    if isinstance(error, _NotGivenBack):
        return str(error)
    if isinstance(error, RecursionError):
        return "nested too deeply to be rewritten"
    if isinstance(error, cst.ParserSyntaxError):
        return f"libcst cannot parse it: {error.message}"
    return f"libcst reads it differently from Python: {error}"


def _rewrite_chunk(source: Source, chunk: Chunk) -> _Done:
    wrapped = wrap(source, chunk)
    whole = wrapped.prefix + wrapped.text + wrapped.suffix
    if "\f" in whole:
        raise _NotGivenBack("a form feed, which libcst would drop")
    module = cst.parse_module(whole)
    if module.code != whole:
        raise _NotGivenBack("libcst would change its white space")
    block = cast(cst.CSTNode, module.body[0].body if wrapped.depth else module)
    nodes = pair(chunk.owners, block, _named(chunk.edits), header=chunk.header)
    unit = "\t" if "\t" in indentation(wrapped.text) else "    "
    transformer = Transformer(chunk.edits, nodes, outermost=block, unit=unit)
    code = module.visit(transformer).code
    if transformer.emptied:
        indent = indentation(wrapped.text)
        return _Done(
            chunk, "".join(f"{indent}{c}{source.newline}" for c in transformer.comments), True
        )
    if not code.startswith(wrapped.prefix) or not code.endswith(wrapped.suffix):
        raise _NotGivenBack("an edit reaches beyond its lines")
    text = code[len(wrapped.prefix) : len(code) - len(wrapped.suffix)]
    return _Done(chunk, text, False)


def _named(edits: Iterable[Edit]) -> list[ast.AST]:
    """The nodes that must be found: those edited, and those kept as holes."""
    return [node for edit in edits for node in (edit.node, *getattr(edit, "holes", ()))]


def _splice(source: Source, done: list[_Done], parents: Mapping[ast.AST, ast.AST]) -> str:
    """The file's lines with each chunk's lines replaced."""
    gone = {owner for item in done if item.emptied for owner in item.chunk.owners}
    lines = list(source.lines)
    for item in sorted(done, key=lambda d: -d.chunk.first):
        first, last = item.chunk.first - 1, item.chunk.last
        text = item.text
        if item.emptied:
            block = block_of(item.chunk.owners[0], parents)
            parent = parents.get(item.chunk.owners[0])
            if all(s in gone for s in block) and not isinstance(parent, ast.Module):
                if block[0] in item.chunk.owners:  # the first of a block that would be empty
                    text += indentation(lines[first]) + "pass" + source.newline
            elif not text and _between_blanks(lines, first, last):
                last += 1
        lines[first:last] = [text]
    return "".join(lines)


def _between_blanks(lines: list[str], first: int, last: int) -> bool:
    """True if cutting lines[first:last] would put two blank lines (or a block's start and one) together."""
    if last >= len(lines) or lines[last].strip():
        return False
    before = lines[first - 1].strip() if first else ""
    return not before or before.endswith(":")
