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

Hooks that send gradients in 16 bits have no effect on XLA, and no harm. Others, which change what is summed up, are left:
leave them out, or change the averages between backward and step. So is `with model.join():`, since XLA
replicas run the same number of steps: give them batches of equal number (`drop_last=True`).

```python
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

def tell(model):
    model.register_comm_hook(None, default_hooks.bf16_compress_hook)
    return ", ".join(model.names)
```

`ZeroRedundancyOptimizer` is a finding as well: it takes the steps of its `optimizer_class`, which fits XLA as it is.

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
from ...findings import MEDIUM, Finding
from ...rule import Rule
from ...syntax import keyword

if TYPE_CHECKING:
    from ...names import Scope
    from ...script import Script

RULE = Rule("XLA603", "data-parallel")

_NAMES = (
    "torch.nn.parallel.DistributedDataParallel",
    "torch.nn.parallel.distributed.DistributedDataParallel",
    "apex.parallel.DistributedDataParallel",
)
# Hooks that only say in which type gradients travel.
_HARMLESS_HOOKS = frozenset({"allreduce_hook", "fp16_compress_hook", "bf16_compress_hook"})
# Positional parameters behind the module that concern CUDA devices.
_DEVICES = ("device_ids", "output_device")
_JOIN = "XLA replicas have to run the same number of steps: give them batches of equal number (drop_last=True)"
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


@RULE.method("register_comm_hook")
def hooked(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    hook = call.args[1] if len(call.args) > 1 else keyword(call, "hook")
    name = ast.unparse(hook).rpartition(".")[2] if hook is not None else "a hook"
    if name not in _HARMLESS_HOOKS:
        message = (
            f"`{name}`: XLA averages gradients within the graph, without hooks; leave it out, or change the averages "
            "between backward and step"
        )
        yield RULE.at(script, call, message, effort=MEDIUM)


@RULE.call(
    "torch.distributed.optim.ZeroRedundancyOptimizer",
    "torch.distributed.optim.zero_redundancy_optimizer.ZeroRedundancyOptimizer",
)
def sharded_optimizer(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    message = (
        "`ZeroRedundancyOptimizer` sends each parameter by itself, and gathers its state to XLA devices, to which torch "
        "cannot load: use its `optimizer_class` itself, which takes the same steps, or shard with FSDP"
    )
    yield RULE.at(script, call, message, effort=MEDIUM)


@RULE.node(ast.withitem)
def joined(script: Script, item: ast.withitem, scope: Scope) -> Iterator[Finding]:
    """`with model.join():`, and `with Join([model, optimizer]):`."""
    match item.context_expr:
        case ast.Call(func=ast.Attribute(value=model, attr="join")) as call:
            if not (isinstance(model, ast.Constant) or script.uses_accelerate):
                yield RULE.at(script, call, _JOIN, effort=MEDIUM)
        case ast.Call() as call:
            if script.dotted(call.func, scope) == "torch.distributed.algorithms.join.Join":
                yield RULE.at(script, call, _JOIN, effort=MEDIUM)
