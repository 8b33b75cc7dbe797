"""A loop trains if a function of another module computes gradients in each of its turns."""

from __future__ import annotations

from tests.each import each
from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, check

STEPS = """\
import torch

def train_step(model, optimizer, x):
    loss = model(x).mean()
    loss.backward()
    optimizer.step()
    return loss

def make_step(model, optimizer):
    def step(x):
        return train_step(model, optimizer, x)
    return step

def another_step(model, optimizer):
    return make_step(model, optimizer)

class Trainer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    def fit_batch(self, x):
        self._backward(self.model(x).mean())

    def _backward(self, loss):
        loss.backward()
        self.optimizer.step()

    def fit_epoch(self, batches):
        for x in batches:
            self.fit_batch(x)

def evaluated(model, x):
    return model(x).mean()
"""
MAIN = """\
import torch
from steps import Trainer, another_step, evaluated, make_step, train_step

device = torch.device("cuda")
model = torch.nn.Linear(4, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
step, other = make_step(model, optimizer), another_step(model, optimizer)
trainer = Trainer(model, optimizer)

def once(x):
    trainer.fit_batch(x)

while True:
    x = torch.randn(8, 4, device=device)
    {call}
    if x.sum() > 3:
        print("large")
"""


def _reads(call: str) -> list[int]:
    files = {"main.py": MAIN.format(call=call).encode(), "steps.py": STEPS.encode()}
    project = Project(Modules(files), "main.py")
    found = check(files["main.py"], Options(), "main.py", project)
    return [finding.line for finding in found if finding.code == "XLA503"]


@each(
    "call",
    [
        "loss = train_step(model, optimizer, x)",
        "step(x)",
        "other(x)",
        "trainer.fit_batch(x)",
        "once(x)",
    ],
)
def test_reads_beside_such_a_call_are_in_each_step(call: str) -> None:
    assert _reads(call) == [16]


@each("call", ["trainer.fit_epoch([x])", "evaluated(model, x)", "print(x.shape)"])
def test_other_loops_do_not_train(call: str) -> None:
    assert _reads(call) == []
