"""Values of unknown type that are moved to the accelerator: `x.to(device)`, followed to their uses."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....flow.closure import reach
from ...inference.values import ACCEL, DEVICE, TENSOR
from ...projects.passed_arguments import passed_arguments
from ...projects.sources import Place, ValueSources
from ...script import Script

_KEEPING = frozenset(
    "bfloat16 bool clone contiguous detach double flatten float half int long reshape requires_grad_ squeeze t transpose "
    "unsqueeze view permute".split()
)


def is_moved(script: Script, node: ast.expr) -> bool:
    """Return True if `node`, or an element of `*node`, may be a tensor that was moved to the accelerator."""
    return script.cached(_MovedTensors).are_among(node)


class _MovedTensors:
    """The tensors of one script that were moved."""

    def __init__(self, script: Script) -> None:
        self.sources = ValueSources(passed_arguments(script))
        self.home = self.sources.callees.home
        self._others: set[Place] = set()  # places where no moved tensor comes from

    def are_among(self, node: ast.expr) -> bool:
        start = Place(node, self.home)
        reached = reach([start], self._step, lambda place: _is_on_device(place) is True)
        is_found = _is_on_device(next(reversed(reached))) is True
        self._others.update(() if is_found else reached)
        return is_found

    def _step(self, place: Place) -> Iterator[Place]:
        """Yield where the value of `place` comes from, except objects whose methods are unknown."""
        if _is_on_device(place) is not None:
            return
        match place.node:
            case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in _KEEPING:
                places = [place._replace(node=owner)]
            case _:
                places = [p for p in self.sources.of(place) if not _is_of_a_method(p.path)]
        yield from (p for p in places if p not in self._others)


def _is_of_a_method(path: tuple[int | str, ...]) -> bool:
    return any(str(part).endswith("()") for part in path)


def _is_on_device(place: Place) -> bool | None:
    """Return whether a tensor or a move is on the accelerator; None if that is unknown."""
    node, index, path = place
    if path:
        return None
    value = index.value(node)
    if value.has(TENSOR):
        return value.has(ACCEL)
    match node:
        case ast.Call(func=ast.Attribute(attr="cuda")):
            return True
        case ast.Call(func=ast.Attribute(attr="to"), args=args, keywords=keywords):
            given = (*args, *(k.value for k in keywords))
            values = map(index.value, given)
            return any(v.has(DEVICE) and v.has(ACCEL) for v in values)
    return False if value.kinds else None
