"""Copies of a module's own tensors, to what is kept beside it (XLA511)."""

from __future__ import annotations

import pytest

from ...helpers import migrated

SOURCE = """
import torch

def update(a, b, shadow, state, kept):
    {line}

def train(net, x):
    net.cuda()
    net(x.cuda()).mean().backward()
"""


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("for n, p in a.named_parameters(): shadow[n].copy_(p.data)", "shadow[n].copy_(p.data * 1)"),
        ("for i, p in enumerate(a.parameters()): kept[i].copy_(p)", "kept[i].copy_(p * 1)"),
        ("for n, t in a.state_dict().items(): state['model'][n].copy_(t)", "state['model'][n].copy_(t * 1)"),
        ("for n, p in a.named_parameters(): shadow[n].data.copy_(p.detach())", "shadow[n].data.copy_(p.detach() * 1)"),
    ],
)  # fmt: skip
def test_a_copy_of_a_parameter_to_an_entry(line: str, after: str) -> None:
    assert after + "\n" in migrated(SOURCE.format(line=line))


@pytest.mark.parametrize(
    "line",
    [
        "b.images.copy_(a.images)",
        "b.weight.copy_(a.weight)",
        "for n, p in a.named_parameters(): shadow[n][:2].copy_(p)",
        "for n, p in a.named_parameters(): shadow[n].copy_(shadow[n] * 0.9 + p * 0.1)",
        "for n, p in a.named_parameters(): p.copy_(state[n])",
    ],
)
def test_other_copies_stay(line: str) -> None:
    assert f"    {line}\n" in migrated(SOURCE.format(line=line))


COPY = "for p, q in zip(target.parameters(), net.parameters()): p.data.copy_(q.data)"
CONSTRUCTOR = """
import torch
from torch import nn

{function}

class Agent({base}):
    def __init__(self):
        net = self.net = nn.Linear(4, 4).to("cuda")
        target = self.target = nn.Linear(4, 4).to("cuda")
        {line}
"""
FUNCTION = f"def hard_update(target, net):\n    {COPY}"


@pytest.mark.parametrize(("base", "copies"), [("object", 1), ("nn.Module", 0)])
@pytest.mark.parametrize(("function", "line"), [(FUNCTION, "hard_update(target, net)"), ("", COPY)])
def test_an_agents_constructor_may_copy_on_the_device(
    base: str, copies: int, function: str, line: str
) -> None:
    """A module's constructor runs on the host; an agent moves its networks first."""
    result = migrated(CONSTRUCTOR.format(base=base, function=function, line=line))
    assert result.count("copy_(q.data * 1)") == copies
