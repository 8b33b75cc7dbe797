"""Adaptive average pooling, as `patches.operations.adaptive_pooling` computes it."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from xla_migrate.runtime.patches.operations import adaptive_pooling
from xla_migrate.runtime.patches.operations._kernels import take_back

from .computing import Case, assert_computed_on_the_device, fallbacks

UNEVEN: dict[str, Case] = {
    "to fewer": lambda x: F.adaptive_avg_pool2d(x, (3, 4)),
    "to more": lambda x: F.adaptive_avg_pool2d(x, 10),
    "in one dimension": lambda x: F.adaptive_avg_pool1d(x[0], 4),
}
EVEN: dict[str, Case] = {
    "evenly": lambda x: F.adaptive_avg_pool2d(x, (7, 3)),
    "to one": lambda x: F.adaptive_avg_pool2d(x, 1),
}


@pytest.fixture
def image() -> torch.Tensor:
    return torch.rand(2, 3, 7, 9, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", [*UNEVEN, *EVEN])
def test_sizes_are_averaged_on_the_device(
    name: str, image: torch.Tensor, device: torch.device
) -> None:
    assert_computed_on_the_device((UNEVEN | EVEN)[name], image, device)


def test_torch_xla_pools_even_sizes_alone(image: torch.Tensor, device: torch.device) -> None:
    take_back(adaptive_pooling.__name__)
    try:
        assert all(fallbacks(case, image.to(device)) for case in UNEVEN.values())
        assert not any(fallbacks(case, image.to(device)) for case in EVEN.values())
    finally:
        adaptive_pooling.apply()
