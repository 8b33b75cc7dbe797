"""Caches that grow from call to call of a model that a loop samples from."""

from __future__ import annotations

import pytest

from ...helpers import findings

MODEL = """\
import torch
from torch import nn

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.key, self.kept = nn.Linear(8, 8), None

    def forward(self, x, past=None):
        k = self.key(x)
        {body}

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = Attention()

    def forward(self, x, past=None):
        return self.layer(x, past)

    {no_grad}
    def generate(self, x, cache):
        past = None
        for {each}:
            {step}
        return x

def train(loader, optimizer):
    model = Model().cuda()
    for x in loader:
        loss = model(x.cuda())[0].mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.generate(x.cuda(), {{}})
"""
BODIES = {
    "an entry": "if past:\n            k = torch.cat([past['k'], k], 1)\n        past['k'] = k\n        return k, past",
    "entries": "v = k * 2\n        if past:\n            k, v = torch.cat([past['k'], k], 1), v\n        past['k'], past['v'] = k, v\n        return k, past",
    "in place": "past['k'] = torch.cat((past['k'], k), dim=1)\n        return past['k'], past",
    "an attribute": "if self.kept is not None:\n            k = torch.cat([self.kept, k], dim=1)\n        self.kept = k\n        return k, None",
    "a pair": "if self.kept is not None:\n            k = torch.cat([self.kept, k], dim=1)\n        self.kept, self.last = k, x\n        return k, None",
}
PASTS = {
    "unpacked": "if past is not None:\n            old, _ = past\n            k = torch.cat((old, k), dim=1)\n        return k, (k, k)",
    "an element": "if past is not None:\n            k = torch.cat([past[0], k], dim=1)\n        return k, (k, k)",
    "itself": "k = k if past is None else torch.cat([past, k], dim=1)\n        return k, k",
}
OTHERS = {
    "a residual": "k = torch.cat([x, k], dim=1)\n        return k, past",
    "another name": "old = x\n        k = torch.cat([old, k], dim=1)\n        return k, past",
    "no cache": "k = torch.cat([k, x], dim=1)\n        return k, past",
    "another": "kept = torch.cat([self.kept, k], dim=1)\n        self.last = kept\n        return k, past",
    "a window": "k = torch.cat([self.kept, k], dim=1)[:, -4:]\n        self.kept = k\n        return k, past",
}
STEP = "x, past = self(x, cache)"


def _is_found(body: str, each: str = "_ in range(9)", no_grad: str = "@torch.no_grad()") -> bool:
    source = MODEL.format(body=body, each=each, no_grad=no_grad, step=STEP)
    return "XLA504" in {code for _, code in findings(source)}


@pytest.mark.parametrize("body", BODIES)
def test_a_cache_that_grows(body: str) -> None:
    assert _is_found(BODIES[body])
    assert not _is_found(BODIES[body], each="x in loader")
    assert not _is_found(BODIES[body], no_grad="")


@pytest.mark.parametrize("body", PASTS)
def test_a_parameter_with_the_keys_of_earlier_calls(body: str) -> None:
    assert _is_found(PASTS[body])
    assert not _is_found(PASTS[body], each="x in loader")


@pytest.mark.parametrize("body", OTHERS)
def test_what_does_not_grow(body: str) -> None:
    assert not _is_found(OTHERS[body])
