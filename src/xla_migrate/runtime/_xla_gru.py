"""torch_xla puts its own GRU in place of ``torch.nn.GRU``, which refuses CPU tensors (1.106)."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.utils.rnn import PackedSequence


def accept_cpu() -> None:
    """Let modules of torch_xla's GRU run as torch's where their input is not on XLA.

    A model that trained on XLA can then be evaluated, traced or exported on the CPU.
    """
    scan_gru = torch.nn.GRU
    stock_gru = getattr(scan_gru, "_orig", None)
    if stock_gru is None:
        return
    scan_forward = scan_gru.forward

    def forward(self: Any, input: Any, hx: Any = None) -> Any:
        data = input.data if isinstance(input, PackedSequence) else input
        chosen = scan_forward if data.device.type == "xla" else stock_gru.forward
        return chosen(self, input, hx)

    scan_gru.forward = forward  # type: ignore[method-assign]
