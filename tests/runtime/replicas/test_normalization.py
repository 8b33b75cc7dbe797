"""Batch norm of one replica, and of several."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from xla_migrate import runtime as xla
from xla_migrate.runtime.patches import batch_norm
from xla_migrate.runtime.replicas import normalization


@pytest.mark.parametrize("backend", ["device", "eager"])
@pytest.mark.parametrize("grouped", [False, True])
def test_one_replica_has_the_statistics_of_a_batch_norm(
    backend: str, grouped: bool, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(backend)
    device = xla.xla_device()
    x = torch.randn(8, 3, 2, generator=torch.Generator().manual_seed(0)).to(device)
    plain, ours = nn.BatchNorm1d(3).to(device), xla.SyncBatchNorm(3).to(device)
    if grouped:
        xla.init_process_group("nccl")
    try:
        for _ in range(2):
            assert torch.equal(plain(x).cpu(), ours(x).cpu())
    finally:
        xla.destroy_process_group()
    assert torch.equal(plain.running_var.cpu(), ours.running_var.cpu())
    assert torch.equal(plain.eval()(x).cpu(), ours.eval()(x).cpu())
    assert plain.state_dict().keys() == ours.state_dict().keys()
    assert isinstance(ours, nn.SyncBatchNorm)


class Activated(nn.SyncBatchNorm):
    """A library's, with an activation of its own, as timm's."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x).relu()


@pytest.mark.parametrize("backend", ["device", "eager"])
@pytest.mark.parametrize("replicas", [1, 2])
def test_a_librarys_layer_keeps_its_activation(
    backend: str, replicas: int, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    request.getfixturevalue(backend)
    device = xla.xla_device()
    model = nn.Sequential(nn.Sequential(Activated(3)), nn.BatchNorm1d(3)).to(device)
    before = list(model.state_dict())
    monkeypatch.setattr(normalization, "world_size", lambda: replicas)
    converted = xla.convert_sync_batchnorm(model)
    assert isinstance(converted[0][0], Activated)
    assert isinstance(converted[0][0], xla.SyncBatchNorm)
    assert isinstance(converted[1], xla.SyncBatchNorm) is (replicas > 1)
    assert list(converted.state_dict()) == before
    monkeypatch.undo()
    x = torch.randn(4, 3, 2, generator=torch.Generator().manual_seed(0)).to(device)
    assert torch.equal(converted[0](x).cpu(), nn.BatchNorm1d(3).to(device)(x).relu().cpu())
    assert type(xla.convert_sync_batchnorm(converted)[0][0]) is type(converted[0][0])


def test_conversion_leaves_one_replicas_norms(device: torch.device) -> None:
    model = nn.Sequential(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1))
    assert xla.convert_sync_batchnorm(model) is model
    assert type(model[1]) is nn.BatchNorm2d


@pytest.mark.parametrize("backend", ["device", "eager"])
def test_layers_that_are_synchronised_already_run_off_cuda(
    backend: str, request: pytest.FixtureRequest
) -> None:
    """torch's own raises once there is a process group: "expected input tensor to be on GPU"."""
    request.getfixturevalue(backend)
    device = xla.xla_device()
    model = nn.Sequential(nn.SyncBatchNorm(3)).to(device)
    x = torch.randn(4, 3, 2, generator=torch.Generator().manual_seed(0)).to(device)
    xla.init_process_group("nccl")
    try:
        got = xla.convert_sync_batchnorm(model)(x)
    finally:
        xla.destroy_process_group()
    assert torch.equal(got.cpu(), nn.BatchNorm1d(3).to(device)(x).cpu())


@pytest.mark.parametrize("momentum", [0.1, None])
def test_the_running_variance_is_torchs(device: torch.device, momentum: float | None) -> None:
    """torch_xla alone keeps the biased one."""
    x = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    cpu, ours = (
        nn.BatchNorm1d(3, momentum=momentum),
        nn.BatchNorm1d(3, momentum=momentum).to(device),
    )
    for _ in range(3):
        cpu(x).square().sum().backward()
        ours(x.to(device)).square().sum().backward()
        xla.mark_step()
    torch.testing.assert_close(ours.running_var.cpu(), cpu.running_var)
    torch.testing.assert_close(ours.running_mean.cpu(), cpu.running_mean)
    torch.testing.assert_close(ours.weight.grad.cpu(), cpu.weight.grad)  # type: ignore[union-attr]
    mean, biased = torch.zeros(3, device=device), torch.ones(3, device=device)
    batch_norm._torch_batch_norm(x.to(device), mean, biased, training=True, momentum=1.0)
    torch.testing.assert_close(biased.cpu(), x.var(0, correction=0))


def test_on_cuda_they_are_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(normalization, "device_type", lambda: "cuda")
    monkeypatch.setattr(xla, "device_type", lambda: "cuda")
    assert xla.SyncBatchNorm is nn.SyncBatchNorm
    converted = xla.convert_sync_batchnorm(nn.Sequential(nn.BatchNorm1d(3)))
    assert type(converted[0]) is nn.SyncBatchNorm  # type: ignore[index]


@pytest.mark.parametrize(
    ("norm", "shape"),
    [
        (nn.BatchNorm2d(4), (8, 4, 3, 3)),
        (nn.BatchNorm1d(4), (8, 4)),
        (nn.BatchNorm2d(4, affine=False), (8, 4, 3, 3)),
    ],
)
def test_frozen_norms_have_torchs_gradients(
    device: torch.device, norm: nn.Module, shape: tuple[int, ...]
) -> None:
    torch.manual_seed(0)
    norm(torch.randn(shape) * 3 + 1)  # statistics to freeze
    frozen = copy.deepcopy(norm).eval()
    moved = copy.deepcopy(frozen).to(device)
    x, weights = torch.randn(shape), torch.randn(shape)
    here, there = x.clone().requires_grad_(), x.to(device).requires_grad_()
    (frozen(here) * weights).sum().backward()
    (moved(there) * weights.to(device)).sum().backward()
    pairs = [(here.grad, there.grad), (frozen(x), moved(there.detach()))]
    pairs += [(p.grad, q.grad) for p, q in zip(frozen.parameters(), moved.parameters())]
    for ours, theirs in pairs:
        assert ours is not None
        assert theirs is not None
        torch.testing.assert_close(theirs.cpu(), ours, rtol=1e-5, atol=1e-6)


def test_frozen_norms_keep_the_type_of_their_input(device: torch.device) -> None:
    norm = nn.BatchNorm2d(4).to(device).eval()
    x = torch.randn(2, 4, 3, 3).to(device, torch.bfloat16).requires_grad_()
    assert norm(x).dtype == torch.bfloat16


def test_torch_xla_has_no_backward_of_a_frozen_norm(device: torch.device) -> None:
    """What `patches.batch_norm` makes up for; were it mended in torch_xla, that could go."""
    x = torch.randn(2, 4, 3, 3).to(device).requires_grad_()
    mean, variance = torch.zeros(4, device=device), torch.ones(4, device=device)
    y = batch_norm._torch_batch_norm(x, mean, variance)
    with pytest.raises(RuntimeError, match="size of mean should be compatible"):
        y.sum().backward()
