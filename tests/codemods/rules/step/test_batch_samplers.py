"""Samplers whose batches differ in size."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check

TRAIN = """
import torch
from torch.utils.data import DataLoader, Sampler

{sampler}

def train(model, dataset, optimizer, lengths):
    model.cuda()
    for x, y in DataLoader(dataset, batch_sampler={given}):
        loss = model(x.cuda(), y.cuda())
        loss.backward()
        optimizer.step()
"""
FILLED = """
class Batches{base}:
    def __init__(self, lengths, batch_size, limit):
        self.lengths, self.batch_size, self.limit = lengths, batch_size, limit

    def __iter__(self):
        batch, longest = [], 0
        for i, n in enumerate(self.lengths):
            longest = max(longest, n)
            if {test}:
                yield batch
                batch, longest = [], n
            batch.append(i)
        if batch:
            yield batch
"""
FUNCTION = """
def batches(lengths, limit):
    found, batch = [], []
    for i, n in enumerate(lengths):
        batch.append(i)
        if {test}:
            found.append(batch)
            batch = []
    return found
"""
CUT = """
class Batches(torch.utils.data.BatchSampler):
    def __iter__(self):
        order = torch.randperm(self.n).tolist()
        for start in range(0, self.n, 8):
            size = {size}
            yield order[start : start + size]
"""


def _found(sampler: str, given: str) -> list[str]:
    source = TRAIN.format(sampler=sampler, given=given).encode()
    return [f.message for f in check(source) if f.code == "XLA504"]


@pytest.mark.parametrize(
    ("test", "is_uneven"),
    [
        ("batch and longest * (len(batch) + 1) > self.limit", True),
        ("sum(self.lengths[j] for j in batch) > self.limit", True),
        ("len(batch) == self.batch_size or longest > self.limit", True),
        ("len(batch) >= self.limit // longest", True),
        ("len(batch) == self.batch_size", False),
        ("len(batch) >= 8 and i > 0", False),
    ],
)
@pytest.mark.parametrize("base", ["", "(Sampler)", "(torch.utils.data.Sampler[list[int]])"])
def test_batches_that_a_sampler_fills(base: str, test: str, is_uneven: bool) -> None:
    found = _found(FILLED.format(base=base, test=test), "Batches(lengths, 8, 400)")
    assert len(found) == is_uneven
    assert all("batches of different sizes" in message for message in found)


@pytest.mark.parametrize("given", ["batches(lengths, 400)", "list(batches(lengths, 400))"])
@pytest.mark.parametrize(
    ("test", "is_uneven"), [("sum(batch) > limit", True), ("len(batch) == limit", False)]
)
def test_batches_that_a_function_makes(given: str, test: str, is_uneven: bool) -> None:
    assert len(_found(FUNCTION.format(test=test), given)) == is_uneven


@pytest.mark.parametrize(
    ("size", "is_uneven"),
    [("self.limit // self.longest[start]", True), ("self.batch_size", False), ("8", False)],
)
def test_batches_that_are_cut(size: str, is_uneven: bool) -> None:
    assert len(_found(CUT.format(size=size), "Batches()")) == is_uneven


def test_other_lists_of_a_program_are_no_batches() -> None:
    assert not _found(FUNCTION.format(test="sum(batch) > limit"), "None")


NEIGHBOURS = """
import random
import torch

class {name}:
    def __init__(self, neighbours, nodes):
        self.neighbours, self.nodes = neighbours, nodes

    def {method}(self):
        for i in range(0, len(self.nodes), 8):
            yield self.sample(self.nodes[i : i + 8])

    def sample(self, seeds):
        found, edges = list(seeds), []
        for seed in seeds:
            for other in random.sample(self.neighbours[seed], 4):
                {line}
            edges.append(seed)
        return {tensor}

def train(model, optimizer, sampler):
    model.cuda()
    for nodes in {name}(sampler, list(range(100))):
        model(nodes.cuda()).sum().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("name", "method", "line", "tensor", "is_uneven"),
    [
        ("NeighborSampler", "__iter__", "if other not in found: found.append(other)", "torch.tensor(found)", True),
        ("GraphLoader", "__iter__", "if other not in found: found.append(other)", "torch.tensor([found, found])", True),
        ("NeighborSampler", "__iter__", "found.append(other)", "torch.tensor(found)", False),
        ("NeighborSampler", "__iter__", "if other: found.append(other)", "torch.tensor(edges)", False),
        ("NeighborSampler", "walk", "if other: found.append(other)", "torch.tensor(found)", False),
        ("Graph", "__iter__", "if other: found.append(other)", "torch.tensor(found)", False),
    ],
)  # fmt: skip
def test_neighbours_that_are_sampled(
    name: str, method: str, line: str, tensor: str, is_uneven: bool
) -> None:
    source = NEIGHBOURS.format(name=name, method=method, line=line, tensor=tensor)
    found = [f.message for f in check(source.encode()) if f.code == "XLA504"]
    assert len(found) == is_uneven
    assert all("from batch to batch" in message for message in found)
