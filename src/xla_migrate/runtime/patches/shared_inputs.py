"""``torch.cat`` and similar functions take the right tensors from lists that share tensors.

The fault: torch_xla tells programs apart by their operations and by how many inputs they have, not by
which input goes where (https://github.com/pytorch/xla/issues/8353). A step that uses one tensor twice, in
other places than the step before, is given the earlier program and computes with the wrong inputs,
silently (fact 3.60): ``torch.cat(states)`` and ``torch.cat(next_states)`` of what is drawn from a replay
buffer on the device, whose transitions share their tensors. Here the pattern by which such lists share
tensors is compared with the first list of that form. If the pattern differs, pending operations run first,
so that each program joins one list. Lists of tensors computed in the same step are left alone.

To see it: ``torch.cat([a, b]), torch.cat([b, a])`` after a step with ``torch.cat([a, b]), torch.cat([a, b])``.
It can go when this fails: test_fact_3_60_torch_xla_takes_the_program_of_another_step.

Replicas must all run the same programs: there it is only said. Under SPMD lists are left as they are, because
asking for the buffer of a tensor ends the process there.
"""

from __future__ import annotations

import functools
import importlib
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn.utils import rnn

from ..compiling.scripted import scripted_as
from ._versions import Versions

VERSIONS = Versions("torch_xla", "2.9", "2.10")

_NAMES = "cat concat concatenate column_stack dstack hstack row_stack stack vstack".split()
JOINS: list[tuple[Any, str]] = [*((torch, name) for name in _NAMES), (rnn, "pad_sequence")]
_WATCHED = "_xla_migrate_told_apart"
_LONGEST = 65_536  # tensors joined without a mark: from then on nothing is compared

_Form = tuple[int, torch.Size, torch.dtype]  # of a list: its length, and its first tensor's


def apply() -> None:
    """Watch what joins lists of tensors."""
    watch = _Watch()
    for owner, name in JOINS:
        join = getattr(owner, name)
        if not hasattr(join, _WATCHED):
            setattr(owner, name, scripted_as(join, _watched(join, watch)))


def _watched(join: Callable[..., Any], watch: _Watch) -> Callable[..., Any]:
    @functools.wraps(join)
    def joined(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        if (
            isinstance(tensors, (list, tuple))
            and len(tensors) > 1
            and all(isinstance(t, torch.Tensor) and t.device.type == "xla" for t in tensors)
        ):
            tensors = watch.distinguishable(tensors)
        return join(tensors, *args, **kwargs)

    setattr(joined, _WATCHED, True)
    return joined


class _Watch:
    """Which tensors the lists share that were joined since the device was last given something to run."""

    def __init__(self) -> None:
        self._lib: Any = importlib.import_module("torch_xla")._XLAC
        self._runtime: Any = importlib.import_module("torch_xla.runtime")
        self._first: dict[tuple[tuple[_Form, ...], int], tuple[int, ...]] = {}
        self._forget()

    def _forget(self) -> None:
        self._runs = self._count()
        self._numbers: dict[int, int] = {}  # by the buffer that a tensor has
        self._forms: tuple[_Form, ...] = ()
        self._pattern: tuple[int, ...] = ()

    def _count(self) -> tuple[Any, Any]:
        """Changes with each program that is run."""
        value = self._lib._xla_counter_value
        return value("CachedCompile"), value("UncachedCompile")

    def distinguishable(self, tensors: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        """The same tensors, or equal ones, joined in a way that torch_xla does not take for another."""
        if torch.compiler.is_compiling() or self._runtime.is_spmd():
            return tensors
        if any(self._lib._check_tensor_need_materialization(list(tensors))):
            return tensors
        if self._count() != self._runs:
            self._forget()
        buffers = self._lib._get_tensors_handle(list(tensors))
        form = (len(tensors), tensors[0].shape, tensors[0].dtype)
        if len(self._pattern) > _LONGEST or self._is_known(form, buffers):
            return tensors
        if self._runtime.world_size() > 1:
            warnings.warn(
                "torch_xla may use the wrong tensors here: the same tensors are joined twice in one "
                "step, unlike in the earlier steps: join them on the CPU",
                stacklevel=3,
            )
            return tensors
        self._lib._xla_sync_live_tensors(str(tensors[0].device), [], False)
        self._forget()
        return tensors if self._is_known(form, buffers) else _apart(tensors, buffers)

    def _is_known(self, form: _Form, buffers: Sequence[int]) -> bool:
        """True if the lists since the last run share tensors as the first ones of these forms did."""
        numbers = self._numbers
        self._forms += (form,)
        self._pattern += tuple([numbers.setdefault(buffer, len(numbers)) for buffer in buffers])
        key = (self._forms, len(numbers))
        return self._first.setdefault(key, self._pattern) == self._pattern


def _apart(tensors: Sequence[torch.Tensor], buffers: Sequence[int]) -> Sequence[torch.Tensor]:
    """Tensors of one list that holds some of them twice, picked by their numbers."""
    if len({(t.shape, t.dtype) for t in tensors}) > 1:
        return tensors
    places = {buffer: place for place, buffer in enumerate(dict.fromkeys(buffers))}
    once = [tensors[buffers.index(buffer)] for buffer in places]
    which = torch.tensor([places[buffer] for buffer in buffers], device=tensors[0].device)
    return _stack(once).index_select(0, which).unbind(0)


_stack = torch.stack
