"""What scripts that were written for torch_xla by hand call, on every backend: `xla-migrate --from torch_xla` puts these
names in the place of torch_xla's own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, overload

import torch
import torch.distributed as dist
from torch import nn

from .._backend import backend, uses_torch_xla
from ..loading.batches import move
from ..processes import is_master, local_rank, world_size
from ..replicas import collectives
from ..replicas.object_collectives import all_gather_object
from ..step import mark_step

_OPS: dict[str, Any] = {
    "sum": dist.ReduceOp.SUM,
    "mul": dist.ReduceOp.PRODUCT,
    "min": dist.ReduceOp.MIN,
    "max": dist.ReduceOp.MAX,
    "and": dist.ReduceOp.BAND,
    "or": dist.ReduceOp.BOR,
}


@contextlib.contextmanager
def marked_step(
    full_graph: bool = False, name: str | None = None, max_different_graphs: int | None = None
) -> Iterator[None]:
    """A context that is one graph: ``torch_xla.step()``, ``torch_xla.compile()``. Marks the step where it begins and where it
    ends. It is a decorator, too: ``xla.marked_step()(function)``.

    Args:
        full_graph: An error on torch_xla, if something reads a value in between.
        name: Of the graph, in torch_xla's logs.
        max_different_graphs: An error on torch_xla, if there come to be more graphs than these.

    Returns:
        A context manager.

    Example:
        >>> with xla.marked_step():
        ...     loss = model(x).sum()
    """
    mark_step()
    try:
        with _limited(full_graph, name, max_different_graphs):
            yield
    finally:
        mark_step()


def _limited(
    full_graph: bool, name: str | None, max_different_graphs: int | None
) -> contextlib.AbstractContextManager[Any]:
    """Return torch_xla's context if it does more than mark steps or must leave eager mode."""
    if not uses_torch_xla():
        return contextlib.nullcontext()
    from ..torch_xla.modules import torch_xla

    asked = full_graph or name is not None or max_different_graphs is not None
    if not asked and not torch_xla._XLAC._get_use_eager_mode():
        return contextlib.nullcontext()
    found: contextlib.AbstractContextManager[Any] = torch_xla.compile(
        full_graph=full_graph, name=name, max_different_graphs=max_different_graphs
    )
    return found


def add_step_closure(
    closure: Callable[..., Any], args: tuple[Any, ...] = (), run_async: bool = False
) -> None:
    """``closure(*args)`` at the next step mark: ``xm.add_step_closure``. On eager backends at once.

    Args:
        closure: What to call.
        args: Its arguments; tensors among them are computed by then, and reading them launches nothing.
        run_async: In another thread, so that the training goes on.

    Example:
        >>> xla.add_step_closure(lambda loss: print(loss.ndim), (model(x).sum(),))
        >>> xla.mark_step()
        0
    """
    if not uses_torch_xla():
        closure(*args)
        return
    from ..torch_xla.modules import xm

    xm.add_step_closure(closure, args=args, run_async=run_async)


def master_print(*values: Any, local: bool = False, fd: Any = None, flush: bool = False) -> None:
    """``print`` on the first replica alone: ``xm.master_print``.

    Args:
        values: As for ``print``.
        local: On the first replica of each host.
        fd: The file; standard output by default.
        flush: As for ``print``.

    Example:
        >>> xla.master_print("epoch", 1)
        epoch 1
    """
    if local_rank() == 0 if local else is_master():
        print(*values, file=fd, flush=flush)


def mesh_reduce(tag: str, data: Any, reduce_fn: Callable[[list[Any]], Any]) -> Any:
    """Return ``reduce_fn`` of all replicas' ``data``, on the host: ``xm.mesh_reduce``.

    Args:
        tag: Accepted as torch_xla accepts it.
        data: Anything that can be pickled. Tensors in it come as CPU tensors.
        reduce_fn: Given the list of all replicas' data, in the order of their ranks.

    Returns:
        What ``reduce_fn`` returned, the same on every replica.

    Example:
        >>> xla.mesh_reduce("accuracy", 0.5, lambda parts: sum(parts) / len(parts))
        0.5
    """
    mark_step()
    here = move(data, torch.device("cpu"), lambda tensor: tensor.cpu())
    everyones = [here] * world_size()
    if len(everyones) > 1:
        all_gather_object(everyones, here)
    return reduce_fn(everyones)


Several = TypeVar("Several", bound="Sequence[torch.Tensor]")


@overload
def all_reduced(tensor: torch.Tensor, op: str = "sum", scale: float = 1.0) -> torch.Tensor: ...
@overload
def all_reduced(tensor: Several, op: str = "sum", scale: float = 1.0) -> Several: ...
def all_reduced(tensor: Any, op: str = "sum", scale: float = 1.0) -> Any:
    """A new tensor, reduced over the replicas, then times ``scale``: ``xm.all_reduce``. Several are reduced in place.

    With one replica a tensor is copied, and nothing is scaled, as in torch_xla.

    Args:
        tensor: This replica's, or a list or tuple of them.
        op: ``"sum"``, ``"mul"``, ``"min"``, ``"max"``, ``"and"`` or ``"or"``, as torch_xla calls them.
        scale: A factor.

    Returns:
        The new tensor, on the device of ``tensor``, in its shape; or the list or tuple itself.

    Example:
        >>> xla.all_reduced(torch.ones(2, device=device)).tolist()
        [1.0, 1.0]
    """
    if not isinstance(tensor, torch.Tensor):
        _reduce_in_place(tensor, op, scale)
        return tensor
    reduced = tensor.clone()
    if world_size() > 1:
        reduced = reduced.detach()
        collectives.all_reduce(reduced, _OPS[op])
        reduced = reduced if scale == 1.0 else reduced * scale
    return reduced


@torch.no_grad()
def _reduce_in_place(tensors: Sequence[torch.Tensor], op: str, scale: float) -> None:
    if world_size() == 1 or not tensors:
        return
    if op == "sum" and all(tensor.is_floating_point() for tensor in tensors):
        backend().total(tensors, scale)
        return
    for tensor in tensors:
        collectives.all_reduce(tensor, _OPS[op])
        if scale != 1.0:
            tensor.mul_(scale)


def all_gathered(tensor: torch.Tensor, dim: int = 0) -> torch.Tensor:
    """All replicas' tensors, one after the other along ``dim``: ``xm.all_gather``. No gradients flow through it.

    Args:
        tensor: This replica's; of the same shape on every one.
        dim: Where they are put together.

    Returns:
        A new tensor, as many times as long in ``dim`` as there are replicas.

    Example:
        >>> tuple(xla.all_gathered(torch.ones(2, 3, device=device)).shape) == (2 * xla.world_size(), 3)
        True
    """
    if world_size() == 1:
        return tensor.clone()
    parts = [torch.empty_like(tensor) for _ in range(world_size())]
    collectives.all_gather(parts, tensor.detach())
    return torch.cat(parts, dim)


@torch.no_grad()
def broadcast_master_param(model: nn.Module) -> None:
    """Give every replica the first one's parameters and buffers: ``xm.broadcast_master_param``.

    Args:
        model: Of the same parameters on every replica, in the same order.

    Example:
        >>> xla.broadcast_master_param(model)
    """
    if world_size() > 1:
        backend().broadcast([*model.parameters(), *model.buffers()], 0)
    mark_step()
