"""Computing in float64, or with errors, in place of a script's own arithmetic."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn

from xla_migrate.verify.observe.numerics import device_random
from xla_migrate.verify.observe.numerics.arithmetic import (
    Computing,
    OneType,
    collectives,
    install,
    recurrent,
)
from xla_migrate.verify.observe.process import clock
from xla_migrate.verify.observe.process.patching import Patches

from ... import warm


def gradients(of: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    of.zero_grad()
    of(x).pow(2).sum().backward()
    return [p.grad.double() for p in of.parameters() if p.grad is not None]


def models() -> list[tuple[nn.Module, torch.Tensor]]:
    torch.manual_seed(0)
    image = torch.randn(3, 2, 6, 6) * 3 + 400
    conv = nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(64, 3)
    )
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    return [(conv, image), (layer, torch.randn(2, 5, 8))]


@pytest.mark.parametrize(("model", "x"), models())
def test_gradients_are_float64s_rounded_once(model: nn.Module, x: torch.Tensor) -> None:
    with Computing(True), OneType():
        found = gradients(model, x)
        assert model(x).dtype == torch.float64
    assert all(p.dtype == torch.float32 for p in model.parameters())
    exact = gradients(model.double(), x.double())
    largest = max(g.abs().max().item() for g in exact)
    for ours, theirs in zip(found, exact, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=2e-7, atol=1e-7 * largest)


def test_recurrent_layers_compute_in_float64() -> None:
    layer = nn.LSTM(3, 4, batch_first=True)
    patches = Patches()
    recurrent(patches)
    try:
        with torch.backends.mkldnn.flags(enabled=False), Computing(True), OneType():  # type: ignore[no-untyped-call]
            out, _ = layer(torch.ones(2, 5, 3) * 1.0)
            out.sum().backward()
    finally:
        patches.undo()
    assert out.dtype == torch.float64
    assert layer.weight_ih_l0.grad is not None
    assert layer.weight_ih_l0.grad.dtype == torch.float32


def test_collectives_write_into_the_tensors_themselves() -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # type: ignore[attr-defined]
    patches = Patches()
    collectives(patches)
    try:
        with Computing(True), OneType():
            right = torch.zeros(2)
            computed = torch.ones(2) + 1
            both = [torch.zeros(2), torch.zeros(2)]
            dist.all_gather([right], torch.full((2,), 3.0))
            dist.all_gather(both[:1], computed)
            dist.all_reduce(computed)
    finally:
        patches.undo()
        dist.destroy_process_group()
    assert computed.dtype == torch.float64
    assert (right.tolist(), both[0].tolist(), computed.tolist()) == ([3, 3], [2, 2], [2, 2])


def test_views_in_place_turn_the_tensor_itself() -> None:
    with Computing(True), OneType():
        wide = torch.ones(2, 3)
        wide.t_()
        weight = torch.empty(2, 5)
        nn.init.orthogonal_(weight)  # turns it twice
    assert wide.shape == (3, 2)
    assert wide.dtype == torch.float32
    torch.testing.assert_close(weight @ weight.T, torch.eye(2))


def test_what_is_written_to_keeps_its_type_and_identity() -> None:
    weight, step = torch.ones(3), torch.full((3,), 1e-9)
    with Computing(True):
        out = weight.add_(step).mul_(0.5)
        torch._foreach_add_([weight], [step])
        norm = nn.BatchNorm1d(2)
        norm(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert out is weight
    assert weight.dtype == torch.float32
    assert norm.running_mean is not None
    torch.testing.assert_close(norm.running_mean, torch.tensor([0.2, 0.3]))


def test_random_draws_and_copies_are_those_of_any_run() -> None:
    torch.manual_seed(3)
    expected = nn.Linear(4, 4).weight.detach().clone(), torch.rand(5), torch.randperm(7)
    with Computing(True, 1e-3):
        torch.manual_seed(3)
        found = nn.Linear(4, 4).weight.detach().clone(), torch.rand(5), torch.randperm(7)
    for a, b in zip(expected, found, strict=True):
        assert a.dtype == b.dtype
        assert torch.equal(a, b)


def test_batches_of_a_loader_are_float32s() -> None:
    class Data(torch.utils.data.Dataset[torch.Tensor]):
        def __len__(self) -> int:
            return 4

        def __getitem__(self, n: int) -> torch.Tensor:
            return torch.full((2,), float(n)) * 0.1

    patches = Patches()
    device_random.install(patches)
    try:
        with Computing(True):
            batches = list(torch.utils.data.DataLoader(Data(), batch_size=2))
    finally:
        patches.undo()
    assert [b.dtype for b in batches] == [torch.float32] * 2


def test_errors_are_of_the_asked_size_and_the_same_each_time() -> None:
    x = torch.rand(1000) + 1
    found = []
    for _ in range(2):
        with Computing(False, 1e-3):
            found.append(x * 1.0)
    assert torch.equal(*found)
    off = (x - found[0]) / x
    assert found[0].dtype == torch.float32
    assert off.min() > -1e-6
    assert 9e-4 < off.max() <= 1.001e-3
    with Computing(False, 1e-3), clock.harness():
        assert torch.equal(x * 1.0, x)  # what the harness computes is right


def test_numbers_of_the_script_are_cast_as_it_says() -> None:
    """Only in float64 everywhere is a cast to float32 ours."""
    numbers = np.zeros(3)
    with Computing(False, 1e-3):
        assert torch.FloatTensor(numbers).dtype is torch.float32
        assert torch.from_numpy(numbers).float().dtype is torch.float32
    with Computing(True):
        assert torch.from_numpy(numbers).float().dtype is torch.float64


def test_probabilities_stay_probabilities() -> None:
    with Computing(False, 1e-2):
        loss = nn.functional.binary_cross_entropy(torch.full((9,), 30.0).sigmoid(), torch.ones(9))
    assert torch.isfinite(loss)


def test_an_arithmetic_that_there_is_not() -> None:
    with pytest.raises(ValueError, match="float128"):
        install(Patches(), "float128")


def test_adam_takes_gradients_of_either_type() -> None:
    """As the sum of two backward passes leaves them; on XLA `lerp_` wants one type."""
    weight, gradient = torch.ones(3), torch.full((3,), 1 / 3, dtype=torch.float64)
    with Computing(True), OneType():
        out = weight.lerp_(gradient, 0.5)
    assert out is weight
    assert weight.dtype == torch.float32
    torch.testing.assert_close(weight, torch.full((3,), 2 / 3))


@pytest.mark.parametrize("optimizer", [torch.optim.AdamW, torch.optim.SGD, torch.optim.Adagrad])
def test_fused_optimizers_step_in_float64(optimizer: type[torch.optim.Optimizer]) -> None:
    def trained(fused: bool) -> torch.Tensor:
        weight = nn.Parameter(torch.linspace(1, 2, 5))
        steps = optimizer([weight], lr=0.1, fused=fused)  # type: ignore[call-arg]
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        for _ in range(3):
            steps.zero_grad()
            scaler.scale(weight.pow(3).sum()).backward()
            scaler.step(steps)
            scaler.update()
        return weight.detach()

    with Computing(True), OneType():
        fused = trained(True)
    assert fused.dtype == torch.float32
    torch.testing.assert_close(fused, trained(False))


def test_a_loss_scaler_unscales() -> None:
    weight = nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([weight], lr=0.5)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    with Computing(True), OneType():
        scaler.scale((weight * 3).sum()).backward()
        scaler.unscale_(optimizer)
        assert weight.grad is not None
        assert weight.grad.tolist() == [3.0] * 3
        scaler.step(optimizer)
        scaler.update()
    assert weight.tolist() == [-0.5] * 3


def test_what_is_written_into_a_view_on_xla_stays() -> None:
    torch_xla = pytest.importorskip("torch_xla")
    device = torch_xla.device()
    with Computing(True), OneType():
        moved, made = torch.zeros(3, 2).to(device), torch.full((3, 2), 1.0, device=device)
        moved[1] = made[0] * 2
        made[2] = torch.arange(2.0, device=device)
        made.index_copy_(0, torch.tensor([0], device=device), torch.zeros(1, 2, device=device))
        found = moved.cpu().tolist(), made.cpu().tolist(), (moved + made).sum().item()
    assert found == ([[0, 0], [2, 2], [0, 0]], [[0, 0], [1, 1], [0, 1]], 7.0)


_PRINT = """
import torch
{imported}
torch.manual_seed(0)
print(torch.ones(2))
print(torch.full((2,), 2.0))
"""


@pytest.mark.parametrize(
    "imported",
    [
        "from xla_migrate.verify.observe.numerics.arithmetic import install\n"
        "from xla_migrate.verify.observe.process.patching import Patches\n"
        "install(Patches(), 'float64')",
        "from xla_migrate.runtime.compiling.lines_on_native import install\ninstall()",
    ],
)
def test_tensors_can_be_printed_in_a_mode_that_is_on_for_good(imported: str) -> None:
    """torch frees a dispatch mode that nobody keeps when it prints a tensor, and ends the process."""
    done = subprocess.run(
        [warm.python(*warm.TORCH), "-c", _PRINT.format(imported=imported)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "tensor([1., 1.])\ntensor([2., 2.])\n"
