"""Lists of tensors that are joined in the loop that appends to them."""

from __future__ import annotations

import textwrap

import pytest

from ...helpers import findings

SOURCE = """
import torch
from collections import deque

@torch.no_grad()
def sample(model, x):
    start = torch.ones(x.size(0), dtype=torch.long, device="cuda")
    {before}
    for _ in range(50):
        {turn}
    return start

def train(model, loader, optimizer):
    losses = []
    for x, y in loader:
        loss = model(x.cuda(), y.cuda())
        loss.backward()
        optimizer.step()
        {step}
"""


def _lines(before: str = "pass", turn: str = "pass", step: str = "pass") -> list[int]:
    turn, step = (textwrap.indent(text, " " * 8).strip() for text in (turn, step))
    source = SOURCE.format(before=before, turn=turn, step=step)
    return [line for line, code in findings(source) if code == "XLA504"]


@pytest.mark.parametrize(
    ("before", "turn"),
    [
        ("out = [start]", "out.append(model(x, torch.stack(out, 1)).argmax(-1))"),
        ("out = []; out.append(start)", "ys = torch.cat(out, dim=0)\nout.append(model(x, ys))"),
        ("out = [start]", "y = model(x, torch.vstack(out))\nnext = y[:, -1]\nout.append(next)"),
    ],
)
def test_sampling_with_a_list_of_tokens(before: str, turn: str) -> None:
    assert len(_lines(before, turn)) == 1


@pytest.mark.parametrize(
    ("before", "turn"),
    [
        ("out = []", "out = [start]\nout.append(model(x, torch.stack(out, 1)))"),
        ("out = [start]", "y = model(x, torch.stack(out))\nout.append(y)\nout.pop(0)"),
        ("out = deque([start], maxlen=4)", "out.append(model(x, torch.stack(list(out))))"),
        ("out = [start]", "y = model(x, torch.stack(out, 1))"),
        ("out = [1]", "y = model(x, torch.cat(out))\nout.append(1)"),
        ("out = [start]", "start = model(x, start)\nout.append(start)"),
    ],
)
def test_lists_that_do_not_grow(before: str, turn: str) -> None:
    assert not _lines(before, turn)


def test_the_mean_of_all_losses_so_far() -> None:
    assert _lines(step="losses.append(loss.detach())\nmean = torch.stack(losses).mean()")
    rare = "losses.append(loss.detach())\nif len(losses) % 50 == 0: torch.stack(losses).mean()"
    assert not _lines(step=rare)
