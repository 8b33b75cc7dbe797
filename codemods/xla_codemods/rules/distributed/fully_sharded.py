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

State dicts are whole, as those of `StateDictType.FULL_STATE_DICT` are, and are saved as before:

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

What is not standard is left, with the reason: offloading to the CPU, hybrid strategies, meshes, ignored modules,
sharded checkpoints, DTensors, and what would mean something else in one process: sums in place of means as losses, and numbers
of processes of which XLA613 cannot say what they mean. There, by steps: make the script right for one process and the batch of all
devices; call `xla.use_spmd()` first; wrap with `xla.FullyShardedDataParallel(model)`.

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

from ... import world_sizes
from ...edits import Replace
from ...findings import HIGH, Finding
from ...patterns import Pattern
from ...rule import Rule
from ...syntax import keyword

if TYPE_CHECKING:
    from ...names import Scope
    from ...script import Script

RULE = Rule("XLA610", "fully-sharded")

_HOMES = (
    "torch.distributed.fsdp.",
    "torch.distributed.fsdp.fully_sharded_data_parallel.",
    "torch.distributed._composable.fsdp.",
)
_CLASS, _FUNCTION = "FullyShardedDataParallel", "fully_shard"
_CLASSES = tuple(f"{home}{_CLASS}" for home in _HOMES)
_FUNCTIONS = tuple(f"{home}{_FUNCTION}" for home in _HOMES)
# Arguments that the runtime takes as torch does, or that have nothing to say on XLA.
_OF_CLASS = frozenset(
    (
        "module auto_wrap_policy backward_prefetch device_id forward_prefetch limit_all_gathers mixed_precision "
        "sharding_strategy sync_module_states use_orig_params"
    ).split()
)
_OF_FUNCTION = frozenset({"module", "reshard_after_forward"})
_TYPES_OF_STATES = ("state_dict_type", "set_state_dict_type")
# What tells that a script works with shards, or that its numbers are those of one process among several.
_UNUSUAL = {
    "sharded or local checkpoints": Pattern(
        r"SHARDED_STATE_DICT|LOCAL_STATE_DICT|torch\.distributed\.checkpoint|optim_state_dict"
    ),
    "DTensors": Pattern(
        r"\bDTensor\b|full_tensor\(|distribute_tensor|to_local\(|summon_full_params"
    ),
    "a device mesh": Pattern(r"init_device_mesh|DeviceMesh"),
    "parameters on meta": Pattern(r"""["']meta["']|init_empty_weights|to_empty\("""),
    "offloading": Pattern(r"offload_params\s*=\s*True|CPUOffloadPolicy|OffloadPolicy"),
    "a hybrid strategy": Pattern(r"HYBRID_SHARD"),
}


@RULE.call(*_CLASSES, *_FUNCTIONS)
def sharded(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    name = _CLASS if (script.dotted(call.func, scope) or "").endswith(_CLASS) else _FUNCTION
    reason = _unusual_call(call, name) or unusual(script)
    if reason is None:
        message = f"`{name}` shards over CUDA devices"
        yield RULE.at(script, call, message, Replace(call.func, f"{script.xla}.{name}"))
    else:
        message = (
            f"`{name}` shards over CUDA devices, and here with {reason}: on XLA, shard with "
            f"`xla.use_spmd()` and `xla.{name}`"
        )
        yield RULE.at(script, call, message, effort=HIGH)


@RULE.reference(*_CLASSES, *_FUNCTIONS)
def named(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    if isinstance(script.parent(node), ast.Attribute):
        return  # FSDP.summon_full_params: `unusual` knows it.
    name = _CLASS if (script.dotted(node, scope) or "").endswith(_CLASS) else _FUNCTION
    if wraps(script):
        edit = Replace(node, f"{script.xla}.{name}")
        yield RULE.at(script, node, f"it is the runtime's `{name}` that wraps models", edit)


@RULE.call(*(f"{name}.{types}" for name in _CLASSES for types in _TYPES_OF_STATES))
def types_of_states(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`FSDP.state_dict_type(...)`, of which the runtime's class knows what is possible."""
    if wraps(script) and isinstance(call.func, ast.Attribute):
        edit = Replace(call.func.value, f"{script.xla}.{_CLASS}")
        yield RULE.at(script, call, f"it is the runtime's `{_CLASS}` that wraps models", edit)


def wraps(script: Script) -> bool:
    """Whether every call that shards is rewritten, and there is one."""
    if not script.source.mentions(_CLASS.lower(), _FUNCTION):
        return False
    calls = [
        (call, name)
        for name in (_CLASS, _FUNCTION)
        for call, scope in script.index.of(ast.Call)
        if script.dotted(call.func, scope) in (_CLASSES if name == _CLASS else _FUNCTIONS)
    ]
    return bool(calls) and not unusual(script) and not any(_unusual_call(c, n) for c, n in calls)


def _unusual_call(call: ast.Call, name: str) -> str | None:
    known = _OF_CLASS if name == _CLASS else _OF_FUNCTION
    if len(call.args) > 1 or any(isinstance(argument, ast.Starred) for argument in call.args):
        return "positional options"
    for argument in call.keywords:
        if argument.arg is None:
            return "options that cannot be seen"
        if argument.arg == "cpu_offload" and _keeps_on_device(argument.value):
            continue
        if argument.arg not in known:
            return f"`{argument.arg}`"
        if argument.arg == "sharding_strategy" and not isinstance(argument.value, ast.Attribute):
            return "a strategy that cannot be seen"
    return None


def _keeps_on_device(offload: ast.expr) -> bool:
    return ast.unparse(offload).endswith(("None", "offload_params=False)"))


def unusual(script: Script) -> str | None:
    """Why this script would mean something else in one process that drives all devices, or None."""
    text = script.source.text
    for what, pattern in _UNUSUAL.items():
        if pattern.search(text):
            return what
    if not all(map(_is_whole, _types_of_states(script))):
        return "state dicts that may be sharded"
    if next(world_sizes.summed_losses(script), None) is not None:
        return "a loss that is a sum"
    for use in world_sizes.uses(script):
        if use.means != world_sizes.DEVICES:  # Those are rewritten: XLA613.
            return f"`{ast.unparse(use.whole)}`, which counts processes"
    return None


def _types_of_states(script: Script) -> Iterator[ast.expr | None]:
    """What the script asks for: `FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT)`."""
    for name in _TYPES_OF_STATES:
        for call, _ in script.index.calls_of(name):
            yield call.args[1] if len(call.args) > 1 else keyword(call, "state_dict_type")


def _is_whole(asked: ast.expr | None) -> bool:
    """State dicts are, on XLA."""
    return isinstance(asked, ast.Attribute) and asked.attr == "FULL_STATE_DICT"
