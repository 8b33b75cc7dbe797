"""Packed sequences have a new shape in each batch, and XLA compiles for each.

## What it reports

`pack_padded_sequence` and `pack_sequence`.

## Why it matters on XLA

A packed sequence is as long as all sequences of the batch together, and a recurrent layer has one
loop for each length in it. So almost every batch has a new graph, which compiles for seconds to
minutes. The results are right, because the runtime repairs packing. With `--style native` the layer
raises an exception.

## What to do

Fix: none.

Pad to a fixed length, run over the padding, and mask it in the loss. Take the last step of each
sequence with `gather`.

## Example

```python
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

class Encoder(nn.Module):
    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True)  # XLA514
        return self.lstm(packed)
```

A layer over padded sequences is not reported:

```python
import torch
from torch import nn

class Encoder(nn.Module):
    def forward(self, x, lengths):
        out, _ = self.lstm(x)
        return out.gather(1, (lengths - 1).view(-1, 1, 1).expand(-1, 1, out.size(2))).squeeze(1)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...finding import HIGH, WARNING, Finding
from ...rule import Rule
from ...symptoms import POSSIBLE, REMOTE

if TYPE_CHECKING:
    from ...analysis.scopes import Scope
    from ...analysis.script import Script

RULE = Rule(
    "XLA514",
    "packed-sequence",
    of_what_runs=True,
    severity=WARNING,
    effort=HIGH,
    about="speed",
    behind={"static shapes": POSSIBLE, "bounded graph": REMOTE},
)

_HOME = "torch.nn.utils.rnn"


@RULE.call(f"{_HOME}.pack_padded_sequence", f"{_HOME}.pack_sequence", f"{_HOME}.PackedSequence")
def packed(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if script.accelerated or script.trains or script.is_in_a_module(call):
        message = "XLA compiles a recurrent layer again for each set of lengths in a packed sequence: pad the sequences to one length, and mask the loss"
        yield RULE.finding(script, call, message)
