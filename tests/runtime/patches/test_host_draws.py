"""Random functions with a CPU generator: the CPU's numbers, without a read from the device."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from xla_migrate import runtime as xla
from xla_migrate.runtime.patches.host import draws
from xla_migrate.runtime.patches.operations._kernels import take_back

from .computing import fallbacks_of

Draw = Callable[[torch.Tensor, torch.Generator], torch.Tensor]

DRAWS: dict[str, Draw] = {
    "randn": lambda x, g: torch.randn(2, 3, device=x.device, generator=g),
    "randn in bfloat16": lambda x, g: torch.randn(
        (2, 16), dtype=torch.bfloat16, device=x.device, generator=g
    ),
    "rand": lambda x, g: torch.rand(5, device=x.device, generator=g),
    "randint": lambda x, g: torch.randint(3, 9, (5,), device=x.device, generator=g),
    "normal": lambda x, g: torch.normal(1.0, 2.0, (5,), device=x.device, generator=g),
    "normal_": lambda x, g: x.normal_(1.0, 2.0, generator=g),
    "uniform_": lambda x, g: x.uniform_(-1, 1, generator=g),
    "random_": lambda x, g: x.random_(generator=g),
    "random_ to": lambda x, g: x.random_(9, generator=g),
    "random_ from": lambda x, g: x.random_(3, 9, generator=g),
    "bernoulli_": lambda x, g: x.bernoulli_(0.5, generator=g),
    "trunc_normal_": lambda x, g: torch.nn.init.trunc_normal_(x, generator=g),
    "a column": lambda x, g: x[:, 1].normal_(generator=g),
}


def drawn(draw: Draw, device: torch.device | str) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.stack([draw(torch.zeros(3, 4).to(device), generator).cpu() for _ in range(2)])


@pytest.mark.parametrize("name", DRAWS)
def test_fact_1_33_it_draws_the_cpus_numbers(name: str, device: torch.device) -> None:
    torch.testing.assert_close(drawn(DRAWS[name], device), drawn(DRAWS[name], "cpu"))
    assert fallbacks_of(lambda: drawn(DRAWS[name], device)) == []


def test_it_reads_nothing(device: torch.device) -> None:
    reads = xla.metrics()["host_reads"]
    torch.randn(2, device=device, generator=xla.generator())
    assert xla.metrics()["host_reads"] == reads


def test_without_a_generator_the_device_draws(device: torch.device) -> None:
    def number() -> float:
        xla.manual_seed(1)
        return torch.zeros(2, device=device).normal_().sum().item()

    assert number() == number()
    uploads = xla.metrics()["uploads"]
    torch.rand(2, device=device).uniform_()
    assert xla.metrics()["uploads"] == uploads


def test_torch_xla_reads_a_tensor_to_draw_it(device: torch.device) -> None:
    take_back(draws.__name__)
    try:
        torch.testing.assert_close(drawn(DRAWS["randn"], device), drawn(DRAWS["randn"], "cpu"))
        assert "aten::normal_" in fallbacks_of(lambda: drawn(DRAWS["randn"], device))
    finally:
        draws.apply()
