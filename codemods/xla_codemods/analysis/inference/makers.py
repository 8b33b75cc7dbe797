"""The library calls that make an object, as dotted names: `wandb.init`, also through names, attributes and parameters."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ...flow.calls import passed
from ...flow.closure import reach
from ..bindings import Binding
from ..script import Script
from .values import ACCELERATOR

_FOLLOWED = (ast.Attribute, ast.Call, ast.IfExp, ast.Name, ast.Subscript)
_TENSORBOARD = "torch.utils.tensorboard"


def library_of(made: set[str]) -> str:
    """The library that all of `made` are names of."""
    roots = {_root(dotted) for dotted in made}
    return roots.pop() if len(roots) == 1 else ""


def _root(dotted: str) -> str:
    return _TENSORBOARD if dotted.startswith(_TENSORBOARD) else dotted.partition(".")[0]


def makers(script: Script, node: ast.expr) -> set[str]:
    """What `node` is, or is made by, by dotted names; an empty one for what is not known. None of them for `None`."""
    start: list[ast.expr | None] = [node]
    reached = reach(start, lambda value: _sources(script, value))
    return {name for value in reached for name in _names(script, value)}


def _names(script: Script, value: ast.expr | None) -> Iterator[str]:
    """Yield the dotted name of `value`, or an empty one if `value` is not known."""
    if value is None:
        yield ""
    elif (dotted := script.dotted(value)) is not None:
        yield dotted
    elif _is_accelerator(script, value):
        yield "accelerate.Accelerator"
    elif isinstance(value, ast.Constant):
        if value.value is not None:
            yield ""
    elif not isinstance(value, _FOLLOWED):
        yield ""


def _sources(script: Script, value: ast.expr | None) -> Sequence[ast.expr | None]:
    """Return what `value` comes from; nothing for a name of a library, None for an unknown."""
    if value is None or script.dotted(value) is not None or _is_accelerator(script, value):
        return ()
    match value:
        case ast.Call(func=source) | ast.Subscript(value=source):
            return (source,)
        case ast.IfExp(body=body, orelse=other):
            return body, other
        case ast.Attribute(attr=name, value=ast.Name(id="self")):
            stores = map(script.parent, script.index.stores(name))
            return [getattr(statement, "value", None) for statement in stores] or (None,)
        case ast.Attribute(value=owner):
            return (owner,)
        case ast.Name():
            bindings = script.bindings(value)
            return [made for binding in bindings for made in _bound(script, binding)] or (None,)
    return ()


def _is_accelerator(script: Script, value: ast.expr) -> bool:
    return isinstance(value, (ast.Name, ast.Attribute)) and script.value(value).has(ACCELERATOR)


def _bound(script: Script, binding: Binding) -> Sequence[ast.expr | None]:
    """Return what `binding` binds; of a parameter what the calls in this file give."""
    if binding.how == "parameter":
        function = script.parents[script.parents[binding.node]]
        is_open = script.is_imported_elsewhere(getattr(function, "name", ""))
        return (None,) if is_open else passed(script, function, getattr(binding.node, "arg", ""))
    return (binding.part if binding.how in {"assign", "with"} else None,)
