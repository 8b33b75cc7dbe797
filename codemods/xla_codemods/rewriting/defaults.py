"""Move calls out of the defaults of generated lambdas, as linters require (flake8-bugbear's B008)."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from itertools import count

from ..analysis.nodes import walk

_SIMPLE = (ast.Name, ast.Constant)
_STATEMENTS = (ast.Expr, ast.Assign, ast.Return)


def without_calls(text: str, original: str, alias: str) -> str:
    """Return `text` with `name = call()` before each generated `alias.later(lambda name=call(): ...)`.

    The call gets another name if the file uses `name` elsewhere.
    """
    if "lambda" not in text:
        return text
    tree = ast.parse(text)
    names = Counter(_names(tree))
    known = set(original.splitlines())
    lines = text.splitlines(keepends=True)
    for statement in sorted(walk(tree), key=lambda n: -getattr(n, "lineno", 0)):
        if not isinstance(statement, _STATEMENTS) or not isinstance(statement.value, ast.Call):
            continue
        row = statement.lineno - 1
        if lines[row].rstrip("\r\n") in known or lines[row][: statement.col_offset].strip():
            continue
        function = _lambda_of(statement.value, alias)
        called = _called(function) if function is not None else []
        if not called or any(d.lineno != d.end_lineno for _, d in called):
            continue
        newline = "\r\n" if lines[row].endswith("\r\n") else "\n"
        indent = lines[row][: statement.col_offset]
        inside = Counter(_names(function)) if function is not None else Counter()
        free = [_free(name, names, inside) for name, _ in called]
        new = [
            f"{indent}{name} = {ast.get_source_segment(text, default)}{newline}"
            for name, (_, default) in zip(free, called, strict=True)
        ]
        for name, (_, default) in reversed([*zip(free, called, strict=True)]):
            at = default.lineno - 1
            line = lines[at].encode()
            end = default.end_col_offset or 0
            lines[at] = (line[: default.col_offset] + name.encode() + line[end:]).decode()
        lines[row:row] = new
    return "".join(lines)


def _free(name: str, names: Counter[str], inside: Counter[str]) -> str:
    """Return `name` if nothing outside the lambda uses it, else another one."""
    if names[name] <= inside[name]:
        return name
    free = next(n for k in count(2) if not names[n := f"{name}_{k}"])
    names[free] += 1
    return free


def _lambda_of(call: ast.Call, alias: str) -> ast.Lambda | None:
    match call:
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id=name), attr="later" | "computed"),
            args=[ast.Lambda() as function, *_],
        ) if name == alias:
            return function
    return None


def _called(function: ast.Lambda) -> list[tuple[str, ast.expr]]:
    """Return the defaults that call something, with their names; none if the order of evaluation could matter."""
    parameters = function.args.args[-len(function.args.defaults) :]
    called: list[tuple[str, ast.expr]] = []
    for parameter, default in zip(parameters, function.args.defaults, strict=False):
        if any(isinstance(node, ast.Call) for node in walk(default)):
            called.append((parameter.arg, default))
        elif not isinstance(default, _SIMPLE):
            return []
    return called


def _names(tree: ast.AST) -> Iterator[str]:
    for node in walk(tree):
        match node:
            case ast.Name(id=name) | ast.arg(arg=name):
                yield name
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
            ):
                yield name
            case ast.alias(name=name, asname=local):
                yield local or name.partition(".")[0]
            case ast.Global(names=several) | ast.Nonlocal(names=several):
                yield from several
