"""Recurrent layers take packed sequences.

The fault: on XLA the ``batch_sizes`` of ``pack_padded_sequence`` is a wrapper without data, so that
``pad_packed_sequence`` and each recurrent layer raise "its data is not allocated yet". Its values are wrong, too, unless
`operations.strided_views` repairs the slices that it is made of.

To see it: pack an XLA tensor with ``torch_xla`` alone, and print ``packed.batch_sizes``.
It can go when this fails: test_packing_on_xla_has_no_batch_sizes.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from ..compiling.scripted import scripted_as
from ._versions import Versions

VERSIONS = Versions("torch_xla", "2.9", "2.10")


def apply() -> None:
    """Pack and pad XLA tensors by an index that the CPU computes."""
    functions: Any = torch._VF
    for name, ours in (("_pack_padded_sequence", _pack), ("_pad_packed_sequence", _pad)):
        original = getattr(functions, name)
        setattr(functions, name, scripted_as(original, functools.partial(ours, original)))


def _pack(
    original: Any, x: torch.Tensor, lengths: torch.Tensor, batch_first: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the elements step by step, those of the longest sequence first, and their number in each step."""
    if x.device.type != "xla":
        packed: tuple[torch.Tensor, torch.Tensor] = original(x, lengths, batch_first)
        return packed
    sequences, steps = (x.shape[0], x.shape[1]) if batch_first else (x.shape[1], x.shape[0])
    lengths = lengths.to(torch.int64)
    _check(lengths, sequences, steps)
    batch_sizes = _batch_sizes(lengths)
    step, sequence = _positions(batch_sizes)
    index = sequence * steps + step if batch_first else step * sequences + sequence
    return x.flatten(0, 1).index_select(0, index.to(x.device)), batch_sizes


def _check(lengths: torch.Tensor, sequences: int, steps: int) -> None:
    """Raise as torch does on other devices, and for lengths that torch reads beyond the memory."""
    if lengths.device.type != "cpu" or lengths.ndim != 1:
        raise RuntimeError("'lengths' argument should be a 1D CPU int64 tensor")
    if len(lengths) != sequences:
        raise RuntimeError(f"Expected `len(lengths)` to be equal to {sequences}")
    if bool((lengths <= 0).any()):
        raise RuntimeError("Length of all samples has to be greater than 0")
    if bool((lengths[:-1] < lengths[1:]).any()):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True"
        )
    if int(lengths[0]) > steps:
        raise RuntimeError(f"a sequence of length {int(lengths[0])} has only {steps} elements")


def _batch_sizes(lengths: torch.Tensor) -> torch.Tensor:
    steps = torch.arange(int(lengths[0]))
    return (lengths[None] > steps[:, None]).sum(1)


def _positions(batch_sizes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the step and the sequence of each packed element."""
    step = torch.repeat_interleave(batch_sizes)
    first = batch_sizes.cumsum(0) - batch_sizes
    return step, torch.arange(len(step)) - first[step]


def _pad(
    original: Any,
    data: torch.Tensor,
    batch_sizes: torch.Tensor,
    batch_first: bool,
    padding_value: float,
    total_length: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the sequences, padded to ``total_length`` if that is positive, and their lengths."""
    if data.device.type != "xla":
        padded: tuple[torch.Tensor, torch.Tensor] = original(
            data, batch_sizes, batch_first, padding_value, total_length
        )
        return padded
    sequences, steps = int(batch_sizes[0]), max(len(batch_sizes), total_length)
    step, sequence = _positions(batch_sizes)
    index = torch.full((steps, sequences), len(data))  # The row after the last: padding.
    index[step, sequence] = torch.arange(len(data))
    index = index.T if batch_first else index
    rows = torch.cat([data, data.new_full((1, *data.shape[1:]), padding_value)])
    values = rows.index_select(0, index.flatten().to(data.device))
    lengths = (batch_sizes[:, None] > torch.arange(sequences)).sum(0)
    return values.view(*index.shape, *data.shape[1:]), lengths
