"""Losses of what a mask selects: torch's values and gradients, without a read of the mask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from xla_codemods.analysis.training.shapes import masked_selections
from xla_migrate import runtime as xla
from xla_migrate.runtime.indexing import losses

Loss = Callable[..., torch.Tensor]
ROWS = torch.tensor([True, False, True, True])
SCORES, CLASSES = torch.linspace(-2, 2, 20).view(4, 5), torch.tensor([1, 7, 4, 0])
IMAGES, LABELS = torch.linspace(-1, 1, 60).view(2, 2, 5, 3), torch.arange(12).view(2, 2, 3) % 5
CHANCES, TRUTHS = torch.sigmoid(SCORES), (torch.arange(20).view(4, 5) % 2).float()
WEIGHT = torch.linspace(0.5, 1.5, 5)

CASES: dict[str, tuple[Loss, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]] = {
    "mse": (F.mse_loss, SCORES, TRUTHS, ROWS, {}),
    "mse of elements": (nn.MSELoss(), SCORES, TRUTHS, SCORES > 0.3, {}),
    "sum": (nn.L1Loss(reduction="sum"), SCORES, TRUTHS, ROWS, {}),
    "by element": (F.l1_loss, SCORES, TRUTHS, ROWS, {"reduction": "none"}),
    "huber": (F.huber_loss, SCORES, TRUTHS, ROWS, {"delta": 0.5}),
    "smooth": (nn.SmoothL1Loss(beta=0.3), SCORES, TRUTHS, ROWS, {}),
    "binary": (F.binary_cross_entropy, CHANCES, TRUTHS, ROWS, {"weight": WEIGHT}),
    "binary, weights by row": (nn.BCELoss(WEIGHT.expand(3, 5)), CHANCES, TRUTHS, ROWS, {}),
    "logits": (nn.BCEWithLogitsLoss(pos_weight=WEIGHT), SCORES, TRUTHS, ROWS, {}),
    "classes": (F.cross_entropy, SCORES, CLASSES, ROWS, {}),
    "weighted classes": (nn.CrossEntropyLoss(WEIGHT, label_smoothing=0.1), SCORES, CLASSES, ROWS, {}),
    "ignored classes": (nn.CrossEntropyLoss(ignore_index=4), SCORES, CLASSES, ROWS, {}),
    "ignored classes of a call": (F.cross_entropy, SCORES, CLASSES, ROWS, {"ignore_index": 4}),
    "probabilities": (F.cross_entropy, SCORES, CHANCES, ROWS, {"weight": WEIGHT}),
    "likelihood": (F.nll_loss, SCORES, CLASSES, ROWS, {"reduction": "mean"}),
    "masks of two dimensions": (
        F.cross_entropy, IMAGES, LABELS, torch.tensor([[True, False], [True, True]]), {},
    ),
    "nothing": (F.mse_loss, SCORES, TRUTHS, torch.zeros(4, dtype=torch.bool), {}),
    "no class": (F.cross_entropy, SCORES, CLASSES, torch.zeros(4, dtype=torch.bool), {}),
    "broadcast": (F.mse_loss, SCORES[:, :1], CLASSES.float(), ROWS, {}),
    "of others": (lambda x, y: (x - y).pow(2).amax(), SCORES, TRUTHS, ROWS, {}),
    "not a number outside": (
        F.smooth_l1_loss, SCORES.where(ROWS[:, None], torch.nan), TRUTHS.where(ROWS[:, None], torch.nan), ROWS, {},
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_torchs(name: str, device: torch.device) -> None:
    loss, output, target, mask, options = CASES[name]

    def computed(where: torch.device, call: Loss, **by: torch.Tensor) -> list[torch.Tensor]:
        leaf = output.to(where).clone().requires_grad_()
        moved = loss.to(where) if isinstance(loss, nn.Module) else loss
        given = {k: v.to(where) if torch.is_tensor(v) else v for k, v in options.items()}
        found = call(moved, leaf * 1, target.to(where), mask.to(where), **given)
        found.sum().backward()
        assert leaf.grad is not None
        return [found.detach().cpu(), leaf.grad.cpu()]

    def selected(
        loss: Loss, x: torch.Tensor, y: torch.Tensor, mask: torch.Tensor, **options: Any
    ) -> torch.Tensor:
        return loss(x[mask], y[mask], **options)

    def whole(
        loss: Loss, x: torch.Tensor, y: torch.Tensor, mask: torch.Tensor, **options: Any
    ) -> torch.Tensor:
        return xla.masked_loss(loss, x, y, mask=mask, **options)

    expected = computed(torch.device("cpu"), selected)
    torch.testing.assert_close(computed(device, whole), expected, equal_nan=True)
    torch.testing.assert_close(computed(torch.device("cpu"), whole), expected, equal_nan=True)


def test_a_loss_module_keeps_its_reduction(device: torch.device) -> None:
    loss = nn.MSELoss()
    xla.masked_loss(loss, SCORES.to(device), TRUTHS.to(device), mask=ROWS.to(device))
    assert loss.reduction == "mean"


@pytest.mark.parametrize("name", ["mse", "logits", "weighted classes", "masks of two dimensions"])
def test_nothing_is_read_and_compiled_again(name: str, device: torch.device) -> None:
    loss, output, target, mask, options = CASES[name]
    loss = loss.to(device) if isinstance(loss, nn.Module) else loss
    output, target = output.to(device), target.to(device)

    def step(mask: torch.Tensor) -> None:
        found = xla.masked_loss(loss, output, target, mask=mask, **options)
        kept.append(found)
        xla.mark_step()

    kept: list[torch.Tensor] = []
    masks = [m.to(device) for m in (mask, ~mask, mask & False, mask | True)]
    for each in masks[:2]:
        step(each)
    xla.flush()
    before = xla.metrics()
    for each in masks[2:]:
        step(each)
    after = xla.metrics()
    assert after["compiles"] == before["compiles"]
    assert after["host_reads"] == before["host_reads"]


def test_rules_rewrite_the_losses_that_the_runtime_computes_of_whole_tensors() -> None:
    def named(dotted: str) -> object:
        home, _, name = dotted.rpartition(".")
        return getattr(F if home == "torch.nn.functional" else nn, name)

    assert set(map(named, masked_selections._LOSSES)) == losses._BY_ELEMENT | losses._BY_CLASS
