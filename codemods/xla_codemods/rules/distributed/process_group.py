"""NCCL connects CUDA devices only.

## What it reports

`init_process_group` and `destroy_process_group`, if the group is not one of the CPU.

## Why it matters on XLA

The NCCL backend fails on an XLA host.

## What to do

Fix: safe.

Use `xla.init_process_group`. It chooses the backend of the device: torch_xla's on TPU and
Trainium, NCCL on CUDA, and gloo between processes on the CPU. Address, rank, world size and
timeout are kept.

## Example

```diff
 import torch.distributed as dist
+from xla_migrate import runtime as xla

 def setup(rank, world_size):
-    dist.init_process_group("nccl", rank=rank, world_size=world_size)
+    xla.init_process_group(rank=rank, world_size=world_size)
     return dist.get_rank()

 def cleanup():
-    dist.destroy_process_group()
+    xla.destroy_process_group()
```

A backend that the user chooses is passed on. The runtime treats "nccl" as the device's backend:

```diff
 import os
-from torch.distributed import init_process_group
+
+from xla_migrate import runtime as xla

 def setup(args):
-    init_process_group(backend=args.dist_backend, init_method="env://")
+    xla.init_process_group(backend=args.dist_backend, init_method="env://")
```

The default backend of a device, which PyTorch does not know for XLA:

```diff
 import torch
-import torch.distributed as dist
+from xla_migrate import runtime as xla

 def setup(rank):
-    device = torch.device(f"cuda:{rank}")
+    device = xla.xla_device(rank)
-    backend = dist.get_default_backend_for_device(device)
+    backend = None
-    dist.init_process_group(backend=backend)
+    xla.init_process_group(backend=backend)
     return device
```

A gloo group is not reported:

```python
import torch.distributed as dist

def setup():
    dist.init_process_group("gloo")
    dist.destroy_process_group()
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.nodes import walk
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import keyword
from ...analysis.training.ranks.guards import is_host_backend
from ...edits import DropArgument, Edit, Replace
from ...finding import Finding
from ...flow.calls import call_with
from ...rule import Rule

RULE = Rule("XLA601", "process-group")

_OF_TESTS = ("fake", "threaded")
_INIT = "torch.distributed.init_process_group"
_DESTROY = "torch.distributed.destroy_process_group"


@RULE.call(_INIT, "torch.distributed.distributed_c10d.init_process_group")
def init_process_group(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    backend = call.args[0] if call.args else keyword(call, "backend")
    if is_host_backend(backend) or getattr(backend, "value", None) in _OF_TESTS:
        return
    edits: list[Edit] = [Replace(call.func, f"{script.xla}.init_process_group")]
    if isinstance(backend, ast.Constant):
        edits.append(DropArgument(call, _argument(call, backend)))
    yield RULE.finding(
        script, call, "the NCCL backend fails on an XLA host: use `xla.init_process_group`", *edits
    )


@RULE.call("torch.distributed.get_default_backend_for_device")
def default_backend(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """It knows no XLA devices; the runtime chooses the backend by itself."""
    message = "PyTorch has no default backend for XLA devices: use `xla.init_process_group`, which chooses it"
    if _is_only_for_a_group(script, call):
        yield RULE.finding(script, call, message, Replace(call, "None"))
    else:
        yield RULE.finding(script, call, message)


def _is_only_for_a_group(script: Script, call: ast.Call) -> bool:
    """True if what `call` gives is only handed to `init_process_group`, directly or by a name."""
    parent = script.parent(call)
    match parent:
        case ast.Assign(targets=[ast.Name(id=name)]):
            around = script.function(call) or script.tree
            return all(
                _is_given_to_init(script, node)
                for node in walk(around)
                if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
            )
    return _is_given_to_init(script, call)


def _is_given_to_init(script: Script, node: ast.expr) -> bool:
    call = call_with(script, node)
    return call is not None and script.dotted(call.func) in {
        _INIT,
        "xla_migrate.runtime.init_process_group",
    }


@RULE.call(_DESTROY, "torch.distributed.distributed_c10d.destroy_process_group")
def destroy_process_group(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """The runtime may have made a second group, for objects and the host."""
    inits = [c for c, s in script.index.calls_of("init_process_group")]
    if inits and all(
        is_host_backend(c.args[0] if c.args else keyword(c, "backend")) for c in inits
    ):
        return
    edit = Replace(call.func, f"{script.xla}.destroy_process_group")
    yield RULE.finding(
        script,
        call,
        "on XLA the runtime creates the process group: use `xla.destroy_process_group`",
        edit,
    )


def _argument(call: ast.Call, value: ast.expr) -> ast.expr | ast.keyword:
    for argument in call.keywords:
        if argument.value is value:
            return argument
    return value
