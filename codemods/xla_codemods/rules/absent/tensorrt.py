"""TensorRT runs trained models on NVIDIA devices.

It is no part of training. On XLA the model runs as it is; on Inferentia `torch_neuronx.trace` compiles it.

```python
import torch_tensorrt

def deploy(model, sample):
    return torch_tensorrt.compile(model, inputs=[sample])  # XLA908
```

torch's own compiler is another rule's.

```python
import torch

def deploy(model, sample):
    return torch.jit.trace(model, sample)
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

RULE = Rule("XLA908", "tensorrt", effort=HIGH)


@RULE.fallback
def tensorrt(script: Script, unhandled: Unhandled) -> Iterator[Finding]:
    yield from leftovers(RULE, script, unhandled, HIGH)
