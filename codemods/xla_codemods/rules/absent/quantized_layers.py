"""Layers of bitsandbytes need CUDA kernels.

## What it reports

Layers of `bitsandbytes.nn`.

## Why it matters on XLA

Their kernels for quantised weights run on CUDA only.

## What to do

Fix: none.

Use the layer of torch.nn in bfloat16: `torch.nn.Linear(..., dtype=torch.bfloat16)`.

## Example

```python
import bitsandbytes as bnb

def layer(size):
    return bnb.nn.Linear8bitLt(size, size, has_fp16_weights=False)  # XLA914
```

PyTorch's layers are not reported:

```python
import torch

def layer(size):
    return torch.nn.Linear(size, size, dtype=torch.bfloat16)
```
"""

from __future__ import annotations

from ...finding import HIGH
from ...rule import Rule

RULE = Rule("XLA914", "quantized-layers", effort=HIGH, leftovers=HIGH)
