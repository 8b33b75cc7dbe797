"""Numbers drawn anew in each step that decide on sizes."""

from __future__ import annotations

import pytest

from ...helpers import findings

TRAIN = """import random
import numpy as np
import torch
import torch.nn.functional as F

def train(model, loader, optimizer, device, sizes):
    {outside}
    for x in loader:
        x = x.to(device)
        {inside}
        x = {use}
        loss = model(x).mean()
        loss.backward()
        optimizer.step()
"""


def found(use: str, inside: str = "pass", outside: str = "pass") -> list[int]:
    source = TRAIN.format(use=use, inside=inside, outside=outside)
    return [line for line, code in findings(source) if code in {"XLA506", "XLA510"}]


@pytest.mark.parametrize(
    ("use", "inside"),
    [
        ("F.interpolate(x, size=n)", "n = random.choice(sizes)"),
        ("F.interpolate(x, (n, n))", "n = random.randrange(16, 64) // 4 * 4"),
        ("F.interpolate(x, size=(n, n))", "n = int(max(16, np.random.uniform(8, 64)))"),
        ("F.interpolate(x, scale_factor=2 ** random.uniform(-1, 1))", "pass"),
        ("x.repeat(n, 1)", "n = random.randint(1, 4)"),
        ("x ** n", "n = np.random.rand()"),
        ("(x + 0)[:, :n]", "n = np.random.randint(1, 4)"),
        ("torch.cat([x, torch.zeros(n, device=device)])", "m = random.randint(1, 4); n = m + 1"),
    ],
)
def test_a_size_drawn_in_each_step(use: str, inside: str) -> None:
    assert found(use, inside) == [11]


@pytest.mark.parametrize(
    ("use", "inside", "outside"),
    [
        ("F.interpolate(x, size=n)", "pass", "n = random.choice(sizes)"),  # once
        ("F.interpolate(x, size=n)", "n = max(sizes)", "pass"),
        ("x * n + n", "n = random.random()", "pass"),  # data
        ("F.interpolate(x, scale_factor=2)", "n = random.random()", "pass"),
        ("x.flip(0) if n < 0.5 else x", "n = random.random()", "pass"),
    ],
)
def test_numbers_that_are_data_or_stay(use: str, inside: str, outside: str) -> None:
    assert found(use, inside, outside) == []
