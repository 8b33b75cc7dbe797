"""Clipping of scaled gradients in LightningModules with manual optimization."""

from __future__ import annotations

import textwrap

import pytest

from xla_codemods.engine import check

MODULE = """
import lightning as L

class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, index):
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(self(batch).mean())
        self.clip_gradients(optimizer, gradient_clip_val=0.5)
        optimizer.step()

L.Trainer(precision="16-mixed").fit(Net())
"""
UNSCALED = "self.trainer.precision_plugin.scaler.unscale_(optimizer)\n        self.clip_gradients("


def _messages(source: str) -> list[str]:
    found = check(textwrap.dedent(source).encode())
    return [f.message for f in found if f.code == "XLA803" and "clipping" in f.message]


def test_clipping_of_scaled_gradients_is_reported() -> None:
    assert len(_messages(MODULE)) == 1
    norm = "torch.nn.utils.clip_grad_norm_(self.parameters(), 1.0"
    source = MODULE.replace("self.clip_gradients(optimizer, gradient_clip_val=0.5", norm)
    assert len(_messages("import torch\n" + source)) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("16-mixed", "bf16-mixed"),
        ("training_step", "on_before_optimizer_step"),
        ("optimization = False", "optimization = True"),
        ("self.clip_gradients(", UNSCALED),
    ],
)
def test_clipping_of_unscaled_gradients_is_not(old: str, new: str) -> None:
    assert _messages(MODULE.replace(old, new)) == []
