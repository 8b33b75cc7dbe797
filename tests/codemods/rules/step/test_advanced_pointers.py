"""Positions that a loop moves on by arithmetic: pointers into queues and ring buffers."""

from __future__ import annotations

import pytest

from ...helpers import findings

QUEUE = """\
import torch

def train(model, optimizer, batches):
    queue = torch.randn(4, 512).cuda()
    start, size, step = 0, 512, 8
    for x in batches:
        keys = model(x.cuda())
        (keys @ queue).mean().backward()
        optimizer.step()
        queue[:, start : start + 8] = keys.detach().t()
        y = queue[:, start : start + 8]
        {advance}
"""


def _codes(advance: str) -> list[str]:
    text = QUEUE.replace("{advance}", advance.replace("\n", "\n        "))
    return [code for _, code in findings(text) if code in {"XLA506", "XLA519"}]


@pytest.mark.parametrize(
    "advance",
    [
        "start = (start + 8) % 512",
        "start = (start + step) % size",
        "start = (start + keys.shape[0]) % queue.shape[1]",
        "start = start + 8\nif start >= size:\n    start = 0",
        "following = start + 8\nstart = following % 512",
        "start += 8\nstart = start % 512",
        "start += 8\nstart %= 512",
        "start = start - 8",
    ],
)
def test_a_position_that_continues_from_the_previous_turn_moves(advance: str) -> None:
    assert sorted(_codes(advance)) == ["XLA506", "XLA519"]


@pytest.mark.parametrize(
    "advance",
    [
        "start = 8",
        "start = 8 - start",
        "start = (start + 1) % 2",
        "start = start % 512",
        "start = size - 8",
        "for start in (0, 8):\n    start = start + 8",
    ],
)
def test_a_position_with_few_values_does_not(advance: str) -> None:
    assert _codes(advance) == []


def test_a_position_that_each_turn_sets_anew_does_not() -> None:
    text = QUEUE.replace("keys = model", "start = 0; start = start + 8; keys = model")
    assert not {"XLA506", "XLA519"} & {code for _, code in findings(text.replace("{advance}", ""))}


def test_an_attribute_moves() -> None:
    text = QUEUE.replace("start, size, step = 0, 512, 8", "start.at = 0").replace(
        "start : start + 8", "start.at : start.at + 8"
    )
    text = text.replace("{advance}", "start.at = (start.at + 8) % 512")
    assert {"XLA506", "XLA519"} <= {code for _, code in findings(text)}
