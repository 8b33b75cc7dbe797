"""The running variance of batch norm on XLA.

Torch keeps the unbiased variance of each batch (divided by n - 1), for evaluation. torch_xla 2.9 keeps
the biased one (divided by n), silently: with 16 values per channel a variance that is 6% too small. So
what it has added is made up for.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.nn import functional

_torch_batch_norm = functional.batch_norm


def keep_unbiased_variance() -> None:
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
    if not training or running_var is None or running_var.device.type != "xla":
        return _torch_batch_norm(input, running_mean, running_var, *rest)
    before = running_var.detach() * (1 - momentum)
    output = _torch_batch_norm(input, running_mean, running_var, *rest)
    count = input.numel() // input.size(1)
    # Backward is handed the running variance, and does not look at it in training.
    with torch.no_grad(), torch.autograd._unsafe_preserve_version_counter(running_var):  # type: ignore[attr-defined]
        running_var.add_((running_var - before) / (count - 1))
    return output


_batch_norm._orig = _torch_batch_norm  # type: ignore[attr-defined]
