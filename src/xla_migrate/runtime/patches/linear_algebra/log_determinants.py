"""`logdet` and `slogdet` have gradients.

The fault: torch_xla's kernel of the determinant gives no LU decomposition, which autograd's formula for the gradient needs,
so that the backward pass of a flow with an invertible convolution (Glow, WaveGlow) raises an error. The gradient of a
logarithm of the determinant is the inverse matrix, transposed.

To see it: ``torch.logdet(x).backward()``.
It can go when this fails: test_torch_xla_has_no_gradient.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .._versions import Versions

VERSIONS = Versions("torch_xla", "2.9", "2.10")

PATCHED: tuple[tuple[Any, str], ...] = (
    (torch, "logdet"),
    (torch, "slogdet"),
    (torch.linalg, "slogdet"),
    (Tensor, "logdet"),
    (Tensor, "slogdet"),
)
_slogdet = torch.linalg.slogdet


def apply() -> None:
    """Replace the functions and methods of torch."""
    for owner, name in PATCHED:
        setattr(owner, name, _with_gradients(getattr(owner, name), name))


def _with_gradients(theirs: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(theirs)
    def result(*args: Any, **named: Any) -> Any:
        matrix, *others = *args, *named.values()
        needs_gradient = matrix.requires_grad and torch.is_grad_enabled()
        if matrix.device.type != "xla" or not needs_gradient or others:
            return theirs(*args, **named)
        sign, logarithm = _LogDeterminant.apply(matrix)  # type: ignore[no-untyped-call]
        if name == "slogdet":
            return torch.return_types.slogdet((sign, logarithm))
        return torch.where(sign < 0, float("nan"), logarithm)

    return result


class _LogDeterminant(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(matrix)
        sign, logarithm = _slogdet(matrix)
        ctx.mark_non_differentiable(sign)
        return sign, logarithm

    @staticmethod
    def backward(ctx: Any, _: Tensor, gradient: Tensor) -> Tensor:
        (matrix,) = ctx.saved_tensors
        inverse: Tensor = torch.linalg.inv_ex(matrix).inverse
        return gradient[..., None, None] * inverse.mH
