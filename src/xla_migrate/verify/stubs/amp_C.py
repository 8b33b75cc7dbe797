# ruff: noqa: N999 - the extension's name
"""The kernels behind apex that scripts call through `multi_tensor_applier` (csrc/amp_C_frontend.cpp)."""

from __future__ import annotations

import torch

Lists = list[list[torch.Tensor]]


def _overflowed(flag: torch.Tensor, tensors: list[torch.Tensor]) -> None:
    if not all(bool(torch.isfinite(t).all()) for t in tensors):
        flag.fill_(1)


def multi_tensor_scale(chunk: int, flag: torch.Tensor, lists: Lists, scale: float) -> None:
    """lists[1] = lists[0] * scale; the flag is raised at inf and nan."""
    for source, target in zip(*lists, strict=True):
        target.copy_(source.float() * scale)
    _overflowed(flag, lists[0])


def multi_tensor_axpby(
    chunk: int, flag: torch.Tensor, lists: Lists, a: float, b: float, check: int
) -> None:
    """lists[2] = a * lists[0] + b * lists[1]."""
    for x, y, target in zip(*lists, strict=True):
        target.copy_(a * x.float() + b * y.float())
    _overflowed(flag, lists[0] + lists[1])


def multi_tensor_l2norm(
    chunk: int, flag: torch.Tensor, lists: Lists, per_tensor: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """The norm of everything in lists[0], and of each tensor when asked."""
    each = torch.stack([t.float().norm() for t in lists[0]])
    return each.norm().view(1), each if per_tensor else torch.empty(0)
