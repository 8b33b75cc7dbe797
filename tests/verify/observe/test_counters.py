"""What torch_xla counts is attributed to the script."""

from __future__ import annotations

import importlib

import pytest
import torch

from xla_migrate.runtime import xla_device
from xla_migrate.verify.observe.device import counters


def test_an_operation_that_ran_on_the_cpu_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "_met", None)
    assert counters.fallbacks() == []
    counters.install(importlib.import_module("torch_xla.debug.metrics"))
    x = torch.arange(6.0, device=xla_device())
    assert torch.histc(x, 2).tolist() == [3.0, 3.0]
    assert x.sum().item() == 15
    assert "aten::histc" in counters.fallbacks()
    assert "aten::sum" not in counters.fallbacks()


def test_the_size_of_a_step_is_that_of_its_largest_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "_met", None)
    counters.install(importlib.import_module("torch_xla.debug.metrics"))
    x = torch.arange(6.0, device=xla_device())
    before = counters.sample()
    y = x
    for _ in range(20):
        y = y * x + 1
    assert y.sum().item() > 0
    assert (x + 1).tolist()[0] == 1
    assert counters.difference(counters.sample(), before)["graph"] > 20
