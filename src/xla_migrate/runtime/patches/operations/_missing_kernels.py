"""Decompositions that torch does not have, or not in parts that torch_xla has kernels for: `embedding_bag`, `cdist`.

`decompositions` puts them in place. Their gradients are those of their parts.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ._volumes import sampled_volumes


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


def _cdist(x: Tensor, y: Tensor, p: float, compute_mode: int | None) -> Tensor:
    """Return the distances of the rows of `x` from those of `y`. Their gradients at a distance of 0 are 0, as torch's."""
    return _distances(x.unsqueeze(-2) - y.unsqueeze(-3), p)


def _distances(differences: Tensor, p: float) -> Tensor:
    """Return the norm of order `p` of the last dimension."""
    if p == 0:
        return (differences != 0).to(differences.dtype).sum(-1)
    differences = differences.abs()
    if p == 1:
        return differences.sum(-1)
    if p == float("inf"):
        return differences.amax(-1)
    powers = differences.pow(p).sum(-1)
    is_zero = powers == 0
    return powers.masked_fill(is_zero, 1).pow(1 / p).masked_fill(is_zero, 0)


def _pdist(x: Tensor, p: float = 2.0) -> Tensor:
    """Return the distances of each pair of rows of `x`. torch_xla's are wrong for `p` 0 and inf."""
    first, second = torch.triu_indices(len(x), len(x), 1).to(x.device)  # XLA has no kernel for them
    return _distances(x[first] - x[second], p)


def _masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Return `x` with the elements of `source`, one after the other, at the places of `mask`."""
    shape = torch.broadcast_shapes(x.shape, mask.shape)  # type: ignore[no-untyped-call]
    x, mask = x.expand(shape), mask.expand(shape)
    if source.numel() == 0:
        return x.clone()  # the mask is False everywhere, and nothing can be gathered
    places = mask.flatten().long().cumsum(0) - 1
    taken = source.flatten()[places.clamp(0, source.numel() - 1)]
    return torch.where(mask, taken.view(x.shape), x)


def _nansum(x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    return torch.where(x.isnan(), 0, x).sum(dim, keepdim, dtype=dtype)


def _aminmax(x: Tensor, *, dim: int | None = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    dims = range(x.dim()) if dim is None else (dim,)
    return x.amin(tuple(dims), keepdim), x.amax(tuple(dims), keepdim)


def _fmax(x: Tensor, y: Tensor) -> Tensor:
    return torch.where((x >= y) | y.isnan(), x, y)


def _fmin(x: Tensor, y: Tensor) -> Tensor:
    return torch.where((x <= y) | y.isnan(), x, y)


def _hypot(x: Tensor, y: Tensor) -> Tensor:
    """Return the length of (x, y), also if the square of one is no finite number."""
    largest = torch.maximum(x.abs(), y.abs()).detach()
    scale = torch.where((largest == 0) | largest.isinf(), 1, largest)
    return scale * ((x / scale) ** 2 + (y / scale) ** 2).sqrt()


def _copysign(x: Tensor, y: Tensor | float) -> Tensor:
    if not isinstance(y, Tensor):
        return x.abs() * math.copysign(1, y)
    is_negative = (y < 0) | ((y == 0) & (1 / y < 0))
    return torch.where(is_negative, -x.abs(), x.abs())


def _logit(x: Tensor, eps: float | None = None) -> Tensor:
    x = x if eps is None else x.clamp(eps, 1 - eps)
    return (x / (1 - x)).log()


def _unfold(x: Tensor, dim: int, size: int, step: int) -> Tensor:
    """Return the windows of `size` elements along `dim`, as a last dimension."""
    if x.dim() == 0:
        return x.expand(size)
    dim %= x.dim()
    places = _windows(x, x.shape[dim], size, step)
    windows = x.index_select(dim, places.flatten())
    shape = (*x.shape[:dim], *places.shape, *x.shape[dim + 1 :])
    return windows.view(shape).movedim(dim + 1, -1)


def _unfold_backward(gradient: Tensor, shape: list[int], dim: int, size: int, step: int) -> Tensor:
    if not shape:
        return gradient.sum()
    dim %= len(shape)
    places = _windows(gradient, shape[dim], size, step)
    windows = gradient.movedim(-1, dim + 1).flatten(dim, dim + 1)
    return gradient.new_zeros(shape).index_add(dim, places.flatten(), windows)


def _angle(x: Tensor) -> Tensor:
    if x.is_complex():
        is_copied = torch.is_inference_mode_enabled()
        parts = torch.view_as_real_copy(x) if is_copied else torch.view_as_real(x)
        return torch.atan2(parts[..., 1], parts[..., 0])
    return torch.where(x.isnan(), x, torch.where(x < 0, math.pi, 0.0).to(x.dtype))


def _complex(real: Tensor, imaginary: Tensor) -> Tensor:
    parts = torch.broadcast_tensors(real, imaginary)  # type: ignore[no-untyped-call]
    both = torch.stack(parts, -1)
    # XLA has no views of complex numbers in inference mode, and copies have no gradient.
    if torch.is_inference_mode_enabled():
        return torch.view_as_complex_copy(both)
    return torch.view_as_complex(both)


def _exp2(x: Tensor) -> Tensor:
    return (x * math.log(2)).exp()


def _logaddexp2(x: Tensor, y: Tensor) -> Tensor:
    return torch.logaddexp(x * math.log(2), y * math.log(2)) / math.log(2)


def _polar(length: Tensor, angle: Tensor) -> Tensor:
    return _complex(length * angle.cos(), length * angle.sin())


def _round(x: Tensor, *, decimals: int) -> Tensor:
    power = 10.0 ** abs(decimals)
    return (x * power).round() / power if decimals > 0 else (x / power).round() * power


def _signbit(x: Tensor) -> Tensor:
    return (x < 0) | ((x == 0) & (1 / x < 0)) if x.is_floating_point() else x < 0


def _vdot(x: Tensor, y: Tensor) -> Tensor:
    return (x.conj() * y).sum()


def _embedding_renorm_(
    weight: Tensor, indices: Tensor, max_norm: float, norm_type: float
) -> Tensor:
    """Shorten, in place, the rows of `weight`, of shape (rows, width), that `indices` name and that exceed `max_norm`."""
    is_used = torch.zeros(len(weight), dtype=torch.bool, device=weight.device)
    is_used = is_used.index_fill(0, indices.flatten(), True)
    norms = torch.linalg.vector_norm(weight, norm_type, 1)
    scale = torch.where(is_used & (norms > max_norm), max_norm / (norms + 1e-7), 1)
    return weight.mul_(scale.unsqueeze(1).to(weight.dtype))


def _zeros(size: list[int], *, dtype: Any = None, device: Any = None, **options: Any) -> Tensor:
    """Return zeros: the gradient of `sign`, in second derivatives of absolute values."""
    return torch.zeros(size, dtype=dtype, device=device)


def _max_pool2d(x: Tensor, *options: Any, **named: Any) -> Tensor:
    """Return the maxima. torch_xla's own gradient of `max_pool2d` has silently no gradient itself; this has torch's."""
    return torch.ops.aten.max_pool2d_with_indices.default(x, *options, **named)[0]  # type: ignore[no-any-return]


def _max_pool3d(x: Tensor, *options: Any, **named: Any) -> Tensor:
    """Return the maxima of a volume, as `_max_pool2d` does."""
    return torch.ops.aten.max_pool3d_with_indices.default(x, *options, **named)[0]  # type: ignore[no-any-return]


def _allows_nested_tensors(x: Tensor, mask: Tensor) -> bool:
    """Return False: nested tensors, which `nn.TransformerEncoder` evaluates with, do not exist on XLA."""
    return False


def _windows(x: Tensor, length: int, size: int, step: int) -> Tensor:
    """Return the places of each window, of shape (windows, size), on the device of `x`."""
    starts = torch.arange(0, length - size + 1, step, device=x.device)
    return starts.unsqueeze(1) + torch.arange(size, device=x.device)


def _count_nonzero(x: Tensor, dim: int | list[int] | None = None) -> Tensor:
    """torch_xla's counts have the type of `x`: those of bool are at most 1."""
    every = list(range(x.dim()))
    return (x != 0).sum(every if dim is None or dim == [] else dim)


def _nll_loss(
    x: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: int = 1,
    ignore_index: int = -100,
) -> Tensor:
    """Return the loss, also of one sample without a batch dimension, at which torch_xla's kernel ends the process."""
    is_single = x.dim() == 1
    if is_single:
        x, target = x.unsqueeze(0), target.view(1)
    loss: Tensor = torch.ops.aten.nll_loss_forward(x, target, weight, reduction, ignore_index)[0]
    return loss.squeeze(0) if is_single and reduction == 0 else loss


DECOMPOSITIONS: dict[Any, Any] = {
    torch.ops.aten._cdist_forward.default: _cdist,
    torch.ops.aten._embedding_bag.default: _embedding_bag,
    torch.ops.aten._embedding_bag_forward_only.default: _embedding_bag,
    torch.ops.aten.aminmax.default: _aminmax,
    torch.ops.aten.angle.default: _angle,
    torch.ops.aten.bucketize.Tensor: _bucketize,
    torch.ops.aten.complex.default: _complex,
    torch.ops.aten.copysign.Tensor: _copysign,
    torch.ops.aten.count_nonzero.default: _count_nonzero,
    torch.ops.aten.count_nonzero.dim_IntList: _count_nonzero,
    torch.ops.aten.fmax.default: _fmax,
    torch.ops.aten.fmin.default: _fmin,
    torch.ops.aten.exp2.default: _exp2,
    torch.ops.aten.grid_sampler_3d.default: sampled_volumes,
    torch.ops.aten.hypot.default: _hypot,
    torch.ops.aten.logaddexp2.default: _logaddexp2,
    torch.ops.aten.logit.default: _logit,
    torch.ops.aten.masked_scatter.default: _masked_scatter,
    torch.ops.aten.max_pool2d.default: _max_pool2d,
    torch.ops.aten.max_pool3d.default: _max_pool3d,
    torch.ops.aten.nansum.default: _nansum,
    torch.ops.aten.nll_loss.default: _nll_loss,
    torch.ops.aten._pdist_forward.default: _pdist,
    torch.ops.aten.polar.default: _polar,
    torch.ops.aten.round.decimals: _round,
    torch.ops.aten.searchsorted.Tensor: _searchsorted,
    torch.ops.aten.signbit.default: _signbit,
    torch.ops.aten.vdot.default: _vdot,
}
# Computed below autograd: `unfold` is a view, and the others have no gradient.
BELOW_AUTOGRAD: dict[Any, Any] = {
    torch.ops.aten._efficientzerotensor.default: _zeros,
    torch.ops.aten._nested_tensor_from_mask_left_aligned.default: _allows_nested_tensors,
    torch.ops.aten.embedding_renorm_.default: _embedding_renorm_,
    torch.ops.aten.unfold_backward.default: _unfold_backward,
    torch.ops.aten.unfold_copy.default: _unfold,
}
