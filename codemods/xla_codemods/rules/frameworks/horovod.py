"""Horovod averages gradients over NCCL or MPI.

On XLA the runtime does: `xla.launch` starts the processes, `xla.optimizer_step(optimizer)` averages and steps, so that
`hvd.DistributedOptimizer` and the broadcasts of parameters go; `xla.rank()`, `xla.world_size()` and `xla.local_rank()`
are `hvd`'s of nearly the same names.

```python
import horovod.torch as hvd

def build(optimizer, model):
    hvd.init()  # XLA805
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)  # XLA805
    return hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())  # XLA805
```

Another library by that short name stays.

```python
import mylib.averaging as hvd

def build(optimizer):
    hvd.init()
    return hvd.DistributedOptimizer(optimizer)
```
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...fallback import leftovers
from ...finding import MEDIUM, Finding
from ...rule import Rule, Unhandled

if TYPE_CHECKING:
    from ...analysis.script import Script

RULE = Rule("XLA805", "horovod", effort=MEDIUM)


@RULE.fallback
def horovod(script: Script, unhandled: Unhandled) -> Iterator[Finding]:
    yield from leftovers(RULE, script, unhandled, MEDIUM)
