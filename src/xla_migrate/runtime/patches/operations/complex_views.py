"""Real views of complex numbers can be permuted.

The fault: torch_xla gives the result of ``view_as_real`` the layout of its input, which has one dimension less. The first
``permute`` or ``transpose`` of it ends the process ("Check failed: p1.size() == p2.size()"), also in a gradient: that of
``view_as_complex(x.permute(0, 2, 3, 1).contiguous())``, for example, or that of ``istft``.

To see it: ``torch.view_as_real(spectrum).permute(0, 3, 1, 2)``.
It can go when this fails: test_fact_3_63_permuting_ends_the_process.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch

from .._versions import Versions

VERSIONS = Versions("torch_xla", "2.9", "2.10")

# The kernel is replaced as long as its library is.
_kept: list[Any] = []


def apply() -> None:
    """Multiply the result of torch_xla's kernel by one: the product has a layout of its own."""
    operation = torch.ops.aten.view_as_real_copy.default
    kernel = torch.library.get_kernel(operation, "XLA")
    library: Any = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]

    def of_own_layout(keys: Any, input: torch.Tensor) -> Any:
        return kernel.call_boxed(keys, input) * 1

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that torch_xla's is overridden
        library.impl(operation, of_own_layout, "XLA", with_keyset=True)
    _kept.append(library)
