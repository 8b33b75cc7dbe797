"""Sums that are kept on the device until they are read."""

from __future__ import annotations

import pytest

from ...helpers import migrated

SCRIPT = """import torch

def train(model, batches, optimizer):
    {first}
    for step, x in enumerate(batches):
        loss = model(x.cuda()).mean()
        loss.backward()
        optimizer.step()
        {line}
    {last}
"""


@pytest.mark.parametrize(
    ("first", "line", "last", "kept", "read"),
    [
        ("total = 0.0", "total += loss.item()", "return total", "total += loss.detach()", "return torch.as_tensor(total).item()"),
        ("total, n = 0, 0", "total += loss.item()", "return total / n", "total += loss.detach()", "return torch.as_tensor(total).item() / n"),
        ("total = 0.0", "total += loss.item() * len(x)", "return total", "total += loss.detach() * len(x)", "return torch.as_tensor(total).item()"),
    ],
)  # fmt: skip
def test_kept(first: str, line: str, last: str, kept: str, read: str) -> None:
    source = SCRIPT.format(first=first, line=line, last=last)
    after = [text.strip() for text in migrated(source, unsafe=True).splitlines()]
    assert kept in after
    assert read in after
    assert line in migrated(source)  # not unless asked for


@pytest.mark.parametrize(
    ("first", "line", "last"),
    [
        ("total = 1.5", "total += loss.item()", "return total"),
        ("total = 0.0", "total += loss.item(); print(total)", "return total"),
        ("total = 0.0", "total += 1 / loss.item()", "return total"),
        ("total = 0.0", "total -= loss.item()", "return total"),
        ("total = 0.0", "total = max(total, loss.item())", "return total"),
        ("total = 0.0", "total += loss.item()", "return lambda: total"),
    ],
)
def test_not_kept(first: str, line: str, last: str) -> None:
    after = migrated(SCRIPT.format(first=first, line=line, last=last), unsafe=True)
    assert "loss.item()" in after
    assert "as_tensor" not in after
