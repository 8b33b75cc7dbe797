"""``interpolate`` and ``Upsample`` resize as torch does, and without the CPU.

The fault: (1) Without a TPU, torch_xla's "bilinear" gathers a window of pixels and weighs them. The
compiler computes where the window starts twice, and rounds it differently: for some sizes (8 to 64
pixels with aligned corners, 8 to 24 without) the weights meet other pixels, silently. (2) On every
device it computes where a pixel comes from by the two sizes and ignores the factor. They are not the
same where size times factor is no whole number: half of 7 is 3, but a pixel stays two wide. (3) All
other modes, and without a TPU the gradients of "nearest" and "bilinear", run on the CPU.

So the places and weights are computed here, once for each pair of sizes, on the host. TPUs keep
torch_xla's "nearest" and "bilinear" of images where it computes the same. ``antialias`` and "area" are
torch_xla's, too.

To see it: ``interpolate(image, size=(64, 64), mode="bilinear", align_corners=True)`` of 8 by 8 pixels.
It can go when these fail: test_torch_xla_weighs_other_pixels, test_torch_xla_resizes_by_sizes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch.jit._builtins import _register_builtin

from ._versions import Versions

VERSIONS = Versions("torch_xla", "2.9", "2.10")

# torch's functions behind `interpolate`, and how each finds its pixels.
_MODES = {
    "upsample_nearest1d": "nearest",
    "upsample_nearest2d": "nearest",
    "upsample_nearest3d": "nearest",
    "_upsample_nearest_exact1d": "nearest-exact",
    "_upsample_nearest_exact2d": "nearest-exact",
    "_upsample_nearest_exact3d": "nearest-exact",
    "upsample_linear1d": "linear",
    "upsample_bilinear2d": "linear",
    "upsample_trilinear3d": "linear",
    "upsample_bicubic2d": "cubic",
}
_OF_TPUS = frozenset({"upsample_nearest2d", "upsample_bilinear2d"})
_CUBIC = -0.75  # torch's coefficient of cubic convolution

# For each output pixel, the places of its source pixels and the weight of each.
_Taps = tuple[tuple[torch.Tensor, torch.Tensor], ...]


class _Axis(NamedTuple):
    """One dimension: its sizes, and the factor by which pixels are placed, if not by the sizes."""

    size: int
    out: int
    factor: float | None


def apply() -> None:
    """Put ours in their place: `interpolate` finds them by their names."""
    for name, mode in _MODES.items():
        torchs = getattr(torch._C._nn, name)
        ours = _on_the_device(torchs, name, mode)
        _register_builtin(ours, f"aten::{name}")  # type: ignore[no-untyped-call]  # of torch.jit.script
        setattr(torch._C._nn, name, ours)


def _on_the_device(torchs: Callable[..., Any], name: str, mode: str) -> Callable[..., Any]:
    has_corners = not mode.startswith("nearest")

    @functools.wraps(torchs)
    def resized(image: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        # `interpolate` gives the output size, `align_corners` if there is such, and the factors.
        if image.device.type != "xla" or kwargs or len(args) != 2 + has_corners:
            return torchs(image, *args, **kwargs)
        axes = _axes(image.shape[2:], args[0], args[-1])
        align = has_corners and bool(args[1])
        is_by_sizes = align or all(a.factor is None or a.out == a.size * a.factor for a in axes)
        if name in _OF_TPUS and is_by_sizes and _is_tpu():
            return torchs(image, *args)
        return _resized(image, axes, mode, align)

    return resized


def _is_tpu() -> bool:
    from torch_xla import runtime

    return bool(runtime.device_type() == "TPU")


def _axes(
    sizes: Sequence[int], output: Sequence[int] | None, factors: Sequence[float] | None
) -> list[_Axis]:
    if factors is None:
        assert output is not None
        return [_Axis(size, out, None) for size, out in zip(sizes, output, strict=True)]
    return [_Axis(n, math.floor(n * f), f) for n, f in zip(sizes, factors, strict=True)]


def _resized(image: torch.Tensor, axes: list[_Axis], mode: str, align: bool) -> torch.Tensor:
    """(N, C, *sizes) to (N, C, *new sizes), one dimension after the other."""
    dtype = image.dtype
    if dtype in {torch.bfloat16, torch.float16} and not mode.startswith("nearest"):
        image = image.float()  # as CUDA computes it
    # Tensors on the device are kept; a compiler's stand-ins for tensors (FakeTensor) get new ones.
    is_real = type(image) in {torch.Tensor, torch.nn.Parameter}
    on_device = _on_device if is_real else _on_device.__wrapped__
    # What keeps its size is copied, whatever the factor, as CUDA does.
    changed = [dim for dim, axis in enumerate(axes, 2) if axis.out != axis.size]
    if not changed:
        return image.to(dtype, copy=True)
    for dim in reversed(changed):
        taps = on_device(axes[dim - 2], mode, align, image.dtype, image.device)
        shape = [-1] + [1] * (image.dim() - dim - 1)
        parts = [image.index_select(dim, at) * weights.view(shape) for at, weights in taps]
        image = functools.reduce(torch.add, parts)
    return image.to(dtype)


@functools.lru_cache(maxsize=256)
def _on_device(
    axis: _Axis, mode: str, align: bool, dtype: torch.dtype, device: torch.device
) -> _Taps:
    taps = _taps(axis, mode, align, dtype)
    return tuple((places.to(device), weights.to(device)) for places, weights in taps)


def _taps(axis: _Axis, mode: str, align: bool, dtype: torch.dtype) -> _Taps:
    """As torch's CPU and CUDA kernels compute them (aten/src/ATen/native/UpSample.h)."""
    size, out, factor = axis
    is_nearest = mode.startswith("nearest")
    wide = torch.float64 if dtype == torch.float64 and not is_nearest else torch.float32
    pixels = torch.arange(out, dtype=wide)
    if align:
        step = torch.tensor((size - 1) / (out - 1) if out > 1 else 0.0, dtype=wide)
    elif mode == "nearest" and out == 2 * size:
        step = torch.tensor(0.5, dtype=wide)  # torch's shortcut, whatever the factor
    else:
        step = torch.tensor(size / out if factor is None else 1 / factor, dtype=wide)
    if mode == "nearest" or align:
        source = pixels * step
    else:
        source = (pixels + 0.5) * step - (0.0 if is_nearest else 0.5)
    if mode == "linear":
        source = source.clamp(min=0)
    first = source.floor()
    share = source - first
    if is_nearest:
        shares = [(0, torch.ones_like(share))]
    elif mode == "linear":
        shares = [(0, 1 - share), (1, share)]
    else:
        shares = [(k, _cubic((share - k).abs())) for k in range(-1, 3)]
    return tuple(
        ((first.long() + k).clamp(0, size - 1), weights.to(dtype)) for k, weights in shares
    )


def _cubic(x: torch.Tensor) -> torch.Tensor:
    """Return the weights of pixels at distances `x`, from 0 to 2, in cubic convolution."""
    a = _CUBIC
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return torch.where(x <= 1, near, far)
