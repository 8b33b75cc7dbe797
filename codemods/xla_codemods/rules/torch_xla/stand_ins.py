"""Names that only torch_xla has are available from the runtime as well.

## What it reports

Meshes and shardings of SPMD, FSDP, traces, counters and loops in a graph, in runs with `--from
torch_xla`.

## Why it matters on XLA

The names exist with torch_xla only. On XLA each name of the runtime is torch_xla's own object, so
losses, compilations and launches do not change. Elsewhere, a mesh has the one device of the
process, a trace is torch.profiler's, and counters are empty.

## What to do

Fix: safe.

Import the names from the runtime. `torch_xla.runtime.use_spmd` is `xla.spmd.use_spmd`, and not
`xla.use_spmd`, which splits each batch over all devices. Without torch_xla it uses one device,
and says so if there are more.

## Example

```diff
 import numpy as np
-import torch_xla
-import torch_xla.debug.metrics as met
-import torch_xla.debug.profiler as xp
-import torch_xla.distributed.parallel_loader as pl
-import torch_xla.distributed.spmd as xs
-import torch_xla.runtime as xr
-from torch_xla.experimental.spmd_fully_sharded_data_parallel import SpmdFullyShardedDataParallel as FSDPv2
+from xla_migrate import runtime as xla

-xr.use_spmd()
-count = xr.global_runtime_device_count()
-mesh = xs.Mesh(np.arange(count), (count, 1), ("fsdp", "model"))
+xla.spmd.use_spmd()
+count = xla.spmd.global_runtime_device_count()
+mesh = xla.spmd.Mesh(np.arange(count), (count, 1), ("fsdp", "model"))

 def train(model, loader):
-    model = FSDPv2(model, mesh=mesh)
-    split = xs.ShardingSpec(mesh, ("fsdp", None))
+    model = xla.spmd.SpmdFullyShardedDataParallel(model, mesh=mesh)
+    split = xla.spmd.ShardingSpec(mesh, ("fsdp", None))
-    for x in pl.MpDeviceLoader(loader, torch_xla.device(), input_sharding=split):
-        with xp.Trace("forward"):
+    for x in xla.MpDeviceLoader(loader, xla.xla_device(), input_sharding=split):
+        with xla.profiler.Trace("forward"):
             model(x)
-    print(met.metrics_report())
+    print(xla.counters.metrics_report())
```

Weights that are divided over processes. Elsewhere `fully_shard` of PyTorch divides them, and
saves the parts:

```diff
-from torch_xla.distributed.fsdp import XlaFullyShardedDataParallel as FSDP, checkpoint_module
+from xla_migrate import runtime as xla

 def shard(model):
-    model = FSDP(checkpoint_module(model))
+    model = xla.fsdp.XlaFullyShardedDataParallel(xla.spmd.checkpoint_module(model))
     return model, model.get_shard_metadata()
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.by_hand.written import KEPT, is_refused
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...catalog.torch_xla import STAND_INS
from ...edits import Replace
from ...finding import WARNING, Finding
from ...rule import Rule

RULE = Rule("XLA021", "torch-xla-stand-in", severity=WARNING, origin="torch_xla")


@RULE.call(*STAND_INS)
def called(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if is_refused(script, call):
        yield RULE.finding(script, call, f"torch_xla 2.9 does not accept these arguments: {KEPT}")
    else:
        yield from _finding(script, call.func, scope)


@RULE.reference(*STAND_INS)
def named(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    if isinstance(getattr(node, "ctx", None), ast.Load):
        yield from _finding(script, node, scope)


def _finding(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    dotted = script.dotted(node, scope) or ""
    name = f"xla.{STAND_INS[dotted]}"
    message = f"the call runs with torch_xla only: use `{name}`, which is torch_xla's own on XLA"
    yield RULE.finding(script, node, message, Replace(node, f"{script.xla}{name[3:]}"))
