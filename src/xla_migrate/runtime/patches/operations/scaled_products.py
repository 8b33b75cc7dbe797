"""`addmm`, `addmv` and `addbmm` with `alpha` or `beta` are computed on the device.

The fault: torch_xla's kernels compute the plain sum alone. `dist.addmm_(x, y.t(), beta=1, alpha=-2)`, with which metric
learning computes distances, runs on the CPU, with copies from and to the device, and ends the graph in each step.
The functions of Python are replaced, not torch_xla's kernels, which each `nn.Linear` calls.

To see it: ``aten::addmm`` in torch_xla's counters.
It can go when this fails: test_torch_xla_computes_the_plain_sum_alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .._versions import Versions

VERSIONS = Versions("torch_xla", "2.9", "2.10")

PRODUCTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "addmm": torch.mm,
    "addmv": torch.mv,
    "addbmm": lambda x, y: torch.bmm(x, y).sum(0),
}
# What the tensors are called, in the order of arguments.
_TENSORS = ("input", "mat1", "mat", "batch1", "mat2", "vec", "batch2")
PATCHED: tuple[tuple[Any, str], ...] = tuple(
    place for name in PRODUCTS for place in ((torch, name), (Tensor, name), (Tensor, f"{name}_"))
)


def apply() -> None:
    """Replace the functions and methods of torch."""
    for owner, name in PATCHED:
        theirs, in_place = getattr(owner, name), name.endswith("_")
        setattr(owner, name, _scaled(theirs, PRODUCTS[name.rstrip("_")], in_place))


def _scaled(
    theirs: Callable[..., Any], product: Callable[[Tensor, Tensor], Tensor], in_place: bool
) -> Callable[..., Any]:
    @functools.wraps(theirs)
    def result(*args: Any, **named: Any) -> Any:
        tensors, beta, alpha = _given(args, named)
        is_plain = beta == 1 and alpha == 1
        if is_plain or len(tensors) != 3 or tensors[0].device.type != "xla" or "out" in named:
            return theirs(*args, **named)
        x, first, second = tensors
        added = product(first, second)
        if in_place:
            return (x.mul_(beta) if beta else x.zero_()).add_(added, alpha=alpha)
        scaled = added * alpha if beta == 0 else torch.add(x * beta, added, alpha=alpha)
        return scaled.to(added.dtype)

    return result


def _given(args: tuple[Any, ...], named: dict[str, Any]) -> tuple[list[Tensor], Any, Any]:
    """Return the tensors, `beta` and `alpha`, in the old order of arguments, too: `x.addmm_(1, -2, a, b)`."""
    by_name = [named[name] for name in _TENSORS if name in named]
    tensors = [value for value in (*args, *by_name) if isinstance(value, Tensor)]
    numbers = [value for value in args if not isinstance(value, Tensor)]
    scales = [*numbers, 1, 1][:2]
    return tensors, named.get("beta", scales[0]), named.get("alpha", scales[1])
