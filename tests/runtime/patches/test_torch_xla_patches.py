"""What importing torch_xla does to torch (fact 1.106)."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_sequence
from torch_xla.debug import metrics

from xla_migrate import runtime as xla
from xla_migrate.runtime.patches import resize
from xla_migrate.runtime.torch_xla import modules


def test_fact_1_106_clip_grad_norm_is_replaced(device: torch.device) -> None:
    """Both work, whichever a script imported."""
    replaced = nn.utils.clip_grad_norm_
    stock: Any = replaced._orig  # type: ignore[attr-defined]
    norms, gradients = [], []
    for clip in (replaced, stock):
        parameter = nn.Parameter(torch.ones(4, device=device))
        parameter.grad = torch.full((4,), 3.0, device=device)
        xla.mark_step()
        reads = xla.metrics()["host_reads"]
        norm = clip([parameter], 1.0)
        xla.mark_step()
        assert xla.metrics()["host_reads"] == reads, "clipping reads nothing back"
        norms.append(norm.item())
        gradients.append(parameter.grad.tolist())
    assert norms == pytest.approx([6.0, 6.0])
    assert gradients[0] == pytest.approx([0.5] * 4)
    assert gradients[1] == pytest.approx(gradients[0])
    assert replaced([nn.Parameter(torch.ones(1))], 1.0).device.type == "xla"
    with pytest.raises(RuntimeError, match="foreach"):
        replaced([parameter], 1.0, foreach=True)


def test_fact_1_106_torchs_own_clipping_refuses_foreach_too(device: torch.device) -> None:
    """What XLA310 relies on."""
    parameter = nn.Parameter(torch.ones(4, device=device))
    parameter.grad = torch.ones(4, device=device)
    norm = torch.tensor(2.0, device=device)
    for clip in (
        lambda: nn.utils.clip_grad_value_([parameter], 1.0, foreach=True),
        lambda: nn.utils.clip_grads_with_norm_([parameter], 1.0, norm, foreach=True),
        lambda: nn.utils.get_total_norm([parameter.grad], foreach=True),
    ):
        with pytest.raises(RuntimeError, match="foreach"):
            clip()


@pytest.fixture
def gru(device: torch.device) -> nn.GRU:
    torch.manual_seed(0)
    return nn.GRU(3, 4, batch_first=True)


def test_fact_1_106_gru_is_replaced_and_agrees(device: torch.device, gru: nn.GRU) -> None:
    stock: Any = nn.GRU._orig  # type: ignore[attr-defined]
    assert type(gru) is not stock
    assert isinstance(gru, stock)
    x = torch.randn(2, 5, 3)
    expected = stock.forward(gru, x)[0]
    assert torch.allclose(gru.to(device)(x.to(device))[0].cpu(), expected, atol=1e-6)


def test_fact_1_106_gru_runs_on_the_cpu_too(gru: nn.GRU) -> None:
    """torch_xla's own raises there: evaluation, tracing and export after training."""
    x = torch.randn(2, 5, 3)
    assert gru(x)[0].shape == (2, 5, 4)
    packed, _ = gru(pack_sequence([x[0], x[1, :3]]))
    assert packed.data.shape == (8, 4)


def test_a_torch_xla_that_does_not_fit_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> None:
        raise ImportError("undefined symbol: _ZN5torch8autograd")

    monkeypatch.setattr(importlib, "import_module", broken)
    with pytest.raises(ImportError, match=r"undefined symbol.*XLA_MIGRATE_BACKEND=eager"):
        modules._torch_xla()


def _resized(image: torch.Tensor, **how: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the image that `interpolate` makes, and the gradient of its squares."""
    leaf = image.detach().clone().requires_grad_()
    out = nn.functional.interpolate(leaf, **how)
    out.float().pow(2).sum().backward()  # type: ignore[no-untyped-call]
    assert leaf.grad is not None
    return out.detach().cpu(), leaf.grad.cpu()


def _assert_resized_alike(image: torch.Tensor, device: torch.device, **how: Any) -> None:
    """On the device, the image and its gradient are the CPU's, and nothing runs on the CPU."""
    expected = _resized(image, **how)
    moved = image.to(device)
    xla.mark_step()
    before = _fallbacks()
    found = _resized(moved, **how)
    assert _fallbacks() == before
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 0.05}[image.dtype]
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def _fallbacks() -> set[str]:
    names: list[str] = metrics.counter_names()  # type: ignore[no-untyped-call]
    return {name for name in names if name.startswith("aten::upsample")}


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
@pytest.mark.parametrize("factor", [0.5, 1.7, 2.1, 3.0, (0.3, 2.5)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_images_are_resized_by_their_factor(
    mode: str, factor: Any, dtype: torch.dtype, device: torch.device
) -> None:
    image = torch.rand(2, 3, 13, 9, dtype=dtype)
    _assert_resized_alike(image, device, scale_factor=factor, mode=mode)


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_images_are_resized_to_a_size(mode: str, align: bool, device: torch.device) -> None:
    image = torch.rand(1, 2, 12, 8)
    for size in ((20, 24), (48, 64), (34, 5), (12, 1)):
        _assert_resized_alike(image, device, size=size, mode=mode, align_corners=align)


@pytest.mark.parametrize(
    ("mode", "dims"),
    [("linear", 1), ("trilinear", 3), ("nearest", 1), ("nearest", 3), ("nearest-exact", 3)],
)
def test_sequences_and_volumes_are_resized(mode: str, dims: int, device: torch.device) -> None:
    values = torch.rand(2, 3, *(4, 5, 6)[:dims])
    _assert_resized_alike(values, device, size=(7, 10, 3)[:dims], mode=mode)


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_half_precision_is_resized(mode: str, device: torch.device) -> None:
    image = torch.rand(1, 2, 7, 8).bfloat16()
    _assert_resized_alike(image, device, size=(21, 24), mode=mode)


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
    resized = [_resized(image.to(p), scale_factor=1.7, mode=mode)[0] for p in ("cpu", device)]
    assert (resized[0] - resized[1]).abs().max() > 0.01


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
    subprocess.run([sys.executable, "-c", code], env=env, check=True)


def test_pooling_divisors_are_confused(device: torch.device) -> None:
    """Why XLA520 is there."""
    image = torch.rand(1, 2, 10, 10)
    plain = nn.functional.avg_pool2d(image.to(device), 2).cpu()
    torch.testing.assert_close(plain, nn.functional.avg_pool2d(image, 2))
    pooled = [nn.functional.avg_pool2d(i, 2, divisor_override=1) for i in (image, image.to(device))]
    torch.testing.assert_close(pooled[1].cpu(), plain)
    assert (pooled[0] - pooled[1].cpu()).abs().max() > 0.1
