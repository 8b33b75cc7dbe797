"""The singular value decomposition of a batch of matrices has torch's shapes.

The fault: torch_xla's kernel says that the singular values of a batch are those of one matrix, and transposes the wrong two
dimensions of V (fact 3.73). Sums of singular values, ranks and nuclear norms are silently those of other values, and products
with V raise an exception, except if there are as many matrices as columns. XLA decomposes no complex matrices.

To see it: ``torch.linalg.svd(torch.rand(5, 4, 3, device="xla"))`` has shapes (5, 4, 4), (3,) and (3, 5, 3).
It can go when this fails: test_fact_3_73_torch_xlas_batches_have_singular_values_of_one_matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .._versions import Versions
from ..operations._kernels import original, put

VERSIONS = Versions("torch_xla", "2.9", "2.10")


def apply() -> None:
    """Put a kernel before torch_xla's, which decomposes."""
    put(__name__, {"_linalg_svd": _batches(original("_linalg_svd"))}, "XLA", with_keyset=True)


def _batches(theirs: Callable[..., Any]) -> Callable[..., Any]:
    def kernel(
        keys: Any,
        x: Tensor,
        full_matrices: bool = False,
        compute_uv: bool = True,
        *,
        driver: str | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        if x.dim() == 2 or not x.numel():
            return theirs(keys, x, full_matrices, compute_uv)  # type: ignore[no-any-return]
        batch, count = x.shape[:-2], min(x.shape[-2:])
        matrices = x.reshape(-1, *x.shape[-2:])
        u, _, swapped = theirs(keys, matrices, full_matrices, True)
        v = swapped.transpose(0, 1)
        singular = torch.linalg.vector_norm(torch.bmm(matrices, v[..., :count]), dim=-2)
        vh = v.mT
        return (
            u.reshape(*batch, *u.shape[1:]),
            singular.reshape(*batch, count),
            vh.reshape(*batch, *vh.shape[1:]),
        )

    return kernel
