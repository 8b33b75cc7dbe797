"""`adaptive_avg_pool2d` to sizes that do not divide the input's is computed on the device.

The fault: torch_xla has a kernel only if each output size divides the input's. Otherwise the operation and its gradient
run on the CPU, with copies from and to the device, and end the graph in each step: the pyramid of PSPNet, with 1, 2, 3
and 6 bins. torch has a decomposition.

To see it: ``aten::_adaptive_avg_pool2d`` in torch_xla's counters.
It can go when this fails: test_torch_xla_pools_even_sizes_alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._decomp import global_decomposition_table

from .._versions import Versions
from ._kernels import put

VERSIONS = Versions("torch_xla", "2.9", "2.10")

NAME = "_adaptive_avg_pool2d"


def apply() -> None:
    """Put a kernel before autograd's: autograd records the parts of the decomposition."""
    theirs: Any = torch.library.get_kernel(f"aten::{NAME}", "AutogradXLA")
    put(__name__, {NAME: _pooled(theirs.call_boxed)}, "AutogradXLA", with_keyset=True)


def _pooled(theirs: Callable[..., Any]) -> Callable[..., Any]:
    parts: Any = global_decomposition_table["post_autograd"]
    decomposed = parts[torch.ops.aten._adaptive_avg_pool2d.default]

    def kernel(keys: Any, x: torch.Tensor, size: list[int]) -> Any:
        is_even = all(old % new == 0 for old, new in zip(x.shape[-2:], size, strict=True) if new)
        return theirs(keys, x, size) if is_even else decomposed(x, size)

    return kernel
