"""Values assigned to attributes of options and entries of dicts: `args.device = rank`, `config["device"] = 0`, `dict(device=0)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from ..scopes import Scope
from ..syntax import dict_entries, keyword, name_of, unparsed

if TYPE_CHECKING:
    from ..index import Index
    from ..parsed_file import ParsedFile
    from .callees import View

Given = tuple[ast.expr, Scope]  # an assigned value, and the scope of its expression


def assigned_to(node: ast.Attribute | ast.Subscript, view: View) -> Iterator[Given]:
    """What an owner of the same name is given for the same attribute or entry, in the module of `view`."""
    wanted = _place(node)
    if wanted is None:
        return
    yield from _assignments(view).get(wanted, ())
    if isinstance(node, ast.Attribute):
        yield from _options(node.attr, view)


_known: WeakKeyDictionary[Index, dict[tuple[str, str], list[Given]]] = WeakKeyDictionary()


def _assignments(view: View) -> dict[tuple[str, str], list[Given]]:
    """Owner and name -> what the module assigns there."""
    found = _known.get(view.indexed)
    if found is None:
        found = _known[view.indexed] = {}
        for assign, scope in view.indexed.of(ast.Assign):
            for target in assign.targets:
                if isinstance(target, (ast.Attribute, ast.Subscript)):
                    place = _place(target)
                    if place is not None:
                        found.setdefault(place, []).append((assign.value, scope))
    return found


def _place(node: ast.Attribute | ast.Subscript) -> tuple[str, str] | None:
    """`self.args.device` and `args.device` are one."""
    owner = unparsed(node.value).rpartition(".")[2]
    if isinstance(node, ast.Attribute):
        return owner, node.attr
    if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
        return owner, node.slice.value
    return None


def _options(name: str, view: View) -> Iterator[Given]:
    """The default of an option of the command line that is a number: `add_argument("--device", type=int, default=0)`."""
    for call, scope in view.indexed.calls_of("add_argument"):
        texts = [a.value for a in call.args if isinstance(a, ast.Constant)]
        kind, default = keyword(call, "type"), keyword(call, "default")
        if f"--{name.replace('_', '-')}" in texts or f"--{name}" in texts:
            if isinstance(kind, ast.Name) and kind.id == "int":
                yield ast.copy_location(ast.Constant(0), call), scope
            elif default is not None:
                yield default, scope


def is_default_of_an_option(script: ParsedFile, node: ast.expr) -> bool:
    """True if `node` is, or may be, the default of an option that is a text: `add_argument("--device", default=node)`."""
    around = script.parent(node)
    while isinstance(around, (ast.IfExp, ast.BoolOp)):
        around = script.parent(around)
    call = script.parent(around) if isinstance(around, ast.keyword) else None
    if not isinstance(call, ast.Call) or getattr(around, "arg", "") != "default":
        return False
    name = name_of(call.func)
    kind = keyword(call, "type")
    return name in {"add_argument", "option"} and (
        kind is None or (isinstance(kind, ast.Name) and kind.id == "str")
    )


def entries(node: ast.Attribute | ast.Subscript, scope: Scope, view: View) -> Iterator[Given]:
    """What a dict, or a namespace that is made of named values, has for the entry or attribute `node`."""
    place = _place(node)
    found = scope.find(node.value.id) if isinstance(node.value, ast.Name) else None
    made: list[Given] = []
    if isinstance(node.value, (ast.Dict, ast.Call)):
        made = [(node.value, scope)]
    elif found is not None:
        made = [
            (b.value, found[0]) for b in found[1] if b.how == "assign" and b.value and not b.path
        ]
    if place is None:
        return
    for value, home in made:
        for entry in _of_display(value, place[1]):
            yield entry, home
        if isinstance(node, ast.Attribute) and isinstance(value, ast.Call):
            default = _field(value, place[1], view)
            if default is not None:
                yield default, view.indexed.module
    if isinstance(node.value, ast.Name) and isinstance(node, ast.Subscript):
        yield from assigned_to(node, view)


def _of_display(value: ast.expr, name: str) -> Iterator[ast.expr]:
    yield from (entry for key, entry in dict_entries(value) if key == name)
    if isinstance(value, ast.Call) and ast.unparse(value.func) != "dict":
        yield from (k.value for k in value.keywords if k.arg == name)


def _field(made: ast.Call, name: str, view: View) -> ast.expr | None:
    """The default of a field of the class that `made` makes one of: `device: int = 0`."""
    if not isinstance(made.func, ast.Name) or keyword(made, name) is not None:
        return None
    for node, _ in view.indexed.of(ast.ClassDef):
        if node.name == made.func.id:
            for statement in node.body:
                match statement:
                    case ast.AnnAssign(target=ast.Name(id=field), value=value) if field == name:
                        return value
    return None


def default_of(call: ast.Call) -> ast.expr | None:
    """What `getattr(args, "gpu", 0)` and `config.get("device", 0)` fall back to."""
    match call:
        case ast.Call(func=ast.Name(id="getattr"), args=[_, _, default]):
            return default
        case ast.Call(func=ast.Attribute(attr="get" | "pop"), args=[ast.Constant(), default]):
            return default
    return None
