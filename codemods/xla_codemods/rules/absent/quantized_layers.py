"""Layers of bitsandbytes compute with quantised weights by CUDA kernels.

Use the layer of torch.nn, in bfloat16: `torch.nn.Linear(..., dtype=torch.bfloat16)`.

```python
import bitsandbytes as bnb

def layer(size):
    return bnb.nn.Linear8bitLt(size, size, has_fp16_weights=False)  # XLA914
```

Layers of torch stay.

```python
import torch

def layer(size):
    return torch.nn.Linear(size, size, dtype=torch.bfloat16)
```
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...fallback import leftovers
from ...finding import HIGH, Finding
from ...rule import Rule, Unhandled

if TYPE_CHECKING:
    from ...analysis.script import Script

RULE = Rule("XLA914", "quantized-layers", effort=HIGH)


@RULE.fallback
def quantized_layers(script: Script, unhandled: Unhandled) -> Iterator[Finding]:
    yield from leftovers(RULE, script, unhandled, HIGH)
