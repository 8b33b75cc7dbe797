"""Names that are put together of the type of a device: `getattr(self, f"step_{device.type}")`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .origins import is_device_text

if TYPE_CHECKING:
    from ...parsed_file import ParsedFile

_NAMESPACES = frozenset({"globals", "locals", "vars"})


def computed_names(script: ParsedFile) -> Iterator[ast.Call | ast.Subscript]:
    """Yield the lookups by such a name, if the name exists for CUDA and not for XLA."""
    for node, name in _found_by_name(script):
        pieces = _pieces(name)
        telling = [p for p in pieces if isinstance(p, ast.expr) and is_device_text(script, p)]
        if not telling:
            continue
        if len(pieces) == 1:
            if isinstance(node, ast.Call) and script.dotted(node.args[0]) != "torch":
                yield node  # getattr(model, device.type)
        elif _is_there(script, pieces, telling, "cuda"):
            if not _is_there(script, pieces, telling, "xla"):
                yield node


def _found_by_name(script: ParsedFile) -> Iterator[tuple[ast.Call | ast.Subscript, ast.expr]]:
    for call, _ in script.index.calls_of("getattr"):
        if isinstance(call.func, ast.Name) and len(call.args) > 1:
            yield call, call.args[1]
    for call, _ in script.index.calls_of("import_module"):
        if call.args and not isinstance(call.args[0], ast.Name):
            yield call, call.args[0]
    for item, _ in script.index.of(ast.Subscript):
        owner = item.value
        if (isinstance(owner, ast.Call) and getattr(owner.func, "id", "") in _NAMESPACES) or (
            isinstance(owner, ast.Attribute) and owner.attr == "__dict__"
        ):
            yield item, item.slice


def _pieces(name: ast.expr) -> list[str | ast.expr]:
    """What a text is put together of: what is written out, and the rest."""
    match name:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=values):
            return [part for value in values for part in _pieces(value)]
        case ast.FormattedValue(value=inner):
            return [inner]
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return [*_pieces(left), *_pieces(right)]
        case ast.BinOp(op=ast.Mod(), left=ast.Constant(value=str(text)), right=right):
            given = right.elts if isinstance(right, ast.Tuple) else [right]
            return _filled(re.split(r"%[sr]", text), given)
        case ast.Call(
            func=ast.Attribute(value=ast.Constant(value=str(text)), attr="format"), args=given
        ):
            return _filled(re.split(r"\{\d*\}", text), given)
        case ast.Call(
            func=ast.Attribute(value=ast.Constant(value=str(text)), attr="join"),
            args=[ast.List(elts=parts) | ast.Tuple(elts=parts)],
        ):
            return [text, *(piece for part in parts for piece in (*_pieces(part), text))][1:-1]
    return [name]


def _filled(written: list[str], given: list[ast.expr]) -> list[str | ast.expr]:
    pieces: list[str | ast.expr] = [written[0]]
    for text, value in zip(written[1:], given, strict=False):
        pieces += [value, text]
    return [piece for piece in pieces if piece != ""]


def _is_there(
    script: ParsedFile, pieces: list[str | ast.expr], telling: list[ast.expr], kind: str
) -> bool:
    """True if the program has a name, or a file, that the pieces make for devices of that kind."""
    made = "".join(
        re.escape(p) if isinstance(p, str) else kind if p in telling else r"\w*" for p in pieces
    )
    word = re.compile(rf"(?<![\w/]){made.removeprefix(re.escape('.'))}\b")
    if word.search(script.source.text):
        return True
    if script.project is None:
        return False
    if script.project.in_its_programs(script.project.modules.matching(word)):
        return True
    paths = (path.replace("/", ".") for path in script.project.program_paths)
    return any(word.search(path) for path in paths)
