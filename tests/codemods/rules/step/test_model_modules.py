"""Models in modules of their own, which name no device: the program that trains them does."""

from __future__ import annotations

import textwrap

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, check

MODEL = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 8)

    def forward(self, x, labels, path=None):
        hidden = self.head(x)
        {line}
        return hidden.mean()
"""
TRAIN = """
import torch
from model import Net

model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in batches():
    loss = model(x.cuda(), y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
LINES = {
    "a selection": "hidden = hidden[labels > 0]",
    "indices of a mask": "hidden = hidden[((labels >= 2) & (labels < 5)).nonzero().squeeze()]",
    "indices of a named mask": "chosen = labels.view(-1) != 255\n        n = chosen.nonzero()",
    "a selection of the same mask": "mask = ~labels.eq(0)\n        hidden = hidden.masked_select(mask)",
}


def _codes(line: str, train: str = TRAIN) -> list[str]:
    files = {"model.py": MODEL.replace("{line}", line), "train.py": train}
    modules = Modules({name: textwrap.dedent(text).encode() for name, text in files.items()})
    project = Project(modules, "model.py")
    return [f.code for f in check(modules.files["model.py"], Options(), "model.py", project)]


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_sizes_that_depend_on_data_are_reported(line: str) -> None:
    assert _codes(line) == ["XLA504"]


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_programs_without_an_accelerator_are_left(line: str) -> None:
    assert _codes(line, TRAIN.replace(".cuda()", "")) == []


METHODS = """return hidden.mean()

    def score(self, scores, mask):
        scores = scores{moved}
        return scores.masked_select(mask).sum()

    def loss(self, hidden):
        for part in hidden:
            self.score(part, part > 0)
"""


@pytest.mark.parametrize(("moved", "codes"), [(" * 2", ["XLA504"]), (".cpu()", [])])
def test_methods_of_tensors_alone_are_reported_in_each_method_of_a_model(
    moved: str, codes: list[str]
) -> None:
    assert _codes(METHODS.replace("{moved}", moved)) == codes


def test_what_may_be_of_the_host_is_not_reported() -> None:
    assert _codes("names = path.nonzero() if path is not None else None") == []
