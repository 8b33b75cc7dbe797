"""Sums of bfloat16 and float16 tensors are computed in float32 and rounded once.

The fault: torch, on the CPU and on CUDA, adds up halves in float32. torch_xla leaves the type of the sum to the
compiler, and XLA's for the CPU rounds after each addition, so that a sum stops growing once each addend is
half a unit in the last place: 65,536 ones are 8,192, the norm of a large gradient is a fifth of what it is, and
the gradient of a convolution's bias is off by 7 % (fact 3.67). So sums, means, variances, norms, softmax, its
gradient and average pooling are computed in float32 and cast back.

To see it: ``torch.ones(65536, dtype=torch.bfloat16, device="xla").sum()``.
It can go when this fails: test_fact_3_67_torch_xla_rounds_after_each_addition.

Sums into places (``index_add``, the gradient of an embedding) are left: torch's CPU rounds them, too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from ._versions import Versions
from .operations._infinite_norms import NORMS, of_any_order
from .operations._kernels import original as kernel_of
from .operations._kernels import put
from .operations.complex_arithmetic import REDUCTIONS as OF_COMPLEX
from .operations.empty_dims import OVER_DIMS, reducing_all

VERSIONS = Versions("torch_xla", "2.9", "2.10")

HALVES = (torch.bfloat16, torch.float16)
# The dispatcher's names. Their results have the type of the first argument, or the `dtype` that they receive:
REDUCTIONS = """
sum sum.dim_IntList mean mean.dim var.correction var_mean.correction std.correction
std_mean.correction norm.Scalar norm.ScalarOpt_dim norm.ScalarOpt_dtype norm.ScalarOpt_dim_dtype
linalg_vector_norm cumsum logsumexp _softmax _log_softmax _adaptive_avg_pool2d _adaptive_avg_pool3d
avg_pool2d avg_pool3d mse_loss smooth_l1_loss binary_cross_entropy nll_loss_forward nll_loss2d_forward
mse_loss_backward smooth_l1_loss_backward binary_cross_entropy_backward nll_loss_backward
nll_loss2d_backward native_batch_norm_backward
""".split()
# and what has the type that its last argument names.
SOFTMAX_GRADIENTS = ("_softmax_backward_data", "_log_softmax_backward_data")
CONVOLUTION = "convolution_backward_overrideable"


def apply() -> None:
    """Put kernels that add up in float32 before torch_xla's."""
    theirs = {name: original(name) for name in REDUCTIONS}
    theirs |= {name: reducing_all(theirs[name]) for name in OVER_DIMS}
    theirs |= {name: of_any_order(theirs[name]) for name in NORMS}
    theirs |= {name: of_complex(theirs[name]) for name, of_complex in OF_COMPLEX.items()}
    kernels = {name: _reduction(kernel) for name, kernel in theirs.items()}
    kernels |= {name: _softmax_gradient(original(name)) for name in SOFTMAX_GRADIENTS}
    kernels[CONVOLUTION] = _convolution_gradient(original(CONVOLUTION))
    put(__name__, kernels, "XLA", with_keyset=True)


original = functools.cache(kernel_of)  # the fact's test calls it after `apply`


def _reduction(theirs: Callable[..., Any]) -> Callable[..., Any]:
    def kernel(keys: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if x.dtype not in HALVES or any(map(_is_float32, args)):  # mixed: batch_norm.py's
            return theirs(keys, x, *args, **kwargs)
        dtype = kwargs.get("dtype") or x.dtype
        if "dtype" in kwargs:
            kwargs["dtype"] = torch.float32 if dtype in HALVES else dtype
        found = theirs(keys, x.float(), *map(_widened, args), **kwargs)
        if isinstance(found, tuple):
            return tuple(None if one is None else one.to(dtype) for one in found)
        return found.to(dtype)

    return kernel


def _widened(argument: Any) -> Any:
    is_half = isinstance(argument, torch.Tensor) and argument.dtype in HALVES
    return argument.float() if is_half else argument


def _is_float32(argument: Any) -> bool:
    return isinstance(argument, torch.Tensor) and argument.dtype is torch.float32


def _softmax_gradient(theirs: Callable[..., Any]) -> Callable[..., Any]:
    def kernel(
        keys: Any, gradient: torch.Tensor, output: torch.Tensor, dim: int, dtype: torch.dtype
    ) -> Any:
        if gradient.dtype not in HALVES:
            return theirs(keys, gradient, output, dim, dtype)
        return theirs(keys, gradient.float(), output.float(), dim, torch.float32).to(dtype)

    return kernel


def _convolution_gradient(theirs: Callable[..., Any]) -> Callable[..., Any]:
    """The bias's gradient is a sum; the products of the two others are added up in float32 by XLA."""

    def kernel(keys: Any, gradient: torch.Tensor, *args: Any) -> Any:
        *rest, wanted = args
        if gradient.dtype not in HALVES or not wanted[2]:
            return theirs(keys, gradient, *args)
        x, weight, _ = theirs(keys, gradient, *rest, [wanted[0], wanted[1], False])
        return x, weight, gradient.sum([i for i in range(gradient.dim()) if i != 1])

    return kernel
