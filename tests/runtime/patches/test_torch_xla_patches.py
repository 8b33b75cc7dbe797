"""What importing torch_xla does to torch (fact 1.106)."""

from __future__ import annotations

import importlib
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_sequence
from torch.utils.flop_counter import FlopCounterMode

from xla_migrate import runtime as xla
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


def test_gru_runs_in_a_dispatch_mode(device: torch.device, gru: nn.GRU) -> None:
    x = torch.randn(2, 5, 3, device=device)
    found = {}
    for name, mode in (("plain", nullcontext()), ("counted", FlopCounterMode(display=False))):
        with mode:
            gru.to(device)(x)[0].square().sum().backward()
        assert gru.weight_ih_l0.grad is not None
        found[name], gru.weight_ih_l0.grad = gru.weight_ih_l0.grad.cpu(), None
    torch.testing.assert_close(found["counted"], found["plain"])


def test_fact_1_106_gru_runs_on_the_cpu_too(gru: nn.GRU) -> None:
    """torch_xla's own raises there: evaluation, tracing and export after training."""
    x = torch.randn(2, 5, 3)
    assert gru(x)[0].shape == (2, 5, 4)
    packed, _ = gru(pack_sequence([x[0], x[1, :3]]))
    assert packed.data.shape == (8, 4)


@pytest.mark.parametrize(
    ("arguments", "shape"),
    [
        ((3, 4, 1, True, True, 0.0, True), (2, 5, 3)),
        ((3, 4, 2, True, True), (5, 3)),
        ((3, 4), (5, 3)),
    ],
    ids=["bidirectional", "unbatched, batch_first", "unbatched"],
)
def test_gru_runs_as_torchs(
    device: torch.device, arguments: tuple[Any, ...], shape: tuple[int, ...]
) -> None:
    stock: Any = nn.GRU._orig  # type: ignore[attr-defined]
    gru, x = nn.GRU(*arguments), torch.randn(shape)
    expected = stock.forward(gru, x)[0]
    assert torch.allclose(gru.to(device)(x.to(device))[0].cpu(), expected, atol=1e-6)


def test_a_torch_xla_that_does_not_fit_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> None:
        raise ImportError("undefined symbol: _ZN5torch8autograd")

    monkeypatch.setattr(importlib, "import_module", broken)
    with pytest.raises(ImportError, match=r"undefined symbol.*XLA_MIGRATE_BACKEND=eager"):
        modules._torch_xla()


def test_pooling_divisors_are_confused(device: torch.device) -> None:
    """Why XLA520 is there."""
    image = torch.rand(1, 2, 10, 10)
    plain = nn.functional.avg_pool2d(image.to(device), 2).cpu()
    torch.testing.assert_close(plain, nn.functional.avg_pool2d(image, 2))
    pooled = [nn.functional.avg_pool2d(i, 2, divisor_override=1) for i in (image, image.to(device))]
    torch.testing.assert_close(pooled[1].cpu(), plain)
    assert (pooled[0] - pooled[1].cpu()).abs().max() > 0.1
