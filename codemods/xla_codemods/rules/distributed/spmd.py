"""With `--parallel spmd` one process drives all devices, and the script has to say so first.

`xla-migrate --parallel spmd train.py` puts `xla.use_spmd()` at the beginning of a script that trains. Its device loader then
splits each batch over the devices, and the compiler adds up the gradients. In a script for
`DistributedDataParallel` it is `xla.use_spmd(batch_per_device=True)`: batches of all devices are put together, so that
batch size, steps and learning rate mean what they meant. Without the option it is put into scripts for FSDP alone (XLA610,
and XLA801 for transformers' Trainer), and a script that says it already stays:

```python
from torch.utils.data import DataLoader
from xla_migrate import runtime as xla

if __name__ == "__main__":
    xla.use_spmd(batch_per_device=True)
    model = xla.DistributedDataParallel(build().to(xla.xla_device()))
```

A script for FSDP that does not say it:

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

One of the Trainer's:

```diff
 from transformers import Trainer, TrainingArguments
+from xla_migrate import runtime as xla

+xla.use_spmd(batch_per_device=True)
 arguments = TrainingArguments("out", optim="adamw_torch", fsdp="full_shard auto_wrap")
+xla.patch_accelerate()
 Trainer(model, arguments, train_dataset=data).train()
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...analysis.frameworks.sharding import accelerator_shards, trainer_shards
from ...analysis.nodes import walk
from ...analysis.training.replicas import is_of_replicas
from ...analysis.training.sharding import is_sharded_by_the_runtime
from ...edits import InsertBefore
from ...finding import INFO, Finding
from ...rule import IN_TRAINING, Rule

if TYPE_CHECKING:
    from ...analysis.script import Script

RULE = Rule("XLA612", "spmd", severity=INFO)

_HEAD = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@RULE.file(mentions=IN_TRAINING)
def begun(script: Script) -> Iterator[Finding]:
    """What `--parallel spmd` asks for, at the beginning of a program; modules of a project are none."""
    of_trainer = trainer_shards(script)
    of_accelerate = accelerator_shards(script)
    shards = of_trainer or of_accelerate or is_sharded_by_the_runtime(script)
    if script.parallel != "spmd" and not shards:
        return
    first = _first_statement(script.tree, "train" if of_trainer else "backward")
    if first is None or "use_spmd(" in script.source.text:
        return
    shares = shards or is_of_replicas(script)
    text = f"{script.xla}.use_spmd({'batch_per_device=True' if shares else ''})"
    message = "SPMD has to be switched on before the first use of a device: call `xla.use_spmd()`"
    yield RULE.finding(script, first, message, InsertBefore(first, text))


def _first_statement(tree: ast.Module, trains: str) -> ast.stmt | None:
    """Where the program begins: under `if __name__ == "__main__":`, or at its first loop or call."""
    for statement in tree.body:
        if isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test):
            return statement.body[0]
    body = [s for s in tree.body if not isinstance(s, _HEAD) and not _is_text(s)]
    return body[0] if _trains(tree, body, trains) else None


def _trains(tree: ast.Module, body: list[ast.stmt], name: str) -> bool:
    """True if these statements call the method `name` that trains, by themselves or in functions of the module that they call."""
    functions = {
        n.name: n for n in tree.body if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    waiting: list[ast.stmt] = list(body)
    while waiting:
        for node in walk(waiting.pop()):
            if isinstance(node, ast.Attribute) and node.attr == name:
                return True
            if isinstance(node, ast.Name) and (called := functions.pop(node.id, None)) is not None:
                waiting.append(called)
    return False


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
