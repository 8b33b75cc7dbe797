"""torch's FSDP shards over CUDA devices, one process each; on XLA the compiler shards, from one process.

Where a script wraps in a standard way, the runtime's `FullyShardedDataParallel` and `fully_shard` take the place of
torch's: the same parameters, gradients and optimizer state are split over all devices by SPMD (torch_xla calls that FSDPv2),
under `xla.use_spmd(batch_per_device=True)`, which is put at the beginning. Each step takes a batch for every
device, as before. Start it once, with `python train.py`. On CUDA both are torch's own, and torchrun starts them.

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

State dicts are whole, whichever `StateDictType` or `StateDictOptions` is asked for, and are saved as before, with `torch.save` or
`torch.distributed.checkpoint`; an optimizer's go by the names of parameters, as in torch's files. A module that only saves is
rewritten with the one that shards.

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

`fully_shard` takes modules and lists of them, `mp_policy`, and options in a dictionary that the file writes out. Parameters on meta are
split once `to_empty` has made them. Modules are `FSDPModule`s, whose methods that say when something is sent do nothing:

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

`torch.distributed.checkpoint.state_dict` has its functions in the runtime, too:

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

What is not standard is left, with the reason: offloading to the CPU, hybrid strategies, meshes, ignored modules, hooks of
reductions, parameters on meta that are made in another way,
shards that are taken apart by hand (DTensors, ShardedTensors), and what would mean something else in one process: sums in place of means as losses, and numbers
of processes of which XLA613 cannot say what they mean. There, by steps: make the script right for one process and the batch of all
devices; call `xla.use_spmd()` first; wrap with `xla.FullyShardedDataParallel(model)`. The training steps of such a model
stay as they are, too, as do those of pipelines' stages and of `parallelize_module`: a step that averages the gradients of
replicas would be wrong for shards. So do its scaler, its loader, and the files that it is saved to.

```diff
 from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
-from torch.nn.parallel import DistributedDataParallel as DDP
+from xla_migrate import runtime as xla

 def wrap(model, shard):
-    wrapper = FSDP if shard else DDP  # XLA610
+    wrapper = FSDP if shard else xla.DistributedDataParallel  # XLA610
     return wrapper(model)
```

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

```python
from xla_migrate import runtime as xla

def wrap(model):
    return xla.fully_shard(model)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from ...analysis.scopes import Scope
    from ...analysis.script import Script

RULE = Rule("XLA610", "fully-sharded")

_CHOICES = (ast.IfExp, ast.Dict, ast.arguments)


@RULE.call(*CLASSES, *FUNCTIONS)
def sharded(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    name = CLASS if (script.dotted(call.func, scope) or "").endswith(CLASS) else FUNCTION
    reason = unusual_call(script, call, name) or unusual(script) or unusual_beside(script, call)
    if reason is None:
        message = f"torch's `{name}` fails on XLA devices: use `xla.{name}`"
        yield RULE.finding(script, call, message, Replace(call.func, f"{script.xla}.{name}"))
    else:
        message = (
            f"torch's `{name}` fails on XLA devices, and with {reason} the replacement is not automatic: shard with "
            f"`xla.use_spmd()` and `xla.{name}`"
        )
        yield RULE.finding(script, call, message, effort=HIGH)


@RULE.reference(*CLASSES, *FUNCTIONS)
def named(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    """`isinstance(module, FSDP)`; where another module of the program shards, too."""
    name = CLASS if (script.dotted(node, scope) or "").endswith(CLASS) else FUNCTION
    if isinstance(script.parent(node), ast.Attribute):
        return
    given = list(_of_the_runtime(script, node, name))
    yield from given
    if not given and not is_about_types(script, node, scope) and _is_chosen(script, node):
        message = (
            f"torch's `{name}` fails on XLA devices, and which wrapper is taken is decided when the script runs: the "
            f"runtime's shards from one process, under `xla.use_spmd()`, and DDP takes one process a device: decide first, "
            f"and shard with `xla.{name}`"
        )
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
        message = f"on XLA models are sharded by the runtime: use `xla.{name}`"
        yield RULE.finding(script, node, message, Replace(node, f"{script.xla}.{name}"))
