"""Parameters stay themselves when a module moves."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Iterator

import pytest
import torch
from torch import nn

from xla_migrate import runtime as xla
from xla_migrate.runtime.patches import parameter_identity


@pytest.fixture
def stock_torch() -> Iterator[None]:
    """torch's own conversion, to see that the fact still holds."""
    nn.Module._apply = parameter_identity._torch_apply
    try:
        yield
    finally:
        parameter_identity.apply()


def _step(model: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device) -> bool:
    """One step; whether the model was updated by it."""
    before = [p.detach().cpu().clone() for p in model.parameters()]
    model(torch.ones(2, 3, device=device)).sum().backward()
    xla.optimizer_step(optimizer)
    xla.mark_step()
    after = [p.detach().cpu() for p in model.parameters()]
    return all(not torch.equal(a, b) for a, b in zip(before, after, strict=True))


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(3, 3), nn.Linear(3, 3)
        self.decoder.weight = self.encoder.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.decoder(self.encoder(x))


@pytest.mark.usefixtures("stock_torch")
def test_fact_3_1_torch_leaves_an_optimizer_built_before_to_device_behind(
    device: torch.device,
) -> None:
    model = nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    model.to(device)
    assert not _step(model, optimizer, device)


def test_fact_3_1_an_optimizer_built_before_to_device_trains_the_model(
    device: torch.device,
) -> None:
    model = nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    model.to(device)
    assert model.weight.device == device
    assert _step(model, optimizer, device)


@pytest.mark.usefixtures("stock_torch")
def test_fact_3_2_torch_unties_weights(device: torch.device) -> None:
    model = Tied().to(device)
    assert model.encoder.weight is not model.decoder.weight


def test_fact_3_2_tied_weights_stay_tied(device: torch.device) -> None:
    model = Tied().to(device)
    assert model.encoder.weight is model.decoder.weight
    assert len(list(model.parameters())) == 3
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    assert _step(model, optimizer, device)
    assert torch.equal(model.encoder.weight.cpu(), model.decoder.weight.cpu())


def test_fact_3_3_torchs_own_flag_drops_hooks_and_gradients(device: torch.device) -> None:
    """Why the flag of fact 3.3 is not what keeps parameters here."""
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        model = nn.Linear(3, 2).to(device)
        called = []
        model.weight.register_hook(lambda grad: called.append(1))
        model.weight.grad = torch.ones_like(model.weight)
        model.load_state_dict({k: v.cpu() for k, v in model.state_dict().items()})
        assert model.weight.grad is None
        model(torch.ones(1, 3, device=device)).sum().backward()
        assert not called
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)


def test_hooks_attributes_gradients_and_class_survive(device: torch.device) -> None:
    class Special(nn.Parameter):
        pass

    model = nn.Linear(3, 2)
    model.weight = Special(torch.ones(2, 3))
    model.weight.no_weight_decay = True
    model.weight.grad = torch.ones(2, 3)
    calls: list[str] = []
    handle = model.weight.register_hook(lambda grad: (calls.append("hook"), grad * 0)[1])
    model.weight.register_post_accumulate_grad_hook(lambda _: calls.append("after"))
    model.to(device)
    assert type(model.weight) is Special
    assert model.weight.no_weight_decay
    assert model.weight.grad.device == device
    model(torch.ones(1, 3, device=device)).sum().backward()
    assert calls == ["hook", "after"]
    assert torch.equal(model.weight.grad.cpu(), torch.ones(2, 3)), "the hook made the rest zero"
    handle.remove()
    calls.clear()
    model(torch.ones(1, 3, device=device)).sum().backward()
    assert calls == ["after"]


def test_views_and_weak_references_do_not_hinder(device: torch.device) -> None:
    model = nn.Linear(3, 2)
    view, reference = model.weight.view(-1), weakref.ref(model.weight)
    model.to(device)
    assert reference() is model.weight
    assert model.weight.device == device
    assert view.device.type == "cpu"


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_old_weight_norm_moves(device: torch.device) -> None:
    model = nn.utils.weight_norm(nn.Linear(3, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.to(device)
    assert _step(model, optimizer, device)


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.LSTM(3, 3, 2),
        lambda: nn.BatchNorm1d(3),
        lambda: nn.MultiheadAttention(4, 2),
        lambda: nn.utils.parametrizations.weight_norm(nn.Linear(3, 3)),
        lambda: nn.utils.spectral_norm(nn.Linear(3, 3)),
    ],
)
def test_modules_go_there_and_back(device: torch.device, make) -> None:  # type: ignore[no-untyped-def]
    model = make()
    parameters = list(model.parameters())
    model.to(device).bfloat16().float().cpu().to(device)
    assert all(a is b for a, b in zip(parameters, model.parameters(), strict=True))
    assert {p.device for p in parameters} == {device}
    copy.deepcopy(model)


def test_meta_modules_are_materialised(device: torch.device) -> None:
    with torch.device("meta"):
        model = nn.Linear(3, 2)
    weight = model.weight
    model.to_empty(device=device)
    assert model.weight is weight
    assert weight.device == device


def test_backward_through_a_graph_from_before_the_move_is_refused(device: torch.device) -> None:
    model = nn.Linear(3, 2)
    loss = model(torch.ones(1, 3)).sum()
    model.to(device)
    with pytest.raises(RuntimeError, match="moved to another device after this forward pass"):
        loss.backward()


def test_gradient_that_is_not_needed_stays_so(device: torch.device) -> None:
    model = nn.Linear(3, 2)
    model.weight.requires_grad_(False)
    model.to(device)
    assert not model.weight.requires_grad
    assert model.bias.requires_grad
    assert model.bias.is_leaf


def test_on_the_cpu_nothing_is_swapped(eager: None) -> None:
    model = nn.Linear(3, 2)
    loss = model(torch.ones(1, 3)).sum()
    model.double().float()
    loss.backward()
    assert model.weight.grad is not None


def test_a_conversion_asks_once_for_parameters_that_are_alike() -> None:
    """On the device each question is a transfer."""
    model = nn.Sequential(*(nn.Linear(3, 3) for _ in range(3)), nn.Linear(3, 3).to(torch.bfloat16))
    asked = []

    def moved(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.numel() == 0:
            asked.append(tensor.dtype)
        return tensor.to(xla.xla_device())

    model._apply(moved)
    assert asked == [torch.float32, torch.bfloat16]
    assert {p.device.type for p in model.parameters()} == {xla.xla_device().type}
