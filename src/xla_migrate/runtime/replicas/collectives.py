"""The collectives of ``torch.distributed``, on every backend.

With one replica each collective has torch's result, and needs no process group. Results are
copies in separate memory: on XLA a plain copy would share its source's memory (fact 3.12).
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from .. import _backend
from ..processes import Done, rendezvous, world_size

Tensors = list[torch.Tensor]
_SUM: Any = dist.ReduceOp.SUM


def all_reduce(
    tensor: torch.Tensor, op: Any = _SUM, group: Any = None, async_op: bool = False
) -> Any:
    """``tensor`` becomes the sum, or what ``op`` says, over the replicas, in place.

    Args:
        tensor: On the device; of one shape on all replicas.
        op: A ``torch.distributed.ReduceOp``; the sum by default.
        group: As for torch; all replicas by default.
        async_op: As for torch: give a handle at once, with ``wait()``.

    Returns:
        None; with ``async_op`` a handle with ``wait()``.

    Example:
        >>> total = torch.tensor([2.0], device=device)
        >>> xla.all_reduce(total)
        >>> total.item() / xla.world_size()
        2.0
    """
    if world_size() > 1:
        return _several("all_reduce", tensor, op=op, group=group, async_op=async_op)
    return _done(async_op, tensor)


def reduce(
    tensor: torch.Tensor,
    dst: int | None = None,
    op: Any = _SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Any:
    """As ``all_reduce``, of use on ``dst`` alone.

    Args:
        tensor: On the device; of one shape on all replicas. Off ``dst`` it may change, too.
        dst: The rank that the result is for; 0 by default.
        op: A ``torch.distributed.ReduceOp``; the sum by default.
        group: As for torch; all replicas by default.
        async_op: As for torch: give a handle at once, with ``wait()``.
        group_dst: In place of ``dst``, its rank in ``group``.

    Returns:
        None; with ``async_op`` a handle with ``wait()``.

    Example:
        >>> total = torch.ones(1, device=device)
        >>> xla.reduce(total, dst=0)
        >>> total.item()
        1.0
    """
    if world_size() > 1:
        root = root_rank(dst, group_dst, group)
        return _several("reduce", tensor, root, op=op, group=group, async_op=async_op)
    return _done(async_op, tensor)


def broadcast(
    tensor: torch.Tensor,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Any:
    """``tensor`` becomes what it is on ``src``, in place.

    Args:
        tensor: On the device; of one shape on all replicas.
        src: The rank that it comes from; 0 by default.
        group: As for torch; all replicas by default.
        async_op: As for torch: give a handle at once, with ``wait()``.
        group_src: In place of ``src``, its rank in ``group``.

    Returns:
        None; with ``async_op`` a handle with ``wait()``.

    Example:
        >>> seed = torch.tensor([xla.rank() + 7], device=device)
        >>> xla.broadcast(seed, src=0)
        >>> seed.item()
        7
    """
    if world_size() > 1:
        root = root_rank(src, group_src, group)
        return _several("broadcast", tensor, root, group=group, async_op=async_op)
    return _done(async_op, tensor)


def all_gather(
    tensor_list: Tensors, tensor: torch.Tensor, group: Any = None, async_op: bool = False
) -> Any:
    """Fills ``tensor_list`` with every replica's ``tensor``.

    Args:
        tensor_list: ``world_size()`` tensors like ``tensor``, which are filled.
        tensor: This replica's; of one shape on all.
        group: As for torch; all replicas by default.
        async_op: As for torch: give a handle at once, with ``wait()``.

    Returns:
        None; with ``async_op`` a handle with ``wait()``.

    Example:
        >>> found = [torch.zeros(2, device=device)]
        >>> xla.all_gather(found, torch.ones(2, device=device))
        >>> found[0].tolist()
        [1.0, 1.0]
    """
    if world_size() > 1:
        return _several("all_gather", tensor_list, tensor, group=group, async_op=async_op)
    return _copied(tensor_list[0], tensor, async_op)


def all_gather_into_tensor(
    output_tensor: torch.Tensor,
    input_tensor: torch.Tensor,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """Fills ``output_tensor`` with every replica's ``input_tensor``, one after the other.

    Args:
        output_tensor: ``world_size()`` times as long in its first dimension as ``input_tensor``, or
            with that as a new first one.
        input_tensor: This replica's; of one shape on all.
        group: As for torch; all replicas by default.
        async_op: As for torch: give a handle at once, with ``wait()``.

    Returns:
        None; with ``async_op`` a handle with ``wait()``.

    Example:
        >>> found = torch.zeros(2, device=device)
        >>> xla.all_gather_into_tensor(found, torch.ones(2, device=device))
        >>> found.tolist()
        [1.0, 1.0]
    """
    if world_size() > 1:
        name = "all_gather_into_tensor"
        return _several(name, output_tensor, input_tensor, group=group, async_op=async_op)
    return _copied(output_tensor, input_tensor, async_op)


def gather(
    tensor: torch.Tensor,
    gather_list: Tensors | None = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Any:
    """Fills ``gather_list`` on ``dst`` with every replica's ``tensor``.

    Args:
        tensor: This replica's; of one shape on all.
        gather_list: On ``dst`` ``world_size()`` tensors like ``tensor``, which are filled; None
            elsewhere.
        dst: The rank that gathers; 0 by default.
        group: As for torch; all replicas by default.
        async_op: As for torch: give a handle at once, with ``wait()``.
        group_dst: In place of ``dst``, its rank in ``group``.

    Returns:
        None; with ``async_op`` a handle with ``wait()``.

    Example:
        >>> found = [torch.zeros(2, device=device)]
        >>> xla.gather(torch.ones(2, device=device), found)
        >>> found[0].tolist()
        [1.0, 1.0]
    """
    if world_size() > 1:
        root = root_rank(dst, group_dst, group)
        return _several("gather", tensor, gather_list, root, group=group, async_op=async_op)
    return _copied(only_share(gather_list, "gather_list"), tensor, async_op)


def scatter(
    tensor: torch.Tensor,
    scatter_list: Tensors | None = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Any:
    """``tensor`` becomes this replica's share of ``src``'s ``scatter_list``.

    Args:
        tensor: Filled with this replica's share.
        scatter_list: On ``src`` ``world_size()`` tensors like ``tensor``; None elsewhere.
        src: The rank that they come from; 0 by default.
        group: As for torch; all replicas by default.
        async_op: As for torch: give a handle at once, with ``wait()``.
        group_src: In place of ``src``, its rank in ``group``.

    Returns:
        None; with ``async_op`` a handle with ``wait()``.

    Raises:
        ValueError: without ``scatter_list``, if there is one replica.

    Example:
        >>> share = torch.zeros(2, device=device)
        >>> xla.scatter(share, [torch.ones(2, device=device)])
        >>> share.tolist()
        [1.0, 1.0]
    """
    if world_size() > 1:
        root = root_rank(src, group_src, group)
        return _several("scatter", tensor, scatter_list, root, group=group, async_op=async_op)
    return _copied(tensor, only_share(scatter_list, "scatter_list"), async_op)


def reduce_scatter(
    output: torch.Tensor,
    input_list: Tensors,
    op: Any = _SUM,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """``output`` becomes the sum of what all replicas have for this one in their lists.

    Args:
        output: This replica's part of the result.
        input_list: ``world_size()`` tensors like ``output``: the i-th is added to replica i's.
        op: A ``torch.distributed.ReduceOp``; the sum by default.
        group: As for torch; all replicas by default.
        async_op: As for torch: give a handle at once, with ``wait()``.

    Returns:
        None; with ``async_op`` a handle with ``wait()``.

    Example:
        >>> part = torch.zeros(2, device=device)
        >>> xla.reduce_scatter(part, [torch.ones(2, device=device)])
        >>> part.tolist()
        [1.0, 1.0]
    """
    if world_size() > 1:
        return _several("reduce_scatter", output, input_list, op=op, group=group, async_op=async_op)
    return _copied(output, input_list[0], async_op)


def reduce_scatter_tensor(
    output: torch.Tensor,
    input: torch.Tensor,
    op: Any = _SUM,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """``output`` becomes this replica's part of the sum of all ``input``.

    Args:
        output: This replica's part of the result.
        input: ``world_size()`` times as long in its first dimension as ``output``.
        op: A ``torch.distributed.ReduceOp``; the sum by default.
        group: As for torch; all replicas by default.
        async_op: As for torch: give a handle at once, with ``wait()``.

    Returns:
        None; with ``async_op`` a handle with ``wait()``.

    Example:
        >>> part = torch.zeros(2, device=device)
        >>> xla.reduce_scatter_tensor(part, torch.ones(2, device=device))
        >>> part.tolist()
        [1.0, 1.0]
    """
    if world_size() > 1:
        name = "reduce_scatter_tensor"
        return _several(name, output, input, op=op, group=group, async_op=async_op)
    return _copied(output, input, async_op)


def all_to_all(
    output_tensor_list: Tensors,
    input_tensor_list: Tensors,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """Each replica hands one tensor to each.

    Args:
        output_tensor_list: One tensor per replica, which are filled: the i-th with what replica i
            sent here.
        input_tensor_list: One tensor per replica: the i-th is sent to replica i.
        group: As for torch; all replicas by default.
        async_op: As for torch: give a handle at once, with ``wait()``.

    Returns:
        None; with ``async_op`` a handle with ``wait()``.

    Example:
        >>> received = [torch.zeros(2, device=device)]
        >>> xla.all_to_all(received, [torch.ones(2, device=device)])
        >>> received[0].tolist()
        [1.0, 1.0]
    """
    if world_size() > 1:
        lists = (output_tensor_list, input_tensor_list)
        return _several("all_to_all", *lists, group=group, async_op=async_op)
    return _copied(output_tensor_list[0], input_tensor_list[0], async_op)


def all_to_all_single(
    output: torch.Tensor,
    input: torch.Tensor,
    output_split_sizes: list[int] | None = None,
    input_split_sizes: list[int] | None = None,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """Each replica hands one part of ``input`` to each.

    Args:
        output: Filled with the parts that the replicas sent here, in the order of their ranks.
        input: Cut along its first dimension, a part for each replica.
        output_split_sizes: Lengths of the parts that are received; equal ones by default.
        input_split_sizes: Lengths of the parts that are sent; equal ones by default.
        group: As for torch; all replicas by default.
        async_op: As for torch: give a handle at once, with ``wait()``.

    Returns:
        None; with ``async_op`` a handle with ``wait()``.

    Example:
        >>> received = torch.zeros(2, device=device)
        >>> xla.all_to_all_single(received, torch.ones(2, device=device))
        >>> received.tolist()
        [1.0, 1.0]
    """
    if world_size() > 1:
        sizes = (output_split_sizes, input_split_sizes)
        return _several("all_to_all_single", output, input, *sizes, group=group, async_op=async_op)
    return _copied(output, input, async_op)


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Any:
    """Wait until every replica of the group is here. All of them have to call it.

    Args:
        group: As for torch; all replicas by default.
        async_op: As for torch: give a handle at once, with ``wait()``.
        device_ids: As for torch, on CUDA.

    Returns:
        None; with ``async_op`` a handle with ``wait()``.

    Example:
        >>> xla.barrier()
    """
    if world_size() > 1 and group is not None and group is not dist.group.WORLD:
        return _several("barrier", group=group, async_op=async_op)
    rendezvous("barrier")
    return _done(async_op)


def new_group(
    ranks: list[int] | None = None,
    timeout: Any = None,
    backend: str | None = None,
    pg_options: Any = None,
    **options: Any,
) -> Any:
    """A group of some replicas, for the ``group`` of the others here.

    Args:
        ranks: Which; all by default.
        timeout: A timedelta, as for torch.
        backend: What the CUDA script had; ``"nccl"`` means the device's own.
        pg_options: Of NCCL, and of use there alone.
        options: Torch's others.

    Returns:
        What the others here take as ``group``.

    Example:
        >>> group = xla.new_group([0])
        >>> xla.all_reduce(torch.ones(2, device=device), group=group)
    """
    if world_size() == 1:
        return dist.group.WORLD
    given = {"timeout": timeout, "backend": backend, "pg_options": pg_options}
    if _backend.backend().device_type() != "cuda":
        given["pg_options"] = None
        if "nccl" in (backend or "").lower():
            given["backend"] = None
    return _several("new_group", ranks, **options, **{k: v for k, v in given.items() if v})


def _several(collective: str, *args: Any, **kwargs: Any) -> Any:
    return _backend.backend().collective(collective, *args, **kwargs)


def _copied(target: torch.Tensor, source: torch.Tensor, async_op: bool) -> Any:
    target.copy_(_backend.backend().clones([source])[0].view_as(target))
    return _done(async_op, target)


def root_rank(rank: int | None, rank_in_group: int | None, group: Any) -> int:
    """The rank among all replicas of the one that sends or receives: of `src` or `group_src`, as torch has them."""
    if rank_in_group is None:
        return rank or 0
    return rank_in_group if group is None else dist.get_global_rank(group, rank_in_group)


def only_share(shares: Any, name: str) -> Any:
    """Return the share of the only replica."""
    if not shares:
        raise ValueError(f"with one replica, {name} is required")
    return shares[0]


def _done(async_op: bool, *filled: torch.Tensor) -> Done | None:
    return Done(filled) if async_op else None
