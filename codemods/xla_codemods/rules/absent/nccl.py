"""NCCL moves data between CUDA devices; its objects and options have no counterpart.

XLA compiles collectives into the graph. `torch.distributed` and the runtime's collectives are the way to other
devices; options of NCCL's process groups are dropped, and questions whether NCCL is there answered yes by a build
that has no device are not to be branched on (xla-facts section 2).

```python
import torch
import torch.distributed as dist

def exchange(tensors, options=dist.ProcessGroupNCCL.Options()):
    torch.cuda.nccl.all_reduce(tensors)
    return torch.cuda.comm.broadcast(tensors[0], [0, 1])
```

A module of one's own of that name is not NCCL:

```python
from mylib import nccl

def mean(values):
    return nccl.all_reduce(values)
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

RULE = Rule("XLA911", "nccl", effort=HIGH)


@RULE.rest
def nccl(script: Script, rest: Rest) -> Iterator[Finding]:
    yield from leftovers(RULE, script, rest, HIGH)
