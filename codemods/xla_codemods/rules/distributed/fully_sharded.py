"""PyTorch's FSDP needs one process per device and CUDA collectives.

## What it reports

`FullyShardedDataParallel`, `fully_shard` and the functions of
`torch.distributed.checkpoint.state_dict`.

## Why it matters on XLA

On XLA, one process drives all devices and the compiler divides the tensors (SPMD).

## What to do

Fix: safe, or none.

Use `xla.FullyShardedDataParallel` or `xla.fully_shard`. They divide parameters, gradients and
optimizer state over all devices, which torch_xla calls FSDPv2.
`xla.use_spmd(batch_per_device=True)` at the beginning switches SPMD on. Each step takes a batch
for each device, as before. Start the script once, with `python train.py`. On CUDA both are
PyTorch's own, and torchrun starts them.

## Example

```diff
 import torch
-import torch.distributed as dist
-from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
 from torch.distributed.fsdp import MixedPrecision, ShardingStrategy
+from xla_migrate import runtime as xla

 def main(build, rank):
-    dist.init_process_group("nccl")
+    xla.init_process_group()
-    torch.cuda.set_device(rank)
+    xla.set_device(rank)
     bf16 = MixedPrecision(param_dtype=torch.bfloat16)
-    model = FSDP(build(), mixed_precision=bf16, device_id=rank, sharding_strategy=ShardingStrategy.FULL_SHARD)
+    model = xla.FullyShardedDataParallel(build(), mixed_precision=bf16, device_id=rank, sharding_strategy=ShardingStrategy.FULL_SHARD)
     model.clip_grad_norm_(1.0)
     return model

 if __name__ == "__main__":
+    xla.use_spmd(batch_per_device=True)
     main()
```

A mesh of all devices (one dimension) that only shards:

```diff
-from torch.distributed.device_mesh import init_device_mesh
-from torch.distributed.fsdp import fully_shard
+from xla_migrate import runtime as xla

 def shard(model, world_size):
-    mesh = init_device_mesh("cuda", (world_size,), mesh_dim_names=("dp",))
+    mesh = xla.init_device_mesh(xla.device_type(), (world_size,), mesh_dim_names=("dp",))
     for layer in model.layers:
-        fully_shard(layer, mesh=mesh["dp"])
+        xla.fully_shard(layer, mesh=mesh["dp"])
-    fully_shard(model, mesh=mesh)
+    xla.fully_shard(model, mesh=mesh)
```

State dictionaries are complete, whichever `StateDictType` or `StateDictOptions` is requested.
They are saved as before, with `torch.save` or `torch.distributed.checkpoint`. An optimizer's
state uses the names of parameters. A module that only saves is rewritten together with the module
that shards:

```diff
 import torch
 from torch.distributed.fsdp import FullStateDictConfig, StateDictType
-from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
+from xla_migrate import runtime as xla

 def save(build, path, rank):
-    model = FSDP(build())
+    model = xla.FullyShardedDataParallel(build())
-    with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, FullStateDictConfig(True, True)):
+    with xla.FullyShardedDataParallel.state_dict_type(model, StateDictType.FULL_STATE_DICT, FullStateDictConfig(True, True)):
         states = model.state_dict()
     if rank == 0:
-        torch.save(states, path)
+        xla.save(states, path)
```

`fully_shard` accepts modules, lists of modules, `mp_policy`, and options in a dictionary of the
file. Parameters on the meta device are divided after `to_empty`. Methods that control when
parameters are sent do nothing:

```diff
 import torch
-from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
+from torch.distributed.fsdp import MixedPrecisionPolicy
+from xla_migrate import runtime as xla

 def build(Transformer, rank):
     with torch.device("meta"):
         model = Transformer()
     options = {"mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16)}
     for layer in model.layers:
-        fully_shard(layer, **options)
+        xla.fully_shard(layer, **options)
-    fully_shard(model, **options)
+    xla.fully_shard(model, **options)
-    model.to_empty(device=f"cuda:{rank}")
+    model.to_empty(device=xla.xla_device(rank))
     model.init_weights()
     model.set_requires_gradient_sync(False)
     return model
```

Functions of `torch.distributed.checkpoint.state_dict`:

```diff
-from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
-from torch.distributed.fsdp import fully_shard
+from torch.distributed.checkpoint.state_dict import StateDictOptions
+from xla_migrate import runtime as xla

 def whole(model):
-    fully_shard(model)
+    xla.fully_shard(model)
     options = StateDictOptions(full_state_dict=True, cpu_offload=True)
-    return get_model_state_dict(model, options=options)
+    return xla.get_model_state_dict(model, options=options)
```

A wrapper that is chosen at run time is reported without a fix:

```diff
 from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
-from torch.nn.parallel import DistributedDataParallel as DDP
+from xla_migrate import runtime as xla

 def wrap(model, shard):
-    wrapper = FSDP if shard else DDP  # XLA610
+    wrapper = FSDP if shard else xla.DistributedDataParallel  # XLA610
     return wrapper(model)
```

Options that are not known here:

```python
import torch
from torch.distributed.fsdp import fully_shard

def train(model, get_batch, options):
    fully_shard(model, **options)  # XLA610
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(10):
        model(get_batch()).mean().backward()
        optimizer.step()  # XLA501
```

The runtime's functions are not reported:

```python
from xla_migrate import runtime as xla

def wrap(model):
    return xla.fully_shard(model)
```

## Limits

These are reported without a fix: CPU offloading, hybrid strategies, meshes of
several dimensions or for other uses, ignored modules,
hooks of reductions, other ways to initialise parameters on meta, shards that the script handles
itself (DTensor, ShardedTensor), losses that are sums, and numbers of processes that XLA613 cannot
interpret.

To migrate such a script by hand:

1. Make the script correct for one process and the batch of all devices.
2. Call `xla.use_spmd()` first.
3. Wrap the model with `xla.FullyShardedDataParallel(model)`.

The training steps, scaler, loader and files of such a model are not rewritten. The same applies
to the stages of a pipeline and to `parallelize_module`, because averaging over replicas would be
wrong for shards.

## See also

XLA612, XLA613
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.training import meshes
from ...analysis.training.sharding import (
    CLASS,
    CLASSES,
    FUNCTION,
    FUNCTIONS,
    GATHERING,
    OF_STATES,
    is_sharded_by_the_runtime,
    is_sharded_elsewhere,
    unusual,
    unusual_beside,
    unusual_call,
)
from ...analysis.type_tests import is_about_types
from ...edits import Replace
from ...finding import HIGH, Finding
from ...rule import Rule

RULE = Rule("XLA610", "fully-sharded")

_CHOICES = (ast.IfExp, ast.Dict, ast.arguments)


@RULE.call(*CLASSES, *FUNCTIONS)
def sharded(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    name = CLASS if (script.dotted(call.func, scope) or "").endswith(CLASS) else FUNCTION
    reason = unusual_call(script, call, name) or unusual(script) or unusual_beside(script, call)
    if reason is None:
        message = f"PyTorch's `{name}` fails on XLA devices: use `xla.{name}`"
        yield RULE.finding(script, call, message, Replace(call.func, f"{script.xla}.{name}"))
    else:
        message = (
            f"PyTorch's `{name}` fails on XLA devices, and with {reason} the replacement is not automatic: shard with "
            f"`xla.use_spmd()` and `xla.{name}`"
        )
        yield RULE.finding(script, call, message, effort=HIGH)


@RULE.call(*meshes.MAKING)
def meshed(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`init_device_mesh("cuda", (world_size,))`, a mesh of all devices that shards a model."""
    device = meshes.device_of(call)
    if (
        device is not None
        and meshes.is_over_all_devices(script, call)
        and is_sharded_by_the_runtime(script)
    ):
        edits = [Replace(call.func, f"{script.xla}.{meshes.FUNCTION}")]
        if isinstance(device, ast.Constant):
            edits.append(Replace(device, f"{script.xla}.device_type()"))
        message = "a mesh of CUDA devices fails on XLA: use `xla.init_device_mesh`"
        yield RULE.finding(script, call, message, *edits)


@RULE.reference(*CLASSES, *FUNCTIONS)
def named(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    """`isinstance(module, FSDP)`; where another module of the program shards, too."""
    name = CLASS if (script.dotted(node, scope) or "").endswith(CLASS) else FUNCTION
    if isinstance(script.parent(node), ast.Attribute):
        return
    given = list(_of_the_runtime(script, node, name))
    yield from given
    if not given and not is_about_types(script, node, scope) and _is_chosen(script, node):
        message = f"PyTorch's `{name}` fails on XLA devices, and the script chooses the wrapper when it runs, although FSDP on XLA needs one process under `xla.use_spmd()` and DDP needs one process per device: choose one wrapper, and shard with `xla.{name}`"
        yield RULE.finding(script, node, message, effort=HIGH)


def _is_chosen(script: Script, node: ast.expr) -> bool:
    """`wrapper = FSDP if args.shard else DDP`, `WRAPPERS = {"fsdp": FSDP}`, `wrap(model, FSDP)`."""
    return isinstance(
        script.parent(node),
        (*_CHOICES, ast.Assign, ast.AnnAssign, ast.Return, ast.Call, ast.keyword),
    )


@RULE.call(*(f"{name}.{function}" for name in CLASSES for function in OF_STATES))
def of_states(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`FSDP.state_dict_type(...)`."""
    if isinstance(call.func, ast.Attribute):
        yield from _of_the_runtime(script, call.func.value, CLASS)


@RULE.call(*GATHERING)
def gathered(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`get_model_state_dict(model, options=...)`, which torch's function sends between processes."""
    yield from _of_the_runtime(
        script, call.func, (script.dotted(call.func, scope) or "").rpartition(".")[2]
    )


@RULE.reference(*GATHERING)
def gathers(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    """`functools.partial(get_model_state_dict, options=options)`."""
    if not isinstance(script.parent(node), ast.Attribute):
        yield from _of_the_runtime(
            script, node, (script.dotted(node, scope) or "").rpartition(".")[2]
        )


def _of_the_runtime(script: Script, node: ast.expr, name: str) -> Iterator[Finding]:
    if is_sharded_by_the_runtime(script) or is_sharded_elsewhere(script):
        message = f"on XLA the runtime shards models: use `xla.{name}`"
        yield RULE.finding(script, node, message, Replace(node, f"{script.xla}.{name}"))
