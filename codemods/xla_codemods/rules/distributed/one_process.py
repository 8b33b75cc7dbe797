"""Under SPMD the number of processes is 1, and code that multiplies by it means devices.

## What it reports

Arithmetic with the number of processes, tests of it that decide if a model is sharded, and lengths
of loaders, in scripts for FSDP and with `--parallel spmd`.

## Why it matters on XLA

One process takes a batch for each device in each step. Learning rates, shares of a global batch,
accumulation and numbers of steps that depend on the number of processes would be wrong.

## What to do

Fix: safe.

Use `xla.data_parallel_size()`, which counts devices. For the length of a loader, use the device
loader.

## Example

```diff
 import torch.distributed as dist
-from torch.distributed.fsdp import fully_shard
 from torch.utils.data import DataLoader, DistributedSampler
+from xla_migrate import runtime as xla

 def train(args, model, dataset, world_size):
-    fully_shard(model)
+    xla.fully_shard(model)
     loader = DataLoader(dataset, batch_size=args.batch_size, sampler=DistributedSampler(dataset), drop_last=True)
-    lr = args.lr * dist.get_world_size()
+    lr = args.lr * xla.data_parallel_size()
-    accumulation = args.total_batch // (args.batch_size * world_size)
+    accumulation = args.total_batch // (args.batch_size * xla.data_parallel_size())
-    steps = args.epochs * len(loader)
+    steps = args.epochs * len(xla.MpDeviceLoader(loader))
     return lr, accumulation, steps, dist.get_rank()
```

A test that decides if the model is sharded:

```diff
-import torch.distributed as dist
-from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
+from xla_migrate import runtime as xla

 def build(model):
-    if dist.get_world_size() > 1:
-        model = FSDP(model)
+    if xla.data_parallel_size() > 1:
+        model = xla.FullyShardedDataParallel(model)
     return model
```

A sum over processes is divided by their number, which is 1. It is not reported:

```python
import torch.distributed as dist
from xla_migrate import runtime as xla

def train(args, model, loss, total):
    xla.fully_shard(model)
    xla.all_reduce(total)
    return args.lr * xla.data_parallel_size(), total / dist.get_world_size()
```

## Limits

These need manual changes:

- Losses that are sums. DDP averages the sums of its processes, but SPMD takes one sum over the
  batch of all devices.
- Losses that are multiplied by the number of processes.
- Training on batches that come from no loader, because nothing joins them.
- Losses over gathered features. SPMD computes gradients for all of them.
- Other arithmetic with the number of processes.

## See also

XLA610, XLA612
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.frameworks.sharding import accelerator_shards, trainer_shards
from ...analysis.inference.values import DEVICE_LOADER, LOADER
from ...analysis.loops import BACKWARD
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.training import world_sizes
from ...analysis.training.loaders import is_called_a_loader
from ...analysis.training.sharding import guards, is_sharded_by_the_runtime
from ...analysis.training.world_sizes import is_of_replicas
from ...edits import Replace
from ...finding import MEDIUM, WARNING, Finding
from ...rule import Rule
from ...symptoms import LIKELY

RULE = Rule("XLA613", "one-process", effort=MEDIUM, behind={"loss": LIKELY})

_ONE = "SPMD runs one process for all devices"


@RULE.file
def one_process(script: Script) -> Iterator[Finding]:
    if script.parallel == "spmd":
        if not is_of_replicas(script):
            return
    elif not is_sharded_by_the_runtime(script):
        if trainer_shards(script) or accelerator_shards(script):  # which run the loops themselves
            yield from _counted(script)
        return
    yield from _counted(script)
    yield from _guarded(script)
    yield from _summed(script)
    yield from _gathered(script)
    yield from _lengths(script)
    yield from _not_loaded(script)


def _counted(script: Script) -> Iterator[Finding]:
    for use in world_sizes.uses(script):
        text = ast.unparse(use.whole)
        if use.means == world_sizes.DEVICES:
            message = f"`{text}` counts processes, and {_ONE}: use `xla.data_parallel_size()`"
            edit = Replace(use.operand, f"{script.xla}.data_parallel_size()")
            yield RULE.finding(script, use.whole, message, edit)
        elif use.means == world_sizes.LOSS:
            message = (
                f"`{text}` scales a loss for gradients averaged over processes, but {_ONE}, and its loss is over "
                "the batch of all devices: remove the factor"
            )
            yield RULE.finding(script, use.whole, message)
        else:
            message = f"`{text}` counts processes, and {_ONE}: use `xla.data_parallel_size()` if the code means devices"
            yield RULE.finding(script, use.whole, message, severity=WARNING)


def _guarded(script: Script) -> Iterator[Finding]:
    for test, number in guards(script):
        text = ast.unparse(test)
        message = f"`{text}` counts processes, and {_ONE}, so the model would not be sharded: use `xla.data_parallel_size()`"
        yield RULE.finding(
            script, test, message, Replace(number, f"{script.xla}.data_parallel_size()")
        )


def _summed(script: Script) -> Iterator[Finding]:
    for node in world_sizes.summed_losses(script):
        message = (
            "the loss is a sum over the batch of all devices, but DDP averages the sums of its processes: divide by "
            "`xla.data_parallel_size()`, or take the mean"
        )
        yield RULE.finding(script, node, message)


def _gathered(script: Script) -> Iterator[Finding]:
    for call in world_sizes.gathered_losses(script):
        message = "SPMD computes the loss over the features of all devices, so gradients flow to all of them, even if the original's gathering gives none to features of other processes: check the scale of the loss"
        yield RULE.finding(script, call, message, severity=WARNING)


def _lengths(script: Script) -> Iterator[Finding]:
    """`len(loader)` counts batches of one device; the device loader's counts steps."""
    unfed = {
        _last(driver.node)
        for loop in script.training.loops
        if loop.is_statement and not loop.fed
        for driver in loop.drivers
    }
    for call, scope in script.index.calls_of("len"):
        if not (isinstance(call.func, ast.Name) and len(call.args) == 1):
            continue
        (counted,) = call.args
        if _is_loader(script, counted, scope) and _last(counted) not in unfed:
            edit = Replace(counted, f"{script.xla}.MpDeviceLoader({{0}})", (counted,))
            message = "the length counts batches of one device, and a step under SPMD takes one for each device: use the length of `xla.MpDeviceLoader`"
            yield RULE.finding(script, call, message, edit)
        elif "sampler" in _last(counted).lower() and _is_divided(script.parent(call), call):
            message = f"`{ast.unparse(call)}` is the length of all data, because {_ONE}: divide by `xla.data_parallel_size()` if the code means one share"
            yield RULE.finding(script, call, message, severity=WARNING)


def _is_divided(parent: ast.AST | None, node: ast.expr) -> bool:
    return (
        isinstance(parent, ast.BinOp)
        and isinstance(parent.op, (ast.Div, ast.FloorDiv))
        and parent.left is node
    )


def _is_loader(script: Script, node: ast.expr, scope: Scope) -> bool:
    value = script.value(node, scope)
    if value.has(LOADER):
        return True
    if value.has(DEVICE_LOADER) or value.kinds or isinstance(node, ast.Call):
        return False
    return is_called_a_loader(_last(node))


def _last(node: ast.expr) -> str:
    return ast.unparse(node).rpartition(".")[2]


def _not_loaded(script: Script) -> Iterator[Finding]:
    """Yield the first loop that trains, if no device loader feeds any loop that trains."""
    loops = [loop for loop in script.training.loops if loop.is_statement]
    training = [loop for loop in loops if BACKWARD in loop.effects]
    if training and not any(loop.fed for loop in loops) and not _prefetches(script):
        message = (
            "under SPMD the batches of all devices are not joined here: pass the loop a DataLoader through "
            "`xla.MpDeviceLoader`, or draw the batch of all devices"
        )
        yield RULE.finding(script, training[0].node, message)


def _prefetches(script: Script) -> bool:
    """`iter(xla.MpDeviceLoader(loader))`, as in a prefetcher of the script's own."""
    taken = [script.parent(call) for call, _ in script.index.calls_of("MpDeviceLoader")]
    return any(isinstance(around, ast.Call) and _last(around.func) == "iter" for around in taken)
