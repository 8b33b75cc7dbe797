"""Optimizers on XLA."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

from xla_migrate import runtime as xla

GRADIENTS = [[3.0, 4.0], [1.0, -2.0], [0.5, 0.0]]


def trained(device: torch.device, **options: object) -> list[float]:
    """Three steps from ones, by gradients that can be worked out by hand."""
    weight = nn.Parameter(torch.ones(2, device=device))
    optimizer = xla.NovoGrad([weight], lr=0.1, betas=(0.5, 0.75), eps=0.0, **options)  # type: ignore[arg-type]
    for gradient in GRADIENTS:
        weight.grad = torch.tensor(gradient, device=device)
        xla.optimizer_step(optimizer)
        xla.mark_step()
    return weight.tolist()


def by_hand(
    bias_correction: bool = True,
    weight_decay: float = 0.0,
    reg_inside_moment: bool = False,
    grad_averaging: bool = True,
    norm_type: int = 2,
    init_zero: bool = False,
) -> list[float]:
    """The recurrences, on Python's floats."""
    weight, moment, norm = [1.0, 1.0], [0.0, 0.0], None
    for step, gradient in enumerate(GRADIENTS, start=1):
        size = max(map(abs, gradient)) if norm_type == 0 else sum(g * g for g in gradient) ** 0.5
        if norm is None:
            norm = 0.0 if init_zero else size
        if norm_type == 0:
            norm = 0.75 * norm + 0.25 * size
        else:
            norm = (0.75 * norm**2 + 0.25 * size**2) ** 0.5
        first, second = (1 - 0.5**step, (1 - 0.75**step) ** 0.5) if bias_correction else (1, 1)
        for i, g in enumerate(gradient):
            if reg_inside_moment:
                g = g / (norm / second) + weight_decay * weight[i]
            moment[i] = 0.5 * moment[i] + (0.5 if grad_averaging else 1.0) * g
            update = moment[i] / first
            if not reg_inside_moment:
                update = update / (norm / second) + weight_decay * weight[i]
            weight[i] -= 0.1 * update
    return weight


CHOICES = {
    "bias_correction": [True, False],
    "weight_decay": [0.0, 0.1],
    "reg_inside_moment": [False, True],
    "grad_averaging": [True, False],
    "norm_type": [2, 0],
    "init_zero": [False, True],
}


@pytest.mark.parametrize("values", list(itertools.product(*CHOICES.values())))
def test_novograd_is_its_recurrences(eager: None, values: tuple[object, ...]) -> None:
    options = dict(zip(CHOICES, values, strict=True))
    found = trained(torch.device("cpu"), **options)
    assert found == pytest.approx(by_hand(**options), rel=1e-5)  # type: ignore[arg-type]


def test_novograd_on_xla_reads_nothing_and_compiles_once(device: torch.device) -> None:
    assert trained(device, weight_decay=0.1) == pytest.approx(by_hand(weight_decay=0.1), rel=1e-5)
    weight = nn.Parameter(torch.ones(2, device=device))
    optimizer = xla.NovoGrad([weight], lr=0.1)
    counts = []
    for gradient in GRADIENTS * 3:
        weight.grad = torch.tensor(gradient).to(device)
        xla.optimizer_step(optimizer)
        xla.mark_step()
        counts.append(xla.metrics())
    assert counts[-1]["compiles"] == counts[2]["compiles"]
    assert counts[-1]["host_reads"] == counts[0]["host_reads"]


def test_novograd_continues_from_its_state(eager: None) -> None:
    def steps(weight: nn.Parameter, optimizer: xla.NovoGrad, gradients: list[list[float]]) -> None:
        for gradient in gradients:
            weight.grad = torch.tensor(gradient)
            optimizer.step()

    through, stopped = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    steps(through, xla.NovoGrad([through], lr=0.1), GRADIENTS)
    optimizer = xla.NovoGrad([stopped], lr=0.1)
    steps(stopped, optimizer, GRADIENTS[:2])
    again = xla.NovoGrad([stopped], lr=0.9)
    again.load_state_dict(optimizer.state_dict())
    steps(stopped, again, GRADIENTS[2:])
    assert torch.equal(through, stopped)


def test_novograd_takes_a_closure_and_refuses_other_norms(eager: None) -> None:
    weight = nn.Parameter(torch.ones(2))
    assert xla.NovoGrad([weight]).step(lambda: 7) == 7
    with pytest.raises(ValueError, match="norm_type=1"):
        xla.NovoGrad([weight], norm_type=1)
