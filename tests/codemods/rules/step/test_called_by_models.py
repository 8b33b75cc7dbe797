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
    return set(_found_in("helpers.py", files))


def _found_in(checked: str, files: dict[str, str]) -> list[tuple[int, str]]:
    modules = Modules({name: text.encode() for name, text in files.items()})
    found = check(modules.files[checked], Options(), checked, Project(modules, checked))
    return sorted((finding.line, finding.code) for finding in found)


@pytest.mark.parametrize(
    "call",
    ["x * mask_of(lengths, x)", "also(x, lengths)\n\ndef also(x, n):\n    return mask_of(n, x)"],
)
def test_reads_and_missing_kernels_are_found(call: str) -> None:
    assert _found(call) == {(5, "XLA503"), (6, "XLA518"), (11, "XLA503")}


def test_what_no_model_calls_is_not_part_of_a_step() -> None:
    assert _found("x * lengths") == set()


MASKED = """import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x, mask=None):
        score = self.fc(x)
        if mask is not None and mask.any().item():
            score = score.masked_fill(mask, 0)
        rows = READ
        return score[:rows]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Attention() for _ in range(2))

    def forward(self, x, mask):
        for layer in self.layers:
            x = layer(x, mask=mask.bool())
        return x
"""


@pytest.mark.parametrize(
    ("read", "found"),
    [
        ("mask.sum().cpu().item()", [12, 14]),  # one finding for one read
        ("x.abs().max().item()", [12, 14]),
        ("x.size(0)", [12]),
    ],
)
def test_reads_of_what_a_model_is_given(read: str, found: list[int]) -> None:
    train = TRAIN.replace("lengths", "mask")
    files = {"model.py": MASKED.replace("READ", read), "train.py": train}
    assert [line for line, code in _found_in("model.py", files) if code == "XLA503"] == found
