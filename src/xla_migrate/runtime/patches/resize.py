"""``interpolate`` and ``Upsample`` by a factor resize as torch does.

The fault: torch_xla computes where an output pixel comes from by the two sizes and ignores the factor.
They are not the same where size times factor is no whole number: half of 7 is 3, but a pixel stays two
wide. The values are wrong then, silently. So here they are computed from the factor, for images (4
dimensions) by "nearest" and "bilinear"; all else is torch_xla's.

To see it: ``interpolate(image, scale_factor=1.7, mode="nearest")`` of 7 by 7 pixels, on both devices.
It can go when this fails: test_torch_xla_resizes_by_sizes.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional

from ._versions import Versions

VERSIONS = Versions("torch_xla", "2.9", "2.10")

_torchs = functional.interpolate


def apply() -> None:
    """Put ours in its place: ``nn.Upsample`` calls it by that name, too."""
    functional.interpolate = _interpolate


@functools.wraps(_torchs)
def _interpolate(
    input: torch.Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> torch.Tensor:
    if (
        input.device.type == "xla"
        and input.dim() == 4
        and mode in {"nearest", "bilinear"}
        and scale_factor is not None
        and not (size is not None or align_corners or recompute_scale_factor or antialias)
    ):
        factors = _pair(scale_factor)
        sizes = input.shape[2:]
        if any(not (n * factor).is_integer() for n, factor in zip(sizes, factors, strict=True)):
            return _resized(input, factors, mode)
    return _torchs(
        input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias
    )


def _pair(factor: Any) -> tuple[float, float]:
    height, width = factor if isinstance(factor, Sequence) else (factor, factor)
    return float(height), float(width)


def _resized(image: torch.Tensor, factors: tuple[float, float], mode: str) -> torch.Tensor:
    """(N, C, H, W) to (N, C, floor(H * factor), floor(W * factor))."""
    for dim, factor in zip((2, 3), factors, strict=True):
        wide = image.dtype == torch.float64
        first, second, share = _sources(image.shape[dim], factor, mode, wide)
        near = image.index_select(dim, first.to(image.device))
        if mode == "nearest":
            image = near
            continue
        far = image.index_select(dim, second.to(image.device))
        share = share.to(image.device, image.dtype).view([-1, 1] if dim == 2 else [-1])
        image = near + (far - near) * share
    return image


@functools.lru_cache(maxsize=256)
def _sources(
    size: int, factor: float, mode: str, wide: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the source pixel of each output pixel, the next one, and the share of the next."""
    out = int(size * factor)
    if out == size:  # as torch on the CPU has it, in each dimension by itself
        factor = 1.0
    elif mode == "nearest" and out == 2 * size:
        factor = 2.0
    dtype = torch.float64 if wide and mode == "bilinear" else torch.float32
    step = torch.tensor(1.0 / factor, dtype=dtype)
    pixels = torch.arange(out, dtype=dtype)
    place = pixels * step if mode == "nearest" else ((pixels + 0.5) * step - 0.5).clamp(min=0)
    first = place.floor().long().clamp(max=size - 1)
    return first, (first + 1).clamp(max=size - 1), place - first
