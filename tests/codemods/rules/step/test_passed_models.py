"""Loops that pass a model to a function of another module are marked, so that they are not one graph."""

from __future__ import annotations

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import migrate

DIFFUSION = b"""import torch

def p_sample(net, x, t):
    return x - 0.1 * net(x, t)

def describe(net, x):
    return sum(p.numel() for p in net.parameters()) + len(x)

def train_step(net, x, optimizer):
    net(x, 0).mean().backward()
    optimizer.step()

def train_epoch(net, x, optimizer):
    for part in x:
        net(part, 0)
"""


@pytest.mark.parametrize(
    ("line", "is_marked"),
    [
        ("x = p_sample(model, x, t)", True),
        ("x = diffusion.p_sample(net=model, x=x, t=t)", True),
        ("x = x + p_sample(model, x, t)", True),
        ("n = describe(model, x)", False),
        ("train_step(model, x, optimizer)", False),
        ("train_epoch(model, x, optimizer)", False),
        ("p_sample(other, x, t)", False),
    ],
)
def test_a_loop_that_samples(line: str, is_marked: bool) -> None:
    source = f"""import torch
import diffusion
from diffusion import describe, p_sample, train_epoch, train_step

@torch.no_grad()
def sample(model, optimizer, other):
    x = torch.randn(4, 3, 8, 8).cuda()
    for t in reversed(range(1000)):
        {line}
    return x
""".encode()
    modules = Modules({"sample.py": source, "diffusion.py": DIFFUSION})
    result = migrate(source, path="sample.py", project=Project(modules, "sample.py"))
    assert ("xla.mark_step()" in result.data.decode()) is is_marked


@pytest.mark.parametrize(
    ("call", "is_marked"),
    [
        ("x = step(x, t, model=model)", True),
        ("x = step(x, model=model, t=t)", True),
        ("x = step(x, t, scale=2)", False),
        ("save_image(x, model=model)", False),
    ],
)
def test_a_model_passed_by_name(call: str, is_marked: bool) -> None:
    source = f"""import functools
import torch

def sample(model, update, shape):
    step = functools.partial(update, scale=1)
    with torch.no_grad():
        x = torch.randn(shape).cuda()
        for t in range(1000):
            {call}
    return x
"""
    assert ("xla.mark_step()" in migrate(source.encode()).data.decode()) is is_marked
