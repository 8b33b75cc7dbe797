"""Options passed to a call as `**options`: everything that a dictionary of the file can hold, if that is visible."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from .script import Script

Option = tuple[str, ast.expr]
_READS = frozenset({"get", "keys", "values", "items", "copy"})


def written_options(script: Script, node: ast.expr) -> list[Option] | None:
    """The options in `node`, which stands behind `**`, or None where others may be among them.

    A literal, or a name that is one wherever it is bound, is added to by constant keys, and goes nowhere else.
    """
    own = _written_out(node)
    if own is not None:
        return own
    if not isinstance(node, ast.Name):
        return None
    found = script.index.scope(node).find(node.id)
    if found is None:
        return None
    options: list[Option] = []
    for binding in found[1]:
        written = _written_out(binding.value) if binding.how == "assign" else None
        if written is None or binding.path:
            return None
        options += written
    for use in script.index.reads_of(found[0], node.id):
        added = _added(use, script.parents)
        if added is None:
            return None
        options += added
    return options


def _written_out(node: ast.expr | None) -> list[Option] | None:
    """`{"a": 1}`, `dict(a=1)`."""
    match node:
        case ast.Dict(keys=keys, values=values):
            names = [k.value if isinstance(k, ast.Constant) else None for k in keys]
            pairs = [(n, v) for n, v in zip(names, values) if isinstance(n, str)]
            return pairs if len(pairs) == len(keys) else None
        case ast.Call(func=ast.Name(id="dict"), args=[], keywords=keywords):
            given = [(k.arg, k.value) for k in keywords if k.arg is not None]
            return given if len(given) == len(keywords) else None
        case ast.IfExp(body=body, orelse=orelse):
            branches = _written_out(body), _written_out(orelse)
            return None if None in branches else [o for b in branches for o in b or ()]
    return None


def _added(use: ast.Name, parents: Mapping[ast.AST, ast.AST]) -> list[Option] | None:
    """Return what one use of the dictionary adds to it; None if it may be anything."""
    parent = parents[use]
    above = parents.get(parent)
    match parent, above:
        case ast.keyword(arg=None), _:
            return []
        case ast.Compare(), _:
            return []
        case ast.Subscript(slice=ast.Constant(value=str(key))), _ if parent.value is use:
            if isinstance(parent.ctx, ast.Load):
                return []
            if isinstance(above, ast.Assign) and above.targets == [parent]:
                return [(key, above.value)]
        case ast.Attribute(attr=name), ast.Call(func=func) if func is parent:
            if name in _READS:
                return []
            if name == "update":
                return _updated(above)
            if name == "setdefault" and len(above.args) == 2:
                first, value = above.args
                if isinstance(first, ast.Constant) and isinstance(first.value, str):
                    return [(first.value, value)]
    return None


def _updated(call: ast.Call) -> list[Option] | None:
    """What `update({"a": 1}, b=2)` adds."""
    options: list[Option] = []
    given = [*call.args, *(k.value for k in call.keywords if k.arg is None)]
    for written in map(_written_out, given):
        if written is None:
            return None
        options += written
    return options + [(k.arg, k.value) for k in call.keywords if k.arg is not None]
