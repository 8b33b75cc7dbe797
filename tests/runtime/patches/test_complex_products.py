"""Products of complex numbers by einsum, and their gradients (fact 3.62)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from xla_migrate.runtime.patches import complex_products

Function = Callable[..., torch.Tensor]


def _tried(device: Any, function: Function, *values: torch.Tensor) -> list[torch.Tensor]:
    """Of real tensors with a last dimension of two, as complex ones: the result, and their gradients."""
    inputs = [value.detach().to(device).requires_grad_() for value in values]
    result = function(*[torch.view_as_complex(i) for i in inputs])
    assert not result.is_complex()
    weights = torch.arange(result.numel(), device=device).view(result.shape).cos()
    (result * weights).sum().backward()
    return [result.detach().cpu(), *[i.grad.cpu() for i in inputs if i.grad is not None]]


def _agree(device: torch.device, function: Function, *values: torch.Tensor) -> None:
    ours, torchs = _tried(device, function, *values), _tried("cpu", function, *values)
    assert [o.dtype for o in ours] == [t.dtype for t in torchs]
    for ours_is, torchs_is in zip(ours, torchs, strict=True):
        torch.testing.assert_close(ours_is, torchs_is)


def _random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, 2, generator=torch.Generator().manual_seed(sum(shape)))


def test_fact_3_62_torch_xlas_einsum_has_other_gradients(device: torch.device) -> None:
    def product(einsum: Any) -> list[torch.Tensor]:
        def joined(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return torch.view_as_real(einsum("ij,jk->ik", a, b))

        return _tried(device, joined, _random(2, 3), _random(3, 2))

    theirs, ours = product(complex_products._einsum), product(complex_products.einsum)
    assert torch.allclose(theirs[0], ours[0])
    assert not torch.allclose(theirs[1], ours[1])


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: torch.view_as_real(torch.einsum("bij,bjk->bik", a, b)),
        lambda a, b: torch.view_as_real(torch.einsum("bij, bjk -> b", [a, b])),
        lambda a, b: torch.einsum("bij,bjk->ik", a, b.conj()).real,
        lambda a, b: torch.einsum("bij,bjk,bkl->il", a, b, a).imag,
        lambda a, b: torch.view_as_real(torch.einsum("bij->ij", a * b)),
    ],
)
def test_einsum(device: torch.device, function: Function) -> None:
    _agree(device, function, _random(2, 3, 3), _random(2, 3, 3))


def test_real_tensors_are_left_to_torch(device: torch.device) -> None:
    x = torch.tensor([[-1.0, 2.0]], device=device)
    assert torch.einsum("ij->i", x).tolist() == [1.0]
    assert torch.einsum(x, [0, 1], [0]).tolist() == [1.0]
