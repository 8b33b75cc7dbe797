"""NCCL moves data between CUDA devices; its objects and options have no counterpart.

XLA compiles collectives into the graph. `torch.distributed` and the runtime's collectives are the way to other
devices; options of NCCL's process groups are dropped, and questions whether NCCL is there answered yes by a build
that has no device are not to be branched on (xla-facts section 2).

```python
import torch
import torch.distributed as dist

def exchange(tensors, options=dist.ProcessGroupNCCL.Options()):
    torch.cuda.nccl.all_reduce(tensors)
    return torch.cuda.comm.broadcast(tensors[0], [0, 1])
```

So has a mesh of CUDA devices, over which torch's DTensor shards: XLA shards by SPMD (`torch_xla.distributed.spmd`).

```python
from torch.distributed.device_mesh import init_device_mesh

mesh = init_device_mesh("cuda", (2, 4))
```

A module of one's own of that name is not NCCL:

```python
from mylib import nccl

def mean(values):
    return nccl.all_reduce(values)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...findings import HIGH, Finding
from ...rule import Rest, Rule
from ...syntax import keyword
from .leftovers import leftovers

if TYPE_CHECKING:
    from ...names import Scope
    from ...script import Script

RULE = Rule("XLA911", "nccl", effort=HIGH)


_MESHES = tuple(
    f"torch.distributed.{name}"
    for name in (
        "init_device_mesh",
        "device_mesh.init_device_mesh",
        "DeviceMesh",
        "device_mesh.DeviceMesh",
        "tensor.DeviceMesh",
    )
)


@RULE.call(*_MESHES)
def mesh(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    device = call.args[0] if call.args else keyword(call, "device_type")
    if isinstance(device, ast.Constant) and device.value == "cuda":
        message = "a mesh of CUDA devices: XLA shards by SPMD (`torch_xla.distributed.spmd`)"
        yield RULE.at(script, call, message, effort=HIGH)


@RULE.rest
def nccl(script: Script, rest: Rest) -> Iterator[Finding]:
    yield from leftovers(RULE, script, rest, HIGH)
