"""Transformer Engine and float8 training need NVIDIA's tensor cores.

## What it reports

Modules and contexts of `transformer_engine`.

## Why it matters on XLA

The library runs on CUDA only.

## What to do

Fix: none.

Use the corresponding module of torch.nn under `xla.autocast()` in bfloat16. float8 on Trainium is
selected by the compiler's flags (`--auto-cast-type=fp8_e4m3`), and not by the script.

## Example

```python
import transformer_engine.pytorch as te

def layer(size):
    with te.fp8_autocast(enabled=True):  # XLA910
        return te.Linear(size, size)  # XLA910
```

PyTorch's layers are not reported:

```python
import torch

def layer(size):
    return torch.nn.Linear(size, size)
```
"""

from __future__ import annotations

from ...finding import HIGH
from ...rule import Rule

RULE = Rule("XLA910", "transformer-engine", effort=HIGH, leftovers=HIGH)
