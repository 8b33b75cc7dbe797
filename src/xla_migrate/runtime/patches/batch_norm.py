"""Batch norms keep the unbiased running variance, can be frozen, and take half precision with float32 weights.

The fault: torch keeps the unbiased variance of each batch (divided by n - 1), for evaluation. torch_xla
keeps the biased one (divided by n), silently: with 16 values per channel a variance that is 6% too
small. So it is passed the variance times (n - 1) / n, and what it makes of that is multiplied by
n / (n - 1). And frozen batch norms (``bn.eval()`` while the others train) have no backward in torch_xla: "The size of mean should be compatible with feature count". They
are computed as what they are, a product and a sum. Under CUDA's autocast a batch norm has a bfloat16 input and float32
weights; torch_xla's then returns float32 values, and gradients, that call themselves bfloat16, at which a later
operation fails to compile ("mixed precision is disallowed"). They are computed in float32 and cast back. And the
momentum is part of torch_xla's graph: one that changes, as the 1/k of ``update_bn``, compiles the model in every
step. Where it does, it is a number that is passed to the graph.

To see it: compare ``running_var`` after one training forward with the CPU's.
It can go when these fail: test_batch_norms_keep_the_biased_variance,
test_torch_xla_has_no_backward_of_a_frozen_norm, test_torch_xla_mixes_types_in_a_batch_norm,
test_the_momentum_is_part_of_torch_xlas_graph.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import has_torch_function_variadic
from torch.utils.weak import WeakTensorKeyDictionary

from ._versions import Versions

VERSIONS = Versions("torch_xla", "2.9", "2.10")

_torch_batch_norm = functional.batch_norm
_made: dict[tuple[int, torch.device], tuple[torch.Tensor, torch.Tensor]] = {}
_momentum: Any = WeakTensorKeyDictionary()  # type: ignore[no-untyped-call]  # the last, by running variance


def apply() -> None:
    """Make ``torch.nn.functional.batch_norm``, and so all batch norms, do on XLA what torch does."""
    functional.batch_norm = _batch_norm


@functools.wraps(_torch_batch_norm)
def _batch_norm(
    input: torch.Tensor,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> torch.Tensor:
    rest: Any = (weight, bias, training, momentum, eps)
    if has_torch_function_variadic(input, running_mean, running_var, weight, bias):
        # A mode, such as that of `torch.set_default_device`: torch's function calls itself again
        # without it, by its name, which is this function. The corrections below must not be made twice.
        return _torch_batch_norm(input, running_mean, running_var, *rest)
    if _mixes_types(input, running_mean, weight):
        return _batch_norm(input.float(), running_mean, running_var, *rest).to(input.dtype)
    if not training and _has_no_backward(input, running_mean, running_var, weight, bias):
        assert running_mean is not None
        assert running_var is not None
        return _frozen(input, running_mean, running_var, weight, bias, eps)
    if not training or running_var is None or running_var.device.type != "xla":
        return _torch_batch_norm(input, running_mean, running_var, *rest)
    if _momentum.setdefault(running_var, momentum) != momentum:
        assert running_mean is not None
        _momentum[running_var] = None  # from now on it is no part of the graph
        return _averaged(input, running_mean, running_var, weight, bias, momentum, eps)
    unbiased, biased = _factors(input)
    scaled = torch.mul(running_var, biased)
    output = _torch_batch_norm(input, running_mean, scaled, *rest)
    running_var.copy_(torch.mul(scaled, unbiased))
    return output


def _factors(input: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """N / (n - 1) and its inverse, for n values per channel; ones where torch refuses n. Numbers would take the host twice as long."""
    count = input.numel() // (input.size(1) or 1)
    key = count, input.device
    if key not in _made:
        unbiased = count / (count - 1) if count > 1 else 1.0
        _made[key] = (
            torch.tensor(unbiased).to(input.device),
            torch.tensor(1 / unbiased).to(input.device),
        )
    return _made[key]


def _averaged(
    input: torch.Tensor,
    running_mean: torch.Tensor,
    running_var: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    momentum: float,
    eps: float,
) -> torch.Tensor:
    """The same with this batch's mean and variance, averaged by a number that is data."""
    mean, variance = torch.zeros_like(running_mean), torch.zeros_like(running_var)
    output = _torch_batch_norm(input, mean, variance, weight, bias, True, 1.0, eps)
    count = input.numel() // input.size(1)
    with torch.no_grad():
        running_mean.lerp_(mean, momentum)
        running_var.lerp_(variance * (count / (count - 1)), momentum)
    return output


def _mixes_types(input: torch.Tensor, *others: torch.Tensor | None) -> bool:
    if input.device.type != "xla" or input.dtype not in (torch.bfloat16, torch.float16):
        return False
    return any(other is not None and other.dtype == torch.float32 for other in others)


def _has_no_backward(
    input: torch.Tensor,
    mean: torch.Tensor | None,
    variance: torch.Tensor | None,
    *learned: torch.Tensor | None,
) -> bool:
    if input.device.type != "xla" or mean is None or variance is None:
        return False
    taught = any(t is not None and t.requires_grad for t in (input, *learned))
    return taught and torch.is_grad_enabled()


def _frozen(
    input: torch.Tensor,
    mean: torch.Tensor,
    variance: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float,
) -> torch.Tensor:
    """``(input - mean) / sqrt(variance + eps) * weight + bias``, per channel (dimension 1), in the input's type."""
    shape = (1, -1, *[1] * (input.dim() - 2))
    scale = torch.rsqrt(variance + eps)
    if weight is not None:
        scale = scale * weight
    shift = -mean * scale
    if bias is not None:
        shift = shift + bias
    output: torch.Tensor = input * scale.view(shape) + shift.view(shape)
    return output.to(input.dtype)


_batch_norm._orig = _torch_batch_norm  # type: ignore[attr-defined]
