"""Possible values of an argument of a library's call that is not a literal: through variables, fields, options of the
command line, and dictionaries passed on with `**`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from ...flow.closure import reach, trace, without_fault
from ...flow.containers import ANY, held
from ...flow.edges import sources
from ..devices.checks.on_xla import is_guarded
from ..nodes import walk
from ..parsed_file import ParsedFile
from ..projects.passed_arguments import option
from ..syntax import class_values, is_literal, keyword
from .arguments import asks_runtime


class PassedValue(NamedTuple):
    """One possible value, written at `node`; `sure` if it is the only one."""

    node: ast.expr
    value: object
    sure: bool


def given(script: ParsedFile, call: ast.Call, name: str) -> list[PassedValue]:
    """Return the possible values of the keyword argument `name` of `call`, except a literal in the call itself."""
    written = keyword(call, name)
    if written is None:
        return _values(script, entries(script, call, name))
    is_literal = isinstance(written, _LITERALS) and not _sources(script, written)
    return [] if is_literal else _values(script, [written])


def given_in(script: ParsedFile, node: ast.expr | None, name: str) -> list[PassedValue]:
    """Return what the entry `name` of the dictionary `node` may be."""
    return _values(script, held(script, node, name)) if node is not None else []


def possible(script: ParsedFile, written: ast.expr) -> list[PassedValue]:
    """Return what `written` may be."""
    return _values(script, [written])


def entries(script: ParsedFile, call: ast.Call, name: str) -> list[ast.expr]:
    """Return the entries `name` of the dictionaries that `call` passes on with `**`."""
    spread = (argument.value for argument in call.keywords if argument.arg is None)
    return [entry for node in spread for entry in held(script, node, name)]


_LITERALS = (ast.Constant, ast.Call, ast.Dict, ast.List, ast.Tuple)


def _values(script: ParsedFile, start: Iterable[ast.expr]) -> list[PassedValue]:
    reached = reach(start, lambda node: _sources(script, node))
    ends = [
        n
        for n in reached
        if isinstance(n, _LITERALS) and not _sources(script, n) and not is_guarded(script, n)
    ]
    return [
        PassedValue(end, getattr(end, "value", None), _is_only(script, trace(reached, end)))
        for end in ends
    ]


def _is_only(script: ParsedFile, way: Iterator[ast.expr]) -> bool:
    """Return True if the value is the only one: only names with one binding, and entries, lead to it."""
    next(way)
    return all(isinstance(n, ast.Subscript) or script.only_value(n) is not None for n in way)


def _sources(script: ParsedFile, node: ast.expr) -> Sequence[ast.expr]:
    match node:
        case ast.IfExp(test=test, orelse=other) if asks_runtime(script, test):
            return [other]  # "fp16" if xla.device_type() == "cuda" else "bf16"
        case ast.IfExp(body=body, orelse=other):  # attn if torch.cuda.is_available() else "sdpa"
            return [branch for branch in (body, other) if not is_guarded(script, branch)]
        case ast.Attribute():
            return script.cached(_defaults).get(node.attr, [])
        case ast.Subscript(value=owner, slice=ast.Constant(value=key)):
            return held(script, owner, str(key))
        case ast.Subscript(value=owner):
            return held(script, owner, ANY)
        case ast.Call(func=ast.Attribute(attr="get", value=owner), args=[key, *default]):
            name = str(key.value) if isinstance(key, ast.Constant) else ANY
            return [*held(script, owner, name), *default]
        case ast.Call(
            func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(name)), default]
        ):
            return [*script.cached(_defaults).get(name, []), default]
    return sources(script, node)


def is_only_given(
    script: ParsedFile, node: ast.expr, name: str | None, takes: Callable[[ast.Call], bool]
) -> bool:
    """True if the value `node`, of a variable or of a dictionary's entry `name`, goes to nothing but arguments `name` (None:
    `**`) of calls that are one of `takes`: changing it changes nothing else.
    """
    return without_fault([(node, name)], lambda place: _receivers(script, *place, takes))


def _receivers(
    script: ParsedFile, node: ast.expr, name: str | None, takes: Callable[[ast.Call], bool]
) -> list[tuple[ast.expr, str | None]] | None:
    """Return where `node` goes, each with its name there; None if that is no argument `name` of a call of `takes`."""
    match script.parent(node):
        case ast.IfExp(test=test) as choice if test is not node:
            return [(choice, name)]
        case ast.Dict(keys=keys, values=values) as made if node in values:
            return [(made, None)] if is_literal(keys[values.index(node)], name) else None
        case ast.keyword(arg=given) as argument if given == name:
            match script.parent(argument):
                case ast.Call(func=ast.Name(id="dict"), args=[]) as options:
                    return [(options, None)]
                case ast.Call() as call:
                    return [] if takes(call) else None
        case ast.Assign(targets=[ast.Name() as target]) as statement:
            others = [n for n, _ in script.index.names(target.id) if n is not target]
            is_bound_once = all(isinstance(n.ctx, ast.Load) for n in others)
            is_field = isinstance(script.parent(statement), ast.ClassDef)
            if is_bound_once and not is_field and not script.is_imported_elsewhere(target.id):
                return [(other, name) for other in others]
    return None


def field_values(definition: ast.ClassDef) -> list[tuple[str, ast.expr]]:
    """Return the names and defaults of the fields of a class: `optim: str = field(default="x")`."""
    return [(name, _default_of_field(value)) for name, value in class_values(definition)]


def _default_of_field(value: ast.expr) -> ast.expr:
    match value:
        case ast.Call(func=ast.Name(id="field" | "Field") | ast.Attribute(attr="field" | "Field")):
            default = keyword(value, "default")
            if default is None and value.args:
                default = value.args[0]
            return value if default is None else default
    return value


def _defaults(script: ParsedFile) -> dict[str, list[ast.expr]]:
    """Name -> what the fields of that name in classes of the file are, and the options of the command line."""
    found: dict[str, list[ast.expr]] = {}
    for node in walk(script.tree):
        if isinstance(node, ast.ClassDef):
            for name, value in field_values(node):
                found.setdefault(name, []).append(value)
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument":
            name, default = option(node)
            found.setdefault(name, []).extend([default] if default is not None else [])
    return found
