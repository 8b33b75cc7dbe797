"""Slices at positions that change from step to step."""

from __future__ import annotations

from typing import Any

import torch

from .._backend import backend


def narrow(tensor: torch.Tensor, dim: int, start: Any, length: int | None = None) -> torch.Tensor:
    """``torch.narrow`` for a ``start`` that changes from step to step.

    ``x[:, i : i + n]`` is another graph for every ``i``, so it compiles at each (fact 3.31).
    On XLA this gathers by positions that are data: one graph for all. There it is a copy, so
    writing to it does not reach ``tensor``.

    Args:
        tensor: What to slice.
        dim: Along which dimension.
        start: Where the slice begins, as an int or an integer tensor.
        length: How long it is; a change of it is a new graph. None for the part at ``start``.

    Returns:
        ``tensor`` from ``start`` on, ``length`` long in dimension ``dim``; without a length that
        one part, without the dimension.

    Example:
        >>> table = torch.arange(6.0, device=device)
        >>> [xla.narrow(table, 0, i, 2).tolist() for i in (0, 4)]
        [[0.0, 1.0], [4.0, 5.0]]
        >>> [xla.narrow(table, 0, i).item() for i in (0, 4)]
        [0.0, 4.0]
    """
    part = backend().narrow(tensor, dim, start, 1 if length is None else length)
    return part.squeeze(dim) if length is None else part


def put(tensor: torch.Tensor, dim: int, start: Any, value: Any, length: int | None = None) -> None:
    """``tensor[..., start] = value`` for a ``start`` that changes from step to step.

    ``x[i] = value`` is another graph for every ``i``, so it compiles at each (fact 3.31). On
    XLA this copies to positions that are data: one graph for all.

    Args:
        tensor: What is written to, in place.
        dim: Along which dimension.
        start: Where, as an int or an integer tensor.
        value: What is written: a tensor, moved to where ``tensor`` is, or a number. It is broadcast.
        length: Of a slice ``start : start + length``; None for the one at ``start``.

    Example:
        >>> scores = torch.zeros(3, device=device)
        >>> for i in range(3):
        ...     xla.put(scores, 0, i, float(i))
        >>> scores.tolist()
        [0.0, 1.0, 2.0]
    """
    backend().put(tensor, dim, start, value, length)
