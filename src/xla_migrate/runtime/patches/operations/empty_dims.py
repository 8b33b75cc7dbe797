"""Reductions over an empty list of dimensions reduce all, as on the CPU and on CUDA.

The fault: `x.amax()` and `x.amin()` pass an empty list for "all dimensions", and torch_xla takes it for "none": the result
is `x`, silently. So are `x.sum([])`, `x.mean([])`, and those of variances.

To see it: ``torch.rand(3, 4, device="xla").amax().shape``.
It can go when this fails: test_torch_xla_reduces_no_dimension.

`half_sums`, which replaces the kernels of sums, means, variances and norms, calls `reducing_all`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .._versions import Versions
from ._kernels import put

VERSIONS = Versions("torch_xla", "2.9", "2.10")

EXTREMES = ("amax", "amin")
OVER_DIMS = """
linalg_vector_norm mean.dim std.correction std_mean.correction sum.dim_IntList var.correction
var_mean.correction
""".split()


def apply() -> None:
    """Put kernels before torch_xla's."""
    kernels = {name: torch.library.get_kernel(f"aten::{name}", "XLA") for name in EXTREMES}
    ours = {name: _reduction(kernel.call_boxed) for name, kernel in kernels.items()}
    put(__name__, ours, "XLA", with_keyset=True)


def _reduction(theirs: Callable[..., Any]) -> Callable[..., Any]:
    def kernel(
        keys: Any, x: torch.Tensor, dim: Sequence[int] = (), keepdim: bool = False
    ) -> torch.Tensor:
        return theirs(keys, x, dim or list(range(x.dim())), keepdim)  # type: ignore[no-any-return]

    return kernel


def reducing_all(theirs: Callable[..., Any]) -> Callable[..., Any]:
    """Return the kernel `theirs`, which receives all dimensions in place of an empty list."""

    def kernel(keys: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if any(type(argument) is list and not argument for argument in args):
            args = tuple(list(range(x.dim())) if argument == [] else argument for argument in args)
        return theirs(keys, x, *args, **kwargs)

    return kernel
