"""``xla.DataParallel``: inputs from the CPU go where the module is."""

from __future__ import annotations

import torch
from torch import nn

from xla_migrate import runtime as xla


class Sum(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor, *, extra: dict[str, torch.Tensor]) -> torch.Tensor:
        return self.linear(x) + extra["bias"]


def test_inputs_are_brought_to_the_module() -> None:
    torch.manual_seed(0)
    inner = Sum()
    x, bias = torch.ones(4, 3), torch.full((2,), 2.0)
    wanted = inner(x, extra={"bias": bias})
    model = xla.DataParallel(inner, device_ids=[0, 1]).to(xla.xla_device())
    got = model(x, extra={"bias": bias})
    assert got.device == xla.xla_device()
    torch.testing.assert_close(got.cpu(), wanted)
    got.sum().backward()
    assert inner.linear.weight.grad is not None


def test_it_is_torchs_to_whoever_asks() -> None:
    model = xla.DataParallel(nn.Linear(3, 2))
    assert isinstance(model, nn.DataParallel)
    assert sorted(model.state_dict()) == ["module.bias", "module.weight"]
    assert torch.equal(xla.DataParallel(nn.Identity())(torch.ones(2)), torch.ones(2))


class Balanced(xla.DataParallel):
    """As derived classes are written for CUDA."""

    def forward(self, *inputs: torch.Tensor, **kwargs: torch.Tensor) -> torch.Tensor:
        scattered, named = self.scatter(inputs, kwargs, self.device_ids or [-1])
        assert self.dim == 1
        if len(self.device_ids) == 1:
            return self.module(*scattered[0], **named[0])
        replicas = self.replicate(self.module, self.device_ids[: len(scattered)])
        return self.gather(self.parallel_apply(replicas, scattered, named), self.output_device)


def test_a_derived_class_scatters_to_the_one_device() -> None:
    inner = nn.Linear(3, 2)
    x = torch.ones(4, 3)
    wanted = inner(x)
    got = Balanced(inner, dim=1).to(xla.xla_device())(x)
    assert got.device == xla.xla_device()
    torch.testing.assert_close(got.cpu(), wanted)


def test_distributed_data_parallel_of_one_replica_brings_inputs_too() -> None:
    model = xla.DistributedDataParallel(nn.Linear(3, 2).to(xla.xla_device()))
    assert model(torch.ones(4, 3)).device == xla.xla_device()
