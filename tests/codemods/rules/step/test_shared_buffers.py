"""Copies of a module's own tensors, wherever they go (XLA511)."""

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
        ("for p, old in zip(a.parameters(), kept): old.copy_(p)", "old.copy_(p * 1)"),
        ("for n, t in a.state_dict().items(): state['model'][n].copy_(t)", "state['model'][n].copy_(t * 1)"),
        ("b.running_mean.copy_(a.running_mean)", "b.running_mean.copy_(a.running_mean * 1)"),
        ("b.weight.data.copy_(a.weight.data)", "b.weight.data.copy_(a.weight.data * 1)"),
    ],
)  # fmt: skip
def test_a_copy_of_a_parameter_to_anywhere(line: str, after: str) -> None:
    assert after + "\n" in migrated(SOURCE.format(line=line))


@pytest.mark.parametrize(
    "line",
    [
        "b.images.copy_(a.images)",
        "b.weight.copy_(a.bias)",
        "for n, p in a.named_parameters(): shadow[n].copy_(shadow[n] * 0.9 + p * 0.1)",
        "for n, p in a.named_parameters(): p.copy_(state[n])",
    ],
)
def test_other_copies_stay(line: str) -> None:
    assert f"    {line}\n" in migrated(SOURCE.format(line=line))
