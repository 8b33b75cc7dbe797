"""What a framework calls in each step, and what is read there."""

from __future__ import annotations

import pytest

from xla_codemods.analysis.frameworks.hooks import called_in_steps
from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, check

from ...helpers import findings, script

TRAINER = """
from transformers import Trainer, TrainerCallback
import torch.nn.functional as F

class Focal(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        loss = F.cross_entropy(model(**inputs).logits, inputs["labels"])
        self.losses.append(loss.item())
        if self.state.global_step % 10 == 0:
            self.log({"loss": loss.item()})
        return loss

    def evaluate(self, *args):
        return self.metric.item()

class Show(TrainerCallback):
    def on_step_end(self, args, state, control, model=None, **kwargs):
        print(sum(p.norm() for p in model.parameters()).item())

    def on_epoch_end(self, args, state, control, model=None, **kwargs):
        print(sum(p.norm() for p in model.parameters()).item())

Focal(model, args).train()
"""
LIGHTNING = """
import lightning as L
import torch
import torch.nn.functional as F

class Net(L.LightningModule):
    def training_step(self, batch, index):
        x, y = batch
        loss = F.cross_entropy(self.net(x), y)
        self.log("loss", loss)
        self.log_dict({"loss": loss})
        self.seen.append(loss.item())
        if torch.isnan(loss):
            raise RuntimeError
        return loss

    def validation_step(self, batch, index):
        self.log("loss", F.cross_entropy(self.net(batch[0]), batch[1]))

    def on_before_optimizer_step(self, optimizer):
        self.norms = [p.grad.norm().item() for p in self.parameters()]

class Meter(L.Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, index):
        print(outputs["loss"].item())

L.Trainer(accelerator="gpu").fit(Net())
"""
IGNITE = """
import torch
from ignite.engine import Engine, Events

def update(engine, batch):
    x, y = batch[0].cuda(), batch[1].cuda()
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()

def other(engine, batch):
    return batch

trainer = Engine(update)

@trainer.on(Events.ITERATION_COMPLETED)
def always(engine):
    print(engine.state.output)

@trainer.on(Events.ITERATION_COMPLETED(every=100))
def sometimes(engine):
    print(engine.state.output)

@trainer.on(Events.EPOCH_COMPLETED)
def at_the_end(engine):
    print(engine.state.output)
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TRAINER, {"compute_loss", "on_step_end"}),
        (LIGHTNING, {"training_step", "on_before_optimizer_step", "on_train_batch_end"}),
        (IGNITE, {"update", "always"}),
        (TRAINER.replace("from transformers", "from mylib"), set()),
        (LIGHTNING.replace("lightning as", "mylib as"), set()),
    ],
    ids=["Trainer", "Lightning", "ignite", "another Trainer", "another module"],
)
def test_what_is_called(text: str, expected: set[str]) -> None:
    assert {function.name for function in called_in_steps(script(text))} == expected


def _reads(text: str) -> list[str]:
    """The lines that are read in each step."""
    lines = text.splitlines()
    return [lines[line - 1].strip() for line, code in findings(text) if code == "XLA503"]


def test_reads_of_a_trainer() -> None:
    assert _reads(TRAINER) == [
        "self.losses.append(loss.item())",
        "print(sum(p.norm() for p in model.parameters()).item())",
    ]


def test_reads_of_lightning() -> None:
    assert _reads(LIGHTNING) == [
        "self.seen.append(loss.item())",
        "if torch.isnan(loss):",
        "self.norms = [p.grad.norm().item() for p in self.parameters()]",
        'print(outputs["loss"].item())',
    ]


def test_reads_of_ignite() -> None:
    assert _reads(IGNITE) == ["return loss.item()"]


def test_a_framework_marks_its_own_steps() -> None:
    found = [f for f in check(TRAINER.encode()) if f.code == "XLA503"]
    assert found
    assert not any(f.edits for f in found)
    assert all("a framework calls the function" in f.message for f in found)


def test_a_trainer_of_another_module() -> None:
    base = "from transformers import Trainer\n\nclass Base(Trainer):\n    pass\n"
    text = """from base import Base

class Mine(Base):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        loss = model(**inputs).loss
        print(loss.item())
        return loss

def build(model, args):
    return Mine(model, args).to("cuda")
"""
    files = {"base.py": base.encode(), "lib.py": text.encode()}
    found = check(text.encode(), Options(), "lib.py", Project(Modules(files), "lib.py"))
    assert "XLA503" in {f.code for f in found}
