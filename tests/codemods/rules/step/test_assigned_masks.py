"""XLA504: what is assigned under a mask, and with what `xla.assign` writes it."""

from __future__ import annotations

import pytest

from ...helpers import findings, migrated

SCRIPT = """import math
import torch

def train(model, batches, optimizer, count):
    for x in batches:
        x = x.cuda()
        best = torch.ones(8).cuda()
        distance = model(x)
        size, width = distance.shape
        mask = distance < best
        STATEMENT
        loss = best.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("best[mask] = distance[mask]", "xla.assign(best, mask, distance)"),
        ("best[~mask] = distance[~mask]", "xla.assign(best, ~mask, distance)"),
        ("best[mask] = 0", "xla.assign(best, mask, 0)"),
        ("best[mask] = -1e9", "xla.assign(best, mask, -1e9)"),
        ("best[distance > 2] = width", "xla.assign(best, distance > 2, width)"),
        ("best[mask] = float('inf')", "xla.assign(best, mask, float('inf'))"),
        ("best[mask] = distance.size(0)", "xla.assign(best, mask, distance.size(0))"),
        ("best[best < 0] = 0", "best.masked_fill_(best < 0, 0)"),
    ],
)
def test_numbers_and_elements_under_the_same_mask(before: str, after: str) -> None:
    result = migrated(SCRIPT.replace("STATEMENT", before))
    assert f"        {after}\n" in result
    assert "XLA504" not in [code for _, code in findings(result)]


def assert_stays(source: str, statement: str, times: int) -> None:
    """Assert that `statement` is not rewritten, and that XLA504 reports it so many times."""
    assert [code for _, code in findings(source)].count("XLA504") == times
    assert statement in migrated(source)


@pytest.mark.parametrize(
    ("statement", "times"),
    [
        ("best[mask] = distance[distance > 1]", 2),  # the mask of what is read is another
        ("best[mask] = model(x)", 1),
        ("best[mask] += 1", 1),
        ("best[mask] = count", 1),  # it may be anything
        ("kept = best[mask] = 0", 1),
        ("best[0] = distance[0]", 0),
    ],
)
def test_what_else_is_assigned_stays(statement: str, times: int) -> None:
    source = SCRIPT.replace("STATEMENT", statement)
    assert_stays(source, statement, times)


LOSS = """import torch
from torch import nn

class Ohem(nn.Module):
    def forward(self, score, target):
        STATEMENT
        return nn.functional.cross_entropy(score, target)

Ohem().cuda()(x, y).backward()
"""


@pytest.mark.parametrize(
    ("statement", "times"),
    [
        ("target[target == 255] = 0", 1),
        ("known = target.clone(); known[known == 255] = 0", 1),
        ("known = target.clone().view(-1); known[known == 255] = 0", 1),
        ("known = target.copy(); known[known == 255] = 0", 0),  # of numpy
        ("known = self.known; known[known == 255] = 0", 0),  # it may be anything
        ("known = [0]; known[known == target] = 0", 0),
    ],
)
def test_what_a_model_is_given_is_a_tensor_but_it_stays(statement: str, times: int) -> None:
    source = LOSS.replace("STATEMENT", statement)
    assert_stays(source, statement, times)


TRIPLET = """import torch

class NAME(object):
    def __call__(self, features, labels):
        distances = features @ features.t()
        return mined(distances, labels)

def mined(distances, labels):
    n = len(distances)
    is_positive = labels.expand(n, n).eq(labels.expand(n, n).t())
    return distances[is_positive].view(n, -1).max(1)

net.cuda()(x).backward()
"""


@pytest.mark.parametrize(
    ("name", "times"),
    [("TripletLoss", 1), ("SetCriterion", 1), ("Loss2", 1), ("LossPlotter", 0), ("Miner", 0)],
)
def test_a_class_that_is_called_a_loss_computes_in_each_step(name: str, times: int) -> None:
    codes = [code for _, code in findings(TRIPLET.replace("NAME", name))]
    assert codes.count("XLA504") == times
