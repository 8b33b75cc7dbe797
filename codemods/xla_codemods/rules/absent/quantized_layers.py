"""Layers of bitsandbytes compute with quantised weights by CUDA kernels.

Use the layer of torch.nn, in bfloat16: `torch.nn.Linear(..., dtype=torch.bfloat16)`.

```python
import bitsandbytes as bnb

def layer(size):
    return bnb.nn.Linear8bitLt(size, size, has_fp16_weights=False)
```
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...findings import HIGH, Finding
from ...rule import Rest, Rule
from .leftovers import leftovers

if TYPE_CHECKING:
    from ...script import Script

RULE = Rule("XLA914", "quantized-layers", effort=HIGH)


@RULE.rest
def quantized_layers(script: Script, rest: Rest) -> Iterator[Finding]:
    yield from leftovers(RULE, script, rest, HIGH)
