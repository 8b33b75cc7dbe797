"""The runtime has no equivalent of some names of torch_xla.

## What it reports

Names of torch_xla that stay in the script, in runs with `--from torch_xla`.

## Why it matters on XLA

The script still trains on XLA, because the runtime and torch_xla work in one process. It needs
torch_xla and does not run on other backends.

## What to do

Fix: none.

Use the replacement that the finding names.

## Example

```python
import torch_xla.core.xla_model as xm
import torch_xla.distributed.spmd as xs

def shard(model, x, pairs):
    y = xm.collective_permute(x, pairs)  # XLA019
    return xs.XLAShardedTensor(y)  # XLA019
```

An import is kept and reported if a string in the script may name an XLA device. An import that
only tests for torch_xla is not reported:

```python
import torch_xla  # XLA019

def fits(kind):
    return kind == "xla"
```

```python
try:
    import torch_xla
except ImportError:
    torch_xla = None

HAS_XLA = torch_xla is not None
```

An import that the script needs is reported, even if the script only tests for names:

```python
import torch_xla.core.xla_model as xm  # XLA019

HAS_ORDINALS = hasattr(xm, "get_ordinal")
```

If a name may stand for a module of torch_xla or for something else, the file is not rewritten:

```python
try:
    import torch_xla.core.xla_model as xm
except ImportError:
    class xm:
        mark_step = staticmethod(lambda: None)

def step(optimizer):
    optimizer.step()  # XLA013
    xm.mark_step()  # XLA019
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.by_hand.written import KEPT, XM, XR, undecided
from ...analysis.nodes import walk
from ...analysis.script import Script
from ...finding import WARNING, Finding
from ...flow.calls import call_of
from ...rule import Rule, Unhandled

RULE = Rule("XLA019", "torch-xla-left", severity=WARNING, origin="torch_xla")

_SHARDED = "`xla.FullyShardedDataParallel` splits weights over all devices, under `xla.use_spmd()`"
_GRAPH = "it inspects torch_xla's graphs, which no other backend has"
_KERNEL = "a kernel of TPUs: write the same in torch for other devices"
_EXPORT = "export the model in a separate script: `torch.export` works with all backends"
_VARIABLE = "the name is in a string: write it as a call"
# Advice for scripts that have to work without torch_xla; the longest matching name counts.
_BY_HAND = {
    "torch_xla": '`if xla.device_type() == "xla":` keeps it for torch_xla if the script also runs elsewhere',
    "torch_xla.core.functions": "the runtime's collectives have no gradients: average the loss or the gradients",
    "torch_xla.core.xla_builder": _KERNEL,
    "torch_xla.core.xla_op_registry": _KERNEL,
    "torch_xla.core.xla_env_vars": _VARIABLE,
    "torch_xla.debug": _GRAPH,
    "torch_xla.device_count": "`xla.device_count()` counts the processes of this host",
    "torch_xla.distributed.data_parallel": "`xla.launch` starts a process for each device",
    "torch_xla.distributed.fsdp": _SHARDED,
    "torch_xla.distributed.spmd": "`torch.distributed.tensor` shards tensors without torch_xla",
    "torch_xla.distributed.xla_backend": "`xla.init_process_group()` creates the group for the device",
    "torch_xla.distributed.zero_redundancy_optimizer": _SHARDED,
    "torch_xla.experimental.custom_kernel": _KERNEL,
    "torch_xla.experimental.custom_kernel.flash_attention": "`torch.nn.functional.scaled_dot_product_attention` computes "
    "the same, with `scale=1.0`",
    "torch_xla.experimental.distributed_checkpoint": "`xla.save(xla.get_model_state_dict(model), path)` writes whole tensors",
    "torch_xla.experimental.gru.GRU": "`torch.nn.GRU` computes the same",
    "torch_xla.experimental.splash_attention": _KERNEL,
    "torch_xla.experimental.fori_loop": "a Python loop computes the same, in a longer graph",
    "torch_xla.experimental.plugins": "the runtime knows TPU, Neuron and the CPU: set PJRT_DEVICE",
    "torch_xla.stablehlo": _EXPORT,
    "torch_xla.utils.dlpack": "`torch.utils.dlpack` works with all backends",
    f"{XM}.get_stablehlo": _GRAPH,
    f"{XM}.get_stablehlo_bytecode": _GRAPH,
    f"{XM}.xla_replication_devices": "`xla.world_size()` counts the processes",
    f"{XM}.xla_rendezvous": "`xla.all_gather_object` sends objects to all processes",
    f"{XM}.collective_permute": "`xla.all_to_all_single` sends each process its part",
    f"{XM}.collective_broadcast": "`xla.broadcast` takes one tensor",
    f"{XM}.reduce_scatter": "`xla.reduce_scatter_tensor` fills a tensor",
    f"{XM}.reduce_scatter_bucketized": "`xla.reduce_scatter_tensor` fills a tensor",
    f"{XM}.all_gather_bucketized": "`xla.all_gather_into_tensor` fills a tensor",
    f"{XM}.all_reduce_bucketized_gradients": "`xla.reduce_gradients(optimizer)` averages all gradients",
    f"{XM}.all_to_all": "`xla.all_to_all_single` fills a tensor",
    f"{XR}.addressable_device_count": "`xla.device_count()` counts the processes of this host",
    f"{XR}.global_device_count": "`xla.data_parallel_size()` counts the devices that share a batch",
    f"{XR}.local_device_count": "`xla.device_count()` counts the processes of this host",
    f"{XR}.local_process_count": "`xla.device_count()` counts the processes of this host",
}


@RULE.fallback
def left(script: Script, unhandled: Unhandled) -> Iterator[Finding]:
    for doubtful in undecided(script):
        message = f"`{ast.unparse(doubtful)}` may be torch_xla's or something else of that name, so the file is not rewritten: rename the other one"
        yield RULE.finding(script, doubtful, message)
    spoken_of = {finding.node for finding in unhandled.found}
    for node, dotted in _uses(script):
        if not any(around in spoken_of for around in _within(script, node)):
            advice = _advice(dotted)
            message = f"`{dotted}` has no equivalent on other backends: {KEPT}" + (
                advice and f"; {advice}"
            )
            yield RULE.finding(script, call_of(script, node) or node, message)
    yield from _idle_imports(script)


def _idle_imports(script: Script) -> Iterator[Finding]:
    """Yield unused imports that are not in a `try`: they are kept if a string may still name their device."""
    nodes = walk(script.tree)
    used = {n.id for n in nodes if isinstance(n, ast.Name) and not _is_asked_for(script, n)}
    asking = {s for node in nodes if isinstance(node, ast.Try) for s in walk(node)}
    for statement in nodes:
        if statement in asking:
            continue
        if isinstance(statement, ast.ImportFrom):
            homes = [] if statement.level else [statement.module or ""]
        else:
            homes = [a.name for a in statement.names] if isinstance(statement, ast.Import) else []
        if not any(home.partition(".")[0] == "torch_xla" for home in homes):
            continue
        assert isinstance(statement, (ast.Import, ast.ImportFrom))
        if not used.intersection(a.asname or a.name.partition(".")[0] for a in statement.names):
            message = "this import fails without torch_xla: remove it, unless a string in the script names an XLA device"
            yield RULE.finding(script, statement, message)


def _uses(script: Script) -> Iterator[tuple[ast.expr, str]]:
    """Yield the longest names of torch_xla at their uses."""
    found = [*script.index.of(ast.Name), *script.index.of(ast.Attribute)]
    for node, scope in found:
        stored = not isinstance(getattr(node, "ctx", None), ast.Load)
        if stored or isinstance(script.parent(node), ast.Attribute):
            continue
        dotted = script.dotted(node, scope)
        if (
            dotted is not None
            and dotted.startswith("torch_xla.")
            and not _is_asked_for(script, node)
        ):
            yield node, dotted


def _is_asked_for(script: Script, node: ast.expr) -> bool:
    """`if xm:`, `xm is not None`, `hasattr(xm, "get_ordinal")`, `isinstance(loader, pl.MpDeviceLoader)`."""
    parent = script.parent(node)
    if isinstance(parent, ast.Compare):
        return all(isinstance(op, (ast.Is, ast.IsNot)) for op in parent.ops)
    if isinstance(parent, ast.Call):
        return isinstance(parent.func, ast.Name) and parent.func.id in {"hasattr", "isinstance"}
    return isinstance(parent, (ast.If, ast.IfExp, ast.BoolOp, ast.UnaryOp)) and (
        getattr(parent, "test", node) is node
    )


def _within(script: Script, node: ast.expr) -> Iterator[ast.AST]:
    """`node` and what it is a part of, up to the first call."""
    yield node
    for around in script.ancestors(node):
        if isinstance(around, ast.stmt):
            return
        yield around


def _advice(dotted: str) -> str:
    name = dotted
    while name:
        if name in _BY_HAND:
            return _BY_HAND[name]
        name = name.rpartition(".")[0]
    return ""
