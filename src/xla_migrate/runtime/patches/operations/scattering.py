"""`scatter_reduce` computes every reduction on the device, and `scatter` takes more places than elements.

The fault: torch_xla's kernel of `scatter_reduce` has neither ``reduce="mean"``, as graph networks use it, nor
``include_self=False``, as `EmbeddingBag(mode="max")` does. Both run on the CPU, with copies from and to the device, and end
the graph. And XLA refuses to compile a step that scatters a number to more places than a tensor has elements.

To see it: ``aten::scatter_reduce.two`` in torch_xla's counters.
It can go when these fail: test_torch_xla_has_no_such_kernel, test_torch_xla_refuses_more_places.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .._versions import Versions
from ._kernels import put

VERSIONS = Versions("torch_xla", "2.9", "2.10")

_REDUCE = "scatter_reduce.two"


def apply() -> None:
    """Put kernels before torch_xla's, which reduces what is not a mean."""
    theirs = torch.library.get_kernel(f"aten::{_REDUCE}", "XLA").call_boxed
    put(__name__, {_REDUCE: _reducing(theirs)}, "XLA", with_keyset=True)
    put(__name__, {"scatter.value": _put_number}, "XLA")


def _put_number(x: Tensor, dim: int, index: Tensor, value: float) -> Tensor:
    return x.scatter(dim, index, torch.full_like(index, value, dtype=x.dtype))


def _reducing(theirs: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def kernel(
        keys: Any,
        x: Tensor,
        dim: int,
        index: Tensor,
        source: Tensor,
        reduce: str,
        *,
        include_self: bool = True,
    ) -> Tensor:
        if not include_self:
            x = x.scatter(dim, index, _neutral(reduce, x.dtype))
        if reduce == "mean":
            return _mean(x, dim, index, source, include_self)
        return theirs(keys, x, dim, index, source, reduce)

    return kernel


def _neutral(reduce: str, dtype: torch.dtype) -> float:
    """Return the number that changes no result of `reduce`."""
    if reduce in ("sum", "mean", "prod"):
        return float(reduce == "prod")
    if dtype.is_floating_point:
        return float("inf") if reduce == "amin" else float("-inf")
    limits = torch.iinfo(dtype)
    return limits.max if reduce == "amin" else limits.min


def _mean(x: Tensor, dim: int, index: Tensor, source: Tensor, include_self: bool) -> Tensor:
    count = torch.ones_like(x) if include_self else torch.ones_like(x).scatter(dim, index, 0)
    count = count.scatter_add(dim, index, torch.ones_like(source))
    total = x.scatter_add(dim, index, source)
    rounding = None if x.dtype.is_floating_point else "floor"
    return torch.div(total, count, rounding_mode=rounding)
