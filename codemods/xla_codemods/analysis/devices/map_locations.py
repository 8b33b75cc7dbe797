"""The usual forms of `map_location`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...edits import Edit, Replace
from ..nodes import walk
from ..script import Script
from ..syntax import is_literal
from .availability import asks_availability, whole_choice
from .specs import leaves


def located(script: Script, node: ast.expr) -> Iterator[Edit]:
    """Yield edits that turn a `map_location` that names CUDA devices into the accelerator, or into "cpu" if it means
    that. `xla.load` handles the rest: variables, devices, user-defined functions.
    """
    whole = whole_choice(script, node)
    if whole is not None:
        yield Replace(node, *script.devices.device(whole))
        return
    for leaf in leaves(node):
        target = leaf.values[0] if _is_one_entry(leaf) else leaf  # type: ignore[attr-defined]
        if target is not leaf and _is_from_cuda(script, leaf) and script.devices.is_device(target):
            yield Replace(leaf, "{0}", (target,))
            continue
        found = _place(script, target)
        if found is not None and (found != ('"cpu"', ()) or target is not leaf or _is_lambda(leaf)):
            yield Replace(leaf, *found)


def names_cuda(script: Script, node: ast.expr) -> bool:
    """True if a CUDA device is written out in `node`."""
    return any(isinstance(n, ast.expr) and script.devices.spec(n) for n in walk(node))


def _place(script: Script, node: ast.expr) -> tuple[str, tuple[ast.expr, ...]] | None:
    """Text and holes of the device that `node` stands for."""
    if is_literal(node, "cpu"):
        return '"cpu"', ()
    spec = script.devices.spec(node)
    if spec is not None:
        return script.devices.device(spec)
    if isinstance(node, ast.Lambda):
        return _of_a_lambda(script, node)
    return None


def _is_lambda(node: ast.expr) -> bool:
    return isinstance(node, ast.Lambda)


def _is_one_entry(node: ast.expr) -> bool:
    """`{"cuda:0": "cuda:1"}`: from the device it was saved on to this one."""
    return isinstance(node, ast.Dict) and len(node.values) == 1 and node.keys[0] is not None


def _is_from_cuda(script: Script, node: ast.expr) -> bool:
    return isinstance(node, ast.Dict) and any(script.devices.spec(k) for k in node.keys if k)


def _of_a_lambda(script: Script, node: ast.Lambda) -> tuple[str, tuple[ast.expr, ...]] | None:
    """`lambda storage, location: storage` keeps it on the CPU; `storage.cuda(1)` moves it."""
    first = node.args.args[0].arg if node.args.args else ""
    return _of_storage(script, node.body, first)


def _of_storage(
    script: Script, body: ast.expr, first: str
) -> tuple[str, tuple[ast.expr, ...]] | None:
    match body:
        case ast.Name(id=name) if name == first:
            return '"cpu"', ()
        case ast.Constant(value="cpu"):
            return '"cpu"', ()
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="cpu")) if name == first:
            return '"cpu"', ()
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="cuda"), args=args) if (
            name == first
        ):
            text, holes = script.devices.given(args[0] if args else None)
            return f"{script.xla}.xla_device({text})", holes
        case ast.IfExp(test=test, body=there, orelse=otherwise):
            return _of_choice(script, test, there, otherwise, first)
    return None


def _of_choice(
    script: Script, test: ast.expr, there: ast.expr, otherwise: ast.expr, first: str
) -> tuple[str, tuple[ast.expr, ...]] | None:
    """`storage.cuda() if torch.cuda.is_available() else storage`."""
    one, other = _of_storage(script, there, first), _of_storage(script, otherwise, first)
    if one is None or other is None:
        return None
    if asks_availability(script, test) and other == ('"cpu"', ()):
        return one
    if any(isinstance(n, ast.Name) and n.id == first for n in walk(test)):
        return None
    (text, holes), (rest, more) = one, other
    if more or len(holes) > 1:
        return None
    return f"{text} if {{{len(holes)}}} else {rest}", (*holes, test)
