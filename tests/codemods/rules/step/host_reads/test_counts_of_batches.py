"""Numbers times the size of a batch that has attributes, as PyG's examples compute the mean of an epoch."""

from __future__ import annotations

import pytest

from ....helpers import migrated

SCRIPT = """import torch
from torch.utils.data import DataLoader

def train(model, dataset, optimizer):
    model.cuda()
    total = seen = 0
    for batch in DataLoader(dataset):
        batch = batch.to("cuda")
        loss = torch.nn.functional.cross_entropy(model(batch.x), batch.y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        LINE
    return total / seen
"""


def _lines(line: str) -> str:
    return migrated(SCRIPT.replace("LINE", line.replace("\n", "\n        ")))


@pytest.mark.parametrize(
    "line",
    [
        "total += float(loss) * batch.num_graphs",
        "total += loss.item() * batch.batch_size",
        "total += batch.num_nodes() * loss.item()",
        "n = batch.num_graphs\ntotal += loss.item() * n\nseen += n",
        "total += loss.item() * batch['n_tokens']",
        "total += loss.item() * batch.y.size(0)",
        "total += loss.item() * len(batch.y)",
        "total += loss.item() * batch.y.shape[0]",
    ],
)
def test_counts_are_no_tensors(line: str) -> None:
    text = _lines(line)
    assert "xla.item(loss)" in text
    assert "return xla.arrived(total) / seen" in text


@pytest.mark.parametrize(
    "line",
    [
        "total += loss.item() * batch.weight",
        "total += loss.item() * batch.mask.sum()",
        "total += loss.item() * batch.mask.count_nonzero()",
        "n = batch.num_graphs if seen else batch.weight\ntotal += loss.item() * n",
    ],
)
def test_tensors_wait(line: str) -> None:
    assert "xla.item" not in _lines(line)
