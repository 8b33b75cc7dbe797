"""Sums of bfloat16 and float16 tensors (fact 3.67)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from xla_migrate.runtime.patches import half_sums

Function = Callable[[torch.Tensor], torch.Tensor]
HALVES = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])


def _at_least(x: torch.Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


REDUCTIONS: dict[str, Function] = {
    "sum": torch.sum,
    "sum of a dimension": lambda x: x.sum((0, 2, 3)),
    "sum in a given type": lambda x: x.sum((0, 2, 3), dtype=torch.float32),
    "mean": torch.mean,
    "mean kept": lambda x: x.mean((0, 2, 3), keepdim=True),
    "mean in a given type": lambda x: x.mean(dtype=x.dtype),
    "var": torch.var,
    "std": lambda x: x.std((0, 2, 3)),
    "std_mean": lambda x: torch.stack(torch.std_mean(x, (0, 2, 3))),
    "norm": torch.Tensor.norm,
    "norm of a dimension": lambda x: x.norm(1, dim=(2, 3)),
    "norm in a given type": lambda x: x.norm(2, dtype=_at_least(x)),
    "vector_norm": torch.linalg.vector_norm,
    "vector_norm in a given type": lambda x: torch.linalg.vector_norm(x, dtype=_at_least(x)),
    "frobenius": lambda x: torch.linalg.matrix_norm(x.flatten(1)),
    "cumsum": lambda x: x.flatten().cumsum(0)[-1],
    "logsumexp": lambda x: x.flatten().logsumexp(0),
    "softmax": lambda x: x.flatten(1).softmax(1),
    "log_softmax": lambda x: x.flatten(1).log_softmax(1),
    "l1_loss": lambda x: functional.l1_loss(x, -x),
    "mse_loss": lambda x: functional.mse_loss(x, -x),
    "smooth_l1_loss": lambda x: functional.smooth_l1_loss(x, -x),
    "binary_cross_entropy": lambda x: functional.binary_cross_entropy(x.sigmoid(), 1 - x.sigmoid()),
    "cross_entropy": lambda x: functional.cross_entropy(
        x.flatten().repeat(4).view(-1, 4), torch.zeros(65536, dtype=torch.long, device=x.device)
    ),
    "pooling": lambda x: functional.adaptive_avg_pool2d(x, 1),
    "pooling by windows": lambda x: functional.avg_pool2d(x, 16),
    "rms_norm": lambda x: functional.rms_norm(x, x.shape[1:]),
    "layer_norm": lambda x: functional.layer_norm(x, x.shape[-1:]),
    "layer_norm of all": lambda x: functional.layer_norm(x, x.shape[1:]),
}


def _random(dtype: torch.dtype) -> torch.Tensor:
    return (torch.randn(2, 32, 32, 32, generator=torch.Generator().manual_seed(0)) + 0.1).to(dtype)


def _off(found: torch.Tensor, exact: torch.Tensor) -> float:
    return float((found.cpu().double() - exact).norm() / exact.norm())


def test_fact_3_67_torch_xla_rounds_after_each_addition(device: torch.device) -> None:
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.XLA)
    ones = torch.ones(65536, dtype=torch.bfloat16, device=device)
    assert half_sums.original("sum")(keys, ones).item() < 65536
    assert ones.sum().item() == 65536


@HALVES
@pytest.mark.parametrize("name", REDUCTIONS)
def test_values_and_gradients_are_as_precise_as_torchs(
    name: str, dtype: torch.dtype, device: torch.device
) -> None:
    function, x = REDUCTIONS[name], _random(dtype)
    exact = x.double().requires_grad_()
    value = function(exact)
    # As large as losses are scaled, so that float16 holds the gradients of a mean.
    weights = 64 * torch.arange(value.numel()).view(value.shape).cos()
    (value * weights).sum().backward()
    precise = 4 * torch.finfo(dtype).eps
    moved = x.to(device).requires_grad_()
    found = function(moved)
    assert found.dtype is function(x).dtype
    assert _off(found.detach(), value.detach()) < precise
    (found * weights.to(device, found.dtype)).sum().backward()
    assert moved.grad is not None
    assert exact.grad is not None
    assert moved.grad.dtype is dtype
    assert _off(moved.grad, exact.grad) < 2 * precise


@HALVES
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_gradients_of_biases(
    dimensions: int, transposed: bool, dtype: torch.dtype, device: torch.device
) -> None:
    kind = f"conv_transpose{dimensions}d" if transposed else f"conv{dimensions}d"
    convolution = getattr(functional, kind)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4, 3, *[64, 16, 8][dimensions - 1 :][:1] * dimensions, generator=generator)
    weight = torch.randn(3, 3, *[3] * dimensions, generator=generator)

    def gradients(place: Any, kind: torch.dtype) -> list[torch.Tensor]:
        inputs = [t.to(dtype).to(place, kind).requires_grad_() for t in (x, weight, torch.zeros(3))]
        output = convolution(*inputs)
        output.backward(torch.full_like(output, 1.001))
        return [i.grad.cpu() for i in inputs if i.grad is not None]

    found, exact = gradients(device, dtype), gradients("cpu", torch.float64)
    assert [gradient.dtype for gradient in found] == [dtype] * 3
    assert _off(found[2], exact[2]) < torch.finfo(dtype).eps
    for ours, right in zip(found[:2], exact[:2], strict=True):
        assert _off(ours, right) < 16 * torch.finfo(dtype).eps


def test_of_a_linear_layers_bias(device: torch.device) -> None:
    bias = torch.zeros(3, dtype=torch.bfloat16, device=device).requires_grad_()
    weight = torch.ones(3, 2, dtype=torch.bfloat16, device=device)
    functional.linear(
        torch.ones(65536, 2, dtype=torch.bfloat16, device=device), weight, bias
    ).sum().backward()
    assert bias.grad is not None
    assert bias.grad.tolist() == [65536.0] * 3


def test_gradients_are_clipped_at_their_norm(device: torch.device) -> None:
    parameter = torch.nn.Parameter(torch.zeros(65536, dtype=torch.bfloat16, device=device))
    parameter.grad = torch.ones_like(parameter)
    norm = torch.nn.utils.clip_grad_norm_([parameter], 1.0)
    assert norm.item() == 256
    assert parameter.grad[0].item() == pytest.approx(1 / 256, rel=1e-2)


def test_other_types_are_left_alone(device: torch.device) -> None:
    numbers = torch.arange(10, device=device)
    assert numbers.sum().dtype is torch.int64
    assert numbers.double().mean().dtype is torch.float64
    assert numbers.sum(dtype=torch.float32).item() == 45
    assert (numbers > 4).sum().item() == 5
