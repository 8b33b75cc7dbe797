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
