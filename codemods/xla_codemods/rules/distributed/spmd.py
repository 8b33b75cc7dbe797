"""SPMD must be switched on before the first use of a device.

## What it reports

Scripts for FSDP without `xla.use_spmd()`, and with `--parallel spmd` all scripts that train.

## Why it matters on XLA

Under SPMD one process drives all devices. torch_xla must know it before it initialises them.

## What to do

Fix: safe.

Call `xla.use_spmd()` at the beginning of the script. The device loader then splits each batch
over the devices, and the compiler adds the reductions. Scripts for `DistributedDataParallel` and
FSDP use `xla.use_spmd(batch_per_device=True)`: the batches of all devices are joined, so batch
size, steps and learning rate keep their meaning.

## Example

A script with the call is not reported:

```python
from torch.utils.data import DataLoader
from xla_migrate import runtime as xla

if __name__ == "__main__":
    xla.use_spmd(batch_per_device=True)
    model = xla.DistributedDataParallel(build().to(xla.xla_device()))
```

A script for FSDP:

```diff
 import torch
-from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
+from xla_migrate import runtime as xla

 if __name__ == "__main__":
-    model = FSDP(Net().cuda())
-    for x, y in loader:
-        loss = criterion(model(x.cuda()), y.cuda())
+    xla.use_spmd(batch_per_device=True)
+    model = xla.FullyShardedDataParallel(Net().to(xla.xla_device()))
+    for x, y in xla.MpDeviceLoader(loader):
+        loss = criterion(model(x.to(xla.xla_device())), y.to(xla.xla_device()))
         loss.backward()
-        optimizer.step()
+        xla.optimizer_step(optimizer)
         optimizer.zero_grad()
```

A script with the Trainer:

```diff
 from transformers import Trainer, TrainingArguments
+from xla_migrate import runtime as xla

+xla.use_spmd(batch_per_device=True)
 arguments = TrainingArguments("out", optim="adamw_torch", fsdp="full_shard auto_wrap")
+xla.patch_accelerate()
 Trainer(model, arguments, train_dataset=data).train()
```

## See also

XLA610, XLA613, XLA801
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.frameworks.sharding import accelerator_shards, trainer_shards
from ...analysis.program_start import first_statement
from ...analysis.script import Script
from ...analysis.training.sharding import is_sharded_by_the_runtime
from ...analysis.training.world_sizes import is_of_replicas
from ...edits import InsertBefore
from ...finding import INFO, Finding
from ...rule import Rule

RULE = Rule("XLA612", "spmd", severity=INFO)


@RULE.file
def begun(script: Script) -> Iterator[Finding]:
    """Add the setting that `--parallel spmd` needs, at the beginning of a program; not in modules of a project."""
    of_trainer = trainer_shards(script)
    of_accelerate = accelerator_shards(script)
    shards = of_trainer or of_accelerate or is_sharded_by_the_runtime(script)
    if script.parallel != "spmd" and not shards:
        return
    first = first_statement(script.tree, _of_trainers if of_trainer else _goes_backward)
    if first is None or "use_spmd(" in script.source.text:
        return
    shares = shards or is_of_replicas(script)
    text = f"{script.xla}.use_spmd({'batch_per_device=True' if shares else ''})"
    message = "SPMD has to be switched on before the first use of a device: call `xla.use_spmd()`"
    yield RULE.finding(script, first, message, InsertBefore(first, text))


def _goes_backward(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "backward"


def _of_trainers(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "train"
