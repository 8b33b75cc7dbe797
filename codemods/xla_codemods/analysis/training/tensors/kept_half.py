"""Half precision, and where float16 is meant: a tensor that is rounded through it, or a copy that is only saved.

bfloat16 keeps 8 binary digits where float16 keeps 11: a rounding would be another one, a file would hold other numbers
and another type.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....flow.calls import call_with
from ....flow.closure import reach, without_fault
from ...inference.values import HOST
from ...parsed_file import ParsedFile
from ...scopes import Scope
from ...script import Script
from ...syntax import keyword, name_of

_BACK = frozenset({"float", "double", "type_as", "numpy", "tobytes", "tolist"})
_SAME = frozenset(
    {"clone", "contiguous", "cpu", "cuda", "detach", "items", "to", "values", "view_as"}
)
_COPIES = frozenset({"dict", "list", "tuple", "OrderedDict", "deepcopy", "copy"})
_ASKED_OF_MODELS = frozenset(
    {"buffers", "eval", "modules", "named_parameters", "parameters", "requires_grad_"}
)


def keeps_half(script: Script, node: ast.expr) -> bool:
    """True if what `node`, of float16, gives is only converted back, or saved."""
    return without_fault([node], lambda each: _kept(script, each))


def _kept(script: Script, node: ast.expr) -> list[ast.expr] | None:
    """Return the expressions that have the value of `node` next; None if something is computed with it."""
    parent = script.parent(node)
    match parent:
        case ast.Attribute(attr=name):
            call = script.parent(parent)
            return _of_method(script, node, name, call) if isinstance(call, ast.Call) else None
        case ast.Call() | ast.keyword():
            call = call_with(script, node)
            last = name_of(call.func) if call is not None else ""
            if call is not None and last in _COPIES:
                return [call]
            return [] if last.startswith("save") else None
        case ast.Dict() | ast.DictComp() | ast.ListComp() | ast.List() | ast.Tuple():
            return [] if _is_of_a_state(script, parent) else [parent]
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            uses = script.index.names_in(script.function(parent), name)
            loads = [use for use in uses if isinstance(use.ctx, ast.Load)]
            return [*loads] if loads and len(uses) == len(loads) + 1 else None
        case ast.Assign(targets=[ast.Subscript(value=ast.Name() as owner)]):
            return [] if _is_state(script, owner) else None
        case ast.Expr():
            return _below(script, node) or _of_checkpoint(script, node) or None
    return None


def _of_method(
    script: Script, node: ast.expr, method: str, call: ast.Call
) -> list[ast.expr] | None:
    """The same, where `call` calls `method` of `node`."""
    if method in _BACK or method.startswith("save"):
        return []
    if method == "state_dict":
        user = script.parent(call)
        is_loaded = isinstance(user, ast.Call) and name_of(user.func) == "load_state_dict"
        return None if is_loaded else _below(script, node)  # `model.half()` changes the model
    given = [] if method not in {"to", "type"} else [*call.args, keyword(call, "dtype")]
    if any(_is_other_type(script, each) for each in given if each is not None):
        return []
    return [call] if method in _SAME else None


def _is_other_type(script: Script, node: ast.expr) -> bool:
    """`torch.float32`, `x.dtype`."""
    dotted = script.dotted(node) or ""
    if dotted.startswith("torch."):
        return not is_half(script, node) and not script.is_device(node)
    return isinstance(node, ast.Attribute) and node.attr == "dtype"


def _is_of_a_state(script: Script, made: ast.expr) -> bool:
    """`{k: v.half() for k, v in model.state_dict().items()}`."""
    return isinstance(made, ast.DictComp) and _is_state(script, made.generators[0].iter)


def _is_state(script: Script, node: ast.expr) -> bool:
    """`model.state_dict()`, its `items()`, or a name for one."""

    def owners(node: ast.expr) -> list[ast.expr]:
        match script.only_value(node) or node:
            case ast.Call(func=ast.Attribute(value=owner, attr="items" | "copy")):
                return [owner]
            case ast.Call(args=[copied, *_]) as call if name_of(call.func) in _COPIES:
                return [copied]
        return []

    ends = (script.only_value(end) or end for end in reach([node], owners))
    return any(isinstance(e, ast.Call) and name_of(e.func) == "state_dict" for e in ends)


def _below(script: Script, call: ast.expr) -> list[ast.expr] | None:
    """Return the uses of `model` below `model.half()` in its function; None in a loop, whose next iteration uses it."""
    match call:
        case ast.Call(func=ast.Attribute(value=ast.Name() as owner)):
            if any(isinstance(a, (ast.For, ast.While)) for a in script.ancestors(call)):
                return None
            return [*_names_below(script, call, owner.id)]
    return []


def _names_below(script: Script, node: ast.expr, name: str) -> list[ast.Name]:
    """Return the uses of `name` below `node` in its function."""
    end = node.end_lineno or node.lineno
    return [n for n in script.index.names_in(script.function(node), name) if n.lineno > end]


def _of_checkpoint(script: Script, call: ast.expr) -> list[ast.expr]:
    """Return the uses of `checkpoint` below `checkpoint["model"].half()` that do more than to change an entry."""
    match call:
        case ast.Call(func=ast.Attribute(value=ast.Subscript(value=ast.Name() as owner) as model)):
            below = _names_below(script, model, owner.id)
            return [use for use in below if not _is_changed(script, use)]
    return []


def _is_changed(script: Script, name: ast.Name) -> bool:
    """`checkpoint["epoch"] = -1`, `checkpoint["model"].parameters()`: nothing is computed."""
    entry = script.parent(name)
    if not isinstance(entry, ast.Subscript) or entry.value is not name:
        return False
    if not isinstance(entry.ctx, ast.Load):
        return True
    attribute = script.parent(entry)
    return isinstance(attribute, ast.Attribute) and attribute.attr in _ASKED_OF_MODELS


_HALF = frozenset({"torch.float16", "torch.half"})


def is_half(script: ParsedFile, node: ast.AST | None) -> bool:
    """True if `node` is `torch.float16`."""
    return isinstance(node, ast.expr) and script.dotted(node) in _HALF


def bfloat16_for(script: ParsedFile, node: ast.expr, scope: Scope) -> str | None:
    """Return the name of `node` in bfloat16, if it is float16."""
    return script.spell("torch.bfloat16", scope) if is_half(script, node) else None


def converted_to(script: ParsedFile, call: ast.Call, dtypes: frozenset[str]) -> Iterator[ast.expr]:
    """The arguments of `x.to(...)` or `x.type(...)` that are one of `dtypes`, also by a name that only is one."""
    for node in (*call.args, keyword(call, "dtype")):
        if node is None:
            continue
        source = script.only_value(node) or node
        if script.dotted(source) in dtypes:
            yield source


def may_be_on_the_device(script: ParsedFile, node: ast.expr) -> bool:
    """True if `node` can be a tensor or module that the accelerator computes with."""
    value = script.value(node)
    if value.has(HOST):
        return False
    return not script.is_neither_tensor_nor_module(node)
