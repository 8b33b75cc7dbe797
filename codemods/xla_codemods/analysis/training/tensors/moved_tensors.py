"""Values of unknown type that are moved to the accelerator: `x.to(device)`, followed to their uses."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ....flow.closure import reach
from ...inference.values import ACCEL, DEVICE, TENSOR
from ...projects.passed_arguments import passed_arguments
from ...projects.sources import Place, ValueSources

if TYPE_CHECKING:
    from ...script import Script

_KEEPING = frozenset(
    "bfloat16 bool clone contiguous detach double flatten float half int long reshape requires_grad_ squeeze t transpose "
    "unsqueeze view permute".split()
)


def is_moved(script: Script, node: ast.expr) -> bool:
    """Return True if `node`, or an element of `*node`, may be a tensor that was moved to the accelerator."""
    sources = ValueSources(passed_arguments(script))

    def step(place: Place) -> Iterator[Place]:
        if _is_on_device(place) is None:
            yield from sources.of(place)
            match place.node:
                case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in _KEEPING:
                    yield place._replace(node=owner)

    reached = reach([Place(node, script.index.scope(node), sources.callees.home)], step)
    return any(map(_is_on_device, reached))


def _is_on_device(place: Place) -> bool | None:
    """Return whether a tensor or a move is on the accelerator; None if that is unknown."""
    node, scope, view, path = place
    value = view.indexed.inference.value(node, scope)
    if path:
        return None
    if value.has(TENSOR):
        return value.has(ACCEL)
    match node:
        case ast.Call(func=ast.Attribute(attr="cuda")):
            return True
        case ast.Call(func=ast.Attribute(attr="to"), args=args, keywords=keywords):
            given = (*args, *(k.value for k in keywords))
            values = (view.indexed.inference.value(g, scope) for g in given)
            return any(v.has(DEVICE) and v.has(ACCEL) for v in values)
    return False if value.kinds else None
