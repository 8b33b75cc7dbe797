"""Possible values of an argument of a library's call that is not a literal: through variables, fields, options of the
command line, and dictionaries passed on with `**`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from ..nodes import walk
from ..syntax import argument_for, dict_entries, keyword, returned

if TYPE_CHECKING:
    from ..parsed_file import ParsedFile

_MOST_HANDS = 4  # through which a value comes


class PassedValue(NamedTuple):
    """One possible value, written at `node`; `sure` if it is the only one."""

    node: ast.expr
    value: object
    sure: bool


def given(script: ParsedFile, call: ast.Call, name: str) -> list[PassedValue]:
    """Return the possible values of the keyword argument `name` of `call`, except a literal in the call itself."""
    written = keyword(call, name)
    if written is not None:
        in_the_call = isinstance(written, (ast.Constant, ast.Call, ast.List, ast.Tuple))
        if in_the_call and not _hands_on(script, written):
            return []
        return list(_values(script, written, True))
    found: list[PassedValue] = []
    for argument in call.keywords:
        if argument.arg is None:
            for entry in entries(script, argument.value, name):
                found += _values(script, entry, True)
    return found


def given_in(script: ParsedFile, node: ast.expr | None, name: str) -> list[PassedValue]:
    """What the entry `name` of the dictionary `node` may be."""
    found = entries(script, node, name) if node is not None else ()
    return [one for entry in found for one in _values(script, entry, True)]


def is_only_given(
    script: ParsedFile, node: ast.expr, name: str, takes: Callable[[ast.Call], bool]
) -> bool:
    """True if the value `node`, of a variable or of a dictionary's entry `name`, goes to nothing but arguments `name` of calls
    that are one of `takes`: changing it changes nothing else.
    """
    child, parent = node, script.parent(node)
    while isinstance(parent, ast.IfExp) and parent.test is not child:
        child, parent = parent, script.parent(parent)
    argument: str | None = name
    match parent:
        case ast.Dict() if any(
            value is child and isinstance(key, ast.Constant) and key.value == name
            for key, value in zip(parent.keys, parent.values)
        ):
            child, parent, argument = parent, script.parent(parent), None
        case ast.keyword(arg=given) if given == name:
            call = script.parent(parent)
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "dict" and not call.args:
                child, parent, argument = call, script.parent(call), None
    match parent:
        case ast.keyword(arg=given) if given == argument:
            call = script.parent(parent)
            return isinstance(call, ast.Call) and takes(call)
        case ast.Assign(targets=[ast.Name() as target], value=value) if value is child:
            if isinstance(script.parents.get(parent), ast.ClassDef):
                return False
            return _is_only_read_there(script, target, argument, takes)
    return False


def _is_only_read_there(
    script: ParsedFile, target: ast.Name, argument: str | None, takes: Callable[[ast.Call], bool]
) -> bool:
    """True if the name `target` is bound there alone in the file, and read as `argument` (None: `**`) of calls of `takes`."""
    if script.is_imported_elsewhere(target.id):
        return False
    for node in walk(script.tree):
        if not (isinstance(node, ast.Name) and node.id == target.id) or node is target:
            continue
        if argument is not None:
            if not isinstance(node.ctx, ast.Load) or not is_only_given(
                script, node, argument, takes
            ):
                return False
            continue
        parent = script.parents.get(node)
        if not (isinstance(parent, ast.keyword) and parent.arg == argument):
            return False
        call = script.parents.get(parent)
        if not (isinstance(call, ast.Call) and takes(call)):
            return False
    return True


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
    elif hands and isinstance(node, ast.Call) and _hands_on(script, node):
        for handed in _handed_on(script, node):
            yield from _values(script, handed, False, hands - 1)
    elif isinstance(node, (ast.Call, ast.Dict, ast.List, ast.Tuple)):
        yield PassedValue(node, None, sure)
    elif isinstance(node, ast.IfExp):
        for branch in (node.body, node.orelse):
            yield from _values(script, branch, False, hands)
    elif isinstance(node, ast.BoolOp):
        for part in node.values:
            yield from _values(script, part, False, hands)
    elif hands and isinstance(node, ast.Name):
        bindings = script.bindings(node)
        for binding in bindings:
            if binding.how in {"assign", "parameter"} and binding.value and not binding.path:
                only = sure and len(bindings) == 1 and binding.how == "assign"
                yield from _values(script, binding.value, only, hands - 1)
    elif hands and isinstance(node, ast.Attribute):
        for default in script.cached(_defaults).get(node.attr, ()):
            yield from _values(script, default, False, hands - 1)
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        for entry in entries(script, node.value, str(node.slice.value)):
            yield from _values(script, entry, sure, hands - 1)
    elif hands and isinstance(node, ast.Subscript):
        for entry in _all_entries(script, node.value):
            yield from _values(script, entry, False, hands - 1)


def _hands_on(script: ParsedFile, node: ast.expr) -> bool:
    """True if a call gives what is written elsewhere: a function of this file, or `table.get(name, other)`."""
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Attribute) and node.func.attr == "get":
        return bool(node.args) and not isinstance(node.args[0], ast.Starred)
    return _is_getattr(node) or isinstance(_function(script, node), ast.FunctionDef)


def _handed_on(script: ParsedFile, call: ast.Call) -> Iterator[ast.expr]:
    definition = _function(script, call)
    if isinstance(definition, ast.FunctionDef):
        for value in returned(definition):
            yield from _in_the_call(value, definition, call)
    elif _is_getattr(call):
        yield ast.copy_location(ast.Attribute(call.args[0], call.args[1].value), call)  # type: ignore[attr-defined]
        yield call.args[2]
    elif isinstance(call.func, ast.Attribute):
        key = call.args[0]
        if isinstance(key, ast.Constant):
            yield from entries(script, call.func.value, str(key.value))
        else:
            yield from _all_entries(script, call.func.value)
        yield from call.args[1:2]


def _in_the_call(
    returned: ast.expr, definition: ast.FunctionDef, call: ast.Call
) -> Iterator[ast.expr]:
    """Yield the value of `returned` in `call`: for a parameter, its argument (`default(precision, "fp16")`)."""
    if isinstance(returned, ast.IfExp):
        yield from _in_the_call(returned.body, definition, call)
        yield from _in_the_call(returned.orelse, definition, call)
    elif isinstance(returned, ast.BoolOp):
        for part in returned.values:
            yield from _in_the_call(part, definition, call)
    elif isinstance(returned, ast.Name):
        yield argument_for(returned.id, definition, call, skip_self=False) or returned
    else:
        yield returned


def _is_getattr(call: ast.Call) -> bool:
    """`getattr(args, "optim", "adamw")`."""
    match call:
        case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str()), _]):
            return True
    return False


def _function(script: ParsedFile, call: ast.Call) -> ast.AST | None:
    return script.value(call.func).definition if isinstance(call.func, ast.Name) else None


def _all_entries(script: ParsedFile, node: ast.expr) -> Iterator[ast.expr]:
    """Every value of a dictionary that is written out: `TABLE[name]` may be each."""
    if isinstance(node, ast.Name):
        for binding in script.bindings(node):
            if binding.how == "assign" and not binding.path and isinstance(binding.value, ast.Dict):
                yield from binding.value.values
    elif isinstance(node, ast.Dict):
        yield from node.values


def entries(script: ParsedFile, node: ast.expr, name: str) -> Iterator[ast.expr]:
    """The entries `name` of a dictionary: of its literal, and those that are set by their own."""
    if isinstance(node, ast.Name):
        for binding in script.bindings(node):
            if binding.how == "assign" and binding.value is not None and not binding.path:
                if not isinstance(binding.value, ast.Name):
                    yield from entries(script, binding.value, name)
        yield from script.cached(_entries_set_later).get((node.id, name), ())
        return
    if isinstance(node, ast.IfExp):
        for branch in (node.body, node.orelse):
            if not isinstance(branch, ast.Name):
                yield from entries(script, branch, name)
    yield from (value for key, value in dict_entries(node) if key == name)


def _entries_set_later(script: ParsedFile) -> dict[tuple[str, str], list[ast.expr]]:
    """(Name of a dictionary, key) -> what `d["key"] = value` and `d.update(key=value)` set."""
    found: dict[tuple[str, str], list[ast.expr]] = {}
    for node in walk(script.tree):
        match node:
            case ast.Assign(
                targets=[
                    ast.Subscript(value=ast.Name(id=owner), slice=ast.Constant(value=str(key)))
                ],
                value=value,
            ):
                found.setdefault((owner, key), []).append(value)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr="update")):
                for key, value in _written_out(node):
                    found.setdefault((owner, key), []).append(value)
    return found


def _written_out(update: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    """The entries of `update({"a": 1}, b=2)`."""
    for argument in update.args:
        yield from dict_entries(argument)
    for keyword_ in update.keywords:
        if keyword_.arg is not None:
            yield keyword_.arg, keyword_.value


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
