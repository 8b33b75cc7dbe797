"""The lines that write to tensors without an optimizer: averages, and the counts of batch norms.

In a separate run (`Plan.explain`), since every torch function is watched. An attribute marks a watched tensor or
a view of one; its version shows that it was written to. If a dict's average is
replaced, the code that made the new one counts as the writer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ..process import clock, records, where

Named = list[tuple[str, torch.Tensor]]

_NAME = "_xla_migrate_state"
_STACK = "_xla_migrate_written"

wanted = False
_counts: Counter[tuple[str, tuple[str, ...]]] = Counter()
_groups: list[Callable[[], Named]] = []
_shapes: set[torch.Size] = set()


def watch(group: Callable[[], Named]) -> None:
    """Look out for writes to these tensors, and for others in their place."""
    if not _groups:
        _Writes().__enter__()  # type: ignore[no-untyped-call]
    _groups.append(group)
    for name, tensor in group():
        setattr(tensor, _NAME, name)
        _shapes.add(tensor.shape)


def step() -> None:
    """Before a step: what is new in a dict or list has been written."""
    for group in _groups:
        for name, tensor in group():
            if not hasattr(tensor, _NAME):
                _counts[name, getattr(tensor, _STACK, ())] += 1
                setattr(tensor, _NAME, name)


def end() -> None:
    """Record what was written where."""
    if _groups:
        step()
        found = [[name, list(stack), times] for (name, stack), times in _counts.items()]
        records.write("writes", writes=found)


class _Writes(TorchFunctionMode):
    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if clock.inside():
            return func(*args, **kwargs)
        known = [(t, getattr(t, _NAME)) for t in _tensors(args) if hasattr(t, _NAME)]
        before = [t._version for t, _ in known]
        out = func(*args, **kwargs)
        for (tensor, name), version in zip(known, before, strict=True):
            if tensor._version != version:
                _counts[name, where.stack()] += 1
        if isinstance(out, torch.Tensor) and not hasattr(out, _NAME) and out.shape in _shapes:
            if known and _is_another_look(func):
                setattr(out, _NAME, known[0][1])
            else:
                setattr(out, _STACK, where.stack())
        return out


def _tensors(args: tuple[Any, ...]) -> list[torch.Tensor]:
    flat = [x for a in args for x in (a if isinstance(a, (list, tuple)) else (a,))]
    return [x for x in flat if isinstance(x, torch.Tensor)]


def _is_another_look(func: Any) -> bool:
    return getattr(func, "__name__", "") in ("detach", "__get__", "view", "view_as")
