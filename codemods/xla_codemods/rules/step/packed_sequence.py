"""Packed sequences fail in XLA's recurrent layers.

An LSTM or GRU that is given a PackedSequence raises (xla-facts section 2), and the lengths would be a shape of their own
in every batch. Pad to a fixed length, run over the padding, and mask it out of the loss; take the last step of each
sequence by `gather`.

```python
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

class Encoder(nn.Module):
    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True)
        return self.lstm(packed)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...findings import HIGH, Finding
from ...rule import Rule

if TYPE_CHECKING:
    from ...names import Scope
    from ...script import Script

RULE = Rule("XLA514", "packed-sequence", effort=HIGH)

_HOME = "torch.nn.utils.rnn"


@RULE.call(f"{_HOME}.pack_padded_sequence", f"{_HOME}.pack_sequence", f"{_HOME}.PackedSequence")
def packed(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if script.accelerated or script.trains or script.is_in_a_module(call):
        message = "recurrent layers on XLA take no packed sequences: pad, and mask the loss"
        yield RULE.at(script, call, message)
