"""flash_attn.bert_padding: batches to sequences laid end to end, and back."""

from __future__ import annotations

import torch
from torch.nn import functional


def index_first_axis(x: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """x[indices] on the first dimension."""
    return x[indices]


def unpad_input(
    hidden_states: torch.Tensor, attention_mask: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, int, torch.Tensor]:
    """(batch, sequence, ...) and a 0/1 mask to (tokens, ...), indices, cu_seqlens, longest, lengths."""
    lengths = attention_mask.sum(-1, dtype=torch.int32)
    indices = torch.nonzero(attention_mask.flatten(), as_tuple=False).flatten()
    bounds = functional.pad(torch.cumsum(lengths, 0, dtype=torch.int32), (1, 0))
    return hidden_states.flatten(0, 1)[indices], indices, bounds, int(lengths.max()), lengths


def pad_input(
    hidden_states: torch.Tensor, indices: torch.Tensor, batch: int, seqlen: int
) -> torch.Tensor:
    """The inverse of `unpad_input`; padding is zero."""
    out = hidden_states.new_zeros(batch * seqlen, *hidden_states.shape[1:])
    return out.index_copy(0, indices, hidden_states).view(batch, seqlen, *out.shape[1:])
