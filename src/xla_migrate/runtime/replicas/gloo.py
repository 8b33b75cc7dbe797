"""Gloo between processes, with the collectives that NCCL has and gloo lacks.

Of CPU tensors only: on XLA tensors gloo returns without an error and does nothing (fact 3.9).
The functions have the names and arguments of a process group's methods.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

# Every collective of a process group. Their first argument holds what is sent, or what is filled.
COLLECTIVES = (
    "_allgather_base",
    "_reduce_scatter_base",
    "allgather",
    "allgather_coalesced",
    "allgather_into_tensor_coalesced",
    "allreduce",
    "allreduce_coalesced",
    "alltoall",
    "alltoall_base",
    "broadcast",
    "gather",
    "recv",
    "recv_anysource",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor_coalesced",
    "scatter",
    "send",
)
# Those that read their first argument as well.
READS_FIRST = frozenset({"allreduce", "allreduce_coalesced", "broadcast", "reduce", "send"})


class Gloo:
    """Collectives of CPU tensors; each returns when it is done."""

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        self._group: Any = dist.ProcessGroupGloo(store, rank, size, timeout=timeout)
        self._rank, self._size = rank, size
        self.timeout = timeout

    def call(self, name: str, *args: Any) -> None:
        """One of ``COLLECTIVES``."""
        own = _OWN.get(name)
        if own is not None:
            own(self, *args)
        else:
            self._averaging(name, args)

    def barrier(self) -> None:
        """Wait until every process is here."""
        self._group.barrier().wait()

    def monitored_barrier(self, timeout: timedelta) -> None:
        """Wait until every process is here, at most this long; then a RuntimeError."""
        self._group.monitored_barrier(timeout, True)

    def _averaging(self, name: str, args: tuple[Any, ...]) -> None:
        """Gloo has no ``ReduceOp.AVG``."""
        averages = is_average(args[-1])
        if averages:
            args[-1].reduceOp = dist.ReduceOp.SUM
        self._run(name, *args)
        if averages:
            divide(args[0], self._size)

    def _run(self, name: str, *args: Any) -> None:
        """Call the group and wait, also until its threads have let go of the tensors.

        They hold on to them for a moment longer. Where a thread of gloo's is the last to drop a
        tensor that Python knows, it needs Python's lock, and torch warns ("Deallocating Tensor that
        still has live PyObject references"); and where the main thread meanwhile ends the group
        with that lock in its hands, both wait forever.
        """
        lent: list[torch.Tensor] = []
        work = getattr(self._group, name)(*(_lent(argument, lent) for argument in args))
        if work is not None:
            work.wait()
            del work
        _take_back(lent)

    def _reduce_scatter(self, outputs: Any, input_lists: Any, options: Any) -> None:
        for output, inputs in zip(outputs, input_lists, strict=True):
            whole = torch.stack([part.reshape(output.shape) for part in inputs])
            self.call("allreduce", [whole], _reduction(options))
            output.copy_(whole[self._rank])

    def _reduce_scatter_base(self, output: Any, input: Any, options: Any) -> None:
        self._reduce_scatter([output], [list(input.chunk(self._size))], options)

    def _reduce_scatter_coalesced(self, outputs: Any, inputs: Any, options: Any) -> None:
        for output, input in zip(outputs, inputs, strict=True):
            self._reduce_scatter_base(output, input, options)

    def _all_gather_base(self, output: Any, input: Any, options: Any = None) -> None:
        parts = [torch.empty_like(input) for _ in range(self._size)]
        self._run("allgather", [parts], [input.contiguous()])
        output.copy_(torch.stack(parts).view_as(output))

    def _all_gather_coalesced(self, outputs: Any, inputs: Any, options: Any = None) -> None:
        for output, input in zip(outputs, inputs, strict=True):
            self._all_gather_base(output, input)

    def _all_to_all(self, outputs: Any, inputs: Any, options: Any = None) -> None:
        sent = torch.cat([part.flatten() for part in inputs])
        received = sent.new_empty(sum(part.numel() for part in outputs))
        sizes = [[part.numel() for part in parts] for parts in (outputs, inputs)]
        self._run("alltoall_base", received, sent, *sizes)
        for output, part in zip(outputs, received.split(sizes[0]), strict=True):  # type: ignore[no-untyped-call]
            output.copy_(part.view_as(output))


_OWN: dict[str, Callable[..., None]] = {
    "reduce_scatter": Gloo._reduce_scatter,
    "_reduce_scatter_base": Gloo._reduce_scatter_base,
    "reduce_scatter_tensor_coalesced": Gloo._reduce_scatter_coalesced,
    "_allgather_base": Gloo._all_gather_base,
    "allgather_into_tensor_coalesced": Gloo._all_gather_coalesced,
    "alltoall": Gloo._all_to_all,
}


_LENT_FOR = 5.0  # Seconds; what is not back by then is given up, and never dropped.
_given_up: list[torch.Tensor] = []


def _lent(argument: Any, lent: list[torch.Tensor]) -> Any:
    """Return other tensors on the same memory, which only this module and gloo use; noted in ``lent``."""
    if isinstance(argument, torch.Tensor):
        lent.append(argument.detach())
        return lent[-1]
    if isinstance(argument, list | tuple):
        return [_lent(item, lent) for item in argument]
    return argument


def _take_back(lent: list[torch.Tensor]) -> None:
    """Wait until gloo has dropped them."""
    for _ in _until(time.monotonic() + _LENT_FOR):
        if all(tensor._use_count() == 1 for tensor in lent):  # type: ignore[attr-defined]
            return
    _given_up.extend(lent)


def _until(end: float) -> Iterator[None]:
    while time.monotonic() < end:
        yield
        time.sleep(0)  # Lets gloo's threads have Python's lock.


def is_average(options: Any) -> bool:
    """Return True if a collective's options request ``ReduceOp.AVG``."""
    return getattr(options, "reduceOp", None) == dist.ReduceOp.AVG


def divide(tensors: Any, by: int) -> None:
    """In place, in whatever holds them."""
    if isinstance(tensors, torch.Tensor):
        tensors.div_(by)
    else:
        for tensor in tensors:
            divide(tensor, by)


def _reduction(options: Any) -> Any:
    reduction = dist.AllreduceOptions()
    reduction.reduceOp = options.reduceOp
    return reduction
