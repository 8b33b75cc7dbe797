"""Real views of complex numbers can be permuted.

The fault: torch_xla gives the result of ``view_as_real`` the layout of its input, which has one dimension less. The first
``permute`` or ``transpose`` of it ends the process ("Check failed: p1.size() == p2.size()"), also in a gradient: that of
``view_as_complex(x.permute(0, 2, 3, 1).contiguous())``, for example, or that of ``istft``.

To see it: ``torch.view_as_real(spectrum).permute(0, 3, 1, 2)``.
It can go when this fails: test_fact_3_63_permuting_ends_the_process.
"""

from __future__ import annotations

from typing import Any

import torch

from .._versions import Versions
from ._kernels import put

VERSIONS = Versions("torch_xla", "2.9", "2.10")


def apply() -> None:
    """Multiply the result of torch_xla's kernel by one: the product has a layout of its own."""
    operation = torch.ops.aten.view_as_real_copy.default
    kernel = torch.library.get_kernel(operation, "XLA")

    def of_own_layout(keys: Any, input: torch.Tensor) -> Any:
        return kernel.call_boxed(keys, input) * 1

    put(__name__, {operation: of_own_layout}, "XLA", with_keyset=True)
