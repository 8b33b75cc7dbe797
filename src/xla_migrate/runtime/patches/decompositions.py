"""Operations without a right kernel are decomposed into others: `glu`, `embedding_bag`, ELU's gradient.

The fault: torch_xla has no kernel for the operations below, or for their gradients. They run on the
CPU, with copies from and to the device, and end the graph in each step. The gradient of ELU, CELU and
SELU has a kernel that takes the input for the output, silently: where x < 0 it is ``x + 1`` in place of
``exp(x)``. torch has decompositions of them; those of `embedding_bag` and `searchsorted` are here.

To see it: ``aten::glu_backward`` in torch_xla's counters; the gradient of ``elu`` at -2 is -1, not 0.135.
It can go when these fail: test_torch_xla_has_no_kernel, test_elus_have_wrong_gradients.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor
from torch._decomp import global_decomposition_table

from ._versions import Versions

VERSIONS = Versions("torch_xla", "2.9", "2.10")

OPERATIONS = """
_weight_norm_interface channel_shuffle col2im glu grid_sampler_2d huber_loss im2col linalg_cross
logaddexp multi_margin_loss renorm sinc special_entr
""".split()

# The decompositions are in place as long as their library is.
_kept: list[Any] = []


def apply() -> None:
    """Decompose operations before autograd records them: it then records and differentiates their parts.

    `torch.inference_mode` skips autograd, so each is also decomposed behind it.
    """
    library: Any = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    _kept.append(library)
    decompositions: Any = global_decomposition_table["post_autograd"]
    known = (getattr(torch.ops.aten, name).default for name in OPERATIONS)
    parts = {operation: decompositions[operation] for operation in known} | OWN
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that torch's are overridden
        for operation, decomposition in parts.items():
            library.impl(operation, decomposition, "AutogradXLA")
            library.impl(operation, decomposition, "XLA")
        gradient = torch.ops.aten.elu_backward.default
        library.impl(gradient, decompositions[gradient], "XLA")


def _embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the bags of shape (bags, width), the bag of each index, the size of each bag, and the sizes again.

    `mode` is 0 for sums, 1 for means, 2 for maxima. Gradients are dense, whatever `sparse` says.
    """
    bag_of = torch.zeros(len(indices) + 1, dtype=torch.long, device=indices.device)
    bag_of = bag_of.index_add(0, offsets, torch.ones_like(offsets, dtype=torch.long))
    bag_of = bag_of[:-1].cumsum(0) - 1  # the first bag starts at 0
    is_padding = indices == padding_idx
    rows = torch.nn.functional.embedding(indices, weight, scale_grad_by_freq=scale_grad_by_freq)
    rows = rows.float() if rows.dtype in (torch.bfloat16, torch.float16) else rows
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    rows = rows.masked_fill(is_padding.unsqueeze(1), float("-inf") if mode == 2 else 0)
    sizes = torch.zeros_like(offsets, dtype=torch.long).index_add(0, bag_of, (~is_padding).long())
    bags = rows.new_zeros(len(offsets), rows.shape[1])
    if mode == 2:
        places = bag_of.unsqueeze(1).expand_as(rows)
        bags = bags.scatter_reduce(0, places, rows, "amax", include_self=False)
        bags = bags.masked_fill((sizes == 0).unsqueeze(1), 0)
    else:
        bags = bags.index_add(0, bag_of, rows)
    if mode == 1:
        bags = bags / sizes.clamp(min=1).unsqueeze(1)
    if include_last_offset:  # what follows it is in no bag
        bags, sizes = bags[:-1], sizes[:-1]
    return bags.to(weight.dtype), bag_of, sizes, sizes.clone()


def _searchsorted(
    sequence: Tensor,
    values: Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Return how many elements of `sequence`, of shape (..., n) or (n,), stand before `values`, of shape (..., m).

    A binary search: each turn halves the distance that the found place may still move.
    """
    if sorter is not None:
        sequence = sequence.gather(-1, sorter)
    size = sequence.shape[-1]
    found = torch.zeros(values.shape, dtype=torch.long, device=values.device)
    for power in reversed(range(size.bit_length())):
        ahead = found + (1 << power)
        place = ahead.clamp(max=size) - 1
        there = sequence[place] if sequence.dim() == 1 else sequence.gather(-1, place)
        is_behind = there > values if right or side == "right" else there >= values
        found = torch.where((ahead <= size) & ~is_behind, ahead, found)
    return found.int() if out_int32 else found


def _bucketize(
    values: Tensor, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
) -> Tensor:
    return _searchsorted(boundaries, values, out_int32=out_int32, right=right)


# The decompositions above. The others are torch's.
OWN: dict[Any, Any] = {
    torch.ops.aten._embedding_bag.default: _embedding_bag,
    torch.ops.aten._embedding_bag_forward_only.default: _embedding_bag,
    torch.ops.aten.bucketize.Tensor: _bucketize,
    torch.ops.aten.searchsorted.Tensor: _searchsorted,
}
