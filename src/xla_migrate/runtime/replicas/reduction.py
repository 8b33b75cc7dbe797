"""When DistributedDataParallel averages gradients: at the end of a backward pass, as torch's does.

Torch's averages once all parameters have their gradients, or, where some may go unused, once those
that are used have them. A forward with gradients, outside ``no_sync``, makes it expect that; until
then gradients add up locally.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
import torch.distributed as dist

from .. import _gradients


class Reduction:
    """The averaging of one module's gradients.

    Args:
        named: Its parameters and their names.
        finds_unused: Average though some have no gradient.
        group: The process group, or None for all replicas.
        size: How many replicas there are in it.
    """

    def __init__(
        self, named: list[tuple[str, torch.Tensor]], finds_unused: bool, group: Any, size: int
    ) -> None:
        self.names = [name for name, _ in named]
        self.parameters = [parameter for _, parameter in named]
        self.finds_unused = finds_unused
        self._group = group
        self._size = size
        self._expected = False
        self._called = False
        self._ready: set[int] = set()
        self._used: set[int] = set()  # since gradients were last averaged, under no_sync too

    def attach(self) -> None:
        """Be told of every gradient."""
        # The parameters' hooks must not keep the module alive.
        own = weakref.ref(self)
        for index, parameter in enumerate(self.parameters):
            parameter.register_post_accumulate_grad_hook(_Told(own, index))  # type: ignore[no-untyped-call]

    def check_same_everywhere(self) -> None:
        """Raise if another replica holds other parameters: they could not be averaged."""
        mine = [(n, tuple(p.shape), str(p.dtype)) for n, p in self._named()]
        everyones: list[Any] = [None] * self._size
        dist.all_gather_object(everyones, mine, group=self._group)
        for rank, theirs in enumerate(everyones):
            if theirs != mine:
                other = next((pair for pair in zip(mine, theirs) if pair[0] != pair[1]), None)
                what = f"{other[0]} and {other[1]}" if other else f"{len(mine)} and {len(theirs)}"
                raise RuntimeError(
                    f"replicas hold different parameters: here and on rank {rank}: {what}"
                )

    def _named(self) -> list[tuple[str, torch.Tensor]]:
        return list(zip(self.names, self.parameters, strict=True))

    def expect(self) -> None:
        """A forward has run whose gradients must be averaged."""
        self._expected = True
        self._ready.clear()

    def keep_local(self) -> None:
        """A forward has run whose gradients are not to be averaged."""
        self._ready.clear()

    def add(self, index: int) -> None:
        """A parameter has its gradient."""
        self._used.add(index)
        if not self._expected:
            # Another backward through the same forward, into parameters that had none so far.
            if not (self.finds_unused and self._ready and index not in self._ready):
                return
            self._expected = True
        self._ready.add(index)
        if not self._called:
            self._called = True
            engine: Any = torch.autograd.Variable._execution_engine
            engine.queue_callback(self._finish)

    def _finish(self) -> None:
        """The backward pass is over."""
        self._called = False
        if not self._expected:
            return
        if self.finds_unused:
            self._expected = False
            used = torch.zeros(len(self.parameters), dtype=torch.int32)
            used[list(self._used)] = 1
            self._used.clear()
            dist.all_reduce(used, op=dist.ReduceOp.MAX, group=self._group)
            _gradients.average(
                [p for p, is_used in zip(self.parameters, used.tolist(), strict=True) if is_used],
                self._size,
                self._group,
            )
        elif len(self._ready) == len(self.parameters):
            self._expected = False
            _gradients.average(self.parameters, self._size, self._group)

    def check_complete(self) -> None:
        """Raise if a backward left some parameters out, so that nothing has been averaged."""
        if not (self._expected and self._ready):
            return
        left = [name for i, name in enumerate(self.names) if i not in self._ready]
        raise RuntimeError(
            f"gradients are not averaged: {len(left)} parameters took no part in the loss "
            f"({', '.join(left[:3])}{', ...' if len(left) > 3 else ''}). "
            "Pass find_unused_parameters=True to DistributedDataParallel"
        )


class _Told:
    """A parameter's hook."""

    def __init__(self, reduction: weakref.ref[Reduction], index: int) -> None:
        self._reduction, self._index = reduction, index

    def __call__(self, parameter: torch.Tensor) -> None:
        reduction = self._reduction()
        if reduction is not None:
            reduction.add(self._index)
