"""Reads that a step returns to the loop of another module stay, and are reported with advice."""

from __future__ import annotations

import textwrap

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, check, migrate

STEPS = """
import torch
import torch.nn.functional as F

class Agent:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model.cuda(), optimizer

    def update(self, x, y):
        loss = F.cross_entropy(self.model(x.cuda()), y.cuda())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return {returned}

def train_step(model, optimizer, x, y):
    loss = F.cross_entropy(model(x.cuda()), y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return {returned}
"""
MAIN = """
import torch
from torch.utils.data import DataLoader
{imports}

def main(model, optimizer, loader: DataLoader, out):
    agent = Agent(model, optimizer)
    total = 0.0
    for step, (x, y) in enumerate(loader):
        {line}
    {last}
"""
METHOD, FUNCTION = "agent.update(x, y)", "train_step(model, optimizer, x, y)"


def _modules(line: str, last: str, returned: str, imports: str, **more: str) -> Modules:
    line = line.replace("\n", "\n        ")
    files = {
        "steps.py": STEPS.format(returned=returned),
        "main.py": MAIN.format(imports=imports, line=line, last=last),
        **more,
    }
    return Modules({name: textwrap.dedent(text).encode() for name, text in files.items()})


@pytest.mark.parametrize("call", [METHOD, FUNCTION])
@pytest.mark.parametrize(
    ("line", "last", "returned"),
    [
        ("total += {call}", "print(total / len(loader))", "loss.item()"),
        ("logs = {call}\ntotal = total + logs['loss']", "pass", "{'loss': loss.item()}"),
        ("print({call})", "pass", "loss.item()"),
        ("if {call} > 3: break", "pass", "loss.item()"),
    ],
)
def test_reads_for_loops_of_other_modules_stay(
    call: str, line: str, last: str, returned: str
) -> None:
    imports = "from steps import Agent, train_step"
    modules = _modules(line.replace("{call}", call), last, returned, imports)
    project = Project(modules, "steps.py")
    after = migrate(modules.files["steps.py"], Options(), "steps.py", project).data.decode()
    assert after.count(f"return {returned}") == 2
    found = check(modules.files["steps.py"], Options(), "steps.py", project)
    said = "returns it to unknown callers): return the tensor"
    assert any(said in finding.message for finding in found)


METRICS = """
import torch

class Confusion:
    def __init__(self, n, device):
        self.table = torch.zeros(n, n, device=device)

    def update(self, y, prediction):
        y, prediction = y[y < 4], prediction[y < 4]
        self.table += torch.nn.functional.one_hot(y, 4).float().T @ prediction

    def compute(self):
        return (torch.diag(self.table).sum() / self.table.sum()).item()
"""
EPOCHS = """
import torch
from metrics import Confusion

def evaluate(model, loader):
    confusion = Confusion(4, "cuda")
    for x, y in loader:
        confusion.update(y.cuda(), model(x.cuda()).softmax(1))
    return confusion.compute()

def train_one_epoch(model, loader, optimizer):
    for step, (x, y) in enumerate(loader):
        loss = model(x.cuda(), y.cuda()).mean() / 4
        loss.backward()
        if step % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()

def main(model, loader, optimizer):
    for epoch in range(10):
        train_one_epoch(model, loader, optimizer)
        print(evaluate(model, loader))
"""


def test_a_method_called_once_per_epoch_is_no_step_and_one_called_per_batch_is() -> None:
    files = {"metrics.py": METRICS.encode(), "main.py": EPOCHS.encode()}
    project = Project(Modules(files), "metrics.py")
    found = check(files["metrics.py"], Options(), "metrics.py", project)
    assert {finding.code for finding in found} & {"XLA503", "XLA504"} == {"XLA504"}
