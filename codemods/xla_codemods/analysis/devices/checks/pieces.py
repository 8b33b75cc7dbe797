"""The parts of a text that is put together: f-strings, `+`, `%`, `format` and `join`."""

from __future__ import annotations

import ast
import re

_AS_IT_IS = ("", "d")  # format specifications that write a number as it is
_WRITTEN_AS = -1, ord("s")  # conversions: none, and `!s`


def pieces(text: ast.expr) -> list[str | ast.expr]:
    """Return what `text` is put together of: its constant parts, and the expressions between them."""
    parts: list[str | ast.expr] = []
    for part in _parts(text):
        if isinstance(part, str) and parts and isinstance(parts[-1], str):
            parts[-1] += part
        elif part != "":
            parts.append(part)
    return parts


def _parts(text: ast.expr) -> list[str | ast.expr]:
    match text:
        case ast.Constant(value=str(written)):
            return [written]
        case ast.JoinedStr(values=values):
            return [part for value in values for part in _parts(value)]
        case ast.FormattedValue(value=inner, conversion=conversion, format_spec=form):
            is_plain = conversion in _WRITTEN_AS and (form is None or _is_plain(form))
            return [inner if is_plain else text]
        case ast.BinOp(op=ast.Add()):
            return [part for operand in _operands(text) for part in _parts(operand)]
        case ast.BinOp(op=ast.Mod(), left=ast.Constant(value=str(written)), right=right):
            given = right.elts if isinstance(right, ast.Tuple) else [right]
            return _filled(re.split(r"%[sdi]", written), given)
        case ast.Call(
            func=ast.Attribute(value=ast.Constant(value=str(written)), attr="format"), args=given
        ):
            return _filled(re.split(r"\{\d*(?::d)?\}", written), given)
        case ast.Call(
            func=ast.Attribute(value=ast.Constant(value=str(written)), attr="join"),
            args=[ast.List(elts=given) | ast.Tuple(elts=given)],
        ):
            return [part for each in given for part in (written, *_parts(each))][1:]
    return [text]


def _operands(added: ast.expr) -> list[ast.expr]:
    operands = []
    while isinstance(added, ast.BinOp) and isinstance(added.op, ast.Add):
        operands.append(added.right)
        added = added.left
    return [added, *reversed(operands)]


def _is_plain(form: ast.expr) -> bool:
    return "".join(str(getattr(part, "value", "?")) for part in getattr(form, "values", "?")) in (
        _AS_IT_IS
    )


def _filled(written: list[str], given: list[ast.expr]) -> list[str | ast.expr]:
    parts: list[str | ast.expr] = [written[0]]
    for text, value in zip(written[1:], given, strict=False):
        parts += [value, text]
    return parts
