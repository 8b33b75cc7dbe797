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

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...edits import Replace
from ...findings import WARNING, Finding
from ...rule import Rule

if TYPE_CHECKING:
    from ...script import Script

RULE = Rule("XLA501", "optimizer-step", severity=WARNING)


@RULE.whole
def optimizer_step(script: Script) -> Iterator[Finding]:
    if script.uses_accelerate:
        return
    for step in script.training.steps:
        if step.migrated or step.optimizer is None or step.scaled:
            continue
        arguments = [*step.call.args, *(k.value for k in step.call.keywords)]
        names = ["", *(f"{k.arg}=" if k.arg else "**" for k in step.call.keywords)]
        names = [""] * len(step.call.args) + names[1:]
        text = "".join(f", {name}{{{k + 1}}}" for k, name in enumerate(names))
        edit = Replace(
            step.call, f"{script.xla}.optimizer_step({{0}}{text})", (step.optimizer, *arguments)
        )
        yield RULE.at(script, step.call, "gradients are not reduced over replicas", edit)
