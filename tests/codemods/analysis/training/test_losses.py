"""Losses that nothing is known of but their name, in lists and dicts."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check

_STEP = """import numpy as np
import torch

def train(model, loader, optimizer, fns, weights, criterion):
    total = 0
    for x, y in loader:
        out = model(x.cuda())
        optimizer.zero_grad()
        out.mean().backward()
        optimizer.step()
        {}
    return total
"""


@pytest.mark.parametrize(
    "body",
    [
        "losses = [f(out, y) for f in fns]\n        total += losses[0].item()",
        "losses = [f(out, y) for f in fns]\n        total += sum(v.item() for v in losses)",
        "losses = [f(out, y) for f in fns]\n        total += np.array([v.item() for v in losses])",
        "losses = {k: f(out, y) for k, f in fns}\n        total += losses['a'].item()",
        "losses = criterion(out, y)\n        for i, v in enumerate(losses):\n            total += v.item()",
        "losses = criterion(out, y)\n        for i, (k, v) in enumerate(losses.items()):\n            total += v.item()",
        "losses = criterion(out, y)\n        for w, v in zip(weights, losses):\n            total += w * v.item()",
        "losses = criterion(model(x.to('cuda')))\n        total += sum(v.item() for v in losses)",
        "losses = []\n        for f in fns:\n            losses.append(f(out, y))\n        total += sum(v.item() for v in losses)",
    ],
)
def test_one_of_them(body: str) -> None:
    assert _reads(body)


@pytest.mark.parametrize(
    "body",
    [
        "losses = np.zeros(3)\n        total += losses[0].item()",
        "losses = np.zeros(3)\n        for v in losses:\n            total += v.item()",
        "losses = [f(out, y).cpu() for f in fns]\n        total += losses[0].item()",
        "losses = criterion(out, y)\n        for w, v in zip(weights, losses):\n            total += w.item()",
        "losses = criterion(out, y)\n        for i, v in enumerate(losses):\n            total += i.item()",
        "losses = criterion(out, y)\n        for i, (k, v) in enumerate(losses.items()):\n            total += k.item()",
        "scores = [f(out, y) for f in fns]\n        total += scores[0].item()",
    ],
)
def test_none_of_them(body: str) -> None:
    assert not _reads(body)


def _reads(body: str) -> list[str]:
    found = check(_STEP.format(body).encode())
    return [f.message for f in found if f.code == "XLA503" and "`.item()`" in f.message]
