"""Packed sequences have a new shape in each batch, and XLA compiles for each.

## What it reports

`pack_padded_sequence` and `pack_sequence`. A packed sequence that is unpacked at once only selects
the elements that are no padding, and its size depends on the lengths, too.

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

Scripts that pack to leave out padding can mask instead:

```python
import torch
from torch.nn.utils.rnn import pack_padded_sequence

class Loss(torch.nn.Module):
    def forward(self, scores, targets, lengths):
        scores, *_ = pack_padded_sequence(scores, lengths, batch_first=True)  # XLA514
        targets = pack_padded_sequence(targets, lengths, batch_first=True)[0]  # XLA514
        return torch.nn.functional.cross_entropy(scores, targets)
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

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...finding import HIGH, WARNING, Finding
from ...rule import Rule
from ...symptoms import POSSIBLE, REMOTE

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
        if _is_unpacked(script, call):
            message = "the number of elements without padding differs between batches, and XLA compiles again for each: keep the padding, and mask the loss"
        yield RULE.finding(script, call, message)


def _is_unpacked(script: Script, call: ast.Call) -> bool:
    """Return True for `scores, *_ = pack_padded_sequence(...)`, `pack_padded_sequence(...)[0]` and `.data`."""
    match script.parent(call):
        case ast.Assign(targets=[ast.Tuple()]) | ast.Subscript() | ast.Attribute(attr="data"):
            return True
    return False
