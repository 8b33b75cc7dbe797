"""Packed sequences on XLA."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils.rnn import (
    PackedSequence,
    pack_padded_sequence,
    pack_sequence,
    pad_packed_sequence,
    unpack_sequence,
)

from xla_migrate import runtime as xla

LENGTHS = st.lists(st.integers(1, 6), min_size=1, max_size=5).map(torch.tensor)


@settings(max_examples=12, deadline=None)
@given(LENGTHS, st.booleans(), st.integers(0, 3), st.booleans())
def test_packing_and_padding_are_those_of_the_cpu(
    lengths: torch.Tensor, batch_first: bool, more: int, sorted_first: bool
) -> None:
    lengths = lengths.sort(descending=True)[0] if sorted_first else lengths
    shape = (len(lengths), 8) if batch_first else (8, len(lengths))
    x = torch.randn(*shape, 3)
    total = int(lengths.max()) + more if more else None
    found = []
    for place in (torch.device("cpu"), xla.xla_device()):
        y = x.to(place).detach().requires_grad_()
        packed = pack_padded_sequence(y, lengths, batch_first, enforce_sorted=sorted_first)
        padded, counted = pad_packed_sequence(packed, batch_first, 7.0, total)
        (padded**2).sum().backward()
        found.append([packed.data, packed.batch_sizes, padded, counted, y.grad])
    for expected, got in zip(*found, strict=True):
        torch.testing.assert_close(got.cpu(), expected)


@pytest.mark.parametrize(
    ("kind", "bidirectional"), [(nn.RNN, True), (nn.GRU, False), (nn.LSTM, True)]
)
def test_recurrent_layers_agree_with_the_cpu(
    kind: Any, bidirectional: bool, device: torch.device
) -> None:
    torch.manual_seed(0)
    layer = kind(3, 4, num_layers=2, bidirectional=bidirectional)
    x, lengths = torch.randn(3, 6, 3), torch.tensor([4, 6, 1])
    found = []
    for place in (torch.device("cpu"), device):
        layer = layer.to(place)
        layer.zero_grad()
        packed = pack_padded_sequence(x.to(place), lengths, True, enforce_sorted=False)
        out, hidden = layer(packed)
        padded, _ = pad_packed_sequence(out, True)
        (padded**2).sum().backward()
        hidden = hidden if isinstance(hidden, tuple) else (hidden,)
        found.append([padded, *hidden, *(p.grad for p in layer.parameters())])
    for expected, got in zip(*found, strict=True):
        torch.testing.assert_close(got.cpu(), expected, rtol=1e-5, atol=1e-5)


def test_sequences_are_packed_and_unpacked(device: torch.device) -> None:
    sequences = [torch.randn(n, 2, device=device) for n in (2, 5, 3)]
    unpacked = unpack_sequence(pack_sequence(sequences, enforce_sorted=False))
    for expected, got in zip(sequences, unpacked, strict=True):
        torch.testing.assert_close(got.cpu(), expected.cpu())


def test_a_packed_batch_moves_to_the_device(device: torch.device) -> None:
    """The batch sizes stay on the CPU, as on CUDA."""
    packed = pack_sequence([torch.ones(3, 2), torch.ones(1, 2)])
    for moved in (packed.to(device), next(iter(xla.MpDeviceLoader([packed], device)))):
        assert isinstance(moved, PackedSequence)
        assert moved.data.device.type == "xla"
        assert moved.batch_sizes.device.type == "cpu"
        assert nn.LSTM(2, 3).to(device)(moved)[0].data.shape == (4, 3)


def test_a_length_beyond_the_padded_steps_raises(device: torch.device) -> None:
    with pytest.raises(RuntimeError, match="length 9"):
        pack_padded_sequence(torch.ones(2, 4, 1, device=device), torch.tensor([9, 1]), True)


@pytest.mark.parametrize("lengths", [torch.tensor([2, 3]), torch.tensor([3]), torch.tensor([3, 0])])
def test_wrong_lengths_raise_as_on_the_cpu(lengths: torch.Tensor, device: torch.device) -> None:
    for place in (torch.device("cpu"), device):
        with pytest.raises(RuntimeError):
            pack_padded_sequence(torch.ones(2, 4, 1, device=place), lengths, batch_first=True)


def test_a_total_length_that_is_too_short_raises(device: torch.device) -> None:
    packed = pack_sequence([torch.ones(3, 2, device=device)])
    with pytest.raises(ValueError, match="total_length"):
        pad_packed_sequence(packed, total_length=2)
