"""Samples whose tensors a `collate_fn` does not join."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check

SOURCE = """
import torch
from torch.utils.data import DataLoader

def collate(batch):
    {body}

def train(model, dataset, optimizer):
    model.cuda()
    for images, targets in DataLoader(dataset, 4, collate_fn={given}, drop_last=True):
        targets = [{{k: v.cuda() for k, v in t.items()}} for t in targets]
        loss = sum(model(images.cuda(), targets).values())
        loss.backward()
        optimizer.step()
"""


def _found(body: str, given: str = "collate") -> list[str]:
    source = SOURCE.format(body=body.replace("\n", "\n    "), given=given).encode()
    return [f.message for f in check(source) if f.code == "XLA504"]


@pytest.mark.parametrize(
    ("body", "given"),
    [
        ("return tuple(zip(*batch))", "collate"),
        ("pass", "lambda batch: tuple(zip(*batch))"),
        ("images, targets = zip(*batch)\nreturn torch.stack(images), targets", "collate"),
        ("images, targets = list(zip(*batch))\nreturn torch.stack(images), list(targets)", "collate"),
        ("x = torch.stack([b[0] for b in batch])\nboxes = [torch.as_tensor(b[1]) for b in batch]\nreturn {'x': x, 'boxes': boxes}", "collate"),
    ],
)  # fmt: skip
def test_lists_of_tensors_are_reported(body: str, given: str) -> None:
    (message,) = _found(body, given)
    assert "not joined" in message


@pytest.mark.parametrize(
    "body",
    [
        "images, targets = zip(*batch)\nreturn torch.stack(images), torch.stack(targets)",
        "images, targets = zip(*batch)\nreturn torch.stack(images), torch.tensor(targets)",
        "images, names = zip(*batch)\nreturn torch.stack(images), names",
        "targets = [len(b) for b in batch]\nreturn torch.stack([b[0] for b in batch]), targets",
        "return torch.utils.data.default_collate(batch)",
    ],
)
def test_other_batches_are_not(body: str) -> None:
    assert not _found(body)
