"""Half precision, and where float16 is meant: a tensor that is rounded through it, or a copy that is only saved.

bfloat16 keeps 8 binary digits where float16 keeps 11: a rounding would be another one, a file would hold other numbers
and another type.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...inference.values import HOST
from ...syntax import keyword, name_of

if TYPE_CHECKING:
    from ...parsed_file import ParsedFile
    from ...scopes import Scope
    from ...script import Script

_BACK = frozenset({"float", "double", "type_as", "numpy", "tobytes", "tolist"})
_SAME = frozenset(
    {"clone", "contiguous", "cpu", "cuda", "detach", "items", "to", "values", "view_as"}
)
_COPIES = frozenset({"dict", "list", "tuple", "OrderedDict", "deepcopy", "copy"})
_ASKED_OF_MODELS = frozenset(
    {"buffers", "eval", "modules", "named_parameters", "parameters", "requires_grad_"}
)
_NAMES = 3  # one after the other


def keeps_half(script: Script, node: ast.expr, names: int = _NAMES) -> bool:
    """True if what `node`, of float16, gives is only converted back, or saved."""
    parent = script.parent(node)
    match parent:
        case ast.Attribute():
            call = script.parent(parent)
            kept = isinstance(call, ast.Call) and _is_kept_by(script, parent.attr, call, names)
            # `model.half().state_dict()` changes the model itself.
            return kept and (parent.attr != "state_dict" or not _goes_on(script, node, names))
        case ast.keyword():
            call = script.parent(parent)
            return isinstance(call, ast.Call) and _is_handed_to(script, call, names)
        case ast.Call():
            return _is_handed_to(script, parent, names)
        case ast.Dict() | ast.DictComp() | ast.ListComp() | ast.List() | ast.Tuple():
            return keeps_half(script, parent, names) or _is_of_a_state(script, parent)
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return names > 0 and _all_keep(script, parent, name, names - 1)
        case ast.Assign(targets=[ast.Subscript(value=ast.Name() as owner)]):
            return _is_state(script, owner)
        case ast.Expr():
            return _is_saved_below(script, node, names) or _is_of_a_saved_checkpoint(
                script, node, names
            )
    return False


def _is_kept_by(script: Script, method: str, call: ast.Call, names: int) -> bool:
    if method in _BACK or method.startswith("save"):
        return True
    if method == "state_dict":
        user = script.parent(call)
        return not (isinstance(user, ast.Call) and name_of(user.func) == "load_state_dict")
    if method in {"to", "type"}:
        for given in (*call.args, keyword(call, "dtype")):
            if given is not None and _is_other_type(script, given):
                return True
    return method in _SAME and keeps_half(script, call, names)


def _is_other_type(script: Script, node: ast.expr) -> bool:
    """`torch.float32`, `x.dtype`."""
    dotted = script.dotted(node) or ""
    if dotted.startswith("torch."):
        return not is_half(script, node) and not script.is_device(node)
    return isinstance(node, ast.Attribute) and node.attr == "dtype"


def _is_handed_to(script: Script, call: ast.Call, names: int) -> bool:
    last = name_of(call.func)
    return last.startswith("save") or (last in _COPIES and keeps_half(script, call, names))


def _is_of_a_state(script: Script, made: ast.expr) -> bool:
    """`{k: v.half() for k, v in model.state_dict().items()}`."""
    return isinstance(made, ast.DictComp) and _is_state(script, made.generators[0].iter)


def _is_state(script: Script, node: ast.expr) -> bool:
    """`model.state_dict()`, its `items()`, or a name for one."""
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr in {"items", "copy"}:
            return _is_state(script, node.func.value)
        if name_of(node.func) in _COPIES and node.args:
            return _is_state(script, node.args[0])
        return name_of(node.func) == "state_dict"
    given = script.only_value(node)
    return isinstance(given, ast.Call) and _is_state(script, given)


def _all_keep(script: Script, bound: ast.AST, name: str, names: int) -> bool:
    """True if `name`, which `bound` binds and nothing else, is used, and each use keeps float16."""
    function = script.function(bound)
    found = script.index.names_in(function, name)
    loads = [node for node in found if isinstance(node.ctx, ast.Load)]
    if not loads or len(found) - len(loads) != 1:
        return False
    return all(keeps_half(script, node, names) for node in loads)


def _is_saved_below(script: Script, call: ast.expr, names: int) -> bool:
    """`model.half()`, where below it the model is only saved, and no loop begins again."""
    return bool(_uses_below(script, call)) and not _goes_on(script, call, names)


def _goes_on(script: Script, call: ast.expr, names: int) -> bool:
    """True if the model of `model.half()` is more than saved afterwards, below or in a loop's next turn."""
    match call:
        case ast.Call(func=ast.Attribute(value=ast.Name())):
            if any(isinstance(a, (ast.For, ast.While)) for a in script.ancestors(call)):
                return True
            below = _uses_below(script, call)
            return not all(names > 0 and keeps_half(script, node, names - 1) for node in below)
    return False


def _uses_below(script: Script, call: ast.expr) -> list[ast.Name]:
    """The uses of `model` in the lines below `model.half()`, in the same function."""
    match call:
        case ast.Call(func=ast.Attribute(value=ast.Name() as owner)):
            function = script.function(call)
            end = call.end_lineno or call.lineno
            return [node for node in script.index.names_in(function, owner.id) if node.lineno > end]
    return []


def _is_of_a_saved_checkpoint(script: Script, call: ast.expr, names: int) -> bool:
    """`checkpoint["model"].half()`, where below it the checkpoint is saved, and its model not run."""
    match call:
        case ast.Call(func=ast.Attribute(value=ast.Subscript(value=ast.Name() as owner) as model)):
            function = script.function(call)
            below = [
                node
                for node in script.index.names_in(function, owner.id)
                if node.lineno > model.lineno
            ]
            saved = [n for n in below if names > 0 and keeps_half(script, n, names - 1)]
            return bool(saved) and all(n in saved or _is_changed(script, n) for n in below)
    return False


def _is_changed(script: Script, name: ast.Name) -> bool:
    """`checkpoint["epoch"] = -1`, `checkpoint["model"].parameters()`: nothing is computed."""
    entry = script.parent(name)
    if not isinstance(entry, ast.Subscript) or entry.value is not name:
        return False
    if not isinstance(entry.ctx, ast.Load):
        return True
    asked = script.parent(entry)
    return isinstance(asked, ast.Attribute) and asked.attr in _ASKED_OF_MODELS


_HALF = frozenset({"torch.float16", "torch.half"})


def is_half(script: ParsedFile, node: ast.AST | None, scope: Scope | None = None) -> bool:
    """True if `node` is `torch.float16`."""
    return isinstance(node, ast.expr) and script.dotted(node, scope) in _HALF


def bfloat16_for(script: ParsedFile, node: ast.expr, scope: Scope) -> str | None:
    """Return the name of `node` in bfloat16, if it is float16."""
    return script.spell("torch.bfloat16", scope) if is_half(script, node, scope) else None


def converted_to(
    script: ParsedFile, call: ast.Call, scope: Scope, dtypes: frozenset[str]
) -> Iterator[ast.expr]:
    """The arguments of `x.to(...)` or `x.type(...)` that are one of `dtypes`, also by a name that only is one."""
    for node in (*call.args, keyword(call, "dtype")):
        if node is None:
            continue
        source = script.only_value(node) or node
        if script.dotted(source) in dtypes:
            yield source


def may_be_on_the_device(script: ParsedFile, node: ast.expr, scope: Scope) -> bool:
    """True if `node` can be a tensor or module that the accelerator computes with."""
    value = script.value(node, scope)
    if value.has(HOST):
        return False
    return not script.is_neither_tensor_nor_module(node, scope)
