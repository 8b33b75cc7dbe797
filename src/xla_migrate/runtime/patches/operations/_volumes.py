"""A decomposition of `grid_sample` of volumes, which torch does not have."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

_NEAREST, _ZEROS, _BORDER = 1, 0, 1  # torch's numbers of modes and paddings


def sampled_volumes(x: Tensor, grid: Tensor, mode: int, padding: int, aligned: bool) -> Tensor:
    """Return `x`, of shape (batch, channels, depth, height, width), at the places of `grid`.

    `grid` has the shape (batch, ..., 3). Its last dimension is the place in width, height and depth, from -1 to 1.
    """
    sizes = x.shape[2:]
    places = [
        _padded(_in_pixels(grid[..., 2 - axis], size, aligned), size, padding, aligned)
        for axis, size in enumerate(sizes)
    ]
    if mode == _NEAREST:
        return _values(x, [place.round() for place in places])
    first = [place.floor() for place in places]
    out = torch.zeros((), dtype=x.dtype, device=x.device)
    for corner in itertools.product((0, 1), repeat=3):
        weight = torch.ones((), dtype=x.dtype, device=x.device)
        for step, place, low in zip(corner, places, first):
            weight = weight * (place - low if step else low + 1 - place)
        out = out + _values(x, [low + step for low, step in zip(first, corner)]) * weight[:, None]
    return out


def _in_pixels(place: Tensor, size: int, aligned: bool) -> Tensor:
    return (place + 1) / 2 * (size - 1) if aligned else ((place + 1) * size - 1) / 2


def _padded(place: Tensor, size: int, padding: int, aligned: bool) -> Tensor:
    if padding == _ZEROS:
        return place
    if padding != _BORDER:
        low, span = (0.0, size - 1.0) if aligned else (-0.5, float(size))
        place = (place - low).abs()
        # There and back is one period; without a span there is one place.
        place = low + (span - (place % (2 * span) - span).abs() if span else place * 0)
    return place.clamp(0, size - 1)


def _values(x: Tensor, places: list[Tensor]) -> Tensor:
    """Return `x` at whole places, with 0 outside of it, of shape (batch, channels, ...)."""
    index = torch.zeros_like(places[0], dtype=torch.long)
    is_inside = torch.ones_like(index, dtype=torch.bool)
    for place, size in zip(places, x.shape[2:]):
        is_inside = is_inside & (place >= 0) & (place <= size - 1)
        index = index * size + place.clamp(0, size - 1).long()
    flat = index.flatten(1)[:, None].expand(-1, x.shape[1], -1)
    found = x.flatten(2).gather(2, flat).view(*x.shape[:2], *index.shape[1:])
    return torch.where(is_inside[:, None], found, 0)
