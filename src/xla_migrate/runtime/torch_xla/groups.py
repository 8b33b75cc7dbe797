"""Process groups for XLA tensors and for the host's, under one name of ``torch.distributed``.

Whoever calls ``torch.distributed``, a library too, finds what each replica needs:

- CPU tensors, and so objects, go through gloo. torch_xla's own group refuses them (fact 5.3).
- XLA tensors on an accelerator go through torch_xla's collectives, which are launched at once. Left
  pending they would be launched by whichever replica first reads something, and hang it (1.41).
- If there is one replica, under SPMD too, XLA tensors are passed through.
- In rehearsal (several processes on XLA:CPU) torch_xla has no collectives (3.10) and gloo does
  nothing to XLA tensors, silently (3.9), so these go through gloo on host copies (5.1).
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import (  # type: ignore[attr-defined]
    ProcessGroup,
    _create_work_from_future,
)

from ..replicas.gloo import COLLECTIVES, READS_FIRST, Gloo, divide, is_average
from .marks import mark
from .modules import torch_xla, xm, xr

NAME = "xla_migrate"


@functools.cache
def register() -> None:
    """Make ``NAME`` a backend of ``torch.distributed``. Starts nothing."""
    dist.Backend.register_backend(NAME, _create, devices=["cpu", "xla"])


def _create(store: Any, rank: int, size: int, timeout: timedelta) -> Any:
    if size == 1:
        return AloneGroup(store, rank, size, timeout)
    if rehearses():
        return RehearsalGroup(store, rank, size, timeout)
    return _accelerator_group()(store, rank, size, timeout)


def rehearses() -> bool:
    """True if replicas here are processes on XLA:CPU. Does not initialise the device."""
    return bool(xr.device_type() == "CPU")


class RehearsalGroup(ProcessGroup):
    """Everything through gloo; XLA tensors as host copies."""

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)  # type: ignore[call-arg]
        self.host = Gloo(store, rank, size, timeout)

    def getBackendName(self) -> str:  # noqa: N802 - torch's
        return NAME

    def _set_group_name(self, name: str) -> None:
        self._name = name

    @property
    def group_name(self) -> str:
        return self._name

    def barrier(self, opts: Any = None) -> Any:
        mark()
        self.host.barrier()
        return _done(None)

    def collective(self, name: str, first: Any, *rest: Any) -> Any:
        """One of torch's process group methods."""
        copies = _Copies()
        host_first = copies.filled(first) if name not in READS_FIRST else copies.read(first)
        self.host.call(name, host_first, *(copies.read(argument) for argument in rest))
        if name != "send":
            copies.write_back(first, host_first)
        return _done(first)


class AloneGroup(RehearsalGroup):
    """One replica: what it sends it receives, and its XLA tensors stay on the device."""

    def collective(self, name: str, first: Any, *rest: Any) -> Any:
        if all(tensor.device.type != "xla" for tensor in _tensors([first, *rest])):
            return super().collective(name, first, *rest)
        if name not in READS_FIRST:  # what is filled, and with what
            for target, source in zip(_tensors(first), _tensors(rest[0]), strict=True):
                copy = source.detach().clone()
                if copy.device.type == "xla":
                    xm.optimization_barrier_([copy])  # else both share a buffer (3.12)
                target.copy_(copy.view_as(target))
        return _done(first)


class _Copies:
    """Host copies of the XLA tensors among a collective's arguments."""

    def read(self, argument: Any) -> Any:
        tensors = [t for t in _tensors(argument) if t.device.type == "xla"]
        if not tensors:
            return argument
        return _replaced(argument, dict(zip(map(id, tensors), fetch(tensors), strict=True)))

    def filled(self, argument: Any) -> Any:
        tensors = [t for t in _tensors(argument) if t.device.type == "xla"]
        # Not empty_like: from an XLA tensor that makes a CPU tensor without memory.
        return _replaced(argument, {id(t): torch.empty(t.shape, dtype=t.dtype) for t in tensors})

    def write_back(self, argument: Any, copies: Any) -> None:
        pairs = zip(_tensors(argument), _tensors(copies), strict=True)
        upload([(tensor, copy) for tensor, copy in pairs if tensor is not copy])


def _tensors(argument: Any) -> Iterator[torch.Tensor]:
    if isinstance(argument, torch.Tensor):
        yield argument
    elif isinstance(argument, list | tuple):
        for item in argument:
            yield from _tensors(item)


def _replaced(argument: Any, by_id: dict[int, torch.Tensor]) -> Any:
    if isinstance(argument, torch.Tensor):
        return by_id.get(id(argument), argument)
    if isinstance(argument, list | tuple):
        return [_replaced(item, by_id) for item in argument]
    return argument


def fetch(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Host copies: one launch of all that is pending, one transfer."""
    mark()
    with torch.no_grad():
        copies: list[torch.Tensor] = torch_xla._XLAC._xla_get_cpu_tensors(list(tensors))
    return copies


@torch.no_grad()
def upload(pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Put host values into XLA tensors, in place: one transfer."""
    if not pairs:
        return
    values = [value.contiguous() for _, value in pairs]
    sent = xm.send_cpu_data_to_device(values, pairs[0][0].device)
    for (tensor, _), value in zip(pairs, sent, strict=True):
        tensor.copy_(value)


def on_copies(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """A function of ``torch.distributed`` on host copies, for groups that are not of this kind."""
    copies = _Copies()
    tensors = [t for t in _tensors([*args, *kwargs.values()]) if t.device.type == "xla"]
    if not tensors:
        return function(*args, **kwargs)
    by_id = dict(zip(map(id, tensors), fetch(tensors), strict=True))
    named = {name: _replaced(value, by_id) for name, value in kwargs.items()}
    function(*_replaced(list(args), by_id), **{**named, "async_op": False})
    copies.write_back(tensors, list(by_id.values()))
    return _done(None) if kwargs.get("async_op") else None


def _done(result: Any) -> Any:
    future: Any = torch.futures.Future()
    future.set_result(result if isinstance(result, list) else [result])
    return _create_work_from_future(future)


def _method(name: str, collective: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return collective(self, name, *args, *kwargs.values())

    method.__name__ = name
    return method


for _name in COLLECTIVES:
    setattr(RehearsalGroup, _name, _method(_name, RehearsalGroup.collective))


@functools.cache
def _accelerator_group() -> Any:
    """Torch_xla's group, made when it is needed: its module replaces ``dist.new_group``."""
    base: Any = importlib.import_module("torch_xla.distributed.xla_backend").ProcessGroupXla

    class AcceleratorGroup(base):  # type: ignore[misc]
        """XLA tensors through torch_xla, launched at once; host tensors through gloo."""

        def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
            super().__init__(store, rank, size, timeout)
            self._connection = (store, rank, size, timeout)

        @functools.cached_property
        def host(self) -> Gloo:
            """Connected at first use, which is the same on all replicas."""
            return Gloo(*self._connection)

        def getBackendName(self) -> str:  # noqa: N802 - torch's
            return NAME

        def barrier(self, opts: Any = None) -> Any:
            if self.size() == xr.world_size():
                xm.rendezvous("xla_migrate.barrier")  # torch_xla's group does nothing here
            else:
                mark()
                xm.wait_device_ops()
                self.host.barrier()
            return _done(None)

        def collective(self, name: str, first: Any, *rest: Any) -> Any:
            held = next(_tensors([first, *rest]), None)
            if held is not None and held.device.type == "cpu":
                self.host.call(name, first, *rest)
                return _done(first)
            averages = is_average(rest[-1] if rest else None)
            if averages:
                rest[-1].reduceOp = dist.ReduceOp.SUM
            mark()  # What one replica has computed alone must not be part of everyone's graph.
            getattr(super(), name)(first, *rest)
            if averages:
                divide(first, self.size())
            mark()
            return _done(first)

    for name in COLLECTIVES:
        setattr(AcceleratorGroup, name, _method(name, AcceleratorGroup.collective))
    return AcceleratorGroup
