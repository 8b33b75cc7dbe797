"""Inference mode that a library switches on, on XLA."""

from __future__ import annotations

import pytest
import torch


@torch.inference_mode()
def decorated_by_a_library(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([row.sum() for row in x])


def test_views_in_inference_mode(device: torch.device) -> None:
    x = torch.arange(12.0).reshape(3, 4).to(device).requires_grad_()
    sums = decorated_by_a_library(x)
    assert not sums.requires_grad
    assert sums.tolist() == [6.0, 22.0, 38.0]
    with torch.inference_mode():
        assert not torch.is_grad_enabled()
        assert x.view(12)[2].item() == 2.0
        with torch.inference_mode(False):
            assert x[0].requires_grad
        assert not torch.is_grad_enabled()
    assert torch.is_grad_enabled()


def test_the_results_can_be_trained_on(device: torch.device) -> None:
    """As on `xla.inference_mode`: results are no inference tensors, which training refuses."""
    weight = torch.ones(4, requires_grad=True, device=device)
    features = decorated_by_a_library(torch.ones(4, 2).to(device))
    (features * weight).sum().backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [2.0] * 4


def test_an_exception_ends_it(device: torch.device) -> None:
    with pytest.raises(KeyError), torch.inference_mode():
        raise KeyError
    assert torch.is_grad_enabled()


def test_torch_xla_has_no_views_in_inference_mode(device: torch.device) -> None:
    """What the patch corrects: torch's own context is entered, as it is without the patch."""
    x = torch.ones(4, 2).to(device)
    with (
        torch._C._InferenceMode(True),
        pytest.raises(RuntimeError, match="Cannot set version_counter"),
    ):
        x[0]
