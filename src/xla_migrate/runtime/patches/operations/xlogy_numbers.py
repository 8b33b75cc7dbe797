"""`xlogy` takes Python numbers: `torch.xlogy(x, 0.5)`, `torch.special.xlogy(2, x)`, `x.xlogy_(0.5)`.

The fault: torch makes a tensor on the CPU of the number, and torch_xla's kernel rejects it: ``Expected XLA tensor``.
The other operations of torch, its tensors and `torch.special` that take a number on the CPU take it on XLA, too.

To see it: ``torch.xlogy(x, 0.5)`` of a tensor on the device.
It can go when this fails: test_torch_xla_rejects_numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .._versions import Versions
from ._kernels import put

VERSIONS = Versions("torch_xla", "2.9")


def apply() -> None:
    """Put kernels below autograd, whose formulas call them, too."""
    kernels: dict[Any, Callable[..., Tensor]] = {
        torch.ops.aten.xlogy.Scalar_Self: lambda x, y: torch.xlogy(_tensor(x, y), y),
        torch.ops.aten.xlogy.Scalar_Other: lambda x, y: torch.xlogy(x, _tensor(y, x)),
        torch.ops.aten.xlogy_.Scalar_Other: lambda x, y: x.xlogy_(_tensor(y, x)),
    }
    put(__name__, kernels, "XLA")


def _tensor(number: complex, operand: Tensor) -> Tensor:
    """Return `number` as an input of the graph: another one does not compile again."""
    return torch.tensor(number, dtype=torch.result_type(operand, number)).to(operand.device)
