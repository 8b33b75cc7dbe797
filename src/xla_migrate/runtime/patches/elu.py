"""ELU, CELU and SELU have torch's gradients.

The fault: torch_xla takes its input for its output there, silently: where x < 0 the gradient of
``elu(x)`` is ``x + 1`` in place of ``exp(x)``, of the wrong sign below -1. The in-place version receives
the output and is right.

To see it: the gradient of ``elu`` at -2 is -1 on XLA and 0.135 on the CPU.
It can go when this fails: test_elus_have_wrong_gradients.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch

from ._versions import Versions

VERSIONS = Versions("torch_xla", "2.9", "2.10")

# The kernel is there as long as its library is.
_kept: list[Any] = []


def apply() -> None:
    """Put a right kernel in place of torch_xla's."""
    library: Any = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    _kept.append(library)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that one is overridden
        library.impl("elu_backward", _elu_backward, "XLA")


def _elu_backward(
    gradient: torch.Tensor,
    alpha: float,
    scale: float,
    input_scale: float,
    is_result: bool,
    x: torch.Tensor,
) -> torch.Tensor:
    """Return the gradient. If `is_result`, `x` is the output of ELU instead of its input."""
    slope = x + alpha * scale if is_result else alpha * scale * torch.exp(x * input_scale)
    return gradient * torch.where(x <= 0, input_scale * slope, scale)
