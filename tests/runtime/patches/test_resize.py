"""`interpolate` on the device, as `patches.resize` computes it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from xla_migrate.runtime.patches import resize

from ... import warm
from .computing import assert_computed_on_the_device


@pytest.fixture(autouse=True, scope="module")
def _no_weights_stay_on_the_device() -> Iterator[None]:
    """Hundreds of tensors on the device make each step mark of later tests take longer."""
    yield
    resize._on_device.cache_clear()


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
@pytest.mark.parametrize(
    ("factor", "dtype"),
    [*((f, torch.float32) for f in (0.5, 1.7, 3.0, (0.3, 2.5))), (2.1, torch.float64)],
)
def test_images_are_resized_by_their_factor(
    mode: str, factor: Any, dtype: torch.dtype, device: torch.device
) -> None:
    image = torch.rand(2, 3, 13, 9, dtype=dtype)
    tolerance = 1e-12 if dtype == torch.float64 else 1e-5
    case = partial(F.interpolate, scale_factor=factor, mode=mode)
    assert_computed_on_the_device(case, image, device, tolerance)


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_images_are_resized_to_a_size(mode: str, align: bool, device: torch.device) -> None:
    image = torch.rand(1, 2, 12, 8)
    for size in ((20, 24), (48, 64), (34, 5), (12, 1)):
        case = partial(F.interpolate, size=size, mode=mode, align_corners=align)
        assert_computed_on_the_device(case, image, device)


@pytest.mark.parametrize(
    ("mode", "dims"),
    [("linear", 1), ("trilinear", 3), ("nearest", 1), ("nearest", 3), ("nearest-exact", 3)],
)
def test_sequences_and_volumes_are_resized(mode: str, dims: int, device: torch.device) -> None:
    values = torch.rand(2, 3, *(4, 5, 6)[:dims])
    case = partial(F.interpolate, size=(7, 10, 3)[:dims], mode=mode)
    assert_computed_on_the_device(case, values, device)


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_half_precision_is_resized(mode: str, device: torch.device) -> None:
    image = torch.rand(1, 2, 7, 8).bfloat16()
    case = partial(F.interpolate, size=(21, 24), mode=mode)
    assert_computed_on_the_device(case, image, device, 0.05)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
def test_an_image_that_keeps_its_size_is_copied(mode: str, device: torch.device) -> None:
    """As on CUDA; torch's "bicubic" on the CPU copies the gradient, and not the image."""
    image = torch.rand(2, 3, 13, 9, device=device)
    resized = F.interpolate(image, scale_factor=1.01, mode=mode)
    torch.testing.assert_close(resized, image)
    resized.zero_()
    assert image.sum() > 0
    if mode != "bicubic":
        case = partial(F.interpolate, scale_factor=1.01, mode=mode)
        assert_computed_on_the_device(case, image.cpu(), device)


def test_images_are_resized_in_compiled_and_scripted_modules(device: torch.device) -> None:
    up = nn.Upsample(size=(24, 24), mode="bilinear", align_corners=False)
    image = torch.rand(1, 2, 8, 8)
    compiled = torch.compile(up, backend="openxla")
    leaf = image.to(device).requires_grad_()
    torch.testing.assert_close(compiled(leaf).detach().cpu(), up(image))
    torch.testing.assert_close(torch.jit.script(up)(image), up(image))


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_torch_xla_resizes_by_sizes(
    mode: str, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One reason why `patches.resize` is there."""
    for name in resize._MODES:
        monkeypatch.setattr(torch._C._nn, name, getattr(torch._C._nn, name).__wrapped__)
    image = torch.rand(1, 1, 7, 7)
    by_part = partial(F.interpolate, scale_factor=1.7, mode=mode)
    assert (by_part(image) - by_part(image.to(device)).cpu()).abs().max() > 0.01
    whole = partial(F.interpolate, scale_factor=2, mode=mode)
    torch.testing.assert_close(whole(image), whole(image.to(device)).cpu())


def test_torch_xla_weighs_other_pixels() -> None:
    """The other reason, as the compiler optimizes for users (not in tests, see conftest.py)."""
    code = """
import torch, torch_xla
image = torch.rand(2, 2, 8, 8)
how = {"size": (64, 64), "mode": "bilinear", "align_corners": True}
resize = torch.nn.functional.interpolate
stock = (resize(image, **how) - resize(image.to("xla"), **how).cpu()).abs().max()
from xla_migrate import runtime
runtime.xla_device()
ours = (resize(image, **how) - resize(image.to("xla"), **how).cpu()).abs().max()
assert stock > 0.01 and ours < 1e-5, (stock, ours)
"""
    env = {**os.environ, "XLA_FLAGS": "--xla_backend_optimization_level=3"}
    subprocess.run([warm.for_side("target"), "-c", code], env=env, check=True)
