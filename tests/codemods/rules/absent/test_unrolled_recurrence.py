"""Recurrent layers that become a graph of the sequence's length."""

from __future__ import annotations

import pytest

from ..lines import codes

MODEL = """import torch
from torch import nn
import torch.nn as tnn


class Net(nn.Module):
    def __init__(self, both):
        super().__init__()
        self.layer = LAYER


net = Net(False).to(PLACE)
"""


@pytest.mark.parametrize(
    ("layer", "is_told"),
    [
        ("nn.LSTM(4, 8)", True),
        ("tnn.LSTM(4, 8, num_layers=2, batch_first=True)", True),
        ("nn.RNN(4, 8, nonlinearity='relu')", True),
        ("torch.nn.modules.rnn.LSTM(4, 8)", True),
        ("nn.GRU(4, 8, bidirectional=True)", True),
        ("nn.GRU(4, 8)", False),
        ("nn.GRU(4, 8, 2, bidirectional=False)", False),
        ("nn.GRU(4, 8, bidirectional=both)", False),
        ("nn.LSTMCell(4, 8)", False),
        ("keras.LSTM(4, 8)", False),
    ],
)
def test_layers(layer: str, is_told: bool) -> None:
    source = MODEL.replace("LAYER", layer)
    assert ("XLA918" in codes(source.replace("PLACE", '"cuda"'))) is is_told
    assert "XLA918" not in codes(source.replace("PLACE", '"cpu"'))
