"""Numbers drawn anew in each step that decide on sizes."""

from __future__ import annotations

import pytest

from ...helpers import findings

TRAIN = """import random
import numpy as np
import torch
import torch.nn.functional as F
def box(n):
    c = np.random.randint(n); return np.clip(c - 2, 0, n), n

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
    codes = {"XLA504", "XLA506", "XLA510"}
    return sorted({line for line, code in findings(source) if code in codes})


@pytest.mark.parametrize(
    ("use", "inside"),
    [
        ("F.interpolate(x, size=n)", "n = random.choice(sizes)"),
        ("F.interpolate(x, (n, n))", "n = random.randrange(16, 64) // 4 * 4"),
        ("F.interpolate(x, size=(n, n))", "n = int(max(16, np.random.uniform(8, 64)))"),
        ("F.interpolate(x, scale_factor=2 ** random.uniform(-1, 1))", "pass"),
        ("x.repeat(n, 1)", "n = random.randint(1, 4)"),
        ("x ** n", "n = np.random.rand()"),
        ("n ** x", "n = random.uniform(0.5, 0.9)"),
        ("F.layer_norm(x, (4,), eps=n)", "n = random.uniform(0.5, 0.9)"),
        ("F.threshold(x, n, 0.0)", "n = random.uniform(0.5, 0.9)"),
        ("F.pad(x, (1, 1), value=n)", "n = random.uniform(0.5, 0.9)"),
        ("F.pairwise_distance(x, x + 1, n)", "n = random.uniform(1, 2)"),
        ("(x + 0)[:, :n]", "n = np.random.randint(1, 4)"),
        ("torch.cat([x, torch.zeros(n, device=device)])", "m = random.randint(1, 4); n = m + 1"),
    ],
)
def test_a_size_drawn_in_each_step(use: str, inside: str) -> None:
    assert found(use, inside) == [13]


def test_a_size_is_reported_once() -> None:
    source = TRAIN.format(
        use="F.interpolate(x, size=n)", inside="n = random.randrange(16, 64)", outside="pass"
    )
    assert [code for _, code in findings(source)].count("XLA510") == 0


@pytest.mark.parametrize(
    ("use", "inside"),
    [
        ("x[:, :, i : i + 8]", "i, j = random.randint(0, 9), 3"),
        ("x[:, :n]", "n = random.randint(1, 4)"),
        ("x[:, a:b]", "a, b = box(8)"),
        ("x[:, : torch.randint(0, 9, (1,)).item()]", "pass"),
    ],
)
def test_parts_of_batches_that_are_drawn(use: str, inside: str) -> None:
    assert found(use, inside) == [13]


def test_a_box_of_a_batch_that_is_written() -> None:
    source = TRAIN.format(
        use="x", inside="a, b = box(8); x[:, a:b] = x[:, a:b].flip(0)", outside="pass"
    )
    codes = [(line, code) for line, code in findings(source) if code in {"XLA506", "XLA519"}]
    assert sorted(codes) == [(12, "XLA506"), (12, "XLA519")]


@pytest.mark.parametrize(
    ("use", "inside", "outside"),
    [
        ("F.interpolate(x, size=n)", "pass", "n = random.choice(sizes)"),  # once
        ("F.interpolate(x, size=n)", "n = max(sizes)", "pass"),
        ("x * n + n", "n = random.random()", "pass"),  # data
        ("F.interpolate(x, scale_factor=2)", "n = random.random()", "pass"),
        ("x[:, b:]", "a, b = box(8)", "pass"),  # what `box` was given
        ("x[n]", "n = random.randint(1, 4)", "pass"),  # one of a list, maybe
        ("x[:, :n]", "pass", "n = random.randint(1, 4)"),
    ],
)
def test_numbers_that_are_data_or_stay(use: str, inside: str, outside: str) -> None:
    assert found(use, inside, outside) == []


WALK = """\
import torch

def train(model, optimizer):
    rays = torch.rand(80, 3).cuda()
    start = 0
    {head}
        {before}
        loss = model(rays[start : start + 8]).sum()
        loss.backward()
        optimizer.step()
        {after}
"""


@pytest.mark.parametrize(
    ("head", "before", "after", "times"),
    [
        ("for i in range(9):", "pass", "start += 8", 1),
        ("while start < 80:", "pass", "start += 8", 1),
        ("for i in range(9):", "pass", "start += 8\n        if start > 72: start = 0", 1),
        ("for i in range(9):", "start = 0", "start += 8", 0),  # from there in every turn
        ("for i in range(9):", "pass", "for k in range(2): start += 8", 0),
        ("for i in range(9):", "pass", "pass", 0),
    ],
)
def test_a_place_that_is_counted_on(head: str, before: str, after: str, times: int) -> None:
    source = WALK.format(head=head, before=before, after=after)
    assert [code for _, code in findings(source)].count("XLA506") == times


@pytest.mark.parametrize(
    "line",
    [
        "x = torch.roll(x, random.randint(0, 7), dims=1)",
        "x = torch.roll(x, shifts=random.randrange(4), dims=1)",
        "x = x.roll(shifts=random.randint(0, 3), dims=-1)",
        "k = random.randrange(4)\n        x = x.roll(shifts=(k, -k), dims=(0, 1))",
        "x = x.repeat(repeats=random.randint(1, 3))",
        "x = x.topk(k=random.randint(1, 3), dim=0)[0]",
    ],
)
def test_random_numbers_by_name(line: str) -> None:
    source = f"""\
import random
import torch
def train(model, loader, optimizer):
    model.cuda()
    for x in loader:
        x = x.cuda()
        {line}
        model(x).mean().backward()
        optimizer.step()
"""
    assert "XLA510" in [code for _, code in findings(source)]


@pytest.mark.parametrize(
    "use",
    [
        "torch.add(x, x, alpha=n)",
        "torch.lerp(x, x + 1, n)",
        "F.smooth_l1_loss(x, x + 1, beta=n)",
        "F.dropout(x, n)",
        "F.leaky_relu(x, n)",
        "F.normalize(x, eps=n)",
        "x.clamp(max=n)",
        "0.9 ** x",
    ],
)
def test_numbers_that_are_data(use: str) -> None:
    assert found(use, "n = random.uniform(0.1, 0.9)") == []


OBJECTS = """
import random
import numpy as np
import torch

class Pool:
    def __init__(self):
        self.images = []

    def query(self, images):
        out = []
        for image in images:
            image = image.data.unsqueeze(0)
            if {drawn} > 0.5:
                k = random.randint(0, 49)
                out.append(self.images[k].clone())
                self.images[k] = image
            else:
                out.append(image)
        return torch.cat(out, 0)

class Mixup:
    def __call__(self, x):
        use_cutmix = {drawn} < 0.5
        lam = np.random.beta(1, 1)
        if use_cutmix:
            top = np.random.randint(0, 8)
            low, high = np.clip(top - 2, 0, 8), np.clip(top + int(lam), 0, 8)
            x[:, :, low:high] = x.flip(0)[:, :, low:high]
        else:
            x.mul_(lam).add_(x.flip(0).mul_(1 - lam))
        return x

def train(loader, G, D, optimizer, mix):
    pool = Pool()
    G.cuda()
    for x in loader:
        x = mix(x.cuda())
        loss = D(pool.query(G(x)).detach()).mean()
        loss.backward()
        optimizer.step()

train(load(), G, D, optimizer, Mixup())
"""


@pytest.mark.parametrize("drawn", ["random.random()", "np.random.uniform(0, 1)"])
def test_chance_decides_in_objects_that_a_step_calls(drawn: str) -> None:
    source = OBJECTS.format(drawn=drawn)
    lines = source.splitlines()
    chances = [n for n, code in findings(source) if code == "XLA510"]
    assert [lines[n - 1].strip() for n in chances] == [f"if {drawn} > 0.5:", "if use_cutmix:"]
    boxes = [n for n, code in findings(source) if code == "XLA519"]
    assert [lines[n - 1].strip() for n in boxes] == [
        "x[:, :, low:high] = x.flip(0)[:, :, low:high]"
    ]
