"""`gaussian_nll_loss` checks the variances after the step, so the step does not wait for the device.

The fault: torch asks in each call whether a variance is negative, and the host waits for the answer. Here it is read
with the other deferred values (``xla.item``), and one of the next step marks raises the ``ValueError``.

To see it: ``xla.metrics()["host_reads"]`` of ``nn.GaussianNLLLoss()(mean, target, variance)``.
It can go when this fails: test_torch_reads_the_variances.
"""

from __future__ import annotations

import functools
import math

import torch
from torch import Tensor
from torch.nn import functional

from .._versions import Versions

VERSIONS = Versions("torch", "2.9")

_MESSAGE = "var has negative entry/entries: in one of the last steps (on XLA they are checked after the step)"


def apply() -> None:
    """Replace the function, which `nn.GaussianNLLLoss` calls, too."""
    theirs = functional.gaussian_nll_loss

    @functools.wraps(theirs)
    def gaussian_nll_loss(
        input: Tensor,
        target: Tensor,
        var: Tensor | float,
        full: bool = False,
        eps: float = 1e-6,
        reduction: str = "mean",
    ) -> Tensor:
        from ...deferred.checks import checked_later

        if reduction in ("none", "mean", "sum") and isinstance(var, Tensor) and _fits(var, input):
            if checked_later(~(var < 0), _MESSAGE):
                return _loss(input, target, var, full, eps, reduction)
        return theirs(input, target, var, full, eps, reduction)

    setattr(functional, theirs.__name__, gaussian_nll_loss)


def _fits(variance: Tensor, mean: Tensor) -> bool:
    """Return True if torch accepts the shape: the mean's, or the mean's without its last dimension or with 1 for it."""
    return variance.shape in (mean.shape, mean.shape[:-1], (*mean.shape[:-1], 1))


def _loss(
    mean: Tensor, target: Tensor, variance: Tensor, full: bool, eps: float, reduction: str
) -> Tensor:
    """Compute what torch computes behind its check."""
    if variance.shape != mean.shape and variance.shape == mean.shape[:-1]:
        variance = variance.unsqueeze(-1)
    variance = variance.clone()
    with torch.no_grad():
        variance.clamp_(min=eps)
    loss = 0.5 * (variance.log() + (mean - target) ** 2 / variance)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return loss if reduction == "none" else loss.mean() if reduction == "mean" else loss.sum()
