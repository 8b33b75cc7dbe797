"""CUDA's memory allocator cannot be steered or replaced on XLA.

XLA plans the memory of each graph when it compiles it. Pools, pluggable allocators, unified memory and fractions of a
device have no counterpart; `xla.memory_info()` tells what is used.

```python
import torch

torch.cuda.set_per_process_memory_fraction(0.5)
pool = torch.cuda.MemPool()
```
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...findings import MEDIUM, Finding
from ...rule import Rest, Rule
from .leftovers import leftovers

if TYPE_CHECKING:
    from ...script import Script

RULE = Rule("XLA913", "allocator", effort=MEDIUM)


@RULE.rest
def allocator(script: Script, rest: Rest) -> Iterator[Finding]:
    yield from leftovers(RULE, script, rest, MEDIUM)
