"""The last batch of an epoch may be smaller: `drop_last=True` for the loader that trains."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..scopes import Scope
from ..syntax import argument_for, keyword
from .training import STEP, Loop

if TYPE_CHECKING:
    from ..script import Script

_LOADERS = frozenset({"torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader"})


def uneven_loaders(script: Script) -> Iterator[ast.Call]:
    """`DataLoader(...)` calls that feed a loop that trains, and nothing else, and keep a smaller last batch."""
    if not script.source.mentions("dataloader"):
        return
    training = [loop for loop in script.training.loops if STEP in loop.effects]
    others = [loop for loop in script.training.loops if STEP not in loop.effects]
    kept = {call for loop in others for call in _calls(script, loop)}
    seen: set[ast.Call] = set()
    for loop in training:
        for call in _calls(script, loop):
            if call not in kept and call not in seen and _keeps_last(call):
                seen.add(call)
                yield call


def _calls(script: Script, loop: Loop) -> Iterator[ast.Call]:
    for driver in loop.drivers:
        yield from _made(script, driver.node, driver.scope, 0)


def _made(script: Script, node: ast.expr, scope: Scope, depth: int) -> Iterator[ast.Call]:
    """The loader calls that `node` may stand for."""
    match node:
        case ast.Call(func=func, args=args):
            if script.dotted(func, scope) in _LOADERS:
                yield node
            elif args and (script.dotted(func, scope) or "").endswith("MpDeviceLoader"):
                yield from _made(script, args[0], scope, depth)
        case ast.Name(id=name) if depth < 4:
            found = scope.find(name)
            for binding in found[1] if found else ():
                if binding.how == "assign" and not binding.path and binding.value is not None:
                    assert found is not None
                    yield from _made(script, binding.value, found[0], depth + 1)
                elif binding.how == "for" and isinstance(binding.value, (ast.Tuple, ast.List)):
                    assert found is not None
                    for one in _parts(binding.value, binding.path[1:]):
                        yield from _made(script, one, found[0], depth + 1)
                elif binding.how == "parameter" and isinstance(binding.node, ast.arg):
                    yield from _given(script, binding.node, depth + 1)


def _parts(several: ast.Tuple | ast.List, path: tuple[int, ...]) -> Iterator[ast.expr]:
    """What `path` takes of the elements: `loader` of `for name, loader in (("a", x), ("b", y))`."""
    for element in several.elts:
        if not path:
            yield element
        elif isinstance(element, (ast.Tuple, ast.List)) and -1 < path[0] < len(element.elts):
            yield element.elts[path[0]]


def _given(script: Script, parameter: ast.arg, depth: int) -> Iterator[ast.Call]:
    function = script.function(parameter)
    if function is None:
        return
    for call, scope in script.index.calls_of(function.name):
        given = argument_for(parameter.arg, function, call, skip_self=False)
        if given is not None and script.value(call.func, scope).definition is function:
            yield from _made(script, given, scope, depth)


def _keeps_last(call: ast.Call) -> bool:
    given = {k.arg for k in call.keywords}
    if (
        None in given
        or given & {"drop_last", "batch_sampler"}
        or any(isinstance(a, ast.Starred) for a in call.args)
    ):
        return False
    size = keyword(call, "batch_size") or (call.args[1] if len(call.args) > 1 else None)
    return size is not None and not (isinstance(size, ast.Constant) and size.value in {1, None})
