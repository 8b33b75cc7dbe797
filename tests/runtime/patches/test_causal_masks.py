"""nn.Transformer's causal masks: the same results, without a read in each forward."""

from __future__ import annotations

import pytest
import torch
from torch.nn.modules import transformer

from xla_migrate import runtime as xla
from xla_migrate.runtime.patches import causal_masks


def forward(device: str | torch.device) -> torch.Tensor:
    torch.manual_seed(0)
    model = torch.nn.Transformer(8, 2, 1, 1, 8, dropout=0.0).to(device)
    words = torch.arange(48.0).view(3, 2, 8).sin().to(device)
    mask = model.generate_square_subsequent_mask(3).to(device)
    return model(words, words, src_mask=torch.zeros_like(mask), tgt_mask=mask)


def reads(device: torch.device) -> int:
    xla.mark_step()
    before = xla.metrics()["host_reads"] or 0
    forward(device)
    xla.mark_step()
    return (xla.metrics()["host_reads"] or 0) - before


def test_transformers_of_torch_ask_the_device_for_their_masks(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transformer, "_detect_is_causal_mask", causal_masks._detect)
    assert reads(device) == 2


def test_causal_masks_are_used_as_they_are(device: torch.device) -> None:
    assert reads(device) == 0
    torch.testing.assert_close(forward(device).cpu(), forward("cpu"), atol=1e-5, rtol=1e-4)


def test_what_is_said_of_a_mask_and_masks_elsewhere_count(device: torch.device) -> None:
    mask = torch.nn.Transformer.generate_square_subsequent_mask(3)
    assert transformer._detect_is_causal_mask(mask)
    assert transformer._detect_is_causal_mask(mask.to(device), is_causal=True)
