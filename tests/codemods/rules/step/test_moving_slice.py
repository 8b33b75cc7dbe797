"""Slices at moving places where loops get their batches from: generators over tensors that lie on the device (XLA506)."""

from __future__ import annotations

import pytest

from xla_codemods.engine import Options, migrate

from ...helpers import findings, migrated

TRAIN = """
def train(epochs):
    net = torch.nn.Linear(4, 2).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    data = torch.rand(64, 4){moved}
    loader = Batches(data, 16)
    for epoch in range(epochs):
        for x in loader:
            loss = net(x.cuda()).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""

LOADERS = [
    """
class Batches:
    def __init__(self, data, size): self.data, self.size = data, size
    def __iter__(self):
        order = torch.randperm(len(self.data), device=self.data.device)
        for i in range(0, len(self.data), self.size):
            yield self.data[order[i:i + self.size]]
""",
    """
class Batches:
    def __init__(self, data, size): self.data, self.size = data, size
    def __iter__(self):
        for i in range(0, len(self.data), self.size):
            yield self.data[i:i + self.size]
""",
    """
class Batches:
    def __init__(self, data, size): self.data, self.size, self.i = data, size, 0
    def __iter__(self): return self
    def __next__(self):
        batch = self.data[self.i:self.i + self.size]
        self.i += self.size
        return batch
""",
    """
def Batches(data, size):
    for k in range(len(data) // size):
        yield data[k * size:(k + 1) * size]
""",
    """
def Batches(data, size):
    start = 0
    while start < len(data):
        yield data[start:start + size]
        start += size
""",
    """
class Batches:
    def __init__(self, data, size): self.data, self.size = data, size
    def get(self, i):
        return self.data[i:i + self.size]
    def __iter__(self):
        for i in range(0, len(self.data), self.size):
            yield self.get(i)
""",
    """
class Batches:
    def __init__(self, data, size): self.data, self.size = data, size
    @staticmethod
    def get(data, start, size):
        return data[start:start + size]
    def __iter__(self):
        for i in range(0, len(self.data), self.size):
            yield self.get(self.data, i, size=self.size)
""",
]


@pytest.mark.parametrize("loader", LOADERS)
def test_a_generator_of_slices_of_the_device(loader: str) -> None:
    source = "import torch\n" + loader + TRAIN.format(moved=".cuda()")
    left = migrate(source.encode(), Options()).left
    assert {finding.code for finding in left} == {"XLA506"}


@pytest.mark.parametrize("loader", LOADERS[1:])
def test_a_generator_of_slices_of_the_host_stays(loader: str) -> None:
    source = "import torch\n" + loader + TRAIN.format(moved="")
    assert "XLA506" not in [code for _, code in findings(source)]


def test_a_length_by_numbers_of_batches_is_narrowed_when_asked_for() -> None:
    source = "import torch\n" + LOADERS[3] + TRAIN.format(moved=".cuda()")
    after = migrate(source.encode(), Options(unsafe=True)).data.decode()
    assert "yield xla.narrow(data, 0, k * size, size)" in after


@pytest.mark.parametrize(
    ("loop", "times"),
    [
        ("for t in range(n)", 1),
        ("for t in reversed(range(n))", 1),
        ("for t in tqdm(reversed(range(n)), total=n)", 1),
        ("for k, t in enumerate(list(range(n)))", 1),
        ("for t in reversed(range(4))", 0),  # few graphs
        ("for t in reversed(times)", 0),
    ],
)
def test_steps_of_a_sampler_are_numbers_that_change(loop: str, times: int) -> None:
    source = (
        "import torch\nfrom tqdm import tqdm\n\n@torch.no_grad()\ndef sample(model, n, times):\n"
        "    alphas = torch.rand(100).cuda()\n    x = torch.randn(4, 8, device='cuda')\n"
        f"    {loop}:\n        x = x - alphas[t] * model(x)\n    return x\n\n"
        "def train(model, loader, optimizer):\n    for x in loader:\n        model(x.cuda()).mean().backward()\n"
        "        optimizer.step()\n"
    )
    assert [code for _, code in findings(source)].count("XLA506") == times


@pytest.mark.parametrize(
    ("drawn", "times"),
    [
        ("np.random.choice(64)", 1),
        ("np.random.randint(0, 64)", 1),
        ("np.random.choice(64, size=[16])", 0),  # an array, which is uploaded
        ("np.random.choice(64, 16)", 0),
        ("np.random.randint(0, 64, (16,))", 0),
    ],
)
def test_drawn_numbers_move_and_arrays_do_not(drawn: str, times: int) -> None:
    source = f"""
import numpy as np
import torch

def train(net, optimizer, steps):
    data = torch.rand(64, 4).cuda()
    for step in range(steps):
        place = {drawn}
        loss = net(data[place]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
    assert [code for _, code in findings(source)].count("XLA506") == times


SAMPLER = """
import torch
from torch import nn

class Diffusion(nn.Module):
    def __init__(self, net, steps):
        super().__init__()
        self.net, self.steps = net, steps
        for name, value in schedules(steps).items():
            self.register_buffer(name, value)

    def mean(self, x, t):
        return x - self.betas[t] * self.net(x)

    def sample(self, x):
        steps = list(range(self.steps))
        for t, s in zip(reversed(steps), [-1] + steps[:-1]):
            x = self.mean(x, t) + self.sigmas[s]
        return x

def train(net, loader, optimizer):
    diffusion = Diffusion(net, 100).cuda()
    for x in loader:
        loss = net(x.cuda()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        return diffusion.sample(x)
"""


def test_schedules_of_a_sampler_that_runs_without_gradients() -> None:
    after = migrate(SAMPLER.encode(), Options()).data.decode()
    assert "x - xla.narrow(self.betas, 0, t) * self.net(x)" in after
    assert "+ xla.narrow(self.sigmas, 0, s)\n            xla.mark_step()\n" in after


def test_an_index_that_may_be_a_tensor_is_reported_without_a_fix() -> None:
    """Of a tensor of positions, `xla.narrow` would return one."""
    noisy = "    def loss(self, x):\n        return self.mean(x, torch.randint(9, (len(x),)))\n\n"
    after = SAMPLER.replace("    def sample", noisy + "    def sample")
    assert "self.betas[t]" in migrate(after.encode(), Options()).data.decode()
    assert [line for line, code in findings(after) if code == "XLA506"] == [13, 21]


def test_a_function_that_is_also_called_with_gradients_is_not_marked() -> None:
    after = SAMPLER.replace("net(x.cuda()).mean()", "diffusion.sample(x.cuda()).mean()")
    assert (
        "            xla.mark_step()\n        return x"
        not in migrate(after.encode(), Options()).data.decode()
    )


SLIDING = """
import torch

def positions(size):
    found = list(range(0, size - 32, 16))
    found.append(size - 32)
    return found

def multiples(size):
    return [k * 16 for k in range(size // 16)]

def grown(size):
    found = []
    for k in range(size // 16):
        found.append(k * 16)
    return found

def windows(size):
    for y in range(0, size, 16):
        for x in range(0, size, 16):
            yield y, x

def few(size):
    return [0, 16, size - 32]

@torch.no_grad()
def predict(model, volume):
    volume = volume.cuda()
    out = torch.zeros(1, 2, 512, device="cuda")
    steps = torch.linspace(0, 480, 30)
    rounded = list(reversed(steps.int().tolist()))
    pairs = list(zip(rounded[:-1], rounded[1:]))
    for {loop}:
        out[..., p : p + 32] += model(volume)
    return out

def train(model, loader, optimizer):
    for x in loader:
        model(x.cuda()).mean().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("loop", "moves"),
    [
        ("p in positions(512)", True),
        ("p in sorted(set(positions(512)))", True),
        ("p in multiples(volume.shape[-1])", True),
        ("p in grown(512)", True),
        ("_, p in windows(512)", True),
        ("p, q in [(y, x) for y in range(512) for x in few(512)]", True),
        ("q, p in [(y, x) for y in range(512) for x in few(512)]", False),
        ("p in reversed(torch.linspace(0, 480, 30).int().tolist())", True),
        ("p, q in zip(torch.arange(0, 480, 8).tolist()[:-1], few(512))", True),
        ("p in steps.int().tolist()", True),
        ("p in (steps * 4 + 1).long().flip(0).tolist()", True),
        ("p, q in pairs", True),
        ("p in few(512).tolist()", False),
        ("p in volume[0, 0].tolist()", False),
        ("p in few(512)", False),
        ("p in [0] * 3", False),
    ],
)
def test_windows_at_positions_of_a_list(loop: str, moves: bool) -> None:
    found = [line for line, code in findings(SLIDING.format(loop=loop)) if code == "XLA519"]
    assert len(found) == moves


def test_an_index_that_a_function_draws_in_each_step() -> None:
    source = """
import random
import torch
class Trainer:
    def __init__(self, model, images):
        self.model, self.images = model.cuda(), torch.rand(10, 4).cuda()
    def step(self):
        k = random.randint(0, 9)
        return self.model(self.images[k]).mean()
    def train(self, optimizer):
        for _ in range(9):
            self.step().backward()
            optimizer.step()
"""
    assert "xla.narrow(self.images, 0, k)" in migrated(source)
    assert "narrow" not in migrated(source.replace("for _ in range(9):", "if True:"))


@pytest.mark.parametrize(("element", "times"), [("chosen[i]", 1), ("chosen[i](x)", 0)])
def test_an_element_that_is_called_is_no_tensor(element: str, times: int) -> None:
    source = f"""
import torch

def either(one, other):
    return other if one is None else one

def train(model, optimizer, loader, winners):
    x = torch.ones(512, device="cuda")
    chosen = either(winners, x)
    for i, batch in enumerate(loader):
        loss = model(batch.cuda()).sum() + {element}
        loss.backward()
        optimizer.step()
"""
    assert [code for _, code in findings(source)].count("XLA506") == times
