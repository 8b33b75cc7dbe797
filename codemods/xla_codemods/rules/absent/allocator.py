"""CUDA's memory allocator has no counterpart on XLA.

## What it reports

Memory pools, pluggable allocators, unified memory and fractions of a device's memory.

## Why it matters on XLA

XLA plans the memory of each graph when it compiles the graph.

## What to do

Fix: none.

Remove the calls. `xla.memory_info()` returns the memory in use.

## Example

```python
import torch

torch.cuda.set_per_process_memory_fraction(0.5)  # XLA913
pool = torch.cuda.MemPool()  # XLA913
```

The runtime's figures are not reported:

```python
from xla_migrate import runtime as xla

print(xla.memory_info())
```
"""

from __future__ import annotations

from ...finding import MEDIUM
from ...rule import Rule

RULE = Rule("XLA913", "allocator", effort=MEDIUM, leftovers=MEDIUM)
