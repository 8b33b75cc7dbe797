"""An LSTM or RNN becomes a graph with one copy of the cell for each element of the sequence.

## What it reports

LSTM and RNN layers, and bidirectional GRU layers, that are trained on an accelerator.

## Why it matters on XLA

XLA has no kernel for them. The time to trace and to compile grows with the length of the
sequence, the number of layers and the directions, and each length compiles again. A GRU in one
direction is a loop in the graph.

## What to do

Fix: none.

Keep sequences short (truncated backpropagation), and pad them to a few lengths.

## Example

```diff
 import torch
 from torch import nn
+from xla_migrate import runtime as xla

 class Tagger(nn.Module):
     def __init__(self):
         super().__init__()
         self.encoder = nn.LSTM(64, 64, num_layers=2)  # XLA918
         self.reader = nn.GRU(64, 64, bidirectional=True)  # XLA918

-tagger = Tagger().cuda()
+tagger = Tagger().to(xla.xla_device())
```

A GRU in one direction, and layers that are not trained on an accelerator, are not reported:

```python
import torch
from xla_migrate import runtime as xla

encoder = torch.nn.GRU(64, 64, num_layers=2).to(xla.xla_device())
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_literal, keyword
from ...finding import INFO, MEDIUM, Finding
from ...rule import Rule

RULE = Rule("XLA918", "unrolled-recurrence", severity=INFO, effort=MEDIUM, about="speed")


_HOMES = ("torch.nn", "torch.nn.modules", "torch.nn.modules.rnn")


@RULE.call(*(f"{home}.{name}" for home in _HOMES for name in ("LSTM", "RNN", "GRU")))
def recurrent_layer(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    name = (script.dotted(call.func, scope) or "").rpartition(".")[2]
    if not script.runs_accelerated or (name == "GRU" and not _goes_both_ways(call)):
        return
    both = " in both directions" if name == "GRU" else ""
    message = f"`nn.{name}`{both} becomes a graph with one copy of its cell for each element of the sequence, and long sequences compile for minutes: keep sequences short and pad them to few lengths, or use a GRU in one direction, which is a loop in the graph"
    yield RULE.finding(script, call, message)


def _goes_both_ways(call: ast.Call) -> bool:
    value = keyword(call, "bidirectional")
    return is_literal(value, True)
