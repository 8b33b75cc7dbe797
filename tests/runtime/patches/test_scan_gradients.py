"""Gradients of a GRU's input, and its precision, whatever was computed before."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from xla_migrate import runtime as xla

SIZES = iter(range(3, 100))  # other shapes for each test: what is cached stays in the process


def _input_gradient(gru: nn.GRU, device: torch.device) -> torch.Tensor | None:
    x = torch.ones(4, 2, gru.input_size, device=device, requires_grad=True)
    gru(x)[0].sum().backward()
    return x.grad


def test_scan_ignores_requires_grad(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch_xla.experimental import scan

    torch_xlas: Any = scan.value_and_grad_partitioned.__wrapped__
    monkeypatch.setattr(scan, "value_and_grad_partitioned", torch_xlas)
    gru = nn.GRU(next(SIZES), 4).to(device)
    gru(torch.ones(4, 2, gru.input_size, device=device))
    assert _input_gradient(gru, device) is None


def test_an_evaluation_comes_first(device: torch.device) -> None:
    gru = nn.GRU(next(SIZES), 4).to(device)
    with torch.no_grad():
        gru(torch.ones(4, 2, gru.input_size, device=device))
    gradient = _input_gradient(gru, device)
    assert gradient is not None
    assert gradient.abs().sum().item() > 0


def test_layers_of_equal_sizes(device: torch.device) -> None:
    size = next(SIZES)
    stock = nn.GRU(size, size, num_layers=2)
    gru = copy.deepcopy(stock).to(device)
    x = torch.randn(4, 2, size)
    for model, given in ((stock, x), (gru, x.to(device))):
        model(given)[0].pow(2).sum().backward()
    for expected, parameter in zip(stock.parameters(), gru.parameters()):
        assert parameter.grad is not None
        assert torch.allclose(parameter.grad.cpu(), expected.grad, atol=1e-5)  # type: ignore[arg-type]


def test_autocast_ends(device: torch.device) -> None:
    stock = nn.GRU(next(SIZES), 8)
    gru = copy.deepcopy(stock).to(device)
    x = torch.randn(4, 2, stock.input_size)
    expected = stock(x)[0]

    def error() -> float:
        return (gru(x.to(device))[0].cpu() - expected).abs().max().item()

    with xla.autocast():
        assert error() > 1e-4
    assert error() < 1e-5
