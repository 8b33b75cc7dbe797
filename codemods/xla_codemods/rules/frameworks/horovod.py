"""Horovod averages gradients with NCCL or MPI.

## What it reports

Calls of `horovod.torch`, and methods of its optimizer.

## Why it matters on XLA

Neither NCCL nor MPI averages XLA tensors.

## What to do

Fix: none.

Start processes with `xla.launch`, and step with `xla.optimizer_step(optimizer)`, which averages
gradients. Remove `hvd.DistributedOptimizer` and the broadcasts of parameters. Replace
`hvd.rank()`, `hvd.size()` and `hvd.local_rank()` by `xla.rank()`, `xla.world_size()` and
`xla.local_rank()`.

## Example

```python
import horovod.torch as hvd

def build(optimizer, model):
    hvd.init()  # XLA805
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)  # XLA805
    return hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())  # XLA805
```

Methods that only Horovod's optimizer has:

```python
import horovod.torch as hvd

def update(model, optimizer, clip):
    optimizer = hvd.DistributedOptimizer(optimizer)  # XLA805
    optimizer.synchronize()  # XLA805
    clip(model.parameters(), 1.0)
    with optimizer.skip_synchronize():  # XLA805
        print(model)
```

Other libraries with the same short name are not reported:

```python
import mylib.averaging as hvd

def build(optimizer):
    hvd.init()
    return hvd.DistributedOptimizer(optimizer)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.devices.guards import is_guarded
from ...analysis.optimizers import is_optimizer
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...finding import INFO, LOW, MEDIUM, Finding
from ...rule import Rule

RULE = Rule("XLA805", "horovod", effort=MEDIUM, leftovers=MEDIUM)


@RULE.method("synchronize")
def averaged(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if _is_of_its_optimizer(script, call.func):
        message = "an optimizer has no `synchronize` on XLA: use `xla.reduce_gradients(optimizer)`, after which the step does not average again"
        yield _finding(script, call, message)


@RULE.method("skip_synchronize")
def not_averaged(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if _is_of_its_optimizer(script, call.func):
        message = "an optimizer has no `skip_synchronize` on XLA: remove it, because gradients are not averaged twice"
        yield _finding(script, call, message)


def _finding(script: Script, call: ast.Call, message: str) -> Finding:
    if is_guarded(script, call, "horovod"):
        return RULE.finding(script, call, message, severity=INFO, effort=LOW)
    return RULE.finding(script, call, message)


def _is_of_its_optimizer(script: Script, method: ast.expr) -> bool:
    """True of `optimizer.synchronize`, of what `hvd.DistributedOptimizer` gives, or what may be handed here."""
    if not isinstance(method, ast.Attribute) or not script.source.mentions("horovod"):
        return False
    return is_optimizer(script, method.value) or "opt" in ast.unparse(method.value).lower()
