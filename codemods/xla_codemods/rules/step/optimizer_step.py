"""The optimizer step must reduce gradients over replicas.

`xla.optimizer_step(optimizer)` averages the gradients over replicas where there are several and nobody has
done so yet, then calls `optimizer.step()`. With one replica it is `optimizer.step()`.

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

Closures are handed through:

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

Averages are right only for parameters that are the same on every process. A program without a process group has none
that differ: it was written for one process, and those that the runtime starts hold the same. In a program with one
something has to show it: `DistributedDataParallel` or its like around the model, which averages in backward, so that
the step has nothing left to do; or an all-reduce of the gradients over all processes. Model-parallel parts, as an
embedding table of each rank's own, have neither. Their step averages nothing, as on CUDA:

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

A program that reduces its gradients itself, by hooks or after `backward`, needs no second all-reduce:

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

Where a program with a process group wraps nothing and reduces nothing, no step averages. Where some model is wrapped,
and this one is a function's parameter, comes from another module or is handed to what may wrap it, the step says nothing of
averages: once a wrapper exists, the runtime averages nothing beside it, as on CUDA.

A class's own `step` that takes more than a closure is called as before. Where the gradients are computed beside it, it is
named, and nothing is said where it computes them itself:

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

What is no optimizer keeps its `step`:

```python
import torch

def play(env, scheduler, profiler):
    env.step(0)
    scheduler.step()
    profiler.step()
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...analysis.frameworks.accelerator import uses_accelerate
from ...analysis.syntax import handed_through
from ...analysis.training.replication import Replication
from ...edits import Replace
from ...finding import WARNING, Finding
from ...rule import Rule

if TYPE_CHECKING:
    from ...analysis.script import Script

RULE = Rule(
    "XLA501",
    "optimizer-step",
    of_what_runs=True,
    of_step="step",
    severity=WARNING,
    shows_accelerator=False,
)

_OWN = (
    "on several XLA devices each would step with its own gradients, and this `step` takes more than a closure: "
    "call `xla.reduce_gradients` of the optimizer before it"
)


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
        message = "on several XLA devices each would step with its own gradients: use `xla.optimizer_step`, which averages them"
        if not averages:
            text += ", average=False"
            message = script.cached(Replication).reason(step.optimizer)
        edit = Replace(
            step.call,
            f"{script.xla}.optimizer_step({{0}}{text})",
            (step.optimizer, *(value for _, value in given)),
        )
        yield RULE.finding(script, step.call, message, edit)


def _follows_backward(script: Script, step: ast.Call) -> bool:
    """True if gradients are computed in the function of the step."""
    home = script.function(step)
    return any(script.function(call) is home for call, _ in script.index.calls_of("backward"))
