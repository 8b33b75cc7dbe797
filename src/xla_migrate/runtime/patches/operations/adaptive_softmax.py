"""`nn.AdaptiveLogSoftmaxWithLoss` has the same shapes in every step.

The fault: torch selects the rows of each cluster, whose number depends on the targets: several host reads and a
compilation in each step. Here each cluster is computed for all rows, and a mask selects the results. The gradient of a
cluster without targets is zero, where torch has none. Targets are checked after the step.

To see it: ``aten::nonzero`` in torch_xla's counters.
It can go when this fails: test_torch_selects_rows.
"""

from __future__ import annotations

import functools
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from .._versions import Versions

VERSIONS = Versions("torch", "2.9")


def apply() -> None:
    """Replace `forward`."""
    theirs = nn.AdaptiveLogSoftmaxWithLoss.forward

    @functools.wraps(theirs)
    def forward(self: nn.AdaptiveLogSoftmaxWithLoss, input_: Tensor, target_: Tensor) -> Any:
        fits = input_.shape[:-1] == target_.shape and target_.dim() < 2
        if input_.device.type != "xla" or not fits or not _are_checked(self, target_):
            return theirs(self, input_, target_)
        output = _log_probabilities(self, input_, target_)
        return torch.nn.modules.adaptive._ASMoutput(output, -output.mean())

    setattr(nn.AdaptiveLogSoftmaxWithLoss, theirs.__name__, forward)


def _are_checked(module: nn.AdaptiveLogSoftmaxWithLoss, target: Tensor) -> bool:
    from ...deferred.checks import checked_later

    message = f"Target values should be in [0, {module.n_classes - 1}], but one of the last steps had others"
    return checked_later((target >= 0) & (target < module.n_classes), message)


def _log_probabilities(module: nn.AdaptiveLogSoftmaxWithLoss, x: Tensor, target: Tensor) -> Tensor:
    """Return the logarithm of the probability of each target: `x` of shape (..., features), `target` of shape (...)."""
    head = module.head(x).log_softmax(-1)
    column = target.clamp(max=module.shortlist_size - 1)
    inside = torch.zeros_like(head[..., 0])
    for k, (low, high) in enumerate(pairwise(module.cutoffs)):
        is_here = (target >= low) & (target < high)
        found = module.tail[k](x).log_softmax(-1)
        place = (target - low).clamp(0, high - low - 1)
        inside = torch.where(is_here, found.gather(-1, place.unsqueeze(-1)).squeeze(-1), inside)
        column = torch.where(is_here, module.shortlist_size + k, column)
    first: Tensor = head.gather(-1, column.unsqueeze(-1)).squeeze(-1)
    return inside + first
