"""`x[mask] = number` is computed on the device, without reading the mask.

The fault: torch_xla reads the mask from the device, on the CPU, to learn which elements it selects. That ends the graph,
and XLA compiles again for each number of elements. Scripts can use `xla.assign`. Libraries assign so, too: the divergence
of two categorical distributions, box matchers of detectors, attention masks.

To see it: ``aten::nonzero`` in torch_xla's counters.
It can go when this fails: test_torch_xla_reads_a_mask_that_assigns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .._versions import Versions
from ._kernels import put

VERSIONS = Versions("torch_xla", "2.9", "2.10")


def apply() -> None:
    """Put a kernel before the one that copies the tensor for torch_xla's `index_put_`."""
    theirs = torch.library.get_kernel("aten::index_put_", "XLA").call_boxed
    put(__name__, {"index_put": _putting(theirs)}, "XLA", with_keyset=True)


def _putting(theirs: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def kernel(
        keys: Any,
        x: Tensor,
        indices: Sequence[Tensor | None],
        values: Tensor,
        accumulate: bool = False,
    ) -> Tensor:
        mask = None if accumulate or values.numel() != 1 else _mask(x, indices)
        if mask is None:
            return theirs(keys, x.clone(), indices, values, accumulate)
        return torch.where(mask, values.to(x.device, x.dtype).reshape(()), x)

    return kernel


def _mask(x: Tensor, indices: Sequence[Tensor | None]) -> Tensor | None:
    """Return the only index with the dimensions of `x`, if it is a mask: also of `x[:, mask]`."""
    found = [(place, index) for place, index in enumerate(indices) if index is not None]
    if len(found) != 1:
        return None
    ((place, mask),) = found
    end = place + mask.dim()
    if mask.dtype != torch.bool or not mask.dim() or mask.shape != x.shape[place:end]:
        return None
    return mask.to(x.device).reshape((1,) * place + mask.shape + (1,) * (x.dim() - end))
