"""`DistributedDataParallel` averages gradients with NCCL, on CUDA devices that it is told.

The runtime's `DistributedDataParallel` does what torch's does, on every backend: weights and buffers of rank 0
at the start, gradients averaged once per backward (so clipping sees the averages), `no_sync`, `module`, the same
names in `state_dict`. On CUDA it is torch's.

```diff
 import os
-from torch.nn.parallel import DistributedDataParallel as DDP
+from xla_migrate import runtime as xla

 def wrap(model, local_rank):
-    return DDP(model, device_ids=[local_rank], output_device=local_rank, find_unused_parameters=True)
+    return xla.DistributedDataParallel(model, find_unused_parameters=True)

 def unwrap(model):
-    return model.module if isinstance(model, DDP) else model
+    return model.module if isinstance(model, xla.DistributedDataParallel) else model
```

A wrapper of your own with that name stays:

```python
from mylib import DistributedDataParallel

model = DistributedDataParallel(net, device_ids=[0])
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...edits import DropArgument, Edit, Replace
from ...findings import Finding
from ...rule import Rule

if TYPE_CHECKING:
    from ...names import Scope
    from ...script import Script

RULE = Rule("XLA603", "data-parallel")

_NAMES = (
    "torch.nn.parallel.DistributedDataParallel",
    "torch.nn.parallel.distributed.DistributedDataParallel",
    "apex.parallel.DistributedDataParallel",
)
# Positional parameters behind the module that concern CUDA devices.
_DEVICES = ("device_ids", "output_device")
_APEX = frozenset(
    (
        "message_size delay_allreduce shared_param allreduce_trigger_params retain_allreduce_buffers "
        "allreduce_always_fp32 num_allreduce_streams allreduce_communicators gradient_average "
        "gradient_predivide_factor gradient_average_split_factor prof"
    ).split()
)


@RULE.call(*_NAMES)
def wrapped(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    dropped: list[ast.expr | ast.keyword] = []
    is_apex = (script.dotted(call.func, scope) or "").startswith("apex.")
    if not is_apex:
        dropped += call.args[1:3]
    for argument in call.keywords:
        if argument.arg in _DEVICES or (is_apex and argument.arg in _APEX):
            dropped.append(argument)
    edits: list[Edit] = [Replace(call.func, f"{script.xla}.DistributedDataParallel")]
    edits += (DropArgument(call, argument) for argument in dropped)
    yield RULE.at(script, call, "gradients are averaged over CUDA devices", *edits)


@RULE.reference(*_NAMES)
def named(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    edit = Replace(node, f"{script.xla}.DistributedDataParallel")
    yield RULE.at(script, node, "it is the runtime's class that wraps models", edit)
