"""`rfft` has a gradient behind `irfft`, and behind changes of the spectrum in place.

The fault: the gradient of `irfft` is changed through a view, and the gradient of `rfft` copies such a tensor with the wrong
size, so that the backward pass of `irfft(rfft(x))`, of `istft(stft(x))` and of ``spectrum[:, 0] = 0`` raises an error.

To see it: ``torch.fft.irfft(torch.fft.rfft(x)).sum().backward()``.
It can go when this fails: test_torch_xla_raises_an_error.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .._versions import Versions
from ._kernels import put

VERSIONS = Versions("torch_xla", "2.9", "2.10")


def apply() -> None:
    """Replace the operation behind `rfft`, `rfftn`, `stft` and `ihfft` where autograd records it."""
    put(__name__, {torch.ops.aten._fft_r2c.default: _with_gradient}, "AutogradXLA")


def _with_gradient(self: Tensor, dim: list[int], normalization: int, onesided: bool) -> Any:
    return _OfReal.apply(self, dim, normalization, onesided)  # type: ignore[no-untyped-call]


class _OfReal(torch.autograd.Function):
    """The Fourier transform of real numbers. If `onesided`, it returns the half that the other half follows from."""

    @staticmethod
    def forward(
        ctx: Any, input: Tensor, dims: list[int], normalization: int, onesided: bool
    ) -> Any:
        ctx.dims, ctx.normalization, ctx.size = dims, normalization, input.shape[dims[-1]]
        with torch._C._AutoDispatchBelowAutograd():
            return torch.ops.aten._fft_r2c.default(input, dims, normalization, onesided)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (grad,) = grads
        last = ctx.dims[-1]
        missing = list(grad.shape)
        missing[last] = ctx.size - missing[last]
        whole = torch.cat([grad, grad.new_zeros(missing)], last) if missing[last] else grad
        transformed = torch.ops.aten._fft_c2c.default(whole, ctx.dims, ctx.normalization, False)
        return transformed.real, None, None, None
