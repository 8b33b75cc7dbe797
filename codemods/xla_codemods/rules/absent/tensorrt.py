"""TensorRT runs trained models on NVIDIA devices.

It is no part of training. On XLA the model runs as it is; on Inferentia `torch_neuronx.trace` compiles it.

```python
import torch_tensorrt

def deploy(model, sample):
    return torch_tensorrt.compile(model, inputs=[sample])
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

RULE = Rule("XLA908", "tensorrt", effort=HIGH)


@RULE.rest
def tensorrt(script: Script, rest: Rest) -> Iterator[Finding]:
    yield from leftovers(RULE, script, rest, HIGH)
