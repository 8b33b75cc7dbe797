"""`optimizer.step()` does not average gradients between replicas on XLA.

## What it reports

Calls of an optimizer's `step()`.

## Why it matters on XLA

With several replicas, each one would step with its own gradients.

## What to do

Fix: safe, or none.

Use `xla.optimizer_step(optimizer)`. If there are several replicas and the gradients have not been
averaged yet, it averages them. Then it calls `optimizer.step()`. With one replica it only calls
`optimizer.step()`.

## Example

```diff
 import torch
+from xla_migrate import runtime as xla

 def update(model, loss):
     optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
     loss.backward()
-    optimizer.step()
+    xla.optimizer_step(optimizer)
+    xla.mark_step()
```

A closure is passed on:

```diff
 import torch
+from xla_migrate import runtime as xla

 def fit(model, closure, steps):
     optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
     for _ in range(steps):
-        loss = optimizer.step(closure)
+        loss = xla.optimizer_step(optimizer, closure)
+        xla.mark_step()
```

In a program with a process group, gradients are averaged only for models that are wrapped in
`DistributedDataParallel` or a similar class, which averages in the backward pass. Other models,
such as an embedding table that differs between ranks, are not averaged, as on CUDA:

```diff
 import torch
-import torch.distributed as dist
-from torch.nn.parallel import DistributedDataParallel
+from xla_migrate import runtime as xla

 def main(loss_of, rank):
-    dist.init_process_group("nccl")
+    xla.init_process_group()
     table = torch.nn.Embedding(1000, 16)
-    top = DistributedDataParallel(torch.nn.Linear(16, 1))
+    top = xla.DistributedDataParallel(torch.nn.Linear(16, 1))
     tables = torch.optim.SGD(table.parameters(), lr=0.1)
     tops = torch.optim.SGD(top.parameters(), lr=0.1)
     for x in range(10):
         loss_of(top(table(x))).backward()
-        tables.step()
-        tops.step()
+        xla.optimizer_step(tables, average=False)
+        xla.optimizer_step(tops)
+        xla.mark_step()
```

A program that reduces its gradients itself needs no second reduction:

```diff
 import torch
-import torch.distributed as dist
+from xla_migrate import runtime as xla

 def main(model, batches):
-    dist.init_process_group("nccl")
+    xla.init_process_group()
     for parameter in model.parameters():
-        parameter.register_hook(lambda gradient: dist.all_reduce(gradient))
+        parameter.register_hook(lambda gradient: xla.all_reduce(gradient))
     optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
     for x in batches:
         model(x).mean().backward()
-        optimizer.step()
+        xla.optimizer_step(optimizer, average=False)
+        xla.mark_step()
```

A `step` with other arguments than a closure keeps its call. It is reported if the gradients are
computed outside of it:

```diff
 import torch
+from xla_migrate import runtime as xla

 def fit(model, batches, lr):
     optimizer = make_optimizer(model)
     for batch in batches:
         loss = model(batch).sum()
         loss.backward()
         optimizer.step(lr)  # XLA501
+        xla.mark_step()

 def fit_by_loss(model, batches):
     optimizer = make_optimizer(model)
     for batch in batches:
         optimizer.step(model(batch).sum())
+        xla.mark_step()
```

A step that one process takes is not replaced. The replacement averages gradients, and waits for the
other processes:

```diff
 import torch.distributed as dist
+from xla_migrate import runtime as xla

 def fit(model, batches, optimizer):
     for batch in batches:
         model(batch).sum().backward()
         if dist.get_rank() == 0:
             optimizer.step()  # XLA501
+        xla.mark_step()
```

Objects that are not optimizers are not reported:

```python
import torch

def play(env, scheduler, profiler):
    env.step(0)
    scheduler.step()
    profiler.step()
```

## Limits

- A program without a process group was written for one process. All replicas then hold the same
  parameters, and every step averages, except steps of values that are made again for each batch:
  `SGD([delta])` in an attack on the batch.
- In a program with a process group that wraps and reduces nothing, no step averages.
- If a model is wrapped, and another model comes from a parameter or another module, the call has
  no `average=` argument. The runtime averages nothing besides the wrapped models, as on CUDA.

## See also

XLA502, XLA602
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.frameworks.accelerator import uses_accelerate
from ...analysis.script import Script
from ...analysis.syntax import handed_through
from ...analysis.training.ranks.guards import guard, rank_names
from ...analysis.training.replication import Replication
from ...edits import Replace
from ...finding import WARNING, Finding
from ...rule import Rule

RULE = Rule(
    "XLA501",
    "optimizer-step",
    of_what_runs=True,
    of_step="step",
    severity=WARNING,
    shows_accelerator=False,
)

_OWN = "with several XLA devices each would step with its own gradients, and `step` takes more than a closure: call `xla.reduce_gradients(optimizer)` first"

_ALONE = "`xla.optimizer_step` averages gradients, and hangs if only some processes call it: call it in all processes"


@RULE.file
def optimizer_step(script: Script) -> Iterator[Finding]:
    if uses_accelerate(script):
        return
    for step in script.training.steps:
        if step.migrated or step.scaled:
            continue
        if step.optimizer is None:
            if _follows_backward(script, step.call):
                yield RULE.finding(script, step.call, _OWN)
            continue
        given = list(handed_through(step.call))
        text = "".join(f", {name}{{{k}}}" for k, (name, _) in enumerate(given, 1))
        averages = script.cached(Replication).averages(step.optimizer)
        message = "with several XLA devices each would step with its own gradients: use `xla.optimizer_step`, which averages them"
        if averages and _is_of_some_ranks(script, step.call):
            yield RULE.finding(script, step.call, _ALONE)
            continue
        if not averages:
            text += ", average=False"
            message = script.cached(Replication).reason(step.optimizer)
        edit = Replace(
            step.call,
            f"{script.xla}.optimizer_step({{0}}{text})",
            (step.optimizer, *(value for _, value in given)),
        )
        yield RULE.finding(script, step.call, message, edit)


def _is_of_some_ranks(script: Script, step: ast.Call) -> bool:
    """Return True for `if rank == 0: optimizer.step()`."""
    tests = (around.test for around in script.ancestors(step) if isinstance(around, ast.If))
    return any(guard(test, rank_names(script)) is not None for test in tests)


def _follows_backward(script: Script, step: ast.Call) -> bool:
    """True if gradients are computed in the function of the step."""
    home = script.function(step)
    return any(script.function(call) is home for call, _ in script.index.calls_of("backward"))
