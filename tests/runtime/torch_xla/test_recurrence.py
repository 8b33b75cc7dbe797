"""Recurrent layers: whose graph grows with the sequence, as XLA918 says."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

torch_xla = pytest.importorskip("torch_xla")


def nodes(make: Callable[[], nn.Module], steps: int, device: torch.device) -> int:
    """Operations of one training step on a sequence of so many."""
    layer = make().to(device)
    x = torch.ones(1, steps, 2).to(device)
    torch_xla.sync()
    layer(x)[0].sum().backward()
    gradients = [parameter.grad for parameter in layer.parameters()]
    text: str = torch_xla._XLAC._get_xla_tensors_text(gradients)
    return text.count("\n")


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.LSTM(2, 2, batch_first=True),
        lambda: nn.RNN(2, 2, batch_first=True),
        lambda: nn.GRU(2, 2, batch_first=True, bidirectional=True),
    ],
    ids=["LSTM", "RNN", "GRU in both directions"],
)
def test_the_graph_grows_with_the_sequence(
    make: Callable[[], nn.Module], device: torch.device
) -> None:
    short, long = (nodes(make, steps, device) for steps in (4, 8))
    assert long > 1.8 * short


def test_a_gru_in_one_direction_is_a_loop_within_the_graph(device: torch.device) -> None:
    short, long = (nodes(lambda: nn.GRU(2, 2, batch_first=True), n, device) for n in (4, 8))
    assert long == short
