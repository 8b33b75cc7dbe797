"""``nn.GRU`` takes CPU tensors and packed sequences, too.

The fault: importing torch_xla replaces ``torch.nn.GRU`` with a GRU that refuses CPU tensors and packed sequences
(fact 1.106). A model that trained on XLA could not be evaluated, traced or exported on the CPU. It also raises if
``bidirectional`` is passed by position, and transposes the result of an unbatched input with ``batch_first``. In a
dispatch mode, such as ``FlopCounterMode``, it fails or ends the process.

To see it: ``import torch_xla; torch.nn.GRU(3, 4)(torch.ones(1, 1, 3))`` raises.
It can go when this fails: test_gru_refuses_cpu_tensors.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.nn.utils.rnn import PackedSequence
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from ._versions import Versions

VERSIONS = Versions("torch_xla", "2.9", "2.10")


def apply() -> None:
    """Let modules of torch_xla's GRU run as torch's, except for batches on XLA in one direction outside dispatch modes."""
    scan_gru = torch.nn.GRU
    stock_gru = getattr(scan_gru, "_orig", None)
    if stock_gru is None:
        return
    scan_forward = scan_gru.forward

    @functools.wraps(scan_forward)
    def forward(self: Any, input: Any, hx: Any = None) -> Any:
        is_plain = not isinstance(input, PackedSequence) and input.dim() == 3
        scans = is_plain and input.device.type == "xla" and not self.bidirectional
        own = scan_forward if scans and not is_in_torch_dispatch_mode() else stock_gru.forward
        return own(self, input, hx)

    scan_gru.forward = forward  # type: ignore[method-assign]
