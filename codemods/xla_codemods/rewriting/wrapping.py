"""Split generated lines that are longer than the project's, as black does: at brackets, then at commas."""

from __future__ import annotations

import ast
import io
import itertools
import re
import tokenize
from collections.abc import Iterator
from typing import NamedTuple

from ..source import split_lines
from .aligning import closes, code_tokens, indent_of, last_open, opens, replaced_lines
from .chunks import first_line

_INDENT = "    "
_OPENING, _CLOSING = "([{", ")]}"


class _Token(NamedTuple):
    """A token outside strings, with its columns and the number of brackets around it."""

    text: str
    start: int
    end: int
    depth: int


def wrapped(text: str, original: str, length: int) -> str:
    """Return `text` with each statement split that `original` does not have and that is longer than `length`.

    A line that replaces a longer one is not split. `text` is returned as it is if the result would be another program.
    """
    before = original.splitlines()
    known = set(before)
    lines = text.splitlines(keepends=True)
    if all(len(line.rstrip()) <= length or line.rstrip("\r\n") in known for line in lines):
        return text
    replaced = replaced_lines(text.splitlines(), before)
    newline = "\r\n" if lines[0].endswith("\r\n") else "\n"
    changed = list(lines)

    def is_long(k: int) -> bool:
        row = lines[k].rstrip("\r\n")
        return row not in known and len(row) > max(
            length, replaced[k].longest if k in replaced else 0
        )

    for first, last in _statements(text):
        if is_long(first):
            rows = [line.rstrip("\r\n") for line in lines[first:last]]
            split = _split(rows[0], length) if len(rows) == 1 else _reindented(rows, length)
            if split is not None:
                changed[first:last] = [newline.join(split) + newline, *[""] * (last - first - 1)]
                continue
        for k in filter(is_long, range(first + 1, last)):
            changed[k] = newline.join(_at_commas(lines[k].rstrip("\r\n"), length)) + newline
    result = "".join(changed)
    try:
        return result if _is_same(result, text) else text
    except SyntaxError:
        return text


def _is_same(text: str, other: str) -> bool:
    """Return True if both are the same program; only statements that are spelled differently need to be compared."""
    ours, theirs = _spelled(text), _spelled(other)
    return len(ours) == len(theirs) and all(
        rows == others or ast.dump(statement) == ast.dump(its)
        for (statement, rows), (its, others) in zip(ours, theirs, strict=True)
    )


def _spelled(text: str) -> list[tuple[ast.stmt, list[str]]]:
    """Return the statements of the module, each with its lines."""
    lines = split_lines(text)
    return [(s, lines[first_line(s) - 1 : s.end_lineno]) for s in ast.parse(text).body]


def _statements(text: str) -> Iterator[tuple[int, int]]:
    """Yield the first and the last line (from 0, exclusive) of logical lines without comments and long strings."""
    first, plain = -1, True
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in {tokenize.INDENT, tokenize.DEDENT, tokenize.NL, tokenize.ENDMARKER}:
            continue
        if token.type == tokenize.NEWLINE:
            if first >= 0 and plain:
                yield first, token.start[0]
            first, plain = -1, True
            continue
        if first < 0 and token.type == tokenize.COMMENT:
            continue  # above the statement
        if first < 0:
            first = token.start[0] - 1
        if token.type == tokenize.COMMENT or (
            token.start[0] != token.end[0] and token.type != tokenize.OP
        ):
            plain = False


def _tokens(line: str, is_whole: bool = True) -> list[_Token] | None:
    """Return the tokens of one line; None if its brackets should be closed in it and are not."""
    found: list[_Token] = []
    depth = 0
    for token in code_tokens(line):
        if token.type in {tokenize.OP, tokenize.NAME}:
            depth -= closes(token)
            found.append(_Token(token.string, token.start[1], token.end[1], depth))
            depth += opens(token)
    return found if depth == 0 or not is_whole else None


def _split(line: str, length: int) -> list[str] | None:
    """Return the lines of `line`, split at its last bracket or with its value in brackets; None if neither helps."""
    tokens = _tokens(line.strip())
    indent = line[: len(line) - len(line.lstrip())]
    if tokens is None:
        return None
    body = line.strip()
    assigned = _assigned(tokens)
    if assigned and len(_pieces(body[assigned:])) > 1:
        rows = _pieces(body[assigned:])
        inner = [row for part in rows for row in _fitted(indent + _INDENT + part, length)]
        return [f"{indent}{body[:assigned]} (", *inner, f"{indent})"]
    pair = _last_brackets(tokens)
    if pair is None or not body[pair[0].end : pair[1].start].strip():
        if not assigned:
            return None
        room = length - len(indent + _INDENT)
        rows = [
            row for term in _operands(body[assigned:].strip(), "+-") for row in _factors(term, room)
        ]
        inner = [indent + _INDENT + row for row in rows]
        fits = all(len(row) <= length for row in inner)
        return [f"{indent}{body[:assigned]} (", *inner, f"{indent})"] if fits else None
    opening, closing = pair
    head, inside, tail = (
        body[: opening.end],
        body[opening.end : closing.start],
        body[closing.start :],
    )
    after = _after_lambda(tokens)
    if after is not None and after < opening.end:
        is_choice = len(_pieces(body[after:])) > 1
        if is_choice or len(indent) + len(head) > length:
            return [indent + body[:after], *_inside(body[after:].strip(), indent + _INDENT, length)]
    return [indent + head, *_inside(inside.strip(), indent + _INDENT, length), indent + tail]


def _inside(text: str, indent: str, length: int) -> list[str]:
    """Return the lines between two brackets: one, or one for each element."""
    if len(indent) + len(text) <= length:
        return [indent + text]
    parts = _pieces(text)
    if len(parts) < 2:
        return _fitted(indent + text, length)
    return [row for part in parts for row in _fitted(indent + part, length)]


def _at_commas(row: str, length: int) -> list[str]:
    """Return a row of elements as rows with as many elements as fit; as it is if it opens or closes a bracket."""
    body = row.strip()
    if _tokens(body) is None:
        return [row]
    indent, (first, *rest) = " " * indent_of(row), _elements(body)
    rows = [indent + first]
    for element in rest:
        longer = f"{rows[-1]}, {element}"
        if len(longer) < length:
            rows[-1] = longer
        else:
            rows[-1] += ","
            rows.append(indent + element)
    rows[-1] += "," if body.endswith(",") else ""
    return rows


def _pieces(text: str) -> list[str]:
    """Return the elements of `text`, each with its comma, or the three parts of a conditional expression."""
    parts = _elements(text)
    if len(parts) > 1:
        return [f"{part}," for part in parts]
    tokens = _tokens(text) or []
    outer = [t for t in tokens if t.depth == 0 and t.text in {"if", "else", "lambda", "for"}]
    if [t.text for t in outer] != ["if", "else"]:
        return [text.strip()]
    at = [0, *(token.start for token in outer), len(text)]
    return [text[a:b].strip() for a, b in itertools.pairwise(at)]


def _factors(term: str, length: int) -> list[str]:
    """Return `term` as one row, or one for each factor."""
    return [term] if len(term) <= length else _operands(term, "*/")


def _operands(text: str, operators: str) -> list[str]:
    """Return the operands of the binary `operators` outside brackets, each with its operator."""
    places = [t.start for t in _tokens(text) or [] if t.depth == 0 and t.text in set(operators)]
    between = [at for at in places if re.search(r"[\w.)\]}'\"]$", text[:at].rstrip())]
    return [text[a:b].strip() for a, b in itertools.pairwise([0, *between, len(text)])]


def _assigned(tokens: list[_Token]) -> int:
    """Return the column after the last `=` of an assignment, or 0."""
    if any(token.depth == 0 and token.text in {"lambda", ":"} for token in tokens):
        return 0
    return max((t.end for t in tokens if t.depth == 0 and t.text == "="), default=0)


def _fitted(line: str, length: int) -> list[str]:
    return [line] if len(line) <= length else _split(line, length) or [line]


def _last_brackets(tokens: list[_Token]) -> tuple[_Token, _Token] | None:
    """Return the last pair of outermost brackets."""
    pair: tuple[_Token, _Token] | None = None
    opening: _Token | None = None
    for token in tokens:
        if token.depth == 0 and token.text in _OPENING:
            opening = token
        elif token.depth == 0 and token.text in _CLOSING and opening is not None:
            pair = opening, token
    return pair


def _after_lambda(tokens: list[_Token]) -> int | None:
    """Return the column after the colon of a lambda outside brackets."""
    is_lambda = False
    for token in tokens:
        if token.depth == 0:
            is_lambda = is_lambda or token.text == "lambda"
            if is_lambda and token.text == ":":
                return token.end
    return None


def _elements(text: str) -> list[str]:
    """Return what commas outside brackets and lambdas separate; `text` alone for a comprehension."""
    tokens = _tokens(text) or []
    if any(token.text == "for" and token.depth == 0 for token in tokens):
        return [text]
    parts, start, is_lambda = [], 0, False
    for token in tokens:
        if token.depth:
            continue
        if token.text == "lambda":
            is_lambda = True
        elif token.text == ":":
            is_lambda = False
        elif token.text == "," and not is_lambda:
            parts.append(text[start : token.start].strip())
            start = token.end
    parts.append(text[start:].strip())
    return [part for part in parts if part]


def _reindented(rows: list[str], length: int) -> list[str] | None:
    """Return a call of several lines with its first argument on a separate line."""
    indent = rows[0][: len(rows[0]) - len(rows[0].lstrip())]
    at = rows[0].find("(") + 1
    if not at or len(rows[0][:at]) > length or not _ends_with_its_bracket(rows):
        return None
    first = indent + _INDENT + rows[0][at:].strip()
    heads, tokens = [first], _tokens(first.strip(), is_whole=False)
    after = _after_lambda(tokens) if tokens is not None and len(first) > length else None
    if after is not None:
        call = indent + 2 * _INDENT + first.strip()[after:].strip()
        heads = [*_parameters(indent + _INDENT + first.strip()[:after], length), call]
    below = [row for row in (*rows[1:-1], rows[-1].rstrip()[:-1]) if row.strip()]
    deeper = _INDENT * (1 if after is None else 2)
    return [rows[0][:at], *heads, *_moved(below, at, heads[-1], deeper), f"{indent})"]


def _ends_with_its_bracket(rows: list[str]) -> bool:
    """Return True if the last character closes the first bracket of the rows, which is a round one."""
    depth = closed = 0
    brackets = [t for t in code_tokens("\n".join(rows).strip()) if opens(t) or closes(t)]
    for token in brackets:
        depth += 1 if opens(token) else -1
        closed += depth == 0
    is_round = bool(brackets) and brackets[0].string == "(" and brackets[-1].string == ")"
    return is_round and closed == 1 and rows[-1].rstrip().endswith(")")


def _parameters(line: str, length: int) -> list[str]:
    """Return the head of a lambda, split at commas."""
    indent = " " * (len(line) - len(line.lstrip()) + len("lambda "))
    rows = [""]
    for part in line.split(", "):
        joined = f"{rows[-1]}, {part}" if rows[-1] else part
        if len(joined) < length or not rows[-1]:
            rows[-1] = joined
        else:
            rows[-1] += ","
            rows.append(indent + part)
    return rows


def _moved(rows: list[str], at: int, head: str, deeper: str) -> list[str]:
    """Return `rows`: indented further, or aligned with `head` if they were aligned with a bracket right of `at`."""
    least = min((indent_of(row) for row in rows), default=0)
    if least < at:
        return [deeper + row for row in rows]
    column = last_open(head)
    start = indent_of(head) if column is None else column + 1
    return [" " * (indent_of(row) - least + start) + row.lstrip() for row in rows]
