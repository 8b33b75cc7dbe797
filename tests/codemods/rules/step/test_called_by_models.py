"""Functions of other modules that a model calls in its `forward`: what they read and compute happens in each step."""

from __future__ import annotations

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, check

HELPERS = """import torch


def mask_of(lengths, scores):
    longest = torch.max(lengths).item()
    middle = torch.median(torch.relu(scores))
    return inner(torch.arange(longest, device=lengths.device) < lengths[:, None], middle)


def inner(mask, middle):
    count = int(torch.sum(mask))
    return mask * middle / count
"""
MODEL = """import torch
from torch import nn

from helpers import mask_of


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x, lengths):
        return self.masked(self.fc(x), lengths)

    def masked(self, x, lengths):
        return CALL


def prepare(lengths, scores):
    return mask_of(lengths, scores)
"""
TRAIN = """import torch

from model import Net

model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, lengths in batches:
    loss = model(x.cuda(), lengths.cuda()).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def _found(call: str) -> set[tuple[int, str]]:
    model = MODEL.replace("CALL", call)
    files = {"helpers.py": HELPERS, "model.py": model, "train.py": TRAIN}
    modules = Modules({name: text.encode() for name, text in files.items()})
    data = modules.files["helpers.py"]
    found = check(data, Options(), "helpers.py", Project(modules, "helpers.py"))
    return {(finding.line, finding.code) for finding in found}


@pytest.mark.parametrize(
    "call",
    ["x * mask_of(lengths, x)", "also(x, lengths)\n\ndef also(x, n):\n    return mask_of(n, x)"],
)
def test_reads_and_missing_kernels_are_found(call: str) -> None:
    assert _found(call) == {(5, "XLA503"), (6, "XLA518"), (11, "XLA503")}


def test_what_no_model_calls_is_not_part_of_a_step() -> None:
    assert _found("x * lengths") == set()
