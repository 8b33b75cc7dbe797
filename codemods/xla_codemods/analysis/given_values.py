"""What an argument of a library's call may be where it is no literal: through variables, fields, options of the command
line, and dictionaries that are handed on with `**`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from .nodes import walk
from .syntax import keyword

if TYPE_CHECKING:
    from .parsed_file import ParsedFile

_MOST_HANDS = 4  # through which a value comes


class PassedValue(NamedTuple):
    """One value that it may be, written at `node`; `sure` where it is the only one."""

    node: ast.expr
    value: object
    sure: bool


def given(script: ParsedFile, call: ast.Call, name: str) -> list[PassedValue]:
    """What the keyword argument `name` of `call` may be, but for a literal in the call itself."""
    written = keyword(call, name)
    if written is not None:
        in_the_call = isinstance(written, (ast.Constant, ast.Call))
        return [] if in_the_call else list(_values(script, written, True))
    found: list[PassedValue] = []
    for argument in call.keywords:
        if argument.arg is None:
            for entry in _entries(script, argument.value, name):
                found += _values(script, entry, True)
    return found


def given_in(script: ParsedFile, node: ast.expr | None, name: str) -> list[PassedValue]:
    """What the entry `name` of the dictionary `node` may be."""
    entries = _entries(script, node, name) if node is not None else ()
    return [one for entry in entries for one in _values(script, entry, True)]


def field_value(statement: ast.stmt) -> tuple[str, ast.expr] | None:
    """Name and default of `optim: str = field(default="x")`, in the body of a class."""
    match statement:
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            return name, _default_of_field(value)
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return name, _default_of_field(value)
    return None


def _default_of_field(value: ast.expr) -> ast.expr:
    match value:
        case ast.Call(func=ast.Name(id="field" | "Field") | ast.Attribute(attr="field" | "Field")):
            default = keyword(value, "default")
            if default is None and value.args:
                default = value.args[0]
            return value if default is None else default
    return value


def _values(
    script: ParsedFile, node: ast.expr, sure: bool, hands: int = _MOST_HANDS
) -> Iterator[PassedValue]:
    if isinstance(node, ast.Constant):
        yield PassedValue(node, node.value, sure)
    elif isinstance(node, (ast.Call, ast.Dict)):
        yield PassedValue(node, None, sure)
    elif isinstance(node, ast.IfExp):
        for branch in (node.body, node.orelse):
            yield from _values(script, branch, False, hands)
    elif isinstance(node, ast.BoolOp):
        for part in node.values:
            yield from _values(script, part, False, hands)
    elif hands and isinstance(node, ast.Name):
        found = script.index.scope(node).find(node.id)
        bindings = found[1] if found else []
        for binding in bindings:
            if binding.how in {"assign", "parameter"} and binding.value and not binding.path:
                only = sure and len(bindings) == 1 and binding.how == "assign"
                yield from _values(script, binding.value, only, hands - 1)
    elif hands and isinstance(node, ast.Attribute):
        for default in script.cached(_defaults).get(node.attr, ()):
            yield from _values(script, default, False, hands - 1)
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        for entry in _entries(script, node.value, str(node.slice.value)):
            yield from _values(script, entry, sure, hands - 1)


def _entries(script: ParsedFile, node: ast.expr, name: str) -> Iterator[ast.expr]:
    """The entries `name` of a dictionary: of its literal, and those that are set by their own."""
    if isinstance(node, ast.Name):
        found = script.index.scope(node).find(node.id)
        for binding in found[1] if found else ():
            if binding.how == "assign" and binding.value is not None and not binding.path:
                if not isinstance(binding.value, ast.Name):
                    yield from _entries(script, binding.value, name)
        for statement, _ in script.index.of(ast.Assign):
            match statement.targets:
                case [ast.Subscript(value=ast.Name(id=owner), slice=ast.Constant(value=key))]:
                    if owner == node.id and key == name:
                        yield statement.value
        return
    match node:
        case ast.Dict(keys=keys, values=values):
            for entry, value in zip(keys, values):
                if isinstance(entry, ast.Constant) and entry.value == name:
                    yield value
        case ast.Call(func=ast.Name(id="dict"), keywords=keywords):
            yield from (k.value for k in keywords if k.arg == name)


def _defaults(script: ParsedFile) -> dict[str, list[ast.expr]]:
    """Name -> what the fields of that name in classes of the file are, and the options of the command line."""
    found: dict[str, list[ast.expr]] = {}
    for node in walk(script.tree):
        named: list[tuple[str, ast.expr] | None] = []
        if isinstance(node, ast.ClassDef):
            named = [field_value(statement) for statement in node.body]
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument":
            named = [_option(node)]
        for one in filter(None, named):
            found.setdefault(one[0], []).append(one[1])
    return found


def _option(call: ast.Call) -> tuple[str, ast.expr] | None:
    """The destination of `parser.add_argument("--optim", default="x")` and its default; of a switch, what it sets."""
    texts = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    long = [text for text in texts if text.startswith("--")] or texts
    destination, default = keyword(call, "dest"), keyword(call, "default")
    if not long:
        return None
    name = long[0].lstrip("-").replace("-", "_")
    if isinstance(destination, ast.Constant):
        name = str(destination.value)
    match keyword(call, "action"):
        case ast.Constant(value="store_true") as action:
            return name, ast.copy_location(ast.Constant(True), action)
    return (name, default) if default is not None else None
