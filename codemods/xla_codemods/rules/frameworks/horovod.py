"""Horovod averages gradients over NCCL or MPI.

On XLA the runtime does: `xla.launch` starts the processes, `xla.optimizer_step(optimizer)` averages and steps, so that
`hvd.DistributedOptimizer` and the broadcasts of parameters go; `xla.rank()`, `xla.world_size()` and `xla.local_rank()`
are `hvd`'s of nearly the same names.

```python
import horovod.torch as hvd

def build(optimizer, model):
    hvd.init()
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    return hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
```
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...findings import MEDIUM, Finding
from ...rule import Rest, Rule
from ..absent.leftovers import leftovers

if TYPE_CHECKING:
    from ...script import Script

RULE = Rule("XLA805", "horovod", effort=MEDIUM)


@RULE.rest
def horovod(script: Script, rest: Rest) -> Iterator[Finding]:
    yield from leftovers(RULE, script, rest, MEDIUM)
