"""Collectives of Python objects: those of ``torch.distributed`` that pickle."""

from __future__ import annotations

from typing import Any

from .. import _backend
from ..processes import world_size
from .collectives import only_share, root_rank


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Fills ``object_list`` with every replica's ``obj``.

    Args:
        object_list: A list of ``world_size()`` elements, which are replaced.
        obj: Anything that pickle takes.
        group: As for torch; all replicas by default.

    Example:
        >>> found = [None] * xla.world_size()
        >>> xla.all_gather_object(found, {"rank": xla.rank()})
        >>> found
        [{'rank': 0}]
    """
    if world_size() > 1:
        _backend.backend().collective("all_gather_object", object_list, obj, group=group)
    else:
        object_list[0] = obj


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    """Fills ``object_gather_list`` on ``dst`` with every replica's ``obj``.

    Args:
        obj: Anything that pickle takes.
        object_gather_list: On ``dst`` a list of ``world_size()`` elements, which are replaced; None
            elsewhere.
        dst: The rank that gathers; 0 by default.
        group: As for torch; all replicas by default.
        group_dst: In place of ``dst``, its rank in ``group``.

    Raises:
        ValueError: on ``dst``, without ``object_gather_list``.

    Example:
        >>> found = [None] * xla.world_size()
        >>> xla.gather_object(xla.rank(), found)
        >>> found
        [0]
    """
    if world_size() > 1:
        root = root_rank(dst, group_dst, group)
        _backend.backend().collective("gather_object", obj, object_gather_list, root, group=group)
    elif object_gather_list is None:
        raise ValueError("the replica that gathers needs object_gather_list")
    else:
        object_gather_list[0] = obj


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """Replace the objects with the objects of ``src``.

    Args:
        object_list: Of one length on all replicas; its elements are replaced.
        src: The rank that they come from; 0 by default.
        group: As for torch; all replicas by default.
        device: As for torch, on CUDA.
        group_src: In place of ``src``, its rank in ``group``.

    Example:
        >>> settings = [{"lr": 0.1}]
        >>> xla.broadcast_object_list(settings, src=0)
    """
    if world_size() > 1:
        root = root_rank(src, group_src, group)
        _backend.backend().collective("broadcast_object_list", object_list, root, group=group)


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    """``scatter_object_output_list`` holds this replica's share of ``src``'s objects.

    Args:
        scatter_object_output_list: Its first element is replaced.
        scatter_object_input_list: On ``src`` ``world_size()`` objects that pickle takes; None
            elsewhere.
        src: The rank that they come from; 0 by default.
        group: As for torch; all replicas by default.
        group_src: In place of ``src``, its rank in ``group``.

    Raises:
        ValueError: without ``scatter_object_input_list``, if there is one replica.

    Example:
        >>> share = [None]
        >>> xla.scatter_object_list(share, ["for rank 0"])
        >>> share
        ['for rank 0']
    """
    if world_size() > 1:
        lists = (scatter_object_output_list, scatter_object_input_list)
        root = root_rank(src, group_src, group)
        _backend.backend().collective("scatter_object_list", *lists, root, group=group)
    else:
        share = only_share(scatter_object_input_list, "scatter_object_input_list")
        scatter_object_output_list[0] = share
