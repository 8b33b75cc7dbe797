"""Sizes that go through generators, lambdas and `partial` change between steps, too."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check

PROGRAM = """\
import itertools
from functools import partial
import torch

def grow():
    n = 8
    while True:
        yield n
        n += 1

TOP
model = torch.nn.Linear(2, 1).cuda()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step, n in enumerate(ITERATED):
    x = torch.ones(4, 2).cuda()
    loss = model(x).mean()
    USE
    loss.backward()
    opt.step()
"""


def reported(use: str, top: str = "", iterated: str = "range(100)") -> list[str]:
    source = PROGRAM.replace("TOP", top).replace("ITERATED", iterated).replace("USE", use)
    found = check(source.encode())
    lines = source.splitlines()
    return [lines[f.line - 1].strip() for f in found if f.code == "XLA504"]


@pytest.mark.parametrize(
    "iterated",
    ["grow()", "itertools.islice(grow(), 10)", "list(itertools.islice(grow(), 2, 10))"],
)
def test_the_numbers_of_a_generator(iterated: str) -> None:
    use = "loss = loss + model(torch.ones(n, 2).cuda()).sum()"
    assert reported(use, iterated=iterated) == [use]


@pytest.mark.parametrize(
    ("top", "is_reported"),
    [
        ("make = partial(torch.ones, 1, 3)", True),
        ("make = partial(torch.zeros, dtype=torch.float32)", True),
        ("make = partial(torch.full, fill_value=2.0)", True),
        ("make = partial(torch.full_like, torch.ones(2))", False),
    ],
)
def test_a_size_that_a_partial_call_receives(top: str, is_reported: bool) -> None:
    use = "loss = loss + make(8 + step).cuda().sum()"
    assert reported(use, top) == [use] * is_reported


@pytest.mark.parametrize(
    ("top", "use", "is_of_top"),
    [
        ("pos = lambda t: t.nonzero()[0]", "loss = loss + pos(x).sum()", True),
        ("pos = lambda t: torch.nonzero(t)", "loss = loss + pos(t=x).sum()", True),
        ("select = partial(torch.masked_select)", "loss = loss + select(x, x > 0).sum()", False),
        ("unique = partial(torch.unique, sorted=True)", "loss = loss + unique(x).sum()", False),
    ],
)
def test_selections_in_a_lambda_and_in_a_partial(top: str, use: str, is_of_top: bool) -> None:
    assert reported(use, top) == [top if is_of_top else use]


@pytest.mark.parametrize(
    ("top", "use"),
    [
        ("pos = lambda t: t.nonzero()[0]", "loss = loss + pos(torch.ones(2).numpy()).sum()"),
        ("select = partial(torch.masked_select)", "print(select)"),
        ("make = partial(torch.ones, 1, 3)", "loss = loss + make(8).cuda().sum()"),
    ],
)
def test_a_constant_size_and_a_value_on_the_host(top: str, use: str) -> None:
    assert reported(use, top) == []
