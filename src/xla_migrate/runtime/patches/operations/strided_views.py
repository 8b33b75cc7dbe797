"""`as_strided` reads and writes the elements that its sizes and strides name.

The fault: torch_xla takes them from the tensor that a view was made of, silently (fact 3.71). After a slice, as in
``frames = signal[1:].as_strided(...)``, they are the first elements of the whole tensor, and what is written to
``x.as_strided(...)`` lands in other places, also if `x` is no view.

To see it: ``torch.arange(6.0, device="xla")[2:].as_strided((2,), (1,))`` gives 0 and 1.
It can go when this fails: test_fact_3_71_strided_views_of_slices_begin_at_the_whole_tensor.

An XLA tensor has no memory layout: its strides are those of a contiguous tensor, and only its own elements can be
reached. Reading beyond them raises an exception, where other devices read on in the memory.
What is written to one of two elements of the view that are one of the tensor may be lost.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .._versions import Versions
from ._kernels import put

VERSIONS = Versions("torch_xla", "2.9", "2.10")


def apply() -> None:
    """Put kernels before torch_xla's. In-place operations on the view use the second one."""
    put(__name__, {"as_strided_copy": _read, "as_strided_scatter": _written}, "XLA")


def _read(
    x: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    return torch.take(x, _places(x, size, stride, storage_offset or 0))


def _written(
    x: Tensor,
    source: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Tensor:
    places = _places(x, size, stride, storage_offset or 0)
    return x.reshape(-1).scatter(0, places.reshape(-1), source.reshape(-1)).reshape(x.shape)


def _places(x: Tensor, size: Sequence[int], stride: Sequence[int], offset: int) -> Tensor:
    """Return the places of the view's elements among those of `x` in order, shaped `size`."""
    last = offset + sum((length - 1) * step for length, step in zip(size, stride, strict=True))
    if 0 not in size and last >= x.numel():
        raise RuntimeError(
            f"as_strided with sizes {list(size)}, strides {list(stride)} and offset {offset} reaches beyond the"
            f" {x.numel()} elements of the tensor: an XLA tensor has no memory outside its elements"
        )
    places = torch.full((), offset, device=x.device)
    for length, step in zip(size, stride, strict=True):
        places = places.unsqueeze(-1) + torch.arange(length, device=x.device) * step
    return places
